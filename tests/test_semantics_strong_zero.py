"""Where dy is 0, dx is 0, even if the derivative is infinite or NaN; and nowhere else."""

import math
from typing import Any

import c_library
import numpy as np
import pytest

from tmapad import register, rrule, tmap


@pytest.mark.compiler
@pytest.mark.parametrize("derivative", ["nan_of", "infinity_of"])
@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("char", "efd")
def test_strong_zero(derivative: str, residuals: str, char: str) -> None:
    """Where dy is 0, dx is 0, whatever the derivative; elsewhere the derivative is not hidden."""
    f = register(c_library.function("zero"), derivative=c_library.function(derivative), name="zero")
    x, dy = np.ones(1000, char), np.ones(1000, char)
    dy[::3], dy[1::3] = 0.0, -0.0
    for _ in range(2):
        y, back = rrule(tmap, f, x, residuals=residuals)
        assert not y.any()
        dx = back(dy)[2]
        assert not dx[::3].any()
        assert not dx[1::3].any()
        assert not np.isfinite(dx[2::3]).any()


def unknown(x: Any) -> complex:
    return complex(math.nan, math.inf)


@pytest.mark.parametrize(
    ("f", "one", "of_dy"),
    [
        (lambda z: z * z, 1j, 1j),
        (lambda z: z * z, 1j, 1.0),
        (lambda z: z.real, 1j, 1.0),
        (lambda x: x * (1 + 1j), 1.0, 1j),
        (lambda x: x * (1 + 1j), 1.0, 1.0),
    ],
)
@pytest.mark.parametrize("char", "fd")
def test_strong_zero_of_complex_derivatives(f: Any, one: Any, of_dy: Any, char: str) -> None:
    """Complex or real arguments, results and cotangents: each has its own product."""
    g = register(f, derivative=unknown, replace=True)
    x = np.full(30, one).astype(char.upper() if one == 1j else char)
    dy = np.where(np.arange(30) % 3 == 0, of_dy, 0 * of_dy)
    for residuals in ("save", "recompute"):
        dx = rrule(tmap, g, x, residuals=residuals)[1](dy)[2]
        assert dx.dtype == x.dtype
        assert not dx[dy == 0].any()
        assert not np.isfinite(dx[dy != 0]).any()


def singular(a: Any, x: Any) -> Any:
    return a * x


def singular_partials(a: Any, x: Any) -> Any:
    return a / (a - 1), x / (x - x)


@pytest.mark.parametrize("one", [1.0, 1 + 0j])
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_strong_zero_in_sums_and_of_complex_numbers(one: Any, residuals: str) -> None:
    f = register(singular, derivative=singular_partials)
    a, x = np.array([[1 * one], [3 * one]]), np.full((2, 70_000), 2 * one)
    dy = np.zeros((2, 70_000), type(one))
    dy[1, 5] = 4 * one
    _, _, da, dx = rrule(tmap, f, a, x, residuals=residuals)[1](dy)
    np.testing.assert_array_equal(da, [[0], [6]])
    assert np.isnan(dx[1, 5]) or np.isinf(dx[1, 5])
    assert not np.delete(dx.ravel(), 70_005).any()
    _, _, da, dx = rrule(tmap, f, one, x, residuals=residuals)[1](np.zeros_like(x))
    assert da == 0
    assert not dx.any()
