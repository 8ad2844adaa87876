"""Foreign function pointers: every owner of one, with functions this project did not write, good and bad."""

import ctypes
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cffi
import numba
import numpy as np
import pytest
import scipy
import scipy.special
from foreign import CALLERS, LIBM_PATH, address_of, capsule, from_cffi, from_ctypes, knows
from hypothesis import given
from hypothesis import strategies as st
from native_build import native_functions
from run_loop import run

from tmapad._errors import SignatureError
from tmapad._pointers import pointer

X = np.linspace(0.1, 3.0, 17)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native_functions(tmp_path_factory.getbasetemp() / "native")


# ---- functions

# Functions of the C library, their signatures, and what they should give.
FUNCS: list[tuple[str, tuple[str, ...], Callable[..., Any]]] = [
    ("sin", ("double", "double"), np.sin),
    ("erf", ("double", "double"), scipy.special.erf),
    ("sinf", ("float", "float"), np.sin),
    ("pow", ("double", "double", "double"), np.power),
    ("fmaf", ("float", "float", "float", "float"), lambda x, y, z: x * y + z),
    ("csin", ("double complex", "double complex"), np.sin),
    ("casinf", ("float complex", "float complex"), np.arcsin),
    ("cpow", ("double complex", "double complex", "double complex"), np.power),
]

# Signatures that no function should be called by, and the reason that is given.
BAD_FUNCS = [
    (("double", "int"), "'(int|c_int)' is not one of the accepted types"),
    (("double", "float"), "its numbers are not of one type: double, float"),
    (("float", "double"), "its numbers are not of one type: float, double"),
    (("long double", "long double"), "long double is not supported"),
    (("void", "double"), "it neither returns a value nor writes one through a pointer"),
    (("void", "double", "float *"), "its numbers are not of one type: double, float"),
    (("double", "double", "double *"), "it returns a value and takes pointers too"),
    (("void *", "double"), r"its result is 'void \*'"),
    (("double", *["double"] * 7), "it takes 7 numbers"),
    (("double",), "it takes no numbers"),
]


@pytest.mark.parametrize(
    ("caller", "name", "signature", "reference"),
    [(caller, *row) for caller in CALLERS for row in FUNCS if knows(caller, row[1])],
)
def test_functions_of_the_c_library(
    caller: Callable[..., object], name: str, signature: tuple[str, ...], reference: Callable[..., Any]
) -> None:
    f = pointer(caller(address_of(name), *signature), name=name)
    assert f is not None
    assert (f.name, f.nin, f.nout, f.writer, f.python) == (name, len(signature) - 1, 1, False, None)
    (known,) = f.signatures
    inputs = [(X + 0.25 * i * (1j if known.char in "FD" else 1)).astype(known.char) for i in range(f.nin)]
    y = run(f.loop(tuple(x.dtype for x in inputs)), *inputs)
    assert y.dtype.char == known.char
    np.testing.assert_allclose(y, reference(*inputs), rtol=1e-13 if known.char in "dD" else 1e-5)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(("signature", "reason"), BAD_FUNCS, ids=[str(row[0]) for row in BAD_FUNCS])
def test_bad_functions(caller: Callable[..., object], signature: tuple[str, ...], reason: str) -> None:
    foreign = caller(address_of("sin"), *signature)
    with pytest.raises(SignatureError, match=reason) as caught:
        pointer(foreign, name="sine")
    # The signature given, in the owner's words, and those accepted.
    result, *arguments = (re.escape(kind).replace("int", "(c_)?int") for kind in signature)
    assert re.search(rf"sine has the signature '{result} \({', '.join(arguments)}\)'", str(caught.value))
    assert "Accepted are\n    T (T, ...) " in str(caught.value)


@pytest.mark.parametrize(
    "obj",
    [
        *(None, 1.5, 7, "double (double)", [], object(), np.zeros(3), SimpleNamespace(__self__=1)),
        *(math.sin, len, lambda x: x, np.sin, numba.njit(lambda x: x)),
        *(int, ctypes.c_double, ctypes.CFUNCTYPE(ctypes.c_double)),
    ],
)
def test_what_is_no_pointer(obj: object) -> None:
    assert pointer(obj) is None


# ---- capsules


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (None, "a capsule has the signature '': that is no C signature, and the name of a capsule must be"),
        (b"", "a capsule has the signature '': that is no C signature"),
        (b"some.module._API", "a capsule has the signature 'some.module._API': that is no C signature"),
        (b"double (double", "that is no C signature"),
        (b"\xff\xfe (\x80)", r"has the signature '\\\\xff\\\\xfe \(\\\\x80\)'"),
        ("d\xf6uble (double)".encode(), r"'d\\xf6uble' is not one of the accepted types"),
        (b"double (" + b"double, " * 10**6 + b"double)", r"double, dou.*\.\.\.': it takes 1000001 numbers"),
    ],
)
def test_odd_names_of_capsules(name: bytes | None, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason) as caught:
        pointer(capsule(1, name))
    assert len(str(caught.value)) < 1500


