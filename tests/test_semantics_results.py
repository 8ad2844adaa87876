"""What ufuncs give, results that are no numbers with a gradient, complex numbers."""

import cmath
import itertools
import math
from typing import Any

import numpy as np
import pytest
from functions import TIMES, array
from same import assert_same, gradient

from tmapad import NoTangent, register, rrule, tmap

# ---- ufuncs: NumPy's own choice


@pytest.mark.parametrize("char", "?bBhHiIlLqQefdFD")
def test_ufuncs_choose_loops_as_numpy_does(char: str) -> None:
    x = array(char)
    for f in (np.exp, np.square, np.add, np.multiply, np.hypot, np.isfinite):
        arguments = [x, x, 1.5, 3][:: 1 if f.nin == 2 else 4]
        for other in [arguments[1:]] if f.nin == 1 else [[a] for a in arguments[1:]]:
            try:
                expected = f(x, *other)
            except TypeError:
                with pytest.raises(TypeError):
                    tmap(f, x, *other)
                continue
            y = tmap(f, x, *other)
            assert y.dtype == expected.dtype, (f, other)
            np.testing.assert_allclose(y, expected, rtol=1e-2 if y.dtype.char == "e" else 1e-6)


@pytest.mark.parametrize("f", [np.add, np.arctan2, np.logical_and, np.floor_divide, np.ldexp, np.less])
def test_ufuncs_of_two_types(f: Any) -> None:
    for chars in itertools.product("?bBhHiIlLqQefdFD", repeat=2):
        arguments = [np.ones(3, char) for char in chars]
        try:
            expected = f(*arguments)
        except TypeError:
            with pytest.raises(TypeError, match=f"{f.__name__} cannot be computed for arguments of types"):
                tmap(f, *arguments)
        else:
            assert_same(tmap(f, *arguments), expected, chars)


def test_integer_arguments_of_ufuncs_have_no_tangent() -> None:
    x, n = np.array([0.5, 1.5]), np.array([2, 3])
    y, _, dx, dn = gradient(np.ldexp, x, n, dy=np.ones(2))
    np.testing.assert_array_equal(y, np.ldexp(x, n))
    np.testing.assert_array_equal(dx, [4, 8])
    assert dn is NoTangent()
    y, _, da, db = gradient(np.add, n, n, dy=np.ones(2, int))
    assert y.dtype == n.dtype
    assert da is NoTangent()
    assert db is NoTangent()


@pytest.mark.parametrize("n", [2**53 + 1, -(2**62) - 3, 2**63 - 1, 0])
def test_large_python_integers_are_exact(n: int) -> None:
    """Where a ufunc computes with integers, so does tmap: not through float64."""
    np.testing.assert_array_equal(tmap(np.bitwise_xor, np.array([0, 1]), n), np.bitwise_xor([0, 1], n))
    np.testing.assert_array_equal(tmap(np.add, np.array([0]), n), [n])


@pytest.mark.parametrize(("char", "n"), [("B", 300), ("b", 200), ("B", -1), ("l", 2**63), ("L", -1)])
def test_python_integers_that_do_not_fit(char: str, n: int) -> None:
    x = array(char)
    with pytest.raises(OverflowError) as of_numpy:
        np.add(x, n)
    with pytest.raises(type(of_numpy.value), match=rf"x2 is {n}, which u?int\d+ does not hold"):
        tmap(np.add, x, n)


# ---- results that are not numbers with a gradient


def above_one(x: float) -> bool:
    return x > 1


def whole(x: float) -> int:
    return int(x)


@pytest.mark.parametrize(("f", "dtype"), [(above_one, "?"), (whole, "l"), (np.isfinite, "?"), (np.signbit, "?")])
@pytest.mark.parametrize("x", [np.array([0.5, 1.0, 2.5]), np.array([[0.5, 2]], "f"), 1.5, (0.5, 2.0)], ids=repr)
def test_results_of_bool_and_int_have_gradient_zero(f: Any, dtype: str, x: Any) -> None:
    y, back = rrule(tmap, f, x)
    assert np.asarray(y).dtype == dtype
    np.testing.assert_array_equal(y, np.vectorize(getattr(f, "python", f))(x))
    _, df, dx = back(np.ones(np.shape(x), np.asarray(y).dtype))
    assert df is NoTangent()
    assert type(dx) is type(x) or isinstance(dx, np.float64)
    np.testing.assert_array_equal(dx, np.zeros(np.shape(x)))
    assert np.asarray(dx).dtype == np.asarray(x).dtype


