"""NumPy's functions of numbers in functions whose derivative is automatic: every ufunc, and others of numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from against_dual import assert_derivatives

from tmapad import rrule, tmap
from tmapad._derivative_table import CORE, WITHOUT
from tmapad._derivatives import derivative

X = np.array([0.3, 0.9, -0.4, 0.75, -0.9, 0.2])
Y = np.array([1.2, 0.7, -0.4, 3.1, 0.9, 2.2])


def takes_floats(ufunc: Any) -> bool:
    return any(set(types.partition("->")[0]) == {"d"} for types in ufunc.types)


UFUNCS = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc) and takes_floats(f)}
REFUSED = {name for name in UFUNCS if WITHOUT.get(name) == CORE}  # they work on vectors, not on elements


def calling(name: str) -> Any:
    arguments = ", ".join("xy"[: UFUNCS[name].nin])
    return eval(f"lambda {arguments}: np.{name}({arguments})", {"np": np})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(UFUNCS.keys() - REFUSED))
def test_every_ufunc_of_floats(name: str) -> None:
    """In a function it is what it is by itself; without a row in the table of derivatives its result is a bool."""
    ufunc = UFUNCS[name]
    xs = [abs(X) + 1 if name in ("arccosh", "acosh") else X, Y][: ufunc.nin]
    y, back = rrule(tmap, calling(name), *xs)
    expected = ufunc(*xs)
    for got, one in zip(*((y, expected) if isinstance(y, tuple) else ((y,), (expected,))), strict=True):
        assert got.dtype.kind == one.dtype.kind
        np.testing.assert_allclose(got, one, rtol=1e-14)
    dy = tuple(map(np.ones_like, y)) if isinstance(y, tuple) else np.ones_like(y)
    if derivative(ufunc.__name__, f"{'d' * ufunc.nin}->{'d' * ufunc.nout}") is None:
        assert expected.dtype == bool
        wanted: Any = [np.zeros_like(x) for x in xs]
    else:
        wanted = rrule(tmap, ufunc, *xs)[1](dy)[2:]
    for got, one in zip(back(dy)[2:], wanted, strict=True):
        np.testing.assert_allclose(got, one, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_functions_of_vectors_are_refused(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"cannot compile <lambda>: (products of arrays|Numba has no compiled form of np)"
    ):
        tmap(calling(name), X, Y)


OTHERS: list[Callable[[float, float], Any]] = [
    lambda x, y: np.clip(x, 0.0, 0.5) * y,
    lambda x, y: np.clip(x, y, 1),
    lambda x, y: np.clip(x, None, y) + np.clip(y, x, None),
    lambda x, y: np.clip(x, a_min=-0.4, a_max=y) * x,  # at the kink too
    lambda x, y: np.clip(x, None, None) * np.clip(int(y), 0, 2),
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: np.where(x > 0, 1, y) + np.where(y, x, 2.0),
    lambda x, y: np.sinc(x) * y,
    lambda x, y: np.sinc(0 * x) + x,
    lambda x, y: np.nan_to_num(x) * y + np.nan_to_num(np.inf * y),
    lambda x, y: np.fix(3 * x) * y,
    lambda x, y: np.round(3 * x) * y + np.around(x, 1),
    lambda x, y: np.angle(complex(x, y)) * x,
    lambda x, y: (np.real(complex(x, y)) * np.imag(complex(x, y)), np.conj(complex(x, y)).imag, np.real(x) * y),
    lambda x, y: np.dot(x, y),
    lambda x, y: np.isclose(x, y) * x + np.isfinite(y) * y,
]


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # by NumPy 2.5, where Python calls it
@pytest.mark.parametrize("f", OTHERS)
def test_other_functions_of_numbers(f: Callable[[float, float], Any]) -> None:
    y = tmap(f, X, Y)
    expected = [f(*at) for at in zip(X.tolist(), Y.tolist(), strict=True)]
    columns = zip(*(one if isinstance(one, tuple) else (one,) for one in expected), strict=True)
    for got, column in zip(y if isinstance(y, tuple) else (y,), columns, strict=True):
        np.testing.assert_allclose(got, column, rtol=1e-14)
    assert_derivatives(f, X, Y)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="np.clip has min= and max= since NumPy 2.1")
def test_bounds_of_clip_by_their_short_names() -> None:
    for f in (lambda x, y: np.clip(x, min=0.1, max=y), lambda x, y: np.clip(x, max=y)):
        np.testing.assert_array_equal(tmap(f, X, Y), f(X, Y))
        assert_derivatives(f, X, Y)


def test_clip_and_where_of_arrays_are_numbas() -> None:
    table = np.array([0.5, 2.0, -3.0])
    f = lambda x: np.clip(table, -1.0, 1.0)[1] * x + np.where(table > 0, table, 0.0)[2] * x  # noqa: E731
    np.testing.assert_array_equal(tmap(f, X), X)


def test_nan_through_clip() -> None:
    assert np.isnan(tmap(lambda x: np.clip(x, 0.0, 1.0), np.array([np.nan]))).all()


def test_single_precision() -> None:
    f = lambda x: np.clip(x, 0.1, 0.5) + np.where(x > 0, x, 0.0)  # noqa: E731
    y, back = rrule(tmap, f, X.astype("f"))
    dx = back(np.ones_like(y))[2]
    assert (y.dtype, dx.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(y, np.clip(X, 0.1, 0.5) + np.where(X > 0, X, 0.0), rtol=1e-6)
