"""Everything that can own a pointer of a C function, made from its address and its signature in C's words."""

import ctypes
import ctypes.util
from collections.abc import Callable

import cffi
import scipy

LIBM_PATH = ctypes.util.find_library("m")


def address_of(name: str) -> int:
    """Address of a function of the C library."""
    return ctypes.cast(ctypes.CDLL(LIBM_PATH)[name], ctypes.c_void_p).value or 0


CTYPES = {
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "long double": ctypes.c_longdouble,
    "int": ctypes.c_int,
    "void": None,
    "void *": ctypes.c_void_p,
    "double *": ctypes.POINTER(ctypes.c_double),
    "float *": ctypes.POINTER(ctypes.c_float),
}
if hasattr(ctypes, "c_double_complex"):  # Python 3.14
    CTYPES |= {"double complex": ctypes.c_double_complex, "float complex": ctypes.c_float_complex}

new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
KEPT_NAMES: dict[bytes, ctypes.Array[ctypes.c_char]] = {}  # a capsule does not copy its name


def capsule(address: int, name: bytes | None) -> object:
    kept = KEPT_NAMES.setdefault(name, ctypes.create_string_buffer(name)) if name is not None else None
    return new_capsule(address, ctypes.cast(kept, ctypes.c_char_p) if kept is not None else None, None)


def from_capsule(address: int, result: str, *arguments: str) -> object:
    return capsule(address, f"{result} ({', '.join(arguments)})".encode())


def from_ctypes(address: int, result: str, *arguments: str) -> object:
    return ctypes.CFUNCTYPE(*(CTYPES[kind] for kind in (result, *arguments)))(address)


def from_cffi(address: int, result: str, *arguments: str) -> object:
    def c(kind: str) -> str:
        return kind.replace("complex", "_Complex")

    return cffi.FFI().cast(f"{c(result)}(*)({', '.join(map(c, arguments))})", address)


def from_scipy_capsule(address: int, result: str, *arguments: str) -> object:
    return scipy.LowLevelCallable(from_capsule(address, result, *arguments))


def from_scipy_ctypes(address: int, result: str, *arguments: str) -> object:
    return scipy.LowLevelCallable(from_ctypes(address, result, *arguments))


def from_scipy_cffi(address: int, result: str, *arguments: str) -> object:
    return scipy.LowLevelCallable(from_cffi(address, result, *arguments))


CALLERS = [from_capsule, from_ctypes, from_cffi, from_scipy_capsule, from_scipy_ctypes, from_scipy_cffi]


def knows(caller: Callable[..., object], signature: tuple[str, ...]) -> bool:
    """Whether the caller can express the signature: ctypes has complex types since Python 3.14."""
    return caller not in (from_ctypes, from_scipy_ctypes) or all(kind in CTYPES for kind in signature)