def test_booleans_are_zero_or_one_whatever_their_byte() -> None:
    x = np.array([0, 1, 2, 255], "u1").view(bool)
    np.testing.assert_array_equal(tmap(TIMES, x, 3.0), [0, 3, 3, 3])
    np.testing.assert_array_equal(tmap(np.add, x, 3), [3, 4, 4, 4])


# ---- several results


def cosine_and_sine(x: float) -> tuple[float, float]:
    return math.cos(x), math.sin(x)


def cosine_and_sine_derivatives(x: float) -> tuple[float, float, float, float]:
    return math.cos(x), math.sin(x), -math.sin(x), math.cos(x)


def test_several_results() -> None:
    """Each is of the kind that one would be; so are the cotangents that `back` takes."""
    f = register(cosine_and_sine, value_and_derivative=cosine_and_sine_derivatives)
    c, s = math.cos(0.5), math.sin(0.5)
    x: Any
    for x, kind in ((0.5, np.float64), ((0.5,), tuple), ([0.5], np.ndarray), (np.float32(0.5), np.float32)):
        y, back = rrule(tmap, f, x)
        assert type(y) is tuple
        assert [type(part) for part in y] == [kind, kind]
        np.testing.assert_allclose(np.ravel(y), [c, s], rtol=1e-6)
        dx = back((np.full(np.shape(x), 2), np.full(np.shape(x), 3)))[2]
        assert type(dx) is kind
        np.testing.assert_allclose(np.ravel(dx), [-2 * s + 3 * c], rtol=1e-6)
    y, back = rrule(tmap, f, 0.5)
    assert back((2.0, 3.0))[2] == -2 * s + 3 * c
    y, back = rrule(tmap, f, (0.5, 0.5))
    assert back(((1.0, 2.0), (0.0, 0.0)))[2] == (-s, -2 * s)


# ---- complex numbers


def circle(x: float) -> complex:
    return cmath.exp(1j * x)


def circle_derivative(x: float) -> complex:
    return 1j * cmath.exp(1j * x)


@pytest.mark.parametrize(("char", "of_y"), [("e", "F"), ("f", "F"), ("d", "D"), ("l", "D")])
def test_complex_results_of_real_arguments(char: str, of_y: str) -> None:
    f = register(circle, derivative=circle_derivative)
    x = array(char)
    for residuals in ("save", "recompute"):
        y, back = rrule(tmap, f, x, residuals=residuals)
        assert y.dtype.char == of_y
        for dy, expected in ((np.ones(5), -np.sin(x)), (1j * np.ones(5), np.cos(x)), (y, 0 * x)):
            dx = back(dy)[2]
            assert dx.dtype == (x.dtype if char != "l" else "f8")
            np.testing.assert_allclose(dx, expected, rtol=2e-3 if char == "e" else 1e-6, atol=1e-6)


def test_pullback_of_a_holomorphic_function() -> None:
    """ChainRules: ``conj(f'(z)) * dy``."""
    z = np.array([1 + 1j])
    for square in (np.square, register(lambda z: z * z, derivative=lambda z: 2 * z)):
        for residuals in ("save", "recompute"):
            for dy in (np.array([1]), np.array([1.0]), np.array([1.0 + 0j])):
                assert_same(gradient(square, z, dy=dy, residuals=residuals)[2], np.array([2 - 2j]))
    assert gradient(np.square, 1 + 1j, dy=1)[2] == 2 - 2j


def test_a_real_argument_gets_the_real_part() -> None:
    x, z = np.array([1.0, 2.0]), np.array([1 + 2j, 3 - 1j])
    dy = np.array([1 - 1j, 2 + 3j])
    for residuals in ("save", "recompute"):
        y, _, dx, dz = gradient(TIMES, x, z, dy=dy, residuals=residuals)
        np.testing.assert_array_equal(y, x * z)
        assert_same(dx, (np.conj(z) * dy).real)
        assert_same(dz, x * dy)
        dx, dz = gradient(TIMES, 2.0, z, dy=dy, residuals=residuals)[2:]
        assert_same(dx, np.float64((np.conj(z) * dy).real.sum()))


def test_functions_that_are_not_holomorphic() -> None:
    """C is R^2: the real and the imaginary part have derivatives of their own."""
    z = np.array([3 + 4j, -1 + 2j])
    dy = np.array([2.0, -1.0])
    np.testing.assert_allclose(gradient(np.absolute, z, dy=dy)[2], z / abs(z) * dy, rtol=1e-15)
    dy = np.array([1 + 2j, 3 - 1j])
    np.testing.assert_array_equal(gradient(np.conjugate, z, dy=dy)[2], np.conj(dy))
