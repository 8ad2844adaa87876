"""Types of arguments, results and cotangents: promotion, weak scalars, float16, ``dtype=``."""

import functools
from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES, array
from same import assert_same, gradient

from tmapad import NoTangent, register, rrule, tmap

SINF = zoo.by_name("libm sinf")


# ---- outside of ufuncs: integers and bools are promoted, Python's scalars are weak

# What is given, the type of y, and those of the cotangents ("": NoTangent).
PROMOTION: list[tuple[Any, Any, str, str, str]] = [
    *((array(char), array("d"), "d", "d", "d") for char in "bBhHiIlLqQ"),
    (array("?"), array("d"), "d", "", "d"),
    (array("l"), array("l"), "d", "d", "d"),
    (array("?"), array("?"), "d", "", ""),
    (array("l"), array("f"), "d", "d", "f"),
    (array("b"), array("f"), "d", "d", "f"),
    (array("?"), array("f"), "d", "", "f"),
    (array("B"), array("e"), "d", "d", "e"),
    (array("e"), array("e"), "e", "e", "e"),
    (array("f"), array("f"), "f", "f", "f"),
    (array("e"), array("f"), "f", "e", "f"),
    (array("f"), array("d"), "d", "f", "d"),
    (array("F"), array("F"), "F", "F", "F"),
    (array("D"), array("D"), "D", "D", "D"),
    (array("f"), array("F"), "F", "f", "F"),
    (array("d"), array("F"), "D", "d", "F"),
    (array("l"), array("F"), "D", "d", "F"),
    (array("e"), array("F"), "F", "e", "F"),
    # NumPy's scalars and 0-d arrays are as strong as arrays.
    (np.float64(2), array("f"), "d", "d", "f"),
    (np.float32(2), array("e"), "f", "f", "e"),
    (np.float16(2), array("f"), "f", "e", "f"),
    (np.int8(2), array("f"), "d", "d", "f"),
    (np.bool_(True), array("d"), "d", "", "d"),
    (np.array(2.0), array("f"), "d", "d", "f"),
    (np.complex64(2), array("f"), "F", "F", "f"),
    # Python's are weak: their kind counts, their width does not.
    (2.5, array("f"), "f", "d", "f"),
    (2.5, array("e"), "e", "d", "e"),
    (2, array("f"), "f", "d", "f"),
    (True, array("f"), "f", "", "f"),
    (2.5, array("l"), "d", "d", "d"),
    (2, array("l"), "d", "d", "d"),
    (2.5j, array("f"), "F", "D", "f"),
    (2.5j, array("e"), "F", "D", "e"),
    (2.5j, array("d"), "D", "D", "d"),
    (2.5, array("F"), "F", "d", "F"),
    (2, array("D"), "D", "d", "D"),
    (2.5, 1.5, "d", "d", "d"),
    (2, 3, "d", "d", "d"),
    (2, 3j, "D", "d", "D"),
    (2.5, np.float32(3), "f", "d", "f"),
]


def names(entry: Any) -> str:
    return entry if isinstance(entry, str) else f"{type(entry).__name__} {getattr(entry, 'dtype', '')}"


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize(("a", "x", "of_y", "of_da", "of_dx"), PROMOTION, ids=names)
def test_promotion(a: Any, x: Any, of_y: str, of_da: str, of_dx: str, residuals: str) -> None:
    y, back = rrule(tmap, TIMES, a, x, residuals=residuals)
    assert y.dtype.char == of_y
    np.testing.assert_array_equal(y, np.multiply(a, x, dtype=y.dtype.char.replace("e", "f")).astype(of_y))
    assert_same(tmap(TIMES, a, x), y)
    dy = np.ones(y.shape, y.dtype)
    _, _, *dxs = back(dy)
    for dx, char, argument, other in zip(dxs, (of_da, of_dx), (a, x), (x, a), strict=True):
        if not char:
            assert dx is NoTangent()
            continue
        assert (dx.dtype.char, dx.shape) == (char, np.shape(argument))
        expected = np.conj(np.broadcast_to(other, y.shape))
        expected = expected.sum() if np.ndim(argument) == 0 else expected
        np.testing.assert_array_equal(dx, np.real(expected) if char in "efd" else expected)


