"""The dual numbers of dual.py: against differences of plain Python, and by hand where those say nothing."""

import cmath
import math
from collections.abc import Callable
from typing import Any

import dual
import numpy as np
import pytest
import random_programs

STEP = 1e-3


def slope(f: Callable[[float], Any], at: float = 0.0) -> Any:
    """The derivative by central differences, extrapolated twice."""
    coarse, middle, fine = ((f(at + h) - f(at - h)) / (2 * h) for h in (4 * STEP, 2 * STEP, STEP))
    return (64 * fine - 20 * middle + coarse) / 45


def assert_slopes(f: Callable[..., Any], *xs: Any) -> None:
    """Every derivative, along the real and the imaginary axis, is that of the function run in plain Python."""
    (y,), (row,) = dual.derivatives(f, *xs)
    assert y == pytest.approx(f(*xs), rel=1e-14)
    units = [(i, unit) for i, x in enumerate(xs) for unit in ((1.0, 1j) if isinstance(x, complex) else (1.0,))]
    for (i, unit), derivative in zip(units, row, strict=True):
        expected = slope(lambda h: f(*(x + h * unit if k == i else x for k, x in enumerate(xs))))  # noqa: B023
        assert derivative == pytest.approx(expected, rel=1e-9, abs=1e-9)


POINTS = {"acosh": 1.7, "gamma": 2.3, "lgamma": 2.3, "ldexp": 0.3}


@pytest.mark.parametrize("name", dual.ELEMENTARY)
def test_elementary_functions(name: str) -> None:
    f: Callable[..., Any] = getattr(math, name)
    if name in ("atan2", "hypot", "fmod", "copysign", "pow"):
        assert_slopes(f, 2.2, 0.7)
        if name != "pow":
            assert_slopes(lambda x, y: f(-x, y), 2.2, 0.7)
    elif name == "ldexp":
        assert_slopes(lambda x: f(x, 3), 0.4)
    elif name in ("log", "sqrt", "log2", "log10", "cbrt"):
        assert_slopes(f, 2.4)
    else:
        assert_slopes(f, POINTS.get(name, 0.6))
        if name not in POINTS:
            assert_slopes(f, -0.4)


@pytest.mark.parametrize("name", sorted(dual.ELEMENTARY.keys() & vars(cmath).keys()))
@pytest.mark.parametrize("z", [0.4 + 0.3j, -0.6 - 0.8j])
def test_complex_functions(name: str, z: complex) -> None:
    assert_slopes(getattr(cmath, name), z)


