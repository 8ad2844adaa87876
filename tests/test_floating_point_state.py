"""Rounding, subnormal numbers, error settings: the calling thread's hold in all threads, and are left as they are."""

import contextlib
import ctypes
import ctypes.util
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import special

from tmapad import rrule, tmap

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


@pytest.mark.parametrize("setting", ["raise", "warn"])
def test_errstate_is_not_consulted(setting: str) -> None:
    """Not for values, and so not for the rounding of sums and scalars either."""
    big = np.full(2000, 3e38, "f4")
    with np.errstate(all=setting):
        assert np.isinf(rrule(tmap, np.multiply, np.float32(1), big)[1](np.ones(2000, "f4"))[2])
        assert np.isinf(tmap(np.multiply, big, 1e300)).all()
        assert np.isinf(rrule(tmap, np.multiply, big[:, None], big[None, :3])[1](np.ones((2000, 3), "f4"))[3]).all()
