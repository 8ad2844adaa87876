"""`dtype=`: the type computed in is given, whatever the arguments are; except those that count or choose."""

from typing import Any

import numpy as np
import pytest
from same import gradient

from tmapad import NoTangent, register, rrule, tmap

X = np.array([-2.5, -1.0, 0.5, 3.0])
COMPLEX = [(np.complex64, "f"), (np.complex64, "d"), (np.complex128, "f"), (np.complex128, "d"), (complex, "d")]
complex_types = pytest.mark.parametrize(("dtype", "char"), COMPLEX)
residuals = pytest.mark.parametrize("residuals", ["save", "recompute"])


def shifted(x: float, n: int) -> float:
    return x * (1 << n)


def halved(x: float, n: int) -> float:
    return x * (n // 2)


def chosen(x: float, n: int) -> float:
    return x * (5 if n & 1 else -7)


def counted(x: float, n: int) -> float:
    y = 1.0
    for _ in range(n & 7):
        y *= x
    return y


def counted_derivative(x: float, n: int) -> float:
    return n * counted(x, n - 1)


# A function that needs its last argument to be an integer, its partial derivative, and both in NumPy.
INTEGER: list[tuple[Any, Any, Any, Any]] = [
    (shifted, lambda x, n: 0 * x + (1 << n), lambda x, n: x * 2.0**n, lambda x, n: 2.0**n + 0 * x),
    (halved, lambda x, n: 0 * x + n // 2, lambda x, n: x * (n // 2), lambda x, n: n // 2 + 0 * x),
    (chosen, lambda x, n: chosen(1.0, n) + 0 * x, lambda x, n: x * np.where(n % 2, 5, -7),
     lambda x, n: np.where(n % 2, 5, -7) + 0 * x),
    (counted, counted_derivative, lambda x, n: x**n, lambda x, n: n * x ** (n - 1.0)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "partial", "value", "derivative"), INTEGER, ids=[row[0].__name__ for row in INTEGER])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "d", float])
@pytest.mark.parametrize("n", [3, np.int8(3), np.array([1, 2, 3, 4]), np.array([[1], [4]], "B")], ids=repr)
def test_integers_stay_integers(f: Any, partial: Any, value: Any, derivative: Any, dtype: Any, n: Any) -> None:
    f = register(f, derivative=(partial, None), nondiff="n", replace=True)
    many = np.asarray(n).astype(int)
    expected = value(X, many)
    for keywords in ({}, {"residuals": "save"}, {"residuals": "recompute"}):
        y, _, dx, dn = gradient(f, X, n, dy=np.ones(expected.shape), dtype=dtype, **keywords)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y, expected)
        terms = derivative(X, many)
        np.testing.assert_array_equal(dx, terms if terms.ndim == 1 else terms.sum(0))
        assert dn is NoTangent()
    np.testing.assert_array_equal(tmap(f, X, n, dtype=dtype), expected)


def test_other_arguments_do_not() -> None:
    """Integers that are differentiated are converted, as they are without `dtype`."""
    f = register(lambda x, n: x * n / 2, nondiff=())
    y = tmap(f, X, np.arange(4), dtype=np.float32)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, X * np.arange(4) / 2)


@complex_types
@residuals
def test_conjugate_of_real_arguments(dtype: Any, char: str, residuals: str) -> None:
    """y = conj(x), computed with complex numbers; the cotangent of a real x is the real part."""
    x, dy = X.astype(char), np.array([1 + 2j, -3 + 1j, 0.5j, 4])
    for _ in range(2):
        y, back = rrule(tmap, np.conjugate, x, dtype=dtype, residuals=residuals)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y, X)
        dx = back(dy.astype(dtype))[2]
        assert dx.dtype == char
        np.testing.assert_array_equal(dx, dy.real)
        np.testing.assert_array_equal(back(np.ones(4))[2], 1.0)
        np.testing.assert_array_equal(back(1j * np.ones(4))[2], 0.0)


@complex_types
@residuals
def test_absolute_of_real_arguments(dtype: Any, char: str, residuals: str) -> None:
    """y = abs(x), whose derivative is the sign of x."""
    x, dy = X.astype(char), np.array([1.0, -3.0, 0.5, 0.0])
    y, back = rrule(tmap, np.absolute, x, dtype=dtype, residuals=residuals)
    assert y.dtype == np.dtype(dtype).char.lower()
    np.testing.assert_array_equal(y, np.abs(X))
    dx = back(dy.astype(y.dtype))[2]
    assert dx.dtype == char
    np.testing.assert_array_equal(dx, np.sign(X) * dy)


@complex_types
def test_both_agree_with_complex_arguments(dtype: Any, char: str) -> None:
    """The real part of what a complex argument gets."""
    for f in (np.conjugate, np.absolute, np.square, np.exp, np.sin):
        x = X.astype(char)
        y, _, dx = gradient(f, x, dy=np.ones(4), dtype=dtype)
        y2, _, dx2 = gradient(f, x.astype(dtype), dy=np.ones(4))
        assert y.dtype == y2.dtype
        np.testing.assert_allclose(y, y2, rtol=1e-6)
        np.testing.assert_allclose(dx, dx2.real, rtol=1e-6)
