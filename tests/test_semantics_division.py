"""Divisions by zero and domain errors in compiled functions: IEEE's numbers, or ZeroDivisionError if asked for."""

import cmath
import math
from typing import Any

import numpy as np
import pytest
from same import SOME_RUNS

from tmapad import register, rrule, tmap

INF, NAN = math.inf, math.nan

# A function, its arguments, and what IEEE 754 and C's mathematical library say.
IEEE: list[tuple[Any, list[Any], list[Any]]] = [
    (lambda x: 1 / x, [2.0, 0.0, -0.0, INF], [0.5, INF, -INF, 0.0]),
    (lambda x: x / 0.0, [1.0, -1.0, 0.0], [INF, -INF, NAN]),
    (lambda x: 0.0**x, [1.0, -1.0, 0.0], [0.0, INF, 1.0]),
    (lambda x: x**0.5, [4.0, -4.0], [2.0, NAN]),
    (lambda x: x % 0.0, [1.0, 0.0], [NAN, NAN]),
    (lambda x: math.log(x), [1.0, 0.0, -1.0], [0.0, -INF, NAN]),
    (lambda x: math.sqrt(x), [4.0, -4.0], [2.0, NAN]),
    (lambda x: math.exp(x), [0.0, 1000.0], [1.0, INF]),
    (lambda x: math.acos(x), [1.0, 2.0], [0.0, NAN]),
    (lambda z: z / (z - 1), [2 + 0j], [2 + 0j]),
]


@pytest.mark.parametrize(("f", "x", "y"), IEEE, ids=[str(k) for k in range(len(IEEE))])
def test_ieee(f: Any, x: list[Any], y: list[Any]) -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tmap(f, np.array(x)), y)
        np.testing.assert_array_equal(tmap(f, np.tile(x, 3000), num_threads=3), np.tile(y, 3000))


@pytest.mark.parametrize(
    "f",
    [lambda z: z / (z - 1), lambda z: 1 / (z - 1), lambda z: (z - 1) ** -1, lambda z: 1 / (z - 1) ** 2],
)
def test_complex_division_by_zero(f: Any) -> None:
    """Neither finite nor an exception; which of infinity and NaN is C's business."""
    with np.errstate(all="ignore"):
        y = tmap(f, np.array([1 + 0j, 3 + 0j]))
    assert not cmath.isfinite(y[0])
    assert abs(y[1] - f(3 + 0j)) < 1e-15


def test_signs_of_zero_and_of_infinity() -> None:
    np.testing.assert_array_equal(np.signbit(tmap(lambda x: 1 / x, np.array([INF, -INF]))), [False, True])


def inverse(x: float) -> float:
    return 1 / x


def inverse_derivative(x: float) -> float:
    return -1 / (x * x)


@pytest.mark.parametrize("run", SOME_RUNS)
def test_python_division_raises(run: dict[str, Any]) -> None:
    f = register(inverse, derivative=inverse_derivative, division="python", replace=True)
    x = np.arange(-1000.0, 1000.0)
    for call in (tmap, lambda *args, **keywords: rrule(tmap, *args, **keywords)):
        with pytest.raises(ZeroDivisionError, match="division by zero") as error:
            call(f, x, **run)
        assert error.value.__notes__ == ["tmapad: in inverse, at element 1000 with arguments (0.0)"]
    x = np.arange(1.0, 1000.0)
    y, back = rrule(tmap, f, x, residuals="recompute", **run)
    np.testing.assert_array_equal(y, 1 / x)
    x[77] = 0
    with pytest.raises(ZeroDivisionError) as error:
        back(y)
    assert "at element 77" in error.value.__notes__[0]


@pytest.mark.parametrize("f", [lambda x: 1 / x, lambda x: 1 // x, lambda x: 1 % x, lambda x: (1 + 1j) / (x + 0j)])
def test_what_raises_in_python_raises(f: Any) -> None:
    """Every division by zero at which Python itself raises."""
    with pytest.raises(ZeroDivisionError):
        f(0.0)
    g = register(f, division="python")
    with pytest.raises(ZeroDivisionError) as error:
        tmap(g, np.array([2.0, 0.0]))
    assert "at element 1" in error.value.__notes__[0]
    np.testing.assert_array_equal(tmap(g, np.array([2.0])), [f(2.0)])


def test_ieee_is_the_default_and_division_is_checked() -> None:
    f = register(inverse, derivative=inverse_derivative, division="ieee", replace=True)
    x = np.array([0.0, 1.0])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(tmap(f, x), [INF, 1])
        _, back = rrule(tmap, f, x)
    np.testing.assert_array_equal(back(np.ones(2))[2], [-INF, -1])
    np.testing.assert_array_equal(back(np.array([0.0, 1.0]))[2], [0, -1])
    for division in ("IEEE", "", "c", None, 1):
        with pytest.raises(ValueError, match="division must be 'ieee' or 'python', not"):
            register(inverse, division=division, replace=True)
