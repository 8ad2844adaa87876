"""Captured arrays: read as they are at each call, never written, checked for bounds, kept alive."""

import functools
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from layouts import unaligned
from ways_to_capture import WAYS

from tmapad import rrule, tmap

X = np.array([0.5, -1.25, 3.0])
A = np.array([[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]])


def weighted(a: Any) -> Any:
    return lambda x: x * a[1, 2] + a[0, -1]


LAYOUTS = {
    "C": A,
    "F": np.asfortranarray(A),
    "strided": np.repeat(A, 2, axis=1)[:, ::2],
    "reversed": A[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": A.copy(),
    "other byte order": A.astype(A.dtype.newbyteorder()),
    "misaligned": unaligned(A),
    "float32": A.astype("f"),
    "float16": A.astype("e"),
    "complex": A + 1j,
    "complex64": (A - 2j).astype("F"),
    "int64": A.astype(int),
    "uint8": A.astype("u1"),
    "int16, other byte order": A.astype(np.dtype("i2").newbyteorder()),
    "broadcast": np.broadcast_to(np.array([2.0, 3.0, 4.0]), (2, 3)),
    "memmap": np.asarray(A).view(np.memmap),
}
LAYOUTS["read-only"].flags.writeable = False


@pytest.mark.parametrize("a", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layouts_and_types(a: Any) -> None:
    y = tmap(weighted(a), X)
    wide = a.astype("D" if a.dtype.kind == "c" else "d")
    np.testing.assert_array_equal(y, X * wide[1, 2] + wide[0, -1])


def test_bools() -> None:
    a = np.array([True, False])
    np.testing.assert_array_equal(tmap(lambda x: x if a[int(x > 0)] else -x, X), -np.abs(X))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.make.__name__)
def test_every_way(way: Any) -> None:
    """Each reads an array of one number for the number."""
    a = np.array([2.0])
    f, rebind = way.make(a)
    with pytest.raises(TypeError, match=r"it must return a number|cannot compile|returns array"):
        tmap(f, X)
    np.testing.assert_array_equal(tmap(rebind(np.array(2.0)), X), 2 * X + 1)


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_axes(ndim: int) -> None:
    a = np.arange(2.0 * 3 ** (ndim - 1)).reshape(2, *[3] * (ndim - 1))
    last = (1,) * ndim
    y = tmap(lambda x: x * a[last] + a.size + a.ndim + a.shape[0] + len(a), X)
    np.testing.assert_array_equal(y, X * a[last] + a.size + ndim + 4)


def test_contents_of_now_are_seen_and_nothing_is_compiled() -> None:
    a = A.copy()
    f = weighted(a)
    tmap(f, X)
    a[1, 2] = 100.0
    np.testing.assert_array_equal(tmap(f, X), 100 * X + 4)
    view = np.repeat(A, 2, axis=1)[:, ::2]
    f = weighted(view)
    tmap(f, X)
    view[1, 2] = 100.0
    np.testing.assert_array_equal(tmap(f, X), 100 * X + 4)


def test_another_array_of_another_shape() -> None:
    a = np.arange(3.0)

    def total(x: float) -> float:
        s = 0.0
        for i in range(len(a)):
            s += a[i] * x
        return s

    for length in (3, 0, 1000, 1):
        a = np.arange(float(length))
        np.testing.assert_allclose(tmap(total, X), X * a.sum(), rtol=1e-14)


def test_slices_and_reductions() -> None:
    a = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(tmap(lambda x: x * a[1].sum() + a[:, 2].max(), X), X * 22 + 10)
    np.testing.assert_array_equal(tmap(lambda x: x + np.interp(1.5, a[0], a[1]), X), X + 5.5)


@pytest.mark.parametrize("index", [3, -4, 1000])
def test_an_index_out_of_bounds_is_an_error(index: int) -> None:
    a = np.arange(3.0)
    with pytest.raises(IndexError, match=r"index .* is out of bounds") as raised:
        tmap(lambda x: a[int(x)], np.array([0.0, 2.0, index, 5.0]))
    assert "at element 2" in raised.value.__notes__[0]


def stores(a: Any) -> Any:
    def f(x: float) -> float:
        a[0] = x
        return x

    return f


def adds(a: Any) -> Any:
    def f(x: float) -> float:
        a[0] += x
        return x

    return f


def fills(a: Any) -> Any:
    def f(x: float) -> float:
        b = a
        b[:] = x
        return x

    return f


@pytest.mark.parametrize(("make", "line"), [(stores, "a[0] = x"), (adds, "a[0] += x"), (fills, "b[:] = x")])
def test_storing_is_refused(make: Any, line: str) -> None:
    a = np.arange(3.0)
    with pytest.raises(TypeError) as raised:
        tmap(make(a), X)
    assert "readonly" in str(raised.value)
    assert f"`{line}`" in str(raised.value)
    np.testing.assert_array_equal(a, np.arange(3.0))


@pytest.mark.parametrize(
    "a",
    [
        np.array(["a"]),
        np.array([None]),
        np.array([1.0], "g"),
        np.array([(1.0,)], [("a", "d")]),
        np.array(["2020"], "M8[D]"),
        np.ma.array([1.0], mask=[True]),
        np.array([1.0]).view(np.matrix),
    ],
    ids=lambda a: f"{type(a).__name__} of {a.dtype}",
)
def test_other_arrays_are_refused(a: Any) -> None:
    with pytest.raises(TypeError, match=r"<lambda> reads the captured variable 'a', of type \w+: compiled code would"):
        tmap(lambda x: x + a[0], X)


def test_the_result_may_be_a_captured_array() -> None:
    a = np.arange(1.0, 6.0)
    expected = [x * a[::-1][i] for i, x in enumerate(a)]
    index = np.arange(5.0)
    tmap(lambda x, i: x * a[4 - int(i)], a.copy(), index, out=a)
    np.testing.assert_array_equal(a, expected)
    _, back = rrule(tmap, lambda x: x * x * a[0], X, out=a[2:], wrt=0, residuals="recompute")
    np.testing.assert_array_equal(back(np.ones(3))[2], 2 * X * a[0])


def test_an_array_lives_as_long_as_the_pullback() -> None:
    a = np.arange(5.0)
    reference = weakref.ref(a)
    f = lambda x: x * x * a[3]  # noqa: E731
    _, back = rrule(tmap, f, X, wrt=0, residuals="recompute")
    del f
    a = np.array([-1.0] * 5)
    gc.collect()
    assert reference() is not None
    np.testing.assert_array_equal(back(np.ones(3))[2], 2 * X * 3)
    del back
    gc.collect()
    assert reference() is None


def test_partials_arrays_are_not_kept() -> None:
    def f(x: float, a: Any) -> Any:
        return x * a[1]

    a = np.arange(5.0)
    reference = weakref.ref(a)
    np.testing.assert_array_equal(tmap(functools.partial(f, a=a), X), X)
    del a
    gc.collect()
    assert reference() is None
    a = np.arange(5.0) * 2
    np.testing.assert_array_equal(tmap(functools.partial(f, a=a), X), 2 * X)


def test_few_closures_with_arrays_are_kept() -> None:
    """Of the functions that were used, the last ones are remembered; not if they hold arrays."""

    def mapped(k: int) -> Any:
        a = np.full(5, float(k))
        np.testing.assert_array_equal(tmap(lambda x: x * a[3], X), k * X)
        return weakref.ref(a)

    references = [mapped(k) for k in range(20)]
    gc.collect()
    assert sum(reference() is not None for reference in references) <= 8


def test_large_arrays_are_not_differentiated_without_being_named() -> None:
    a, b = np.arange(1000.0), np.arange(25.0)

    def f(x: float) -> Any:
        return x * a[1] + b[2]

    with pytest.raises(
        ValueError,
        match=r"f captured arrays of 1025 numbers: 'a' \(1000\), 'b' \(25\). Their gradient takes 129 passes over all "
        r"elements. Leave them out, rrule\(..., wrt=\(0,\)\), or ask for it, rrule\(..., wrt=\(0, 'a', 'b'\)\)",
    ):
        rrule(tmap, f, X)
    _, back = rrule(tmap, f, X, wrt=0)
    np.testing.assert_array_equal(back(np.ones(3))[2], np.ones(3))


@pytest.mark.parametrize(
    ("sizes", "dtype", "passes"), [((1001, 25), "f8", 126 + 4), ((1025, 3), "c16", 257 + 1), ((1025, 0), "f4", 129)]
)
def test_how_many_passes_a_gradient_takes(sizes: tuple[int, int], dtype: str, passes: int) -> None:
    """Each array has its own; a complex number is two."""
    a, b = (np.ones(size, dtype) for size in sizes)
    with pytest.raises(ValueError, match=f"Their gradient takes {passes} passes over all elements"):
        rrule(tmap, lambda x: x * abs(a[1]) + b.size, X)


def test_tables_of_integers_have_no_gradient() -> None:
    table = np.arange(5000)
    _, df, dx = rrule(tmap, lambda x: x * table[7], X)[1](np.ones(3))
    assert not df
    np.testing.assert_array_equal(dx, np.full(3, 7.0))
