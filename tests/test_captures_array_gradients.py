"""Gradients in captured arrays: of the array's shape and type, however it is captured and laid out."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from test_captures_arrays import LAYOUTS

from tmapad import NoTangent, Tangent, rrule, tmap

X = np.linspace(0.1, 0.9, 7)
DY = np.cos(np.arange(7.0))
POWERS = X[:, None] ** np.arange(12)


def polynomial(x: Any, a: Any) -> Any:
    total = 0.0 * x
    for i in range(a.shape[0] - 1, -1, -1):
        total = total * x + a[i]
    return total


class Model:
    def __init__(self, a: Any) -> None:
        self.a = a

    def f(self, x: Any) -> Any:
        return polynomial(x, a=self.a)

    def __call__(self, x: Any) -> Any:
        return self.f(x)


def closure(a: Any) -> Any:
    return lambda x: polynomial(x, a=a)


def helpers(a: Any) -> Any:
    helper = closure(a)
    return lambda x: helper(x)


def of_object(a: Any) -> Any:
    model = Model(a)
    return lambda x: model(x)


def as_global(a: Any) -> Any:
    namespace = {"a": a, "polynomial": polynomial}
    exec("def f(x): return polynomial(x, a=a)", namespace)
    return namespace["f"]


@pytest.mark.parametrize("n", [0, 1, 3, 8, 12])
@pytest.mark.parametrize(
    ("make", "path"),
    [
        (closure, "a"),
        (helpers, "helper.a"),
        (lambda a: functools.partial(polynomial, a=a), "a"),
        (lambda a: Model(a).f, "a"),
        (Model, "a"),
        (of_object, "model.a"),
        (as_global, "a"),
    ],
)
def test_every_way(make: Any, path: str, n: int) -> None:
    a = np.linspace(-1, 2, n)
    y, back = rrule(tmap, make(a), X, wrt=(0, path))
    np.testing.assert_allclose(y, POWERS[:, :n] @ a, atol=1e-15)
    _, df, dx = back(DY)
    for name in path.split("."):
        df = df[name]
    assert df.dtype == "d"
    np.testing.assert_allclose(df, DY @ POWERS[:, :n], rtol=1e-13)
    expected = DY * (POWERS[:, : max(n - 1, 0)] @ (a[1:] * np.arange(1, n)))
    np.testing.assert_allclose(dx, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_and_types(name: str) -> None:
    a = LAYOUTS[name]
    y, back = rrule(tmap, lambda x: x * a[1, 2] + a[0, -1] * a[0, -1], X)
    _, df, _ = back(DY.astype(y.dtype))
    if a.dtype.kind in "iu":
        assert df is NoTangent()
        return
    expected = np.zeros(a.shape, a.dtype.newbyteorder("="))
    expected[1, 2] = X @ DY
    expected[0, -1] += 2 * np.conj(a[0, -1]) * DY.sum()
    assert df.a.dtype == expected.dtype
    np.testing.assert_allclose(df.a, expected, rtol=1e-2 if a.dtype.itemsize == 2 else 1e-6)


def test_arrays_and_numbers_together() -> None:
    a, w, b, n = np.arange(1.0, 4.0), np.array([[0.5, 2.0]]), 3.0, np.arange(3)
    f = lambda x: a[n[1]] * math.sin(b * x) + w[0, 1] * x * a[2]  # noqa: E731
    _, df, dx = rrule(tmap, f, X)[1](DY)
    assert list(df) == ["a", "b", "w"]
    np.testing.assert_allclose(df.a, [0, DY @ np.sin(b * X), DY @ (2 * X)])
    np.testing.assert_allclose(df.b, DY @ (2 * X * np.cos(b * X)))
    np.testing.assert_allclose(df.w, [[0, DY @ (3 * X)]])
    np.testing.assert_allclose(dx, DY * (2 * b * np.cos(b * X) + 6))
    _, df, dx = rrule(tmap, f, X, wrt="w")[1](DY)
    assert list(df) == ["w"]
    assert dx is NoTangent()


def test_an_index_that_depends_on_the_element() -> None:
    table = np.linspace(0, 1, 5) ** 2

    def interpolated(x: float) -> float:
        i = int(x * 4)
        t = x * 4 - i
        return (1 - t) * table[i] + t * table[i + 1]

    _, df, dx = rrule(tmap, interpolated, X)[1](DY)
    i, expected = (X * 4).astype(int), np.zeros(5)
    np.add.at(expected, i, DY * (1 - (X * 4 - i)))
    np.add.at(expected, i + 1, DY * (X * 4 - i))
    np.testing.assert_allclose(df.table, expected, rtol=1e-14)
    np.testing.assert_allclose(dx, DY * 4 * np.diff(table)[i], rtol=1e-14)


def test_large_arrays_that_are_named() -> None:
    a = np.arange(1030.0)
    _, df, _ = rrule(tmap, lambda x: x * a[1029] + a[3], X, wrt="a")[1](DY)
    expected = np.zeros(1030)
    expected[[3, 1029]] = DY.sum(), X @ DY
    np.testing.assert_allclose(df.a, expected)


def test_empty_maps_and_nothing() -> None:
    f = closure(np.arange(3.0))
    _, back = rrule(tmap, f, np.zeros((0, 2)))
    assert back(np.zeros((0, 2)))[1] == Tangent(a=np.zeros(3))
    _, back = rrule(tmap, f, X)
    assert back(NoTangent())[1:] == (NoTangent(), NoTangent())


def test_contents_that_change_between_the_passes() -> None:
    """As for arguments: recomputed from what they hold now."""
    a = np.array([1.0, 2.0])
    _, back = rrule(tmap, lambda x: x * a[0] * a[1], X, residuals="recompute")
    a[0] = 10.0
    _, df, dx = back(DY)
    np.testing.assert_allclose(df.a, [2 * X @ DY, 10 * X @ DY])
    np.testing.assert_allclose(dx, DY * 20)


def test_bits_do_not_depend_on_threads() -> None:
    a = np.linspace(-1, 1, 10)
    x = np.random.default_rng(1).normal(size=50_000)
    found = [rrule(tmap, closure(a), x, num_threads=n, schedule=s)[1](x)[1].a
             for n, s in ((1, "static"), (2, "dynamic"), (3, "guided"))]  # fmt: skip
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("where", ["x", "dy", "table"])
def test_cotangents_written_over_what_was_read(where: str, residuals: str) -> None:
    """The gradient of a captured array is that before ``out`` is written, whatever that is."""

    def expected_and_got(out: bool) -> Any:
        table, x, dy = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 2.0]), np.array([1.0, -1.0, 2.0])

        def f(z: float) -> float:
            total = 0.0
            for k in range(table.size):
                total = total * z + table[k]
            return total

        _, back = rrule(tmap, f, x, residuals=residuals)
        _, df, dx = back(dy, out=({"x": x, "dy": dy, "table": table}[where],) if out else None)
        return df.table.copy(), dx.copy()

    for got, expected in zip(expected_and_got(out=True), expected_and_got(out=False), strict=True):
        np.testing.assert_array_equal(got, expected)
