"""What owners of function pointers say about them: PyCapsule, ctypes, cffi, ``scipy.LowLevelCallable``.

Each reader below answers for one kind of object, without importing the package it comes from, and checks
what only its owner knows: is this native code, is there an address, what keeps it alive. Whether the
signature will do is for `_signatures`.
"""

import ctypes
import os
import sys
from _ctypes import CFuncPtr
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import numpy as np

from tmapad._errors import SignatureError
from tmapad._signatures import Declaration, canonical, parse, refuse, shown

if sys.version_info >= (3, 13):
    from types import CapsuleType
else:
    import datetime as dt

    CapsuleType = type(dt.datetime_CAPI)


class Foreign(NamedTuple):
    """A function pointer as its owner describes it."""

    name: str
    declared: Declaration
    address: int
    user_data: tuple[int, object] | None  # what comes with it: an address and what keeps that alive
    keep: object


def read(obj: object, name: str | None = None) -> Foreign | None:
    """Read a foreign function pointer; None if `obj` is nothing of the kind.

    Raises
    ------
    SignatureError
        If it is a pointer without a known signature.
    TypeError
        If it is a Python function in disguise, or needs the GIL.
    ValueError
        If it is NULL.
    """
    for reader in _READERS:
        found = reader(obj, name)
        if found is not None:
            if not found.address:
                raise ValueError(f"{found.name} is a NULL pointer: {shown(found.declared.text)}")
            return found
    return None


# Private prototypes: those of ctypes.pythonapi belong to everybody.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_context = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetContext", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _capsule_address(capsule: object) -> int:
    return int(_capsule_pointer(capsule, _capsule_name(capsule)) or 0)


def _read_capsule(obj: object, name: str | None) -> Foreign | None:
    if type(obj) is not CapsuleType:
        return None
    raw: bytes = _capsule_name(obj) or b""
    text = raw.decode("utf-8", "backslashreplace")
    return Foreign(name or "a capsule", parse(text), _capsule_address(obj), None, obj)


def _read_low_level_callable(obj: object, name: str | None) -> Foreign | None:
    if not any(
        base.__name__ == "LowLevelCallable" and str(base.__module__).partition(".")[0] == "scipy"
        for base in type(obj).__mro__
    ):
        return None
    # A tuple of SciPy's own capsule, the function and the user data, whatever a subclass makes of its attributes.
    if not isinstance(obj, tuple) or tuple.__len__(obj) != 3 or type(tuple.__getitem__(obj, 0)) is not CapsuleType:
        raise TypeError("a scipy.LowLevelCallable that SciPy has not made, and that holds no function pointer")
    function: object = tuple.__getitem__(obj, 1)
    found = read(function, name)
    if found is None:
        raise TypeError(f"scipy.LowLevelCallable of {type(function).__name__}, not of a function pointer")
    # SciPy has put the user data, whatever it was given as, into the context of its own capsule.
    context = _capsule_context(tuple.__getitem__(obj, 0))
    return found._replace(user_data=(int(context), obj) if context else None, keep=(obj, found.keep))


_CTYPES = {
    getattr(ctypes, name): kind
    for name, kind in {
        "c_longdouble": "long double",
        "c_longdouble_complex": "long double complex",
        "c_float": "float",
        "c_double": "double",  # after c_longdouble, which is the same type where it has the same size
        "c_float_complex": "float complex",  # Python 3.14
        "c_double_complex": "double complex",
        "c_void_p": "void *",
    }.items()
    if hasattr(ctypes, name)
}
_CTYPES_BASE: Any = ctypes.Structure.__base__
_FUNCFLAG_PYTHONAPI = 4


def _read_ctypes(obj: object, name: str | None) -> Foreign | None:
    if not isinstance(obj, CFuncPtr):
        if isinstance(obj, ctypes._SimpleCData | ctypes._Pointer):
            raise SignatureError(
                f"{type(obj).__name__} is an address, not a function: cast it to a ctypes function type, "
                "such as ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)"
            )
        return None
    who = name or str(getattr(obj, "__name__", "a ctypes function"))
    if _holds_callback(obj):
        raise _callback_error(who, "ctypes")
    if type(obj)._flags_ & _FUNCFLAG_PYTHONAPI:
        raise TypeError(f"{who} is a function of ctypes.PyDLL or PYFUNCTYPE, and needs the GIL: use ctypes.CDLL")
    argtypes: Any = obj.argtypes
    if argtypes is None:
        how = "f.argtypes = [ctypes.c_double]; f.restype = ctypes.c_double"
        raise refuse(who, "unknown", f"set argtypes and restype, such as {how}")
    result = "void" if obj.restype is None else _ctypes_kind(obj.restype)
    parameters = tuple(_ctypes_kind(kind) for kind in argtypes)
    text = f"{result} ({', '.join(parameters)})"
    if obj.restype is ctypes.c_int:
        raise refuse(who, shown(text), "set restype, which is c_int unless set, to the type that it returns")
    if getattr(obj, "errcheck", None) is not None:
        raise TypeError(f"{who} has an errcheck function, which no native call would run: del f.errcheck")
    declared = Declaration(result, parameters, ("",) * len(parameters), text)
    return Foreign(who, declared, ctypes.cast(obj, ctypes.c_void_p).value or 0, None, obj)


