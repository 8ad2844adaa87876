"""partials: every partial derivative as an array of y's shape."""

import functools
from typing import Any

import numpy as np
import oracle
import pytest
import scipy.special
import zoo
from functions import TIMES, array
from same import SOME_RUNS, assert_same

from tmapad import NoDerivativeError, NoTangent, Tangent, partials, rrule, tmap

entries = pytest.mark.parametrize("entry", zoo.parameters())
PRECISION = {"e": 3e-3, "f": 2e-5, "F": 2e-5, "d": 1e-12, "D": 1e-12}


@entries
def test_against_the_references(entry: zoo.Entry) -> None:
    """In every type, with arguments that broadcast: nothing is summed."""
    shapes = [(3, 1), (4,), (3, 4)]
    for char in entry.chars:
        xs = entry.arguments([shapes[k % 3] for k in range(entry.nin)], char, seed=5)
        y, derivatives = partials(entry.f, *xs)
        assert_same(y, tmap(entry.f, *xs))
        wide = [x.astype("D" if char in "FD" else "d") for x in np.broadcast_arrays(*xs)]
        assert len(derivatives) == entry.nin
        for d, reference in zip(derivatives, entry.partials, strict=True):
            assert (d.shape, d.dtype) == (y.shape, np.dtype(char))
            scale = PRECISION[char]
            np.testing.assert_allclose(d, oracle.tmap(reference, *wide), rtol=scale, atol=scale)


@entries
def test_bits_are_those_of_the_pullback(entry: zoo.Entry) -> None:
    for char in entry.chars:
        xs = entry.arguments((50,), char)
        y, derivatives = partials(entry.f, *xs)
        cotangents = rrule(tmap, entry.f, *xs, residuals="save")[1](np.ones_like(y))
        if char not in "FD":
            assert_same(derivatives, cotangents[2:])
        elif "automatic" not in entry.name:
            assert_same(tuple(map(np.conj, derivatives)), cotangents[2:])
        else:  # the cotangent has another term, which is zero up to rounding
            for d, dx in zip(derivatives, cotangents[2:], strict=True):
                np.testing.assert_allclose(np.conj(d), dx, rtol=PRECISION[char])


@entries
def test_no_bit_depends_on_how_it_is_run(entry: zoo.Entry) -> None:
    xs = entry.arguments((3000,))
    expected = partials(entry.f, *xs)
    for run in SOME_RUNS:
        assert_same(partials(entry.f, *xs, **run), expected)


def test_wrt_names_what_is_differentiated() -> None:
    a, x = array("d"), array("d") + 1
    none = NoTangent()
    assert_same(partials(TIMES, a, x, wrt=1)[1], (none, a))
    assert_same(partials(TIMES, a, x, wrt=(0,))[1], (x, none))
    assert_same(partials(TIMES, a, x, wrt=())[1], (none, none))
    assert_same(partials(TIMES, a, x, wrt=(1, 0))[1], (x, a))


def test_captured_variables_come_last() -> None:
    """Only if they are named: so that there is an entry for each argument otherwise."""
    x = array("d")
    f = functools.partial(TIMES, 2.0)
    twos, none = np.full(5, 2.0), NoTangent()
    assert_same(partials(f, x)[1], (twos,))
    assert_same(partials(f, x, wrt=("a", 0))[1], (twos, Tangent(a=x)))
    assert_same(partials(f, x, wrt="a")[1], (none, Tangent(a=x)))


def test_closures() -> None:
    """Numbers and arrays, of the function and of what it calls."""
    a, table = 3.0, np.array([[1.0, 2.0, 5.0]], "f")

    def inner(x: float) -> float:
        return a * x

    def outer(x: float) -> float:
        return table[0, 0] + table[0, 1] * x + table[0, 2] * inner(x) ** 2

    x = array("d")
    y, (dx,) = partials(outer, x)
    np.testing.assert_allclose((y, dx), (1 + 2 * x + 45 * x**2, 2 + 90 * x))
    none, df = partials(outer, x, wrt=("table", "inner.a"))[1]
    assert none is NoTangent()
    assert (df.table.dtype, df.table.shape) == (np.float32, (5, 1, 3))
    np.testing.assert_allclose(df.table[:, 0].T, [np.ones(5), x, 9 * x**2])
    np.testing.assert_allclose(df.inner.a, 30 * x**2)
    assert partials(outer, 2.0, wrt="table")[1][1].table.shape == (1, 3)
    assert partials(outer, np.ones((0, 2)), wrt="table")[1][1].table.shape == (0, 2, 1, 3)


def test_a_captured_array_of_many_elements() -> None:
    """More than one pass over the elements."""
    coefficients, x = np.arange(20.0), np.array([0.5, 2.0])

    def polynomial(x: float) -> float:
        y = 0.0
        for k in range(20):
            y += coefficients[k] * x**k
        return y

    _, (_, df) = partials(polynomial, x, wrt="coefficients")
    np.testing.assert_allclose(df.coefficients, x[:, None] ** np.arange(20))