@pytest.mark.parametrize("f", [2.0, 0.1])
def test_literals_and_captured_numbers_are_weak(f: float) -> None:
    """float32 stays float32 in y and dx, whatever a compiled function multiplies it with."""
    x = np.linspace(0, 1, 7, dtype="f")
    y, _, dx = gradient(functools.partial(TIMES, f), x, dy=np.ones(7, "f"), wrt=0)
    assert (y.dtype, dx.dtype) == ("f4", "f4")
    np.testing.assert_array_equal(y, f * x)


@pytest.mark.parametrize("of_dy", "?bLefd")
@pytest.mark.parametrize("parameter", [2, 2.0, True, np.float16(2), np.float32(2), np.float64(2), np.int64(2)])
@pytest.mark.parametrize("char", "efd")
def test_the_type_of_dx_is_that_of_x(char: str, parameter: Any, of_dy: str) -> None:
    x = array(char)
    y, back = rrule(tmap, TIMES, parameter, x)
    _, _, da, dx = back(np.ones(y.shape, of_dy))
    assert dx.dtype == x.dtype
    np.testing.assert_array_equal(dx, np.full(5, 2 if parameter is not True else 1))
    assert da is NoTangent() if parameter is True else da == x.astype("d").sum()


def test_float16_is_computed_in_float32() -> None:
    x = np.linspace(-3, 3, 999).astype("e")
    y, _, dx = gradient(SINF.f, x, dy=np.ones(999, "e"))
    wide, _, wide_dx = gradient(SINF.f, x.astype("f"), dy=np.ones(999, "f"))
    assert_same(y, wide.astype("e"))
    assert_same(dx, wide_dx.astype("e"))


def test_float16_overflows_only_in_the_result() -> None:
    """Intermediate results have float32's range: 300 * 300 does not fit in float16, 300 * 300 / 300 does."""
    f = zoo.register(lambda a, x: a * x * x / 300, derivative=lambda a, x: (x * x / 300, 2 * a * x / 300))
    x = np.array([300], "e")
    y, _, da, dx = gradient(f, np.float16(1), x, dy=np.ones(1, "e"))
    np.testing.assert_array_equal([y[0], da, dx[0]], [300, 300, 2])
    with pytest.warns(RuntimeWarning, match="overflow encountered in <lambda>"):
        assert tmap(f, np.float16(300), x)[0] == np.inf


# ---- dtype=


@pytest.mark.parametrize(
    ("char", "dtype", "of_y"),
    [
        ("d", "f", "f"),
        ("f", "d", "d"),
        ("e", "d", "d"),
        ("d", "e", "e"),
        ("l", "f", "f"),
        ("?", "d", "d"),
        ("d", "F", "F"),
        ("f", "D", "D"),
        ("F", "D", "D"),
        ("D", "F", "F"),
        ("d", ">f4", "f"),
        ("f", np.float64, "d"),
    ],
)
def test_dtype_chooses_the_type_of_the_computation(char: str, dtype: Any, of_y: str) -> None:
    x = array(char)
    y, _, da, dx = gradient(TIMES, 3.0, x, dy=np.ones(5), dtype=dtype)
    assert y.dtype == np.dtype(of_y)
    np.testing.assert_array_equal(y, (3 * x).astype(of_y))
    assert da.dtype == "f8"
    assert dx is NoTangent() if char == "?" else dx.dtype == (x.dtype if char in "efdFD" else "f8")
    assert_same(tmap(TIMES, 3.0, x, dtype=dtype), y)


def test_dtype_rounds_what_is_computed() -> None:
    x = np.linspace(0, 1, 100)
    assert_same(tmap(SINF.f, x, dtype="f"), tmap(SINF.f, x.astype("f")))
    np.testing.assert_array_equal(tmap(np.exp, x, dtype="f"), np.exp(x.astype("f")))


def power(x: float, n: int) -> float:
    y = 1.0
    for _ in range(n):
        y *= x
    return y


def power_derivative(x: float, n: int) -> float:
    return n * power(x, n - 1)


def test_integer_arguments_stay_integers_where_named() -> None:
    f = register(power, derivative=(power_derivative, None), nondiff="n", replace=True)
    x, n = np.array([1.0, 2.0, 3.0]), np.array([[0], [3]], "B")
    y, _, dx, dn = gradient(f, x, n, dy=np.ones((2, 3)))
    np.testing.assert_array_equal(y, x**n)
    np.testing.assert_array_equal(dx, 3 * x**2)
    assert dn is NoTangent()
    assert tmap(f, np.float32(2), 3).dtype == "f4"
    y = tmap(f, x, n, dtype="f")
    assert y.dtype == "f4"
    np.testing.assert_array_equal(y, x**n)