def _ctypes_kind(kind: Any) -> str:
    """Canonical name of a ctypes type by what it is: a subclass is the same, swapped bytes are not."""
    if not isinstance(kind, type):
        return repr(kind)
    native = f"__ctype_{'le' if sys.byteorder == 'little' else 'be'}__"
    if getattr(kind, native, kind) is not kind:
        return f"byte-swapped {kind.__name__}"
    if issubclass(kind, ctypes._Pointer):
        return f"{_ctypes_kind(kind._type_)} *"
    return next((name for base, name in _CTYPES.items() if issubclass(kind, base)), kind.__name__)


def _holds_callback(obj: Any) -> bool:
    """Whether a ctypes function pointer was made from a Python function.

    ctypes keeps the stub that it made for a Python function in ``_objects`` of every object that holds the
    pointer: the function itself, a cast of it, a structure or an array. A pointer made from an address, as
    Numba makes them, or found in a library has none.
    """
    seen: set[int] = set()
    pending = [obj]
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if type(item).__name__ == "CThunkObject":
            return True
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, _CTYPES_BASE):
            pending.extend((item._objects, item._b_base_))
    return False


def _callback_error(who: str, package: str) -> TypeError:
    return TypeError(
        f"{who} is a {package} callback of a Python function, whose exceptions would be printed and lost: "
        "pass the Python function itself"
    )


def _read_cffi(obj: object, name: str | None) -> Foreign | None:
    backend = sys.modules.get("_cffi_backend")
    if backend is None:
        return None
    ffi = backend.FFI()
    if isinstance(obj, BuiltinFunctionType) and isinstance(obj.__self__, backend.Lib):
        # lib.sin of a compiled cffi module is its wrapper for Python.
        return _read_cffi(ffi.addressof(obj.__self__, obj.__name__), name or obj.__name__)
    if not isinstance(obj, backend.FFI.CData):
        return None
    who = name or "a cffi function"
    ctype = ffi.typeof(obj)
    if ctype.kind != "function":
        raise SignatureError(
            f"the cffi object of type {ctype.cname!r} is not a function: cast it to a function type, such as "
            "ffi.cast('double(*)(double)', pointer)"
        )
    if type(obj).__name__ == "__CDataOwnGC":  # what cffi owns; of functions, those are the callbacks
        raise _callback_error(who, "cffi")
    result = canonical(ctype.result.cname)[0]
    parameters = tuple(canonical(argument.cname)[0] for argument in ctype.args)
    if ctype.cname.endswith("...)"):  # ctype.ellipsis is also set for what cffi cannot call, such as complex numbers
        parameters += ("...",)
    text = f"{result} ({', '.join(parameters)})"
    address = int(ffi.cast("uintptr_t", obj))
    declared = Declaration(result, parameters, ("",) * len(parameters), text)
    return Foreign(who, declared, address, None, (obj, _library_of(address)))


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _library_of(address: int) -> object:
    """Keep the library that holds a function loaded: cffi unloads it with its FFI, pointers or not."""
    no_load = getattr(os, "RTLD_NOLOAD", None)
    if no_load is None:  # Windows
        return None
    info = _DlInfo()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)) or not info.file:
        return None
    try:
        # Opening counts, and ctypes never closes.
        return ctypes.CDLL(os.fsdecode(info.file), mode=no_load)
    except OSError:  # the program itself, which stays
        return None


_READERS: tuple[Callable[[object, str | None], Foreign | None], ...] = (
    _read_capsule,
    _read_low_level_callable,
    _read_ctypes,
    _read_cffi,
)


_CTYPES_ADDRESSES = (ctypes._Pointer, CFuncPtr, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p)


def user_data_address(obj: object) -> tuple[int, object]:
    """Find the address that a function gets as its ``void *``, and the object to keep alive for it.

    Parameters
    ----------
    obj : object
        None (NULL); a PyCapsule, a ctypes pointer or a cffi pointer (what it points to); a ctypes structure,
        array or number, a cffi array or structure, a C-contiguous NumPy array (its own memory).

    Raises
    ------
    TypeError
        If it has no such address.
    """
    if obj is None:
        return 0, None
    if type(obj) is CapsuleType:
        return _capsule_address(obj), obj
    if isinstance(obj, np.ndarray):
        if not obj.flags.c_contiguous or obj.dtype.hasobject:
            raise TypeError(
                f"user_data is an array of {obj.dtype} with strides {obj.strides}: a C function needs a "
                "C-contiguous array of numbers; np.ascontiguousarray makes one"
            )
        return int(obj.ctypes.data), obj
    if isinstance(obj, _CTYPES_ADDRESSES):
        return ctypes.cast(obj, ctypes.c_void_p).value or 0, obj
    if isinstance(obj, ctypes.Structure | ctypes.Union | ctypes.Array | ctypes._SimpleCData):
        return ctypes.addressof(obj), obj
    backend = sys.modules.get("_cffi_backend")
    if backend is not None and isinstance(obj, backend.FFI.CData):
        ffi = backend.FFI()
        kind = ffi.typeof(obj).kind
        if kind in {"struct", "union"}:
            return int(ffi.cast("uintptr_t", ffi.addressof(obj))), obj
        if kind in {"pointer", "array", "function"}:
            return int(ffi.cast("uintptr_t", obj)), obj
    if isinstance(obj, int):
        raise TypeError(
            f"user_data is the integer {obj}, which keeps no memory alive: pass the object that owns it, "
            "or ctypes.c_void_p(address) if that lives for ever"
        )
    raise TypeError(
        f"user_data is {type(obj).__name__}: pass None, a capsule, a ctypes or cffi pointer, array or "
        "structure, or a C-contiguous NumPy array"
    )
