"""What a pullback keeps of the arguments: only what it reads, whatever becomes of the arrays themselves."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES

from tmapad import rrule, tmap

SIN = zoo.by_name("libm sin").f

# Functions, what to differentiate, and which arguments the derivative reads.
READ: list[tuple[Any, Any, tuple[int, ...]]] = [
    (np.add, None, ()),
    (np.subtract, None, ()),
    (np.multiply, None, (0, 1)),
    (np.multiply, 0, (1,)),
    (np.multiply, 1, (0,)),
    (TIMES, None, (0, 1)),
    (np.negative, None, ()),
    (np.deg2rad, None, ()),
    (np.square, None, (0,)),
    (SIN, None, (0,)),
    (SIN, (), ()),
]


@pytest.mark.parametrize(("f", "wrt", "read"), READ, ids=[f"{row[0]!r:.20} {row[1]}" for row in READ])
@pytest.mark.parametrize("n", [5, 1000])
def test_arguments_that_are_not_read_are_not_kept(f: Any, wrt: Any, read: tuple[int, ...], n: int) -> None:
    nin = 1 if f in (np.negative, np.deg2rad, np.square, SIN) else 2
    keywords = {} if wrt is None else {"wrt": wrt}
    for k in range(3):  # the second call may take a shortcut
        xs = [np.arange(1.0, n + 1) + i for i in range(nin)]
        copies = [x.copy() for x in xs]
        _, back = rrule(tmap, f, *xs, residuals="auto" if k < 2 else "recompute", **keywords)
        references = [weakref.ref(x) for x in xs]
        expected = back(np.ones(n))
        del xs
        gc.collect()
        kept = tuple(i for i, reference in enumerate(references) if reference() is not None)
        assert set(kept) <= set(read)
        if k == 2:
            assert kept == read
        np.testing.assert_equal(back(np.ones(n)), expected)
        _, fresh = rrule(tmap, f, *copies, **keywords)
        np.testing.assert_equal(back(np.ones(n)), fresh(np.ones(n)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # newer releases of NumPy do not like this
@pytest.mark.parametrize("f", [np.square, np.sin, SIN], ids=["square", "sin", "C"])
@pytest.mark.parametrize("residuals", ["auto", "recompute", "save"])
@pytest.mark.parametrize("change", ["shape", "dtype", "both"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_shape_and_type_changed_in_place(f: Any, residuals: str, change: str, calls: int) -> None:
    """Memory is read as it was in the forward pass, with a shortcut and without one."""
    n, value = 6, np.linspace(0.5, 1.5, 6)
    derivative = {np.square: 2 * value}.get(f, np.cos(value))
    for _ in range(calls):
        x = value.copy()
        y, back = rrule(tmap, f, x, residuals=residuals)
    if change in ("dtype", "both"):
        x.dtype = np.int64
    if change in ("shape", "both"):
        x.shape = (2, 3)
    for dy in (np.ones(n), np.arange(6.0)):
        dx = back(dy)[2]
        assert (dx.shape, dx.dtype) == ((n,), np.float64)
        np.testing.assert_allclose(dx, derivative * dy, rtol=1e-15)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(6,\)"):
        back(np.ones((2, 3)))
    assert y.shape == (n,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("residuals", ["auto", "recompute", "save"])
def test_two_arguments_changed_in_place(residuals: str) -> None:
    for calls in (1, 2):
        for _ in range(calls):
            a, x = np.arange(1.0, 7), np.arange(10.0, 16)
            _, back = rrule(tmap, TIMES, a, x, residuals=residuals)
        a.shape, x.dtype = (3, 2), np.int64
        _, _, da, dx = back(np.full(6, 2.0))
        np.testing.assert_array_equal(da, 2 * np.arange(10.0, 16))
        np.testing.assert_array_equal(dx, 2 * np.arange(1.0, 7))
