"""Derivatives where functions have kinks, steps, poles and other powers: one convention, and what the formula says."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from against_dual import assert_close, assert_derivatives
from dual import derivatives

from tmapad import rrule, tmap

inf, nan = math.inf, math.nan
X = np.array([-2.7, -2.0, -1.0, -0.7, -0.1, -0.0, 0.0, 0.3, 0.7, 1.0, 1.4, 2.0, 3.3, 40.0])
POSITIVE = X[X > 0]


def both_kinds(x: float, y: float) -> float:
    return max(x, y) + 2.0 * min(x, y)


# Functions, arguments, and the partial derivatives there.
KINKS: list[tuple[Callable[..., Any], tuple[float, ...], tuple[float, ...]]] = [
    (lambda x: abs(x), (0.0,), (0.0,)),
    (lambda x: abs(x), (-0.0,), (0.0,)),
    (lambda x: abs(x), (-2.0,), (-1.0,)),
    (lambda x: math.fabs(x), (0.0,), (0.0,)),
    (lambda x: np.abs(x), (0.0,), (0.0,)),
    (lambda x: math.sqrt(x * x), (3.0,), (1.0,)),
    (lambda x, y: max(x, y), (1.0, 1.0), (1.0, 0.0)),
    (lambda x, y: max(y, x), (1.0, 1.0), (0.0, 1.0)),
    (lambda x, y: min(x, y), (1.0, 1.0), (1.0, 0.0)),
    (lambda x, y: max(x, y), (0.0, -0.0), (1.0, 0.0)),
    (lambda x, y: max(x, y), (-0.0, 0.0), (1.0, 0.0)),
    (lambda x, y: max(x, y, x), (1.0, 1.0), (1.0, 0.0)),
    (lambda x, y: max(0.5, y, x), (1.0, 1.0), (0.0, 1.0)),
    (lambda x, y: max(x, y), (1.0, 2.0), (0.0, 1.0)),
    (lambda x, y: np.maximum(x, y), (1.0, 1.0), (1.0, 0.0)),
    (lambda x, y: np.minimum(x, y), (1.0, 1.0), (1.0, 0.0)),
    (lambda x, y: np.fmax(x, y), (1.0, 1.0), (1.0, 0.0)),
    (both_kinds, (1.0, 1.0), (3.0, 0.0)),
    (lambda x, y: math.hypot(x, y), (0.0, 0.0), (0.0, 0.0)),
    (lambda x, y: math.hypot(x, y), (3.0, 4.0), (0.6, 0.8)),
    (lambda x, y: math.copysign(x, y), (0.0, -1.0), (0.0, 0.0)),
    (lambda x, y: math.copysign(x, y), (2.0, -1.0), (-1.0, 0.0)),
    (lambda x: math.floor(x) * x, (2.0,), (2.0,)),
    (lambda x: math.ceil(x) * x, (2.0,), (2.0,)),
    (lambda x: round(x) * x, (2.5,), (2.0,)),
    (lambda x: int(x) * x, (-2.5,), (-2.0,)),
    (lambda x: np.sign(x) * x, (0.0,), (0.0,)),
    (lambda x: np.rint(x) + np.trunc(x) + np.floor(x), (0.5,), (0.0,)),
    (lambda x: x // 1, (2.0,), (0.0,)),
    (lambda x: x // 0.3 + 0.7 // x, (2.0,), (0.0,)),
    (lambda x: x % 0.7, (0.7,), (1.0,)),
    (lambda x: x % -0.7, (5.0,), (1.0,)),
    (lambda x: 5.0 % x, (2.0,), (-2.0,)),
    (lambda x: 5.0 % x, (-2.0,), (3.0,)),
    (lambda x, y: x % y, (7.5, 2.0), (1.0, -3.0)),
    (lambda x, y: divmod(x, y)[0], (7.5, 2.0), (0.0, 0.0)),
    (lambda x, y: divmod(x, y)[1], (-7.5, 2.0), (1.0, 4.0)),
    (lambda x: x**2, (0.0,), (0.0,)),
    (lambda x: x**1, (0.0,), (1.0,)),
    (lambda x: x**0, (0.0,), (0.0,)),
    (lambda x: x**0.5, (0.0,), (inf,)),
    (lambda x: x**1.5, (0.0,), (0.0,)),
    (lambda x: x**3, (-2.0,), (12.0,)),
    (lambda x: x**-2, (-2.0,), (0.25,)),
    (lambda x: x**3.0, (-2.0,), (12.0,)),
    (lambda x: 0.0**x, (2.0,), (0.0,)),
    (lambda x: (-2.0) ** x, (2.0,), (nan,)),
    (lambda x: (-2.0) ** x, (2.5,), (nan,)),
    (lambda x: 1.0**x, (2.0,), (0.0,)),
    (lambda x, y: x**y, (-2.0, 3.0), (12.0, nan)),
    (lambda x, y: x**y, (0.0, 0.0), (0.0, -inf)),
    (lambda x, y: x**y, (0.0, 2.0), (0.0, 0.0)),
    (lambda x: math.sqrt(x), (0.0,), (inf,)),
    (lambda x: math.sqrt(x), (-1.0,), (nan,)),
    (lambda x: math.log(x), (0.0,), (inf,)),
    (lambda x: math.log(x), (-1.0,), (nan,)),
    (lambda x: 1.0 / x, (0.0,), (-inf,)),
    (lambda x: x / 0.0, (1.0,), (inf,)),
    (lambda x, y: math.atan2(x, y), (0.0, -1.0), (-1.0, 0.0)),
    (lambda x: math.asin(x), (1.0,), (inf,)),
    (lambda x: math.atanh(x), (1.0,), (inf,)),
]


@pytest.mark.usefixtures("without_reports")
@pytest.mark.parametrize(("f", "at", "partials"), KINKS)
def test_kinks(f: Callable[..., Any], at: tuple[float, ...], partials: tuple[float, ...]) -> None:
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, f, *(np.array([x]) for x in at), residuals=residuals)
        _, _, *dxs = back(np.ones(1))
        np.testing.assert_allclose(np.concatenate(dxs), partials, rtol=2e-16)


def test_powers_with_captured_exponents() -> None:
    n, p, k = 3, 0.5, -2
    for f in (lambda x: x**n, lambda x: x**k, lambda x: x * x ** (n + k)):
        assert_derivatives(f, X[X != 0])
    assert_derivatives(lambda x: x**p + p**x, POSITIVE, captured={"p": p})
    assert_derivatives(lambda x, y: y**x, POSITIVE, np.resize([0.3, 1.0, 2.0], POSITIVE.shape))


STEPPING: list[Callable[..., Any]] = [
    lambda x: x % 0.7 + x % -1.1,
    lambda x: x // 1 + x // 0.7,
    lambda x: divmod(x, 0.3)[0] * x,
    lambda x: abs(x) * math.floor(x) + math.ceil(x) * x,
    lambda x: round(x) * x + float(round(x, 1)) * x,
    lambda x: int(x) * x * x,
    lambda x: x - np.floor(x) * np.trunc(x) + np.rint(x) * np.sign(x),
    lambda x: x**3 - x**2,
    lambda x: abs(x) ** 2.5,
    lambda x: (x % 1.0) ** 2 if x < 1 else (x % 0.7) * x,
    lambda x: (x > 0) + (x >= 0.7) * x,
]


@pytest.mark.parametrize("f", STEPPING)
def test_steps_and_remainders(f: Callable[..., Any]) -> None:
    assert_derivatives(f, X)


def test_remainders_in_both_arguments() -> None:
    x, y = (part.ravel() for part in np.meshgrid(X, [-2.0, -0.7, 0.3, 1.0]))
    assert_derivatives(lambda x, y: x % y + (x // y) * x, x, y)
    assert_derivatives(lambda x, y: math.hypot(x, y) * math.copysign(x, y), x, y)
    assert_derivatives(lambda x, y: np.fmod(x, y) + math.atan2(y, x), x, y)


def test_poles_in_the_middle_of_a_function() -> None:
    """IEEE arithmetic goes on; nothing is raised, and infinities come out as the formulas give them."""
    x = np.array([0.0, 1.0])
    for f in (lambda x: x / (1.0 + 1.0 / x), lambda x: math.atan(1.0 / x), lambda x: math.exp(-1.0 / (x * x))):
        y, back = rrule(tmap, f, x)
        dx = back(np.ones(2))[2]
        assert np.isfinite(y).all()
        expected = derivatives(f, 1.0)
        assert_close([y[1], dx[1]], [expected[0][0], expected[1][0][0]], 0.0, 1e-13)


def test_sign_is_flat() -> None:
    x = np.array([-2.0, -0.0, 0.0, 3.0])
    y, back = rrule(tmap, lambda x: np.sign(x) + x, x)
    np.testing.assert_array_equal(y, np.sign(x) + x)
    np.testing.assert_array_equal(back(np.ones(4))[2], np.ones(4))
