"""User data of C functions, and who keeps it, the function and its library alive."""

import copy
import ctypes
import gc
import re
import weakref
from collections.abc import Callable
from types import ModuleType

import cffi
import numba
import numpy as np
import pytest
import scipy
from foreign import capsule
from native_build import native_functions
from run_loop import run

from tmapad._pointers import Pointer, cython_pointers, pointer, user_data_address

X = np.linspace(0.1, 3.0, 17)
FFI = cffi.FFI()
FFI.cdef("struct scale { double factor; };")


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native_functions(tmp_path_factory.getbasetemp() / "native")


class Scale(ctypes.Structure):
    """User data as a structure."""

    _fields_ = (("factor", ctypes.c_double),)


class Choice(ctypes.Union):
    """User data as a union."""

    _fields_ = (("factor", ctypes.c_double), ("number", ctypes.c_int))


FACTOR = ctypes.c_double(2.5)
ADDRESS = ctypes.addressof(FACTOR)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# Everything that a factor of 2.5 can be given as.
GIVEN: dict[str, Callable[[], object]] = {
    "capsule": lambda: capsule(ADDRESS, b"any name"),
    "capsule without a name": lambda: capsule(ADDRESS, None),
    "ctypes number": lambda: ctypes.c_double(2.5),
    "ctypes pointer": lambda: ctypes.pointer(ctypes.c_double(2.5)),
    "ctypes void pointer": lambda: ctypes.c_void_p(ADDRESS),
    "ctypes structure": lambda: Scale(2.5),
    "ctypes union": lambda: Choice(2.5),
    "ctypes array": lambda: (ctypes.c_double * 2)(2.5, 0.0),
    "cffi pointer": lambda: FFI.new("double *", 2.5),
    "cffi void pointer": lambda: FFI.cast("void *", ADDRESS),
    "cffi array": lambda: FFI.new("double[]", [2.5, 0.0]),
    "cffi structure": lambda: FFI.new("struct scale *", [2.5])[0],
    "array": lambda: np.array([2.5, 0.0]),
    "read-only array": lambda: read_only(np.array([2.5])),
    "0-d array": lambda: np.array(2.5),
}


@pytest.mark.compiler
@pytest.mark.parametrize("given", GIVEN)
def test_every_kind_of_user_data(native: ModuleType, given: str) -> None:
    f = pointer(native.__pyx_capi__["scaled"], user_data=GIVEN[given]())
    assert f is not None
    loop = f.loop((X.dtype,))
    del f
    gc.collect()
    garbage = [np.full(2, np.nan) for _ in range(1000)]  # takes the place of what was freed
    np.testing.assert_array_equal(run(loop, X), X * 2.5)
    assert garbage


@pytest.mark.compiler
@pytest.mark.parametrize("nothing", [None, ctypes.c_void_p(0), ctypes.c_void_p(None), FFI.NULL])
def test_null_is_the_default(native: ModuleType, nothing: object) -> None:
    f = pointer(native.__pyx_capi__["scaled"], user_data=nothing)
    assert f is not None
    np.testing.assert_array_equal(run(f.loop((X.dtype,)), X), -1.0)


