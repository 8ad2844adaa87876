"""The second call of a function with captures is a short one: the same bits, and whatever was rebound is seen."""

import gc
import math
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tmapad import Tangent, register, rrule, tmap

MODULE = sys.modules["tmapad._tmap"]
RATE, SCALE = 1.5, 2.0
INDICES = np.array([1, 2, 3])


class Model:
    def __init__(self) -> None:
        self.rate, self.power, self.weights = 0.5, 2, np.array([1.0, 2.0, 3.0])

    def __call__(self, x: Any) -> Any:
        return self.rate * x**self.power

    def scaled(self, x: Any, y: Any) -> Any:
        return self.rate * x * y


def nested(a: Any, b: Any) -> Callable[[Any], Any]:
    def helper(x: Any) -> Any:
        return b * x

    return lambda x: math.sin(a * x) + helper(x)


def saved(a: Any) -> Callable[[Any], Any]:
    """With a loop, so that its partial derivatives are kept."""

    def f(x: Any) -> Any:
        total = 0.0 * x
        for _ in range(3):
            total += a * x
        return total

    return f


FUNCTIONS: dict[str, tuple[Callable[..., Any], int]] = {
    "numbers of Python": (nested(1.5, 2.0), 1),
    "numbers of NumPy": (saved(np.float64(0.3)), 1),
    "float32": (nested(np.float32(1.5), 2.0), 1),
    "an object": (Model(), 1),
    "a method": (Model().scaled, 2),
    "partials kept": (saved(0.3), 1),
    "a global": (lambda x: RATE * x, 1),
    "a registered function": (register(lambda x: x * RATE, derivative=lambda x: RATE * SCALE / SCALE), 1),
    "a constant array": (lambda x: x * INDICES[1] * RATE, 1),
}


def bits(value: Any) -> Any:
    if isinstance(value, tuple | Tangent):
        return [bits(part) for part in (value if isinstance(value, tuple) else value._asdict().values())]
    return (type(value), value.dtype, value.shape, value.tobytes()) if hasattr(value, "dtype") else value


