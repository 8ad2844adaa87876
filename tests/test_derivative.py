"""derivative: a function's derivative as a function, which has a derivative itself."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from c_library import function

from tmapad import NoDerivativeError, ScalarFunction, derivative, register, rrule, tmap

X = np.linspace(0.3, 2.7, 41)


def wave(x: float) -> float:
    return math.sin(x) * math.exp(-x)


def looped(x: float) -> float:
    total = 0.0
    for k in range(5):
        total = total * x + k
    return total


def branched(x: float) -> float:
    if x < 1.0:
        return x**3
    return 3.0 * x - 2.0


# A function, and its first three derivatives.
SMOOTH: list[tuple[Any, list[Any]]] = [
    (lambda x: x**4, [lambda x: 4 * x**3, lambda x: 12 * x**2, lambda x: 24 * x]),
    (
        wave,
        [
            lambda x: np.exp(-x) * (np.cos(x) - np.sin(x)),
            lambda x: -2 * np.exp(-x) * np.cos(x),
            lambda x: 2 * np.exp(-x) * (np.cos(x) + np.sin(x)),
        ],
    ),
    (looped, [lambda x: 3 * x**2 + 4 * x + 3, lambda x: 6 * x + 4, lambda x: 6 + 0 * x]),
    (
        branched,
        [lambda x: np.where(x < 1, 3 * x**2, 3), lambda x: np.where(x < 1, 6 * x, 0), lambda x: np.where(x < 1, 6, 0)],
    ),
    (np.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
    (lambda x: 1.0 / x, [lambda x: -(x**-2.0), lambda x: 2 * x**-3.0, lambda x: -6 * x**-4.0]),
]


@pytest.mark.parametrize(("f", "expected"), SMOOTH)
def test_derivatives_of_derivatives(f: Any, expected: list[Any]) -> None:
    current = f
    for formula in expected:
        _, back = rrule(tmap, current, X)
        current = derivative(current)
        assert isinstance(current, ScalarFunction)
        np.testing.assert_allclose(tmap(current, X), formula(X), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(back(np.ones(X.size))[2], formula(X), rtol=1e-13, atol=1e-13)


def test_at_a_zero_of_the_derivative() -> None:
    """A derivative that is 0 there is no constant."""
    f = derivative(lambda x: math.sin(x) * x * 0.1)
    _, back = rrule(tmap, f, np.zeros(1))
    np.testing.assert_allclose(back(np.ones(1))[2], 0.2, rtol=1e-15)


def test_in_another_argument() -> None:
    def f(x: float, y: float) -> float:
        return x**2 * y**3

    y = X[::-1].copy()
    np.testing.assert_allclose(tmap(derivative(f, 1), X, y), 3 * X**2 * y**2, rtol=1e-14)
    mixed = derivative(derivative(f, 1), 0)
    np.testing.assert_allclose(tmap(mixed, X, y), 6 * X * y**2, rtol=1e-14)
    value, back = rrule(tmap, mixed, X, 2.0)
    _, _, dx, dy = back(np.ones(X.size))
    np.testing.assert_allclose(dx, 24.0 + 0 * X, rtol=1e-14)
    np.testing.assert_allclose(dy, (24 * X).sum(), rtol=1e-14)
    assert value.shape == X.shape


def test_of_what_it_captured() -> None:
    a = 3.0
    df = derivative(lambda x: a * x * x)
    _, back = rrule(tmap, df, X)
    _, captured, dx = back(np.ones(X.size))
    np.testing.assert_allclose(captured.a, (2 * X).sum(), rtol=1e-14)
    np.testing.assert_array_equal(dx, np.full(X.size, 6.0))
    a = 4.0
    np.testing.assert_array_equal(tmap(df, X), 8.0 * X)


def test_numbers_of_arguments() -> None:
    """An integer of any kind names one."""
    np.testing.assert_array_equal(tmap(derivative(wave, np.int64(0)), X), tmap(derivative(wave), X))


@pytest.mark.parametrize("count", [7, 8])
def test_many_arguments(count: int) -> None:
    """A registered derivative of more arguments than a C function may have: everywhere."""
    names = ", ".join("pqrstuvw"[:count])
    of_all = eval(f"lambda {names}: p * {names[-1]} * q")
    f = register(
        of_all, derivative=eval(f"lambda {names}: ({names[-1]} * q, p * {names[-1]}, {'0, ' * (count - 3)}2 * p * q)")
    )
    xs = [X + i for i in range(count)]
    np.testing.assert_allclose(tmap(f, *xs), X * (X + count - 1) * (X + 1), rtol=1e-15)
    twice = 2 * X * (X + 1)  # which is not the derivative, but what was registered
    for g in (
        f,
        eval(f"lambda {names}: 1.0 * f({names})", {"f": f}),
        eval(f"lambda {names}: f({names})", {"f": of_all}),
    ):
        _, _, *dxs = rrule(tmap, g, *xs)[1](np.ones_like(X))
        np.testing.assert_allclose(dxs[-1], twice, rtol=1e-15)
        np.testing.assert_array_equal(dxs[2], 0)
        np.testing.assert_allclose(tmap(derivative(g, count - 1), *xs), twice, rtol=1e-15)


def test_several_results() -> None:
    df = derivative(lambda x: (x * x, 3.0 * x, int(x)))
    first, second = tmap(df, X)
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, np.full(X.size, 3.0))


def test_of_holomorphic_functions() -> None:
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(tmap(derivative(lambda z: z * z * z), z), 3 * z * z, rtol=1e-14)
    np.testing.assert_allclose(tmap(derivative(derivative(np.exp)), z), np.exp(z), rtol=1e-14)


def test_single_precision() -> None:
    x = X.astype(np.float32)
    y = tmap(derivative(lambda x: x**3), x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, 3 * x**2, rtol=1e-6)


def test_of_a_registered_derivative() -> None:
    """It is the one that was registered, and is differentiated if it can be."""
    cube = register(lambda x: x * x * x, derivative=lambda x: 100.0 * x * x)
    np.testing.assert_array_equal(tmap(derivative(cube), X), 100.0 * X * X)
    np.testing.assert_allclose(tmap(derivative(derivative(cube)), X), 200.0 * X, rtol=1e-15)
    native = register(function("reciprocal_square"), derivative=lambda x: -2.0 / (x * x * x))
    np.testing.assert_allclose(tmap(derivative(native), X), -2.0 / X**3, rtol=1e-15)
    np.testing.assert_allclose(tmap(derivative(derivative(native)), X), 6.0 / X**4, rtol=1e-15)


def one_at_one(x: float) -> float:
    """A compiler may put x in the place of this: it is the same number, with another derivative at 1."""
    return 1.0 if x == 1.0 else x


def in_a_loop(x: float) -> float:
    total = 0.0
    for k in range(3):
        y = x * k
        total += (1.0 if y == 1.0 else y) + (0.5 if y == 0.5 else y)
    return total


@pytest.mark.parametrize(
    ("choice", "slopes"), [(one_at_one, (1.0, 0.0, 1.0, 1.0)), (in_a_loop, (3.0, 5.0, 6.0, 6.0))], ids=["one", "loop"]
)
def test_choices_in_what_is_called_as_a_whole(choice: Any, slopes: tuple[float, ...]) -> None:
    """Inlined where it is called, it stays what it is."""
    x, ones = np.array([0.5, 1.0, 2.0, 3.0]), np.ones(4)
    registered = register(lambda x: x, derivative=choice, name="whole")
    alone = register(lambda x: choice(x), name="alone")
    for f in (choice, derivative(registered), derivative(lambda x: registered(x)), lambda x: 1.0 * alone(x)):
        np.testing.assert_array_equal(rrule(tmap, f, x)[1](ones)[2], slopes)


def test_errors_are_those_of_the_function() -> None:
    def checked(x: float) -> float:
        if x > 2.0:
            raise ValueError(f"{x} is too much")
        return x * x

    np.testing.assert_array_equal(tmap(derivative(checked), X[:5]), 2 * X[:5])
    with pytest.raises(ValueError, match="is too much") as caught:
        tmap(derivative(checked), X)
    assert any("element" in note for note in caught.value.__notes__)


def test_pickling() -> None:
    df = pickle.loads(pickle.dumps(derivative(wave)))
    np.testing.assert_array_equal(tmap(df, X), tmap(derivative(wave), X))


@pytest.mark.parametrize("argnum", [1, -1, 0.0, None, True, "x"])
def test_bad_arguments(argnum: Any) -> None:
    with pytest.raises(TypeError, match=r"argnum must be the number of an argument, 0 to 0, not"):
        derivative(wave, argnum)


def test_nothing_to_differentiate() -> None:
    with pytest.raises(NoDerivativeError, match="has no derivative: its results are integers or bools"):
        tmap(derivative(lambda x: int(x)), X)