@pytest.mark.parametrize("kind", [ctypes.c_char_p, ctypes.c_wchar_p])
def test_text(kind: type) -> None:
    text = kind(b"abc" if kind is ctypes.c_char_p else "abc")
    address, keep = user_data_address(text)
    assert ctypes.cast(address, kind).value == text.value
    assert keep is text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            5,
            r"user_data is the integer 5, which keeps no memory alive: pass the object that owns it, or",
        ),
        (
            b"abc",
            r"user_data is bytes: pass None, a capsule, a ctypes or cffi pointer, array or structure, or a",
        ),
        ([1.0], r"user_data is list: pass None"),
        (2.5, r"user_data is float: pass None"),
        (np.float64(2.5), r"user_data is float64: pass None"),
        (FFI.cast("double", 2.5), r"user_data is _CDataBase: pass None"),
        (
            np.zeros(6)[::2],
            r"an array of float64 with strides \(16,\): a C function needs a C-contiguous array",
        ),
        (np.zeros((2, 3), order="F"), r"with strides \(8, 16\): .* np.ascontiguousarray makes one"),
        (np.array([object()]), r"user_data is an array of object"),
    ],
)
def test_what_is_no_user_data(given: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        user_data_address(given)


@pytest.mark.compiler
def test_user_data_for_a_function_that_takes_none(native: ModuleType) -> None:
    message = re.escape("was given user_data, but its signature 'double (double)' has no last void * for it")
    with pytest.raises(TypeError, match=f"a capsule {message}"):
        pointer(native.__pyx_capi__["square"], user_data=FACTOR)
    with pytest.raises(TypeError, match=f"square {message}"):
        cython_pointers(native, "square", user_data=FACTOR)
    with pytest.raises(TypeError, match=f"a capsule {message}"):
        pointer(scipy.LowLevelCallable(native.__pyx_capi__["square"], ctypes.c_void_p(ADDRESS)))


@pytest.mark.compiler
def test_low_level_callable_brings_its_user_data(native: ModuleType) -> None:
    for data in (ctypes.c_void_p(ADDRESS), FFI.cast("void *", ADDRESS), capsule(ADDRESS, None)):
        foreign = scipy.LowLevelCallable(native.__pyx_capi__["scaled"], data)
        f = pointer(foreign)
        assert f is not None
        np.testing.assert_array_equal(run(f.loop((X.dtype,)), X), X * 2.5)
        with pytest.raises(TypeError, match=r"a capsule: user_data is given twice, here and by scipy.LowLevelCa"):
            pointer(foreign, user_data=FACTOR)


@pytest.mark.compiler
def test_from_cython_of_scipy(native: ModuleType) -> None:
    f = pointer(scipy.LowLevelCallable.from_cython(native, "scaled", ctypes.c_void_p(ADDRESS)))
    assert f is not None
    np.testing.assert_array_equal(run(f.loop((X.dtype,)), X), X * 2.5)


@pytest.mark.compiler
def test_takes_user_data(native: ModuleType) -> None:
    scaled = native.__pyx_capi__["scaled"]
    brought = scipy.LowLevelCallable(scaled, ctypes.c_void_p(ADDRESS))
    assert cython_pointers(native, "scaled").takes_user_data
    for f in (cython_pointers(native, "square"), pointer(scaled, user_data=FACTOR), pointer(brought)):
        assert f is not None
        assert not f.takes_user_data


# ---- Lifetime


class Data(ctypes.c_double):
    """User data that can be referred to weakly."""


@pytest.mark.compiler
def test_user_data_lives_as_long_as_pointer_and_loop(native: ModuleType) -> None:
    data = Data(2.5)
    watch = weakref.ref(data)
    f = pointer(native.__pyx_capi__["scaled"], user_data=data)
    assert f is not None
    del data
    gc.collect()
    assert watch() is not None
    loop = f.loop((X.dtype,))
    del f
    gc.collect()
    assert watch() is not None
    del loop
    gc.collect()
    assert watch() is None


def test_functions_outlive_their_names() -> None:
    def make(k: float) -> Pointer:
        # Nothing but the pointer refers to the capsule, or to the ctypes function, afterwards.
        f = pointer(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(CFUNC.address), name=f"f{k}")
        assert f is not None
        return f

    functions = [make(k) for k in range(100)]
    gc.collect()
    for _ in range(20):
        numba.cfunc("float64(float64)")(lambda x: x - 1.0)
    gc.collect()
    for f in functions:
        np.testing.assert_array_equal(run(f.loop((X.dtype,)), X), X + 1.0)


@numba.cfunc("float64(float64)")
def CFUNC(x: float) -> float:
    return x + 1.0


# ---- Copies


@pytest.mark.compiler
def test_copies_are_the_pointer(native: ModuleType) -> None:
    f = pointer(native.__pyx_capi__["scaled"], user_data=FACTOR)
    assert copy.copy(f) is f
    assert copy.deepcopy(f) is f
    assert copy.deepcopy({"f": [f]}) == {"f": [f]}
    assert pointer(f) is f


@pytest.mark.compiler
def test_equal_if_they_run_the_same(native: ModuleType) -> None:
    scaled, square = native.__pyx_capi__["scaled"], native.__pyx_capi__["square"]
    other = ctypes.c_double(3.0)
    f = pointer(scaled, user_data=FACTOR)
    assert f == pointer(scaled, user_data=FACTOR, name="another")
    assert hash(f) == hash(pointer(scaled, user_data=FACTOR, name="another"))
    assert f != pointer(scaled, user_data=other)
    assert f != pointer(scaled, user_data=FACTOR, raises=True)
    assert f != pointer(square)
    assert f != "f"
    assert repr(f) == "<Pointer a capsule: double (double, void *)>"
