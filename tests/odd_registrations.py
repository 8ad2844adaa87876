"""Registrations that make no sense, made at random: ``python odd_registrations.py FIRST COUNT``.

Each is made of its number alone. Its number is written before it is tried, so that the last one written is the one that
crashed; then what came out, if that is neither a function nor an error that `register` and `from_cython` promise.
"""

import asyncio
import ctypes
import functools
import math
import operator
import random
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import cffi
import numba
import numpy as np
import scipy
import scipy.special.cython_special
from foreign import CALLERS, CTYPES, address_of, capsule, from_ctypes

from tmapad import from_cython, register
from tmapad._function import ScalarFunction

SIN, POW = address_of("sin"), address_of("pow")
FFI = cffi.FFI()
FFI.cdef("struct point { double x, y; }; typedef double real;")


class Odd(Exception):
    """Raised by an object that was given: may come out as it is."""


def raises(*args: Any, **keywords: Any) -> Any:
    raise Odd


# ---- C's words

NUMBERS = ["double", "float", "double complex", "float complex", "double _Complex", "__pyx_t_double_complex"]
POINTERS = ["double *", "float *", "double*", "const double *", "double * const", "double **", "void *", "void*"]
STRANGE = [
    "long double", "int", "unsigned int", "unsigned", "long long", "char", "char *", "void", "", "...", "size_t",
    "struct x",
    "struct { int x; }", "union u *", "enum e", "double x", "double x[3]", "double (*)(double)",
    "int __pyx_skip_dispatch",
    "__pyx_t_4x", "const double", "volatile float", "restrict", "double double", "complex", "_Complex", "PyObject *",
    "double &", "d\xf6uble", "*", "**", "(", ")", "()", ",", "\\", "%s", "{x}", "\n", "\t", "double\n", "[", "\u0660",
]  # fmt: skip


def c_type(r: random.Random) -> str:
    return r.choice(r.choice([NUMBERS, NUMBERS, POINTERS, STRANGE]))


def signature(r: random.Random) -> str:
    result = r.choice([c_type(r), "double", "float", "void"])
    count = r.choice([0, 1, 1, 2, 3, 6, 7, 8, 9, 16, 300])
    same = r.choice([c_type(r), None, "double"])
    arguments = [same or c_type(r) for _ in range(count)] + r.choice(
        [[], [], ["void *"], ["double *"] * r.randint(1, 9)]
    )
    return f"{result}{r.choice([' (', '(', ' ( '])}{', '.join(arguments)})"


def capsule_name(r: random.Random) -> bytes | None:
    text = signature(r).encode("utf-8", "replace")
    kind = r.randrange(9)
    if kind == 0:
        return r.choice([None, b"", b" ", b"(", b")", b"()", b")(", b"numpy.ndarray", b"double (double)" * 1000])
    if kind == 1:
        return bytes(r.randrange(1, 256) for _ in range(r.randrange(40)))
    if kind == 2:
        return b"double (" + b"(" * r.choice([1, 50_000]) + b"double" + b")" * r.choice([1, 2, 50_000])
    if kind == 3:  # a piece is lost, doubled or made unreadable
        at, length = r.randrange(len(text) + 1), r.randrange(4)
        piece = r.choice([b"", text[at : at + length] * 2, b"\xff", b"\xc3", b"(", b")", b","])
        return text[:at] + piece + text[at + length :]
    return text


# ---- what holds pointers

CTYPES_STRANGE: list[Any] = [
    *CTYPES.values(), ctypes.c_uint, ctypes.c_char_p, ctypes.py_object, ctypes.c_bool, ctypes.c_double.__ctype_be__,
    ctypes.POINTER(ctypes.POINTER(ctypes.c_double)), ctypes.CFUNCTYPE(None), ctypes.c_double * 3, None,
    type("S", (ctypes.Structure,), {"_fields_": [("x", ctypes.c_double)]}), type("D", (ctypes.c_double,), {}),
]  # fmt: skip