def test_no_partials_in_captured_complex_arrays() -> None:
    table = np.ones(2) * 1j
    message = "partials in the captured array table are those of a real function of real numbers: use rrule"
    with pytest.raises(NoDerivativeError, match=message):
        partials(lambda x: abs(table[0]) * x, np.ones(2), wrt="table")


@pytest.mark.parametrize(
    ("a", "x", "expected"),
    [
        (2.0, 3.0, (np.float64(3.0), np.float64(2.0))),
        ((1.0, 2.0), 3.0, ((np.float64(3.0),) * 2, (np.float64(1.0), np.float64(2.0)))),
        (np.float32(2), np.float32(3), (np.float32(3), np.float32(2))),
        (True, 3.0, (NoTangent(), np.float64(1.0))),
        (2, np.ones(2, "f"), (np.ones(2), np.full(2, 2, "f"))),
        ([1, 2], 3.0, (np.full(2, 3.0), np.array([1.0, 2.0]))),
        (np.ones((0, 3)), 3.0, (np.ones((0, 3)), np.ones((0, 3)))),
    ],
)
def test_kinds_of_arguments(a: Any, x: Any, expected: tuple[Any, ...]) -> None:
    assert_same(partials(TIMES, a, x)[1], expected)


def test_several_outputs() -> None:
    _, (quotient, remainder) = partials(np.divmod, np.array([1.0, 2.0]), 1.5)
    np.testing.assert_array_equal(quotient, np.zeros((2, 2)))
    np.testing.assert_array_equal(remainder, [[1, 1], [0, -1]])


def test_integer_arguments() -> None:
    """The order of a Bessel function has no derivative; the argument of a function of real numbers has one."""
    x = np.array([1.0, 2.0])
    _, (dn, dx) = partials(scipy.special.jv, 2, x)
    assert dn is NoTangent()
    np.testing.assert_allclose(dx, scipy.special.jvp(2, x))
    _, (dx,) = partials(scipy.special.erf, np.array([0, 1]))
    np.testing.assert_allclose(dx, 2 / np.sqrt(np.pi) * np.exp([0, -1]))


def test_a_result_without_gradient() -> None:
    y, derivatives = partials(np.less, np.array([1.0, 2.0], "f"), 1.5)
    assert_same((y, derivatives), (np.array([True, False]), (np.zeros(2, "f"), np.zeros(2))))


def test_infinite_derivatives_are_left_as_they_are() -> None:
    np.testing.assert_array_equal(partials(np.sqrt, np.array([0.0, 4.0]))[1], [[np.inf, 0.25]])


def test_complex_numbers() -> None:
    z = np.array([1 + 1j, 3 - 4j])
    assert_same(partials(np.square, z)[1], (2 * z,))
    # dy = Re(d dz) of a real result.
    np.testing.assert_allclose(partials(np.absolute, z)[1], [np.conj(z) / abs(z)])
    # The partial in a real argument of a complex result is complex; a cotangent would be real.
    x = np.array([2.0, 3.0], "f")
    assert_same(partials(np.multiply, x, z)[1], (z.astype("F"), x.astype("D")))


def test_no_complex_derivative() -> None:
    assert_same(partials(np.conjugate, np.ones(2))[1], (np.ones(2),))
    with pytest.raises(
        NoDerivativeError,
        match="conjugate is not holomorphic in x, so that no complex number is its derivative: use rrule",
    ):
        partials(np.conjugate, np.ones(2) * 1j)


def test_complex_numbers_in_python_functions() -> None:
    z = np.array([1 + 1j, 3 - 4j])
    np.testing.assert_allclose(partials(lambda z: z * z / (z + 1.0), z)[1], [z * (z + 2) / (z + 1) ** 2], rtol=1e-14)
    np.testing.assert_allclose(partials(lambda z: abs(z), z)[1], [np.conj(z) / abs(z)], rtol=1e-14)
    with pytest.raises(NoDerivativeError, match="is not holomorphic in z"):
        partials(lambda z: z * z.conjugate(), z)
    c = 2j
    _, (_, df) = partials(lambda z: c * z, z, wrt="c")
    np.testing.assert_array_equal(df.c, z)


def test_dtype_is_that_of_the_computation() -> None:
    x = array("d") + 1
    y, (dx,) = partials(np.exp, x, dtype=np.float32)
    assert (y.dtype, dx.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(dx, np.exp(x.astype("f")))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"num_threads": 0}, "num_threads"),
        ({"schedule": "auto"}, "schedule must be one of"),
        ({"chunk_size": 0}, "chunk_size must be a number"),
        ({"wrt": 2}, "wrt names argument 2; there are 2, from 0 to 1"),
        ({"wrt": "b"}, "wrt names 'b'"),
    ],
)
def test_wrong_keywords(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        partials(TIMES, 1.0, 2.0, **keywords)


def test_no_derivative() -> None:
    with pytest.raises(NoDerivativeError, match="kerp has no derivative in x for d->d"):
        partials(scipy.special.kerp, np.ones(2))
