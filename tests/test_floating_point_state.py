"""Rounding, subnormal numbers, error settings: the calling thread's hold in all threads, and are left as they are."""

import contextlib
import ctypes
import ctypes.util
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from c_library import function, library
from scipy import special

from tmapad import register, rrule, tmap

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
N = 200_000
X = np.linspace(0.1, 1.0, N)


@contextlib.contextmanager
def rounding(mode: int) -> Iterator[None]:
    before = LIBM.fegetround()
    assert LIBM.fesetround(mode) == 0
    try:
        yield
    finally:
        LIBM.fesetround(before)


def upward() -> int:
    """FE_UPWARD of this machine: the mode in which 1 + 1e-30 is more than 1."""
    for mode in (0x800, 0x400000):  # x86, aarch64
        with rounding(mode):
            if np.add(1.0, 1e-30) > 1.0:
                return mode
    raise AssertionError("no such mode is known")


def test_workers_round_as_the_caller_does() -> None:
    tmap(np.divide, X, 3.0, num_threads=3)  # threads that were started in another mode
    nearest = tmap(np.divide, X, 3.0)
    with rounding(upward()):
        one, many = (tmap(np.divide, X, 3.0, num_threads=threads) for threads in (1, 3))
        _, back = rrule(tmap, np.divide, X, 3.0, num_threads=3)
        dx = back(X)[2]
        assert LIBM.fegetround() == upward()
    assert (one > nearest).any()
    np.testing.assert_array_equal(many, one)
    with rounding(upward()):
        np.testing.assert_array_equal(dx, rrule(tmap, np.divide, X, 3.0, num_threads=1)[1](X)[2])
    np.testing.assert_array_equal(tmap(np.divide, X, 3.0, num_threads=3), nearest)


def halved(x: Any) -> Any:
    return 0.5 * x


HALVES: dict[str, Any] = {
    "ufunc": (np.multiply, 0.5),
    "C": (register(function("half_of"), derivative=function("half_of_derivative")),),
    "Python": (register(halved),),
}


@contextlib.contextmanager
def subnormals_are_zero() -> Iterator[None]:
    if library().make_subnormals_zero(1):
        pytest.skip("not known how for this processor")
    try:
        yield
    finally:
        library().make_subnormals_zero(0)


@pytest.mark.parametrize("num_threads", [1, 2, 4])
@pytest.mark.parametrize("kind", HALVES)
def test_workers_take_subnormal_numbers_for_zero_if_the_caller_does(kind: str, num_threads: int) -> None:
    """Threads that were started in the other mode included."""
    f, *constants = HALVES[kind]
    tiny, ones = np.full(N, 1e-310), np.ones(N)

    def both(how: int) -> Any:
        y, back = rrule(tmap, f, *constants, tiny, num_threads=how)
        return y, back(tiny if kind != "C" else ones)[-1]

    for _ in range(2):
        for y in both(num_threads):
            assert (y != 0).all()
        with subnormals_are_zero():
            # NumPy may compare as this thread does, for which all of these are equal: the bits are looked at.
            results = both(num_threads)
            mode = library().subnormals_are_zero()
        assert mode == 1
        for y in results:
            assert (y.view(np.uint64) == 0).all()
    assert library().subnormals_are_zero() == 0


@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_compiled_functions_round_as_the_caller_does(num_threads: int) -> None:
    def third(x: Any) -> Any:
        y = x
        for _ in range(3):  # a loop that looks for signals
            y = y / 3.0
        return y

    nearest = tmap(third, X, num_threads=num_threads)
    with rounding(upward()):
        y, back = rrule(tmap, third, X, num_threads=num_threads)
        dx = back(X)[2]
        assert LIBM.fegetround() == upward()
        one = tmap(third, X, num_threads=1)
    assert (y >= nearest).all()
    assert (y > nearest).any()
    np.testing.assert_array_equal(y, one)
    assert not np.array_equal(dx, rrule(tmap, third, X, num_threads=num_threads)[1](X)[2])


IN_A_CHILD = """
import ctypes, ctypes.util, multiprocessing
import numpy as np
from tmapad import tmap

X = np.linspace(0.1, 1.0, 200_000)
libm = ctypes.CDLL(ctypes.util.find_library("m"))

def child():
    nearest = tmap(np.divide, X, 3.0, num_threads=3)
    libm.fesetround({upward})
    one, many = (tmap(np.divide, X, 3.0, num_threads=threads) for threads in (1, 3))
    assert libm.fegetround() == {upward}
    libm.fesetround(0)
    assert (one > nearest).any() and (one == many).all()
    with np.errstate(all="raise"):
        try:
            tmap(np.divide, X, X - X[-1], num_threads=3)
        except FloatingPointError as error:
            assert str(error) == "divide by zero encountered in divide"
        else:
            raise AssertionError("nothing was reported")

tmap(np.divide, X, 3.0, num_threads=3)
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
assert process.exitcode == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no fork")
def test_threads_of_a_forked_child_compute_as_its_caller_does() -> None:
    code = IN_A_CHILD.format(upward=upward())
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_subnormal_numbers_are_kept() -> None:
    tiny = np.full(N, 1e-310)
    assert (tmap(np.multiply, tiny, 0.5, num_threads=3) == 5e-311).all()
    assert 5e-324 * np.float64(1.0) != 0.0


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("f", [special.gammaln, special.digamma])
def test_errors_of_scipy_are_raised(f: np.ufunc, threads: int) -> None:
    """As themselves, naming the element, whatever the number of threads and also when the function is well known."""
    x = np.linspace(1.0, 2.0, N)
    tmap(f, x)
    x[[700, N - 5]] = -1.0
    with special.errstate(all="raise"):
        with pytest.raises(special.SpecialFunctionError, match="singularity") as error:
            tmap(f, x, num_threads=threads)
        assert "at element 700 with arguments (-1.0,)" in error.value.__notes__[0].replace("(-1.0)", "(-1.0,)")
        with pytest.raises(special.SpecialFunctionError):
            rrule(tmap, f, x[:1000])
    assert not np.isfinite(tmap(f, x)[700])


def test_warnings_of_scipy_are_those_of_a_plain_call() -> None:
    x = np.full(3, -1.0)
    with special.errstate(all="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        special.gammaln(x)
        expected = [str(w.message) for w in caught]
        caught.clear()
        tmap(special.gammaln, x, num_threads=3)
    assert [str(w.message) for w in caught] == expected
