"""Derivatives are those of the branch that is taken: of what is written, not of what its value is there."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from against_dual import assert_derivatives
from dual import derivatives

from tmapad import NoTangent, rrule, tmap

inf, nan = math.inf, math.nan
A, B = 2.0, -0.5


def gradient(f: Callable[..., Any], *xs: Any, dy: Any = None, **keywords: Any) -> tuple[Any, ...]:
    """The cotangents of the arguments, for ones as `dy`."""
    y, back = rrule(tmap, f, *xs, **keywords)
    return back(np.ones_like(y) if dy is None else dy)[2:]  # type: ignore[no-any-return]


def shortcut(x: float) -> float:
    if x == 1.0:
        return x * x
    return 3.0 * x


def sinc(x: float) -> float:
    if x == 0.0:
        return 1.0
    return math.sin(x) / x


def linear_at_0(x: float) -> float:
    if x == 0.0:
        return 5.0 * x
    return math.sin(x)


def in_a_loop(x: float) -> float:
    total = 0.0
    for i in range(3):
        if x == i:
            total += x * x * x
    return total


def switch(x: float) -> float:
    n = int(x)
    if n == 2:
        return x * n
    if n == 3:
        return x * n * n
    return x


def both(x: float, y: float) -> float:
    if x == 1.0 and y == 2.0:
        return x * x * y
    return x + y


def not_unequal(x: float) -> float:
    if x != 1.0:
        return 0.0
    y = x
    while y == 1.0:
        y = y * x * x + x
    return y


def equal_values(x: float, y: float) -> float:
    if x * x == y:
        return y * y
    return x


def known_zero(x: float) -> float:
    y = x - 1.0
    if y == 0.0:
        return y + y * x
    return y


def clamp(x: float) -> float:
    return min(max(x, 0.0), 1.0)


def clamp_the_other_way(x: float) -> float:
    return max(0.0, min(1.0, x))


# Functions, arguments, and the partial derivatives there.
SHORTCUTS: list[tuple[Callable[..., Any], tuple[float, ...], tuple[float, ...]]] = [
    (shortcut, (1.0,), (2.0,)),
    (shortcut, (1.5,), (3.0,)),
    (sinc, (0.0,), (0.0,)),
    (linear_at_0, (0.0,), (5.0,)),
    (linear_at_0, (-0.0,), (5.0,)),
    (in_a_loop, (2.0,), (12.0,)),
    (in_a_loop, (0.5,), (0.0,)),
    (switch, (2.5,), (2.0,)),
    (switch, (3.0,), (9.0,)),
    (switch, (0.1,), (1.0,)),
    (both, (1.0, 2.0), (4.0, 1.0)),
    (both, (1.0, 2.5), (1.0, 1.0)),
    (not_unequal, (1.0,), (4.0,)),
    (not_unequal, (2.0,), (0.0,)),
    (equal_values, (3.0, 9.0), (0.0, 18.0)),
    (equal_values, (3.0, 8.0), (1.0, 0.0)),
    (known_zero, (1.0,), (2.0,)),
    (clamp, (0.0,), (1.0,)),
    (clamp, (1.0,), (1.0,)),
    (clamp, (-0.1,), (0.0,)),
    (clamp_the_other_way, (0.0,), (0.0,)),
    (clamp_the_other_way, (1.0,), (0.0,)),
    (clamp_the_other_way, (0.5,), (1.0,)),
    (lambda x, y: x if x == y else y, (2.0, 2.0), (1.0, 0.0)),
    (lambda x, y: y if x == y else x, (2.0, 2.0), (0.0, 1.0)),
    (lambda x, y: x if x == y else y, (2.0, 3.0), (0.0, 1.0)),
    (lambda x, y: x - y if x == y else 7.0 * x, (2.0, 2.0), (1.0, -1.0)),
    (lambda x: x if x != 0.0 else 0.0, (0.0,), (0.0,)),
    (lambda x: x if x == 0.0 else 0.0, (0.0,), (1.0,)),
    (lambda x: x if x > 0.0 else 0.0, (0.0,), (0.0,)),  # noqa: FURB136
    (lambda x: x if x >= 0.0 else 0.0, (0.0,), (1.0,)),  # noqa: FURB136
    (lambda x: -x if x < 0.0 else x, (0.0,), (1.0,)),
    (lambda x: x if x > 0.0 else -x, (0.0,), (-1.0,)),
    (lambda x: x if abs(x) == 1.0 else x * x, (-1.0,), (1.0,)),
    (lambda x: 1.0 if x * x == 1.0 else x, (-1.0,), (0.0,)),
    (lambda x: x * 1.0 + x * 0.0 + (x - x) + x / 1.0 + 0.0, (3.0,), (2.0,)),
    (lambda x: x / x, (4.0,), (0.0,)),
    (lambda x, y: x**2 if x == A and y == B else y, (A, B), (4.0, 0.0)),
    (lambda x: min(2.0 * x, x + 1.0), (1.0,), (2.0,)),
    (lambda x: max(x + 1.0, 2.0 * x), (1.0,), (1.0,)),
    (lambda x: (x == 2.0) * x, (2.0,), (1.0,)),
    (lambda x: (1.0 if x > 0.0 else 2.0) * x, (2.0,), (1.0,)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "at", "partials"), SHORTCUTS)
def test_what_is_written_counts(f: Callable[..., Any], at: tuple[float, ...], partials: tuple[float, ...]) -> None:
    y = tmap(f, *(np.array([x]) for x in at))
    assert y[0] == f(*at)
    for residuals in ("save", "recompute"):
        dxs = gradient(f, *(np.array([x]) for x in at), residuals=residuals)
        np.testing.assert_array_equal(np.concatenate(dxs), partials)


def test_equality_with_a_captured_variable() -> None:
    a = 2.0

    def f(x: float) -> float:
        if x == a:
            return x * x * x
        return a * a

    def g(x: float) -> float:
        if x == a:
            return a * a * a
        return x

    for one, expected, total in ((f, [12.0, 0.0], 4.0), (g, [0.0, 1.0], 12.0)):
        _, back = rrule(tmap, one, np.array([2.0, 5.0]))
        _, df, dx = back(np.ones(2))
        np.testing.assert_array_equal(dx, expected)
        assert df.a == total
        np.testing.assert_array_equal(gradient(one, np.array([2.0, 5.0]), wrt=0)[0], expected)


# ---------------------------------------------------------------------------------------------- branches not taken


def log_or_line(x: float) -> float:
    if x <= 0.0:
        return x
    return math.log(x)


def stops_before_a_pole(x: float) -> float:
    total = 0.0
    for i in range(5):
        if x == i:
            break
        total += 1.0 / (x - i)
    return total


def root_of_positive(x: float) -> float:
    total = x
    if x > 0:
        total += math.sqrt(x)
    return total


GUARDED: list[tuple[Callable[[float], Any], list[float], list[float]]] = [
    (lambda x: math.sqrt(x) if x > 0 else 0.0, [-1.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    (lambda x: 0.0 if x == 0 else x * math.log(x), [0.0, 1.0], [0.0, 1.0]),
    (lambda x: 1.0 / x if x != 0 else 0.0, [0.0, 2.0], [0.0, -0.25]),
    (lambda x: x**0.5 if x > 0 else x, [-4.0, 0.0, 4.0], [1.0, 1.0, 0.25]),
    (lambda x: math.acos(x) if abs(x) < 1 else 0.0, [2.0, 0.0, 1.0], [0.0, -1.0, 0.0]),
    (lambda x: math.exp(x) if x < 700 else x, [1e4, 0.0], [1.0, 1.0]),
    (log_or_line, [-1.0, 0.0, 2.0], [1.0, 1.0, 0.5]),
    (stops_before_a_pole, [0.0, 1.0], [0.0, -1.0]),
    (root_of_positive, [-1.0, 0.0, 4.0], [1.0, 1.0, 1.25]),
]


@pytest.mark.parametrize(("f", "x", "expected"), GUARDED)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_a_branch_not_taken_gives_no_nan(f: Callable[[float], Any], x: list[float], expected: list[float],
                                         residuals: str) -> None:  # fmt: skip
    np.testing.assert_array_equal(tmap(f, np.array(x)), [f(one) for one in x])
    (dx,) = gradient(f, np.array(x), residuals=residuals)
    np.testing.assert_allclose(dx, expected, rtol=1e-15)


def roots_from_zero(x: float) -> float:
    total = 0.0
    for _ in range(3):
        total = math.sqrt(total) + x
    return total


def assigned_in_one_branch(x: float) -> float:
    total = 0.0
    if x > 1.0:
        total = x - 1.0
    return math.sqrt(total) + x


# Where a square root is taken of a 0 that does not depend on x, and the derivative there.
INDEPENDENT: list[tuple[Callable[[float], Any], float, float]] = [
    (assigned_in_one_branch, 0.5, 1.0),
    (assigned_in_one_branch, 5.0, 1.25),
    (lambda x: math.sqrt(math.floor(x)) + x, 0.5, 1.0),
    (lambda x: math.sqrt(np.floor(x)) + x, 0.5, 1.0),
    (lambda x: math.sqrt(float(int(x))) + x, 0.5, 1.0),
    (lambda x: math.sqrt(float(round(x))) + x, 0.4, 1.0),
    (lambda x: math.sqrt(np.sign(x) + 1.0) + x, -0.5, 1.0),
    (lambda x: math.sqrt(max(x, 0.0)) + x, -0.5, 1.0),
    (lambda x: math.sqrt(min(max(0.0, x), 1.0)) + x, -0.5, 1.0),
    (lambda x: math.sqrt(np.maximum(x, 0.0)) + x, -0.5, 1.0),
    (lambda x: math.sqrt((x > 0.0) * 1.0) + x, -0.5, 1.0),
    (lambda x: math.sqrt(x if x > 0.0 else 0.0) + x, -0.5, 1.0),  # noqa: FURB136
]


@pytest.mark.parametrize(("f", "x", "derivative"), INDEPENDENT)
def test_what_does_not_depend_on_x_is_no_nan(f: Callable[[float], Any], x: float, derivative: float) -> None:
    """Even where the derivative of what is done to it is infinite."""
    assert derivatives(f, x)[1] == [[derivative]]
    np.testing.assert_array_equal(gradient(f, np.array([x]))[0], [derivative])


def test_a_variable_that_starts_as_a_constant() -> None:
    assert_derivatives(roots_from_zero, np.array([0.5, 2.0]))
    dx, dy = gradient(lambda x, y: math.sqrt(x) + y, np.array([0.0]), np.array([1.0]))
    assert (dx[0], dy[0]) == (inf, 1.0)


# ------------------------------------------------------------------------------------------------------ strong zero


SINGULAR: list[tuple[Callable[[float], Any], float]] = [
    (lambda x: math.sqrt(x), 0.0),
    (lambda x: math.sqrt(x), -1.0),
    (lambda x: math.log(x), 0.0),
    (lambda x: x**0.5, 0.0),
    (lambda x: 1.0 / x, 0.0),
    (lambda x: math.asin(x), 1.0),
    (lambda x: x * nan, 1.0),
    (lambda x: math.exp(x), 1e4),
]


@pytest.mark.usefixtures("without_reports")
@pytest.mark.parametrize(("f", "at"), SINGULAR)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_a_cotangent_of_0_gives_0(f: Callable[[float], Any], at: float, residuals: str) -> None:
    x = np.array([at, 0.5, at, at])
    (dx,) = gradient(f, x, dy=np.array([0.0, 0.0, -0.0, 1.0]), residuals=residuals)
    np.testing.assert_array_equal(dx[:3], 0.0)
    assert not math.isfinite(dx[3])


@pytest.mark.usefixtures("without_reports")
@pytest.mark.parametrize(("f", "at"), SINGULAR)
def test_one_element_leaves_the_others_alone(f: Callable[[float], Any], at: float) -> None:
    x = np.linspace(0.1, 0.9, 101)
    without = tmap(f, x), *gradient(f, x)
    for bad in (at, nan, inf, -inf):
        x = np.linspace(0.1, 0.9, 101)
        x[50] = bad
        for got, wanted in zip((tmap(f, x), *gradient(f, x)), without, strict=True):
            np.testing.assert_array_equal(np.delete(got, 50), np.delete(wanted, 50))


# ------------------------------------------------------------------------------------------ nothing to differentiate


def test_an_argument_that_is_not_used_has_a_gradient_of_0() -> None:
    x = np.arange(3.0)
    for f in (lambda x, y: 2.0 * x, lambda x, y: x * 2.0 + float(int(y)), lambda x, y: x * 2.0 if y > 1 else x + x):
        dx, dy = gradient(f, x, x + 1)
        np.testing.assert_array_equal(dx, 2.0)
        np.testing.assert_array_equal(dy, np.zeros(3))
        assert dy.dtype == np.float64


@pytest.mark.parametrize("f", [lambda x: 1.0, lambda x: 3, lambda x: int(x), lambda x: x > 1.0, lambda x: x // 1.0])
def test_results_that_do_not_depend_smoothly(f: Callable[[float], Any]) -> None:
    x = np.array([0.2, 1.0, 2.5])
    y, back = rrule(tmap, f, x)
    np.testing.assert_array_equal(y, [f(one) for one in x.tolist()])
    assert y.dtype == np.array(f(1.0)).dtype
    _, df, dx = back(np.ones(3))
    assert df is NoTangent()
    assert dx.dtype == np.float64
    np.testing.assert_array_equal(dx, np.zeros(3))


def several(x: float, y: float) -> tuple[float, float, int, bool, float]:
    if x < y:
        return x * y, 2.0, int(x), x < 0, y
    return y, x * x, 0, True, x - y


def test_several_results() -> None:
    x, y = np.array([0.5, 2.0, -1.5]), np.array([1.5, 1.0, 3.0])
    results, back = rrule(tmap, several, x, y)
    for got, wanted in zip(results, zip(*map(several, x.tolist(), y.tolist()), strict=True), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert [one.dtype.kind for one in results] == list("ffibf")
    dys = [np.array([1.0, 10.0, 100.0]) * k for k in (1, 2, 3, 5, 7)]
    _, df, dx, dy = back(tuple(dys))
    assert df is NoTangent()
    np.testing.assert_array_equal(dx, [1.5, 20 * 4 + 70, 300])
    np.testing.assert_array_equal(dy, [0.5 + 7, 10 - 70, -150 + 700])


@pytest.mark.parametrize("wrt", [0, 1, 2, (0, 2), (1, 0), (0, 1, 2), "a", (1, "a"), ("b", "a", 2)])
def test_parts_of_the_gradient(wrt: Any) -> None:
    a, b = 1.5, 0.5

    def f(x: float, y: float, z: float) -> float:
        total = 0.0
        for i in range(3):
            total += a * x * i + y * total * b
            if total > z * b:
                total -= z
        return total

    xs = np.random.default_rng(0).normal(size=(3, 50))
    y, back = rrule(tmap, f, *xs)
    some_y, some_back = rrule(tmap, f, *xs, wrt=wrt)
    np.testing.assert_array_equal(some_y, y)
    _, df, *dxs = back(xs[0])
    _, some_df, *some_dxs = some_back(xs[0])
    named = wrt if isinstance(wrt, tuple) else (wrt,)
    for i, dx in enumerate(dxs):
        if i in named:
            np.testing.assert_array_equal(some_dxs[i], dx)
        else:
            assert some_dxs[i] is NoTangent()
    captured = [name for name in named if isinstance(name, str)]
    if not captured:
        assert some_df is NoTangent()
    else:
        assert some_df._asdict() == {name: df[name] for name in df if name in captured}


def test_integer_and_boolean_arguments() -> None:
    """Integers are promoted, and have a gradient; a bool has none."""
    n = np.array([1, 2, 3])
    y, back = rrule(tmap, lambda x, up: x * x if up else -x, n, np.array([True, False, True]))
    np.testing.assert_array_equal(y, [1.0, -2.0, 9.0])
    _, _, dn, dup = back(np.ones(3))
    assert dn.dtype == np.float64
    np.testing.assert_array_equal(dn, [2.0, -1.0, 6.0])
    assert dup is NoTangent()


def test_a_complex_variable_of_no_influence_is_no_nan() -> None:
    def f(x: float) -> float:
        total = 0j
        for _ in range(3):
            total = cmath.sqrt(total) + x
        return total.real

    x = np.array([0.5, 2.0])
    h = 1e-6
    quotient = (np.array([f(a + h) for a in x]) - [f(a - h) for a in x]) / (2 * h)
    np.testing.assert_allclose(rrule(tmap, f, x)[1](np.ones(2))[2], quotient, rtol=1e-8)