class FromParam:
    """May be among argtypes, by its one method."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        return value


def ctypes_function(r: random.Random) -> Any:
    f = r.choice([ctypes.CDLL(None), ctypes.PyDLL(None)]).sin
    for name, values in (
        ("argtypes", [None, (), [ctypes.c_double], (ctypes.c_double, FromParam),
        [r.choice(CTYPES_STRANGE)] * r.randrange(9)]),
        ("restype", [None, ctypes.c_double, raises, str, ctypes.py_object, r.choice(CTYPES_STRANGE)]),
        ("errcheck", [raises, None, len]),
        ("__name__", [3, None, "\0", "sin" * 1000]),
    ):  # fmt: skip
        if r.random() < 0.5:
            setattr(f, name, r.choice(values))
    return f


def ctypes_object(r: random.Random) -> Any:
    kinds = [kind for kind in CTYPES_STRANGE if kind is not ctypes.py_object]
    prototype = r.choice([ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE])(
        r.choice(kinds), *r.choices(kinds[:9], k=r.randrange(9))
    )
    return r.choice([
        prototype, lambda: prototype(r.choice([0, SIN])), lambda: prototype(raises), ctypes.c_void_p(SIN),
        ctypes.c_void_p(),
        ctypes.c_double(3.0), ctypes.pointer(ctypes.c_double(1.0)), ctypes.POINTER(ctypes.c_double)(),
        ctypes.CDLL(None),
        lambda: (prototype * 2)(), lambda: (prototype * 2)()[0], ctypes.c_char_p(b"x"), ctypes.c_char_p(),
        ctypes.create_string_buffer(8), lambda: ctypes.cast(ctypes.c_void_p(SIN), prototype), ctypes.py_object(3),
    ])  # fmt: skip


def cffi_object(r: random.Random) -> Any:
    kinds = [
        "double",
        "float",
        "int",
        "void *",
        "double *",
        "struct point *",
        "real",
        "double _Complex",
        "char",
        "bool",
    ]
    result = r.choice([*kinds, "void", "long double", "struct point"])
    arguments = ", ".join(r.choices(kinds, k=r.randrange(9)) + r.choice([[], [], ["..."]]))
    return r.choice([
        lambda: FFI.cast(f"{result}(*)({arguments})", r.choice([0, SIN])), lambda: FFI.new("struct point *"),
        lambda: FFI.new("struct point *")[0], lambda: FFI.new("double[3]"), lambda: FFI.cast("double", 3), FFI.NULL,
        lambda: FFI.callback("double(double)", raises), lambda: FFI.typeof("double(double)"), FFI,
        lambda: FFI.new("double(**)(double)"), lambda: FFI.new("double(*[2])(double)")[0], lambda: FFI.dlopen(None),
    ])  # fmt: skip


def low_level_callable(r: random.Random) -> Any:
    kind = scipy.LowLevelCallable
    inner = r.choice([odd_capsule, ctypes_function, ctypes_object, cffi_object])
    data = r.choice(
        [None, None, ctypes.c_void_p(8), ctypes.c_void_p(), 3, capsule(8, None), capsule(8, b"x"), FFI.NULL]
    )
    fake = type("LowLevelCallable", (), {"__module__": r.choice(["scipy", "scipy.x"]), "function": r.choice([1, None])})
    bare = type("LowLevelCallable", (tuple,), {"__module__": "scipy"})
    return r.choice([
        lambda: kind(made(inner(r)), data), lambda: kind(made(inner(r)), data, r.choice(["x", signature(r)])),
        lambda: kind(capsule(SIN, b"double (double)"), data), fake, fake(), bare(), lambda: tuple.__new__(kind, ()),
        lambda: tuple.__new__(kind, (3, made(inner(r)), data)), lambda: tuple.__new__(kind, (made(inner(r)),) * 3),
        kind,
        lambda: kind.from_cython(scipy.special.cython_special, r.choice(["j1", "gamma", "x"]), data),
    ])  # fmt: skip


def odd_capsule(r: random.Random) -> Any:
    return capsule(r.choice([SIN, 1, 8]), capsule_name(r))


def honest(r: random.Random) -> Any:
    """Call it what it is: a function of the C library in any of its owners."""
    nin = r.randint(1, 2)
    return r.choice(CALLERS)(POW if nin == 2 else SIN, "double", *["double"] * nin)


# ---- other objects

NAMES = [
    "__call__", "__code__", "__name__", "__module__", "__self__", "__func__", "__wrapped__", "__defaults__",
    "__closure__",
    "__kwdefaults__", "__globals__", "__qualname__", "__class__", "__dict__", "__array_ufunc__", "__pyx_capi__",
    "__hash__",
    "py_func", "ctypes", "address", "signature", "native_name", "_sig", "function", "user_data", "nin", "nout",
    "ntypes",
    "types", "func", "args", "keywords", "argtypes", "restype", "errcheck", "targetoptions", "signatures",
    "targetdescr",
    "implementation", "overloads", "parameters", "loop", "__eq__", "__bool__", "__len__", "__iter__", "__repr__",
]  # fmt: skip
VALUES: list[Any] = [None, 0, -1, 2**70, 1.5, "", "x", b"", (), [], {}, 3, object(), raises, math.nan, SIN, True, type]


def lying(r: random.Random) -> Any:
    """Make an instance, or class, with attributes that are wrong or raise."""
    namespace: dict[str, Any] = {}
    for name in r.sample(NAMES, r.randint(1, 6)):
        namespace[name] = r.choice([property(raises), raises, *VALUES])
    if r.random() < 0.3:
        namespace["__getattr__"] = r.choice([raises, lambda self, name: self, lambda self, name: r.choice(VALUES)])
    if r.random() < 0.1:
        namespace["__getattribute__"] = raises
    base = r.choice(
        [object, object, object, tuple, float, functools.partial, types.ModuleType, dict, str, np.ndarray, int]
    )
    name = r.choice(
        ["Liar", "CFunc", "Dispatcher", "CPUDispatcher", "DUFunc", "LowLevelCallable", "ufunc", "PyCapsule"]
    )
    kind = type(name, (base,), namespace)
    if "__module__" not in namespace:
        kind.__module__ = r.choice(
            ["x", "numba.core.ccallback", "numba.core.registry", "scipy._lib._ccallback", "numpy"]
        )
    if r.random() < 0.2:
        return kind
    arguments: dict[type, tuple[Any, ...]] = {functools.partial: (len,), types.ModuleType: ("x",), np.ndarray: (3,)}
    return kind(*arguments.get(base, ()))


def calls(r: random.Random) -> Any:
    """Python functions, and what can be called like them."""
    one = functools.partial(lambda x: x)
    for _ in range(r.choice([1, 3, 100])):
        one = functools.partial(one)
    cycle = functools.partial(len)
    cycle.__setstate__((cycle, (), {}, {}))
    return r.choice([
        lambda x: x, lambda: 1.0, lambda *x: x, lambda **x: x, lambda x, *, y: x, lambda x, y=3: x, lambda x, /: x,
        raises, len,
        math.sin, operator.add, float, int, str.upper, [].append, types.SimpleNamespace(), types.SimpleNamespace, one,
        cycle,
        functools.partial(honest(r), r.choice([1, "a", None])), functools.partial(raises, raises),
        functools.lru_cache(len),
        np.sin, np.matmul, np.divmod, np.frexp, np.vectorize(math.sin), np.frompyfunc(len, 1, 1), np.frompyfunc(len,
        7, 2),
        np.frompyfunc(len, 1, 0), np.frompyfunc(len, 0, 1), scipy.special.erf, scipy.special.airy, np.add.reduce,
        np.ufunc,
        (n for n in ()), asyncio.sleep, (lambda: (yield)), property(len), staticmethod(len), classmethod(len), super,
        type,
        functools.partialmethod(len), np.dtype, np.float64, np.float64(3.0), np.ones(3), NJIT, NJIT.py_func, CFUNC,
        CFUNC.ctypes,
        ScalarFunction, known, known.implementation, register, from_cython, sys, sys.modules, Ellipsis, NotImplemented,
        type("C", (), {"__call__": r.choice(VALUES)})(), type("C", (), {"__call__": lambda self, x: x})(),
        lambda x: (yield x),
        types.MethodType(r.choice([len, raises, 3, NJIT]) if r.random() < 0.1 else raises, r.choice(VALUES[1:])),
    ])  # fmt: skip


NJIT = numba.njit(lambda x: x)
CFUNC = numba.cfunc("float64(float64)")(lambda x: x)
known = register(from_ctypes(SIN, "double", "double"), derivative=from_ctypes(SIN, "double", "double"))

MAKERS: list[Callable[[random.Random], Any]] = [
    odd_capsule, ctypes_function, ctypes_object, cffi_object, low_level_callable, honest, honest, lying, calls, calls,
    lambda r: r.choice(VALUES),
]  # fmt: skip


def made(given: Any) -> Any:
    """Make what a row of a table says, which may be how to make it."""
    is_recipe = isinstance(given, types.LambdaType) and given.__module__ == __name__ and not given.__code__.co_argcount
    return given() if is_recipe and "<lambda>" in given.__name__ and given.__closure__ else given


def thing(r: random.Random, depth: int = 0) -> Any:
    if depth < 3 and r.random() < 0.1:
        items = [thing(r, depth + 1) for _ in range(r.choice([0, 1, 2, 2, 3, 7]))]
        return r.choice([tuple, tuple, tuple, list])(items * (1000 if depth == 0 and r.random() < 0.1 else 1))
    try:
        return made(r.choice(MAKERS)(r))
    except Exception:  # noqa: BLE001 - what cannot even be made
        return None


KEYWORDS: dict[str, Callable[[random.Random], Any]] = {
    "derivative": lambda r: r.choice([thing(r), (thing(r), thing(r)), ((thing(r),), (thing(r),)), "psi", "x:y", ":"]),
    "derivative_from_output": thing,
    "value_and_derivative": thing,
    "nondiff": lambda r: r.choice(
        [thing(r), "x1", ("x1", "x2"), ["x1"] * 1000, iter("x1"), {"x1": 1}, (3,), b"x1", [[]]]
    ),
    "user_data": lambda r: r.choice([thing(r), np.ones(3), np.ones((3, 3)).T, np.array([[]]), np.array([None]), b"x"]),
    "raises": thing,
    "threadsafe": thing,
    "division": lambda r: r.choice(["ieee", "python", "c", thing(r)]),
    "name": lambda r: r.choice(["f", "", "\0", "\ud800", "f" * 1000, "%s {0}", thing(r)]),
    "replace": lambda r: r.choice([True, True, thing(r)]),
}


def exports(r: random.Random) -> Any:
    """Make a module with, perhaps, a table of Cython's."""
    module = types.ModuleType(r.choice(["m", "", "a.b"]))
    table = {
        r.choice(["f", "__pyx_fuse_0f", "__pyx_fuse_1f", "f[double]", "f[float]", 3, ""]): thing(r) for _ in range(3)
    }
    module.__dict__["__pyx_capi__"] = r.choice([table, table, table, None, [], "f", thing(r)])
    return r.choice([
        module, module, module, "scipy.special.cython_special", scipy.special.cython_special, "math", "", ".", "..x",
        "no_such",
        "a\0b", "tmapad.", "os.path", "x" * 10_000, sys, thing(r),
    ])  # fmt: skip


