"""Compiled Python functions through `tmap`: errors of single elements, types of results, values that change."""

import math
import traceback
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from scipy import special

from tmapad import from_cython, register, rrule, tmap

X = np.linspace(0.1, 4.0, 10_001)

rate = 2.0


class OwnError(Exception):
    """Which Numba does not know."""


def kepler(m: float) -> float:
    e = m
    for _ in range(50):
        d = (e - 0.3 * math.sin(e) - m) / (1.0 - 0.3 * math.cos(e))
        e = e - d
        if abs(d) < 1e-14:
            break
    return e


def checked(x: float) -> float:
    if x > 3.9:
        problem = {"value": x}
        raise OwnError(f"{x:.2f} is too large", problem)
    return math.sqrt(x)


def helper(x: float) -> float:
    return x * rate


@numba.njit
def decorated(x: float) -> float:
    return helper(x) + 1.0


@pytest.mark.parametrize(
    ("f", "reference"),
    [
        (kepler, kepler),
        (helper, helper),
        (decorated, lambda x: 2 * x + 1),
        (lambda x: decorated(x) * x, lambda x: (2 * x + 1) * x),
    ],
)
def test_values(f: Any, reference: Any) -> None:
    np.testing.assert_allclose(tmap(f, X[::50]), [reference(x) for x in X[::50]], rtol=1e-14)


def test_bits_for_any_threads_and_chunks() -> None:
    expected = tmap(kepler, X, num_threads=1, schedule="static")
    for threads in (2, 3, 5):
        for chunk in (1, 7, 64, None):
            np.testing.assert_array_equal(tmap(kepler, X, num_threads=threads, chunk_size=chunk), expected)
    np.testing.assert_array_equal(tmap(kepler, X[::-3]), expected[::-3])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_exception_is_the_users_own(threads: int) -> None:
    first = int(np.argmax(X > 3.9))
    with pytest.raises(OwnError, match=f"{X[first]:.2f} is too large") as info:
        tmap(checked, X, num_threads=threads)
    assert info.value.args[1] == {"value": X[first]}
    assert "raise OwnError" in "".join(traceback.format_tb(info.tb))
    np.testing.assert_array_equal(tmap(checked, X[:first]), np.sqrt(X[:first]))


def test_types_of_results() -> None:
    single = X[:100].astype("f4")
    y = tmap(lambda x: 2.0 * x + 1, single)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, (2 * single.astype("f8") + 1).astype("f4"))
    assert tmap(lambda x: x > 1, X).dtype == bool
    assert tmap(lambda x: int(x), X).dtype == np.int64
    quotient, remainder = tmap(lambda x: (x // 1, x % 1), X)
    np.testing.assert_allclose(quotient + remainder, X)
    z = X[:50] + 1j
    np.testing.assert_allclose(tmap(lambda z: z * z, z), z * z, rtol=1e-15)


def test_a_global_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (2.0, 3.0, -1.0):
        monkeypatch.setattr("test_jit_mapped.rate", value)
        np.testing.assert_array_equal(tmap(helper, X), X * value)
        np.testing.assert_array_equal(tmap(decorated, X), X * value + 1)


def test_a_global_of_a_derivative_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    f = register(lambda x: x * rate, derivative=lambda x: rate + 0 * x)
    for value in (2.0, 5.0):
        monkeypatch.setattr("test_jit_mapped.rate", value)
        y, back = rrule(tmap, f, X)
        np.testing.assert_array_equal(y, X * value)
        np.testing.assert_array_equal(back(np.ones_like(X))[2], value)


def test_integers_that_are_not_differentiated() -> None:
    def power(x: float, n: int) -> float:
        result = 1.0
        for _ in range(n):
            result *= x
        return result

    f = register(power, derivative=(lambda x, n: n * x ** (n - 1), None), nondiff="n")
    n = np.arange(X.size) % 4
    y, back = rrule(tmap, f, X, n)
    np.testing.assert_allclose(y, X**n, rtol=1e-14)
    np.testing.assert_allclose(back(np.ones_like(X))[2], n * X ** (n - 1.0), rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: "text", "<lambda> returns unicode_type; it must return a number"),
        (lambda x: x + "a", r"cannot compile <lambda>: No implementation of function add"),
        (lambda *xs: 0.0, r"<lambda> takes \*xs; a function that is mapped must name its arguments"),
    ],
)
def test_errors(f: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tmap(f, X)


def test_registered_functions_are_called() -> None:
    """C functions, Python functions and ufuncs: by their registered selves, as globals, captured or of a module."""
    x = np.linspace(0.5, 3.0, 50)
    j1 = from_cython("scipy.special.cython_special", "j1")
    erf = from_cython("scipy.special.cython_special", "erf")
    square = register(lambda x: x * x, derivative=lambda x: 2 * x)
    sine = register(np.sin, replace=True)
    module = ModuleType("of_a_user")
    module.j1 = j1  # type: ignore[attr-defined]
    for f, expected in (
        (lambda x: -j1(x), -special.j1(x)),
        (lambda x: erf(x) + 1.0, special.erf(x) + 1.0),
        (lambda x: square(x) + sine(x), x * x + np.sin(x)),
        (lambda x: module.j1(x), special.j1(x)),  # type: ignore[attr-defined]
    ):
        np.testing.assert_allclose(tmap(f, x), expected, rtol=1e-15)
    j0 = from_cython("scipy.special.cython_special", "j0", derivative=lambda x: -j1(x), check=0.7)
    _, back = rrule(tmap, j0, x)
    np.testing.assert_array_equal(back(np.ones_like(x))[2], -special.j1(x))


def test_what_cannot_be_called_is_refused() -> None:
    raising = from_cython("scipy.special.cython_special", "j1", raises=True)
    with pytest.raises(TypeError, match="j1 cannot be called from a compiled Python function"):
        tmap(lambda x: raising(x), np.ones(3))