@contextmanager
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the long way is closed."""
    with monkeypatch.context() as patched:
        for name in ("forward", "map_elements", "Pull"):
            patched.setattr(MODULE, name, None)
        yield


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2,), (7, 3), (1000,)], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("f", "count"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_the_same_bits(
    f: Callable[..., Any], count: int, dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    xs = [random.normal(size=shape).astype(dtype) for _ in range(count)]
    y, back = rrule(tmap, f, *xs, schedule="static", chunk_size=10**6)
    dy = random.normal(size=shape).astype(y.dtype)
    expected, kept = bits((y, *back(dy))), back.nbytes
    rrule(tmap, f, *xs)
    tmap(f, *xs)
    with short(monkeypatch):
        again, back = rrule(tmap, f, *xs)
        assert bits((again, *back(dy))) == bits((again, *back(dy))) == expected
        assert bits(tmap(f, *xs)) == expected[0]
    assert bits((again, *back.pull(dy, None))) == expected
    assert back.nbytes == kept


@pytest.mark.parametrize("f", [np.multiply, lambda x, y: RATE * x * y])
def test_types_do_not_depend_on_earlier_calls(f: Any) -> None:
    """A broadcast argument is summed in another type than it has."""
    single, double = np.ones(3, "f"), np.ones(3)
    half, wide = np.ones(3, "e"), np.ones((2, 3))
    for x, y in [(single, double), (half, single), (single, double)] * 2:
        for other in (y, wide.astype(y.dtype), y):
            out, back = rrule(tmap, f, x, other)
            assert [dx.dtype for dx in back(np.ones_like(out))[2:]] == [x.dtype, other.dtype]


def test_captured_arrays_are_not_kept_along_with_partials() -> None:
    def f(x: float) -> float:
        total = 0.0
        for i in range(3):
            total += x * table[i]
        return total

    for _ in range(3):  # the long way, and the short one
        table = np.arange(5)
        kept = weakref.ref(table)
        _, back = rrule(tmap, f, np.ones(3))
        table = np.arange(5)
        gc.collect()
        assert kept() is None
        np.testing.assert_array_equal(back(np.ones(3))[2], 3.0)


@pytest.mark.parametrize("size", [0, 1 << 17])
def test_where_terms_are_not_all_kept(size: int) -> None:
    """Sums over many elements, or none, take the long way, after small ones as well."""
    f = nested(1.5, 2.0)
    for n in (2, size, 1, size):
        x = np.linspace(0.0, 1.0, n)
        for _ in range(2):
            _, back = rrule(tmap, f, x)
            _, df, dx = back(np.ones(n))
        assert dx.shape == (n,)
        np.testing.assert_allclose(df.a, math.fsum(np.cos(1.5 * x) * x), rtol=1e-12, atol=1e-12)


X = np.array([1.0, 2.0])


def in_all_ways(f: Callable[[Any], Any], expected: float) -> None:
    """f is ``factor * x`` or ``factor + x``: its value at 1, in both passes."""
    for _ in range(2):
        assert tmap(f, X)[0] == expected
        y, back = rrule(tmap, f, X)
        assert y[0] == expected
        np.testing.assert_allclose(back(np.ones(2))[2][0], y[1] - y[0])


def test_a_cell_that_is_rebound() -> None:
    a: Any = 2.0

    def f(x: Any) -> Any:
        return a * x

    values: list[Any] = [2.0, 3.0, np.float64(4.0), 5, 6.0, np.float32(7.0), 2, 2.0, True, 1.0]
    for a in values:
        in_all_ways(f, float(a))


def test_a_global_that_is_rebound(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (2.0, 3.0, 5, np.float64(4.0), 6.0):
        monkeypatch.setattr(sys.modules[__name__], "RATE", value)
        in_all_ways(FUNCTIONS["a global"][0], float(value))


def test_attributes_and_elements_that_are_rebound() -> None:
    model = Model()
    model.power = 1
    for rate in (2.0, 3.0, 4, 5.0):
        model.rate = rate
        in_all_ways(model, float(rate))
    model.power = 2
    assert (tmap(model, X) == [5.0, 20.0]).all()
    weights = model.weights
    f = lambda x: weights[1] * x  # noqa: E731
    for value in (2.0, 3.0):
        weights[1] = value
        in_all_ways(f, value)
    weights = np.array([0.0, 7.0])
    in_all_ways(f, 7.0)


def test_defaults_and_code_that_are_replaced() -> None:
    a = 2.0

    def f(x: Any, n: Any = 1) -> Any:
        return a * x + n

    for n in (1, 2, 3.0):
        f.__defaults__ = (n,)
        in_all_ways(f, 2.0 + n)
    f.__code__ = (lambda x, n=1: a * x - n).__code__
    in_all_ways(f, -1.0)


def test_scalars_of_the_forward_pass_and_arrays_by_reference() -> None:
    a, table = 2.0, np.array([1.0, 3.0])

    def f(x: Any) -> Any:
        return a * x * x * table[int(x) % 2]

    for _ in range(3):
        a = 2.0
        y, back = rrule(tmap, f, X, wrt=(0, "a"))
    constants = lambda x: a * x * x * INDICES[1]  # noqa: E731
    for _ in range(3):
        a = 2.0
        y, back = rrule(tmap, constants, X)
        a = 5.0
        _, df, dx = back(np.ones(2))
        assert (y == 4.0 * X * X).all()
        assert (dx == 8.0 * X).all()
        assert df.a == 10.0


def test_out_that_was_captured() -> None:
    """It is read while it is written."""
    table = np.array([1.0, 2.0, 3.0, 4.0])
    f = lambda x: table[3 - int(x)]  # noqa: E731
    x = np.arange(4.0)
    for _ in range(2):
        expected = table[::-1].copy()
        assert (tmap(f, x) == expected).all()
        tmap(f, x, out=table)
        assert (table == expected).all()


def test_an_element_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1.5

    def f(x: Any) -> Any:
        if x > limit:
            raise ValueError("too much")
        return x

    for _ in range(2):
        assert (tmap(f, X[:1]) == 1.0).all()
        with pytest.raises(ValueError, match="too much") as caught:
            tmap(f, X)
        assert "at element 1" in caught.value.__notes__[0]
    limit = 2.5
    assert (tmap(f, X) == X).all()


def test_a_short_call_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the arguments without what was captured, and nothing is run twice for that."""
    limit, rate = 6.0, 2.0

    def f(x: Any) -> Any:
        if x > limit:
            raise ValueError("too much")
        return rate * x

    for _ in range(2):
        tmap(f, X)
        _, back = rrule(tmap, f, X)
    x = X.copy()
    with monkeypatch.context() as patched:
        for name in ("forward", "map_elements"):
            patched.setattr(MODULE, name, None)
        _, back = rrule(tmap, f, x)
        x[1:] += 10.0
        patched.setattr("tmapad._pullback.run", None)
        for fails in (lambda: tmap(f, x), lambda: rrule(tmap, f, x), lambda: back(np.ones(len(x)))):
            with pytest.raises(ValueError, match="too much") as caught:
                fails()
            assert caught.value.__notes__ == ["tmapad: in f, at element 1 with arguments (12.0)"]