def attempt(r: random.Random) -> Any:
    chosen = r.sample(list(KEYWORDS), r.choice([0, 1, 1, 2, 3, 5]))
    keywords = {name: KEYWORDS[name](r) for name in chosen}
    if r.random() < 0.3:
        module = exports(r)
        name = r.choice(["f", "f", "gamma", "j1", "airy", "", ":", "m:f", "math:f", "(", ".*", None, 3, b"f", "\0"])
        for other in {"division", "replace", "name"} & keywords.keys():
            del keywords[other]
        return from_cython(module, name, **keywords)
    f = honest(r) if r.random() < 0.3 else thing(r)
    if r.random() < 0.05:
        keywords["derivative"] = f
    if f is None:
        return register(None, **keywords)(thing(r) or math.sin)
    return register(f, **keywords)


PROMISED = (TypeError, ValueError, Odd)
PROMISED_OF_MODULES = (AttributeError, ImportError)


def wrong(number: int) -> str | None:
    """Try one; return what is wrong with the outcome."""
    unraised: list[Any] = []
    sys.unraisablehook = unraised.append
    try:
        outcome: Any = attempt(random.Random(number))
    except PROMISED as error:
        outcome = error
        if len(str(error)) > 5000:
            return f"a message of {len(str(error))} characters: {str(error)[:300]}"
    except PROMISED_OF_MODULES as error:
        outcome = error
        if not any(frame.name == "cython_pointers" for frame in traceback.extract_tb(error.__traceback__)):
            return traceback.format_exc()
    except BaseException as error:  # noqa: BLE001 - what must not come out, but of an object's own repr
        outcome = error
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame.name for frame in frames if "tmapad" not in frame.filename]
        if "__repr__" not in theirs and "_module_repr" not in theirs:
            return traceback.format_exc()
    else:
        if not isinstance(outcome, ScalarFunction):
            return f"gave {outcome!r:.200}"
        repr(outcome)
    return f"an exception nobody raised: {unraised[0]}" if unraised else None


def main(first: int, count: int) -> int:
    failures = 0
    for number in range(first, first + count):
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        fault = wrong(number)
        if fault is not None:
            failures += 1
            sys.stderr.write(f"--- {number}\n{fault}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