@given(st.binary(max_size=200).filter(lambda name: 0 not in name))
def test_any_name_of_a_capsule_is_parsed_or_refused(name: bytes) -> None:
    with pytest.raises(SignatureError, match="Accepted are"):
        pointer(capsule(1, name))


def test_capsules_of_other_things() -> None:
    from numpy._core import _multiarray_umath

    with pytest.raises(SignatureError, match="that is no C signature"):
        pointer(_multiarray_umath._ARRAY_API)


# ---- ctypes


def libm_sin() -> Any:
    return ctypes.CDLL(LIBM_PATH).sin


def test_ctypes_function_of_a_library() -> None:
    sin = libm_sin()
    sin.argtypes, sin.restype = [ctypes.c_double], ctypes.c_double
    f = pointer(sin)
    assert f is not None
    assert f.name == "sin"
    np.testing.assert_allclose(run(f.loop((X.dtype,)), X), np.sin(X), rtol=1e-14)


def test_ctypes_without_argtypes() -> None:
    how = r"set argtypes and restype, such as f.argtypes = \[ctypes.c_double\]; f.restype = ctypes.c_double"
    with pytest.raises(SignatureError, match=rf"sin has the signature unknown: {how}"):
        pointer(libm_sin())


def test_ctypes_without_restype() -> None:
    sin = libm_sin()
    sin.argtypes = [ctypes.c_double]
    with pytest.raises(SignatureError, match=r"'c_int \(double\)': set restype, which is c_int unless set"):
        pointer(sin)


class MyDouble(ctypes.c_double):
    """A subclass is passed as what it is."""


@pytest.mark.parametrize("kind", [ctypes.c_double, MyDouble, ctypes.c_double.__ctype_le__])
def test_ctypes_are_compared_by_what_they_are(kind: Any) -> None:
    f = pointer(ctypes.CFUNCTYPE(kind, kind)(address_of("sin")))
    assert f is not None
    np.testing.assert_allclose(run(f.loop((float,)), X), np.sin(X), rtol=1e-14)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (ctypes.c_long, ctypes.c_long.__name__),
        (ctypes.c_size_t, ctypes.c_size_t.__name__),
        (ctypes.py_object, "py_object"),
        (ctypes.c_double.__ctype_be__, r"byte-swapped c_double\w*"),
    ],
)
def test_ctypes_that_are_no_numbers(kind: Any, shown: str) -> None:
    with pytest.raises(SignatureError, match=rf"'{shown}' is not one of the accepted types"):
        pointer(ctypes.CFUNCTYPE(ctypes.c_double, kind)(address_of("sin")))


def test_ctypes_errcheck() -> None:
    sin = libm_sin()
    sin.argtypes, sin.restype = [ctypes.c_double], ctypes.c_double
    sin.errcheck = lambda result, function, arguments: result
    with pytest.raises(TypeError, match="sin has an errcheck function, which no native call would run: del"):
        pointer(sin)
    del sin.errcheck
    assert pointer(sin) is not None


def test_ctypes_functions_that_need_the_gil() -> None:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_double)
    with pytest.raises(TypeError, match=r"is a function of ctypes.PyDLL or PYFUNCTYPE, and needs the GIL"):
        pointer(prototype(address_of("sin")))


@pytest.mark.parametrize("address", [ctypes.c_void_p(5), ctypes.c_double(5), ctypes.pointer(ctypes.c_int(5))])
def test_ctypes_addresses(address: Any) -> None:
    with pytest.raises(SignatureError, match=f"{type(address).__name__} is an address, not a function: cast"):
        pointer(address)


# ---- cffi

CDEF = "double sin(double); double pow(double, double); double erf(double); int abs(int);"


@pytest.fixture(scope="module")
def cffi_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A compiled cffi module, whose functions are Python's own builtins."""
    ffi = cffi.FFI()
    ffi.cdef("double sin(double); double _Complex csin(double _Complex); int abs(int);")
    ffi.set_source("compiled_libm", "#include <math.h>\n#include <complex.h>\n#include <stdlib.h>")
    folder = tmp_path_factory.mktemp("cffi")
    ffi.emit_c_code(str(folder / "compiled_libm.c"))
    setup = (
        "from setuptools import Extension, setup; "
        "setup(name='compiled_libm', ext_modules=[Extension('compiled_libm', ['compiled_libm.c'])])"
    )
    (folder / "setup.py").write_text(setup)
    build = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sys.path.append(str(folder))
    import compiled_libm

    return compiled_libm


def test_cffi_library() -> None:
    ffi = cffi.FFI()
    ffi.cdef(CDEF)
    library = ffi.dlopen(LIBM_PATH)
    for foreign, reference in ((library.sin, np.sin), (library.erf, scipy.special.erf)):
        f = pointer(foreign)
        assert f is not None
        np.testing.assert_allclose(run(f.loop((X.dtype,)), X), reference(X), rtol=1e-14)
    with pytest.raises(SignatureError, match=r"a cffi function has the signature 'int \(int\)'"):
        pointer(library.abs)