@pytest.mark.parametrize(
    ("f", "xs"),
    [
        (lambda x, y: x + y - 3 * x / y - (2 - x) * -y + +x, (1.3, 0.4)),
        (lambda x, y: x % y + divmod(x, 0.7)[1] + 9.1 % y + x // y, (5.3, 1.4)),
        (lambda x, y: x**3 + x**-2 + x**0.5 + 2.0**y + x**y + pow(y, 2), (1.3, 0.4)),
        (lambda x, y: abs(x) + min(x, y) * max(y, 0.1, x) + round(y) + round(y, 1) + int(x) * x, (-1.3, 0.43)),
        (lambda x, y: float(x) * (x > y) + sum((x, y, x * y)), (1.3, 0.4)),
        (lambda z: z * z + z**3 - 1 / z + 2.0 * z, (0.5 + 0.3j,)),
        (lambda z: abs(z) * z.real + z.imag * z.conjugate(), (0.5 + 0.3j,)),
        (lambda x, y: complex(x, y) ** 2 + complex(y), (0.5, 0.3)),
        (lambda x: cmath.exp(1j * x) + cmath.phase(complex(x, 2)) + cmath.rect(2.0, x), (0.5,)),
        (lambda x: np.sin(x) + np.arctan2(x, 2.0) + np.power(x, 2) + np.where(x > 0, x * x, 0.0), (0.5,)),
        (lambda x: np.maximum(x, 0.2) * np.absolute(x) - np.fmod(x, 0.3) + math.log(x, 3), (0.5,)),
        (lambda x: math.frexp(x)[0] + math.modf(x)[0] + math.floor(x) + math.ceil(x), (3.3,)),
    ],
)
def test_operators_and_namespaces(f: Callable[..., Any], xs: tuple[Any, ...]) -> None:
    assert_slopes(f, *xs)


def test_mixed_arguments() -> None:
    assert_slopes(lambda x, z: abs(z * x) + x * z.real, 0.7, 0.3 + 0.2j)
    assert_slopes(lambda x, z: x * z * z, 0.7, 0.3 + 0.2j)


RATE = 2.5


def uses_a_global(x: float) -> float:
    return x * RATE


def local_array(x: float, n: int = 3) -> float:
    total, powers = 0.0, np.empty(n)
    table = np.zeros((2, 2))
    for i in range(len(powers)):
        powers[i] = x**i
        table[i % 2, -1] += powers[i]
    for one in powers:
        total += one
    return total * powers[int(x)] + powers.sum() + table[1, 1] * powers.size


def test_whole_functions() -> None:
    def outer(x: float) -> float:
        def inner(y: float, *, power: int = 2) -> float:
            return uses_a_global(y) * x**power

        return (lambda y: inner(y, power=3))(x)

    for f in (outer, local_array, uses_a_global):
        assert_slopes(f, 1.2)
    assert dual.derivatives(random_programs.program(1), 0.3, 0.4)[0] == (random_programs.program(1)(0.3, 0.4),)


def test_captured_variables() -> None:
    a, z, table, n = 2.0, 1 + 1j, np.array([1.0, 3.0]), 3

    def helper(x: float) -> float:
        return x * a * a

    def f(x: float) -> complex:
        return helper(x) + x * a + z * x + table[1] * x**n

    def helping(x: float) -> float:
        return helper(x)

    ys, jacobian = dual.derivatives(f, 3.0, captured={"a": a, "z": z, "table": table})
    assert ys == (12 + 6 + 3 + 3j + 81,)
    assert jacobian == [[4 + 2 + 1 + 1j + 81, 3.0, 3.0, 3j, 0.0, 27.0]]
    assert dual.derivatives(helping, 3.0, captured={"helper.a": a})[1] == [[4.0, 12.0]]
    assert dual.derivatives(uses_a_global, 3.0, captured={"RATE": RATE})[1] == [[2.5, 3.0]]


# Functions, where, and the derivatives there.
KINKS: list[tuple[Callable[..., Any], tuple[float, ...], list[float]]] = [
    (abs, (0.0,), [0.0]),
    (max, (1.0, 1.0), [1.0, 0.0]),
    (min, (1.0, 1.0), [1.0, 0.0]),
    (math.hypot, (0.0, 0.0), [0.0, 0.0]),
    (math.copysign, (0.0, 1.0), [0.0, 0.0]),
    (math.sqrt, (0.0,), [math.inf]),
    (lambda x: math.sqrt(0.0 * x) + x, (1.0,), [math.nan]),  # 0 times infinity
    (lambda x: math.sqrt(math.floor(x)) + x, (0.5,), [1.0]),  # no dependence at all
    (lambda x, y: math.sqrt(x) + y, (0.0, 1.0), [math.inf, 1.0]),
    (lambda x: x**0, (0.0,), [0.0]),
    (lambda x: x**1, (0.0,), [1.0]),
    (lambda x: 0.0**x, (2.0,), [0.0]),
    (lambda x: math.floor(x) + x // 1 + int(x), (2.0,), [0.0]),
    (lambda x: math.sqrt(x) if x > 0 else 0.0, (-1.0,), [0.0]),
    (lambda x: x / 0.0, (1.0,), [math.inf]),
    (lambda x: math.exp(x), (1e4,), [math.inf]),
]


@pytest.mark.parametrize(("f", "xs", "expected"), KINKS)
def test_kinks(f: Callable[..., Any], xs: tuple[float, ...], expected: list[float]) -> None:
    np.testing.assert_array_equal(dual.derivatives(lambda *xs: f(*xs), *xs)[1], [expected])


def test_pulled_back() -> None:
    assert dual.pulled(lambda z: z * z, [1 + 1j], [1.0]) == ((2j,), [2 - 2j])
    assert dual.pulled(lambda x: (x * x, 1j * x), [3.0], [10.0, 1 + 5j]) == ((9.0, 3j), [65.0])
    assert dual.pulled(lambda x, n: x**n, [3.0, 2], [1.0]) == ((9.0,), [6.0, 0.0])
    assert dual.pulled(math.sqrt, [0.0], [0.0]) == ((0.0,), [0.0])


def test_a_derivative_is_not_lost() -> None:
    with pytest.raises(TypeError, match="the derivative would be lost"):
        np.float64(dual.Dual(1.0, (1.0,)))