@pytest.mark.compiler
def test_cffi_compiled_module(cffi_module: Any) -> None:
    lib, ffi = cffi_module.lib, cffi_module.ffi
    assert callable(lib.sin)
    assert not isinstance(lib.sin, ffi.CData)
    z = X + 1j
    for foreign, name in ((lib.sin, "sin"), (ffi.addressof(lib, "sin"), "a cffi function")):
        f = pointer(foreign)
        assert f is not None
        assert f.name == name
        np.testing.assert_allclose(run(f.loop((X.dtype,)), X), np.sin(X), rtol=1e-14)
    f = pointer(lib.csin)
    assert f is not None
    np.testing.assert_allclose(run(f.loop((z.dtype,)), z), np.sin(z), rtol=1e-14)
    with pytest.raises(SignatureError, match=r"abs has the signature 'int \(int\)'"):
        pointer(lib.abs)


def test_cffi_typedef_and_variadic() -> None:
    ffi = cffi.FFI()
    ffi.cdef("typedef double real;")
    f = pointer(ffi.cast("real(*)(real)", address_of("sin")))
    assert f is not None
    np.testing.assert_allclose(run(f.loop((float,)), X), np.sin(X), rtol=1e-14)
    with pytest.raises(SignatureError, match=r"'double \(double, ...\)': '...' is not one of the accepted"):
        pointer(ffi.cast("double(*)(double, ...)", address_of("sin")))


@pytest.mark.parametrize("kind", ["void *", "double", "double *"])
def test_cffi_objects_that_are_no_functions(kind: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(f"of type '{kind}' is not a function: cast it to a")):
        pointer(cffi.FFI().cast(kind, 5))


@pytest.mark.compiler
def test_library_of_a_cffi_function_stays(native: ModuleType) -> None:
    # cffi unloads the library with `ffi`; in a process of its own, because what is tested is a crash.
    code = f"""
import cffi, gc, sys, numpy as np
sys.path.append({str(Path(__file__).parent)!r})
from run_loop import run
from tmapad._pointers import pointer
ffi = cffi.FFI()
ffi.cdef("double plain_d_1_0_(double x);")
library = ffi.dlopen({str(native.__file__)!r})
f = pointer(library.plain_d_1_0_)
del library, ffi
gc.collect()
print(run(f.loop((float,)), 3.0))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[3.]\n"), done.stderr


def unmade(kind: type, *items: object) -> object:
    """Make a tuple of the class without its constructor."""
    return tuple.__new__(kind, items)


@pytest.mark.parametrize(
    "broken",
    [
        unmade(scipy.LowLevelCallable),
        unmade(scipy.LowLevelCallable, 3, from_ctypes(address_of("sin"), "double", "double"), None),
        type("LowLevelCallable", (), {"__module__": "scipy", "function": None})(),
        type("LowLevelCallable", (tuple,), {"__module__": "scipy"})(),
    ],
    ids=["empty", "no capsule", "no tuple", "another tuple"],
)
def test_low_level_callables_that_scipy_has_not_made(broken: object) -> None:
    with pytest.raises(TypeError, match=r"a scipy\.LowLevelCallable that SciPy has not made, and that holds no"):
        pointer(broken)


def test_a_class_whose_module_is_no_string() -> None:
    assert pointer(type("LowLevelCallable", (), {"__module__": property(len)})()) is None


# ---- NULL, callbacks


@pytest.mark.parametrize("caller", [from_ctypes, from_cffi])
def test_null(caller: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"a (ctypes|cffi) function is a NULL pointer: 'double \(double\)'"):
        pointer(caller(0, "double", "double"))


PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
CALLBACK = PROTOTYPE(lambda x: x)
TABLE = type("Table", (ctypes.Structure,), {"_fields_": [("f", PROTOTYPE)]})(CALLBACK)
CFFI_CALLBACK = cffi.FFI().callback("double(double)", lambda x: x)


@pytest.mark.parametrize(
    ("package", "callback"),
    [
        ("ctypes", CALLBACK),
        ("ctypes", ctypes.cast(CALLBACK, PROTOTYPE)),
        ("ctypes", ctypes.cast(ctypes.cast(CALLBACK, ctypes.c_void_p), PROTOTYPE)),
        ("ctypes", TABLE.f),
        ("ctypes", (PROTOTYPE * 2)(CALLBACK, CALLBACK)[1]),
        ("ctypes", ctypes.pointer(CALLBACK).contents),
        ("ctypes", scipy.LowLevelCallable(CALLBACK)),
        ("cffi", CFFI_CALLBACK),
        ("cffi", scipy.LowLevelCallable(CFFI_CALLBACK)),
    ],
)
def test_python_functions_in_disguise(package: str, callback: object) -> None:
    message = f"is a {package} callback of a Python function, whose exceptions would be printed and lost: pass"
    with pytest.raises(TypeError, match=message):
        pointer(callback)


def test_numba_cfunc_pointer_is_native() -> None:
    @numba.cfunc("float64(float64, float64)")
    def hypotenuse(x: float, y: float) -> float:
        return math.sqrt(x * x + y * y)

    f = pointer(hypotenuse.ctypes)
    assert f is not None
    np.testing.assert_allclose(run(f.loop((X.dtype, float)), X, 2.0), np.hypot(X, 2.0), rtol=1e-14)
