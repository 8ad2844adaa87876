"""Arrays that share memory, or only lie among each other's elements: what is copied, what is refused, what is right."""

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import c_library
import numpy as np
import pytest
import zoo
from functions import TIMES
from same import assert_same

from tmapad import register, rrule, tmap

N = 200_000
ARRAY = 8 * N
SLACK = ARRAY // 20
SIN = zoo.by_name("libm sin").f
threads = pytest.mark.parametrize("num_threads", [1, 2, None])


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call had allocated at its peak, as the second such call."""
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Three arrays of n elements in one memory, none of which shares an element with another.
AMONG: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "columns": lambda memory: tuple(memory.reshape(-1, 3).T),
    "strides": lambda memory: (memory[::3], memory[1::3], memory[2::3]),
    "one of them backwards": lambda memory: (memory[::3], memory[-2::-3], memory[2::3]),
    "neighbours": lambda memory: tuple(memory.reshape(3, -1)),
    "columns of a matrix": lambda memory: tuple(memory.reshape(10, -1, 3)[..., k] for k in range(3)),
    "blocks of columns": lambda memory: tuple(np.split(memory.reshape(10, -1), 3, axis=1)),
    "rows in turns": lambda memory: tuple(memory.reshape(-1, 3, 10)[:, k] for k in range(3)),
    "fields": lambda memory: tuple(memory.view([("a", "d"), ("b", "d"), ("c", "d")])[name] for name in "abc"),
}
among = pytest.mark.parametrize("split", AMONG.values(), ids=AMONG)


def split_numbers(split: Any, n: int) -> tuple[Any, Any]:
    """The arrays, and copies of them that lie elsewhere."""
    arrays = split(np.linspace(0.1, 3.0, 3 * n))
    assert not any(np.shares_memory(a, b) for a, b in itertools.pairwise(arrays))
    return arrays, [np.array(array) for array in arrays]


@among
@threads
def test_outputs_among_each_other(split: Any, num_threads: int | None) -> None:
    for n in (30, 3000, 30_000):
        (x, *ys), (own_x, *_) = split_numbers(split, n)
        results = tmap(np.modf, x, out=tuple(ys), num_threads=num_threads)
        assert results[0] is ys[0]
        assert results[1] is ys[1]
        for y, expected in zip(ys, np.modf(own_x), strict=True):
            np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(x, own_x)


@among
@threads
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_cotangents_among_each_other(split: Any, residuals: str, num_threads: int | None) -> None:
    """As one fills the columns of a Jacobian; beside the argument, too."""
    for n in (30, 30_000):
        (dy, da, dx), (own_dy, *_) = split_numbers(split, n)
        (a, x, y), (own_a, own_x, _) = split_numbers(split, n)
        keywords = {"residuals": residuals, "num_threads": num_threads}
        _, back = rrule(tmap, TIMES, a, x, out=y, **keywords)
        np.testing.assert_array_equal(y, own_a * own_x)
        results = back(dy, out=(da, dx))
        assert results[2] is da
        assert results[3] is dx
        np.testing.assert_array_equal(da, own_x * own_dy)
        np.testing.assert_array_equal(dx, own_a * own_dy)
        # Where an argument was: over it, and beside the other one.
        results = back(own_dy, out=(a, y))
        np.testing.assert_array_equal(results[2], own_x * own_dy)
        np.testing.assert_array_equal(results[3], own_a * own_dy)
        np.testing.assert_array_equal(x, own_x)


@among
def test_no_copy_of_arrays_among_each_other(split: Any) -> None:
    (x, y, z), _ = split_numbers(split, N)
    for f in (np.exp, SIN):
        assert peak(lambda f=f: tmap(f, x, out=y)) <= SLACK
        # Nothing is overwritten, so nothing must be saved.
        assert peak(lambda f=f: rrule(tmap, f, x, out=y, residuals="recompute")) <= SLACK
        _, back = rrule(tmap, f, x, out=y, residuals="recompute")
        assert peak(lambda back=back: back(x, out=z)) <= SLACK


def test_the_measure_sees_a_copy() -> None:
    """Here is one: elements are read after their neighbours are written."""
    x = np.linspace(0, 1, N + 1)
    assert ARRAY <= peak(lambda: tmap(SIN, x[1:], out=x[:-1])) <= ARRAY + SLACK
    assert ARRAY <= peak(lambda: rrule(tmap, SIN, x[1:], out=x[:-1])[0]) <= 2 * ARRAY + SLACK


@threads
@pytest.mark.parametrize("shift", [1, 2, 64, 1000])
def test_real_overlaps(shift: int, num_threads: int | None) -> None:
    n = 30_000
    for f, expected in ((np.exp, np.exp), (SIN, np.vectorize(np.sin))):
        for reads, writes in ((slice(shift, None), slice(None, -shift)), (slice(None, -shift), slice(shift, None))):
            memory = np.linspace(0, 1, n + shift)
            y = tmap(f, memory[reads].copy())
            np.testing.assert_allclose(y, expected(memory[reads]), rtol=1e-15)
            assert_same(tmap(f, memory[reads], out=memory[writes], num_threads=num_threads), y)


def test_outputs_that_share_elements_are_refused() -> None:
    memory, x = np.zeros(20), np.linspace(0.5, 1.5, 10)
    _, back = rrule(tmap, TIMES, x, x)
    for a, b in ((memory[:10], memory[:10]), (memory[:10], memory[5:15]), (memory[::2], memory[18::-2])):
        with pytest.raises(ValueError, match="arrays in out share memory"):
            tmap(np.modf, x, out=(a, b))
        with pytest.raises(ValueError, match=r"out\[1\] shares memory with another array in out"):
            back(x, out=(a, b))
    assert (memory == 0).all()


def raising() -> Any:
    """a * x, whose partial derivative in `a` raises where x is negative; so does the function."""
    function, *partials = (c_library.function(f"not_negative_times{name}", nin=2) for name in ("", "_a", "_x"))
    return register(function, derivative=tuple(partials), raises=True)


@pytest.mark.compiler
@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("where", [0, 1, 511, 512, 600, 69_631, 69_632, 69_999])
@pytest.mark.parametrize("order", ["none", "elsewhere", "over the argument", "number given, too"])
def test_an_exception_within_a_sum_while_arguments_are_overwritten(order: str, where: int, residuals: str) -> None:
    """The block in which it is raised is run again, to find the element: on what the arguments were."""
    x, dy = np.full(70_000, 2.0), np.full(70_000, 10.0)
    y, back = rrule(tmap, raising(), 1.5, x, residuals=residuals)
    np.testing.assert_array_equal(y, 1.5 * 4)
    x[where] = -3.0
    out = {
        "none": None,
        "elsewhere": (None, np.empty(x.size)),
        "over the argument": (None, x),
        "number given, too": (np.empty(()), x),
    }[order]
    if residuals == "save":  # what was saved holds: nothing is computed again
        _, _, da, dx = back(dy, out=out)
        assert da == 70_000 * 40.0
        np.testing.assert_array_equal(dx, 30.0)
        return
    with pytest.raises(ArithmeticError, match=r"-3\.0 is negative") as error:
        back(dy, out=out)
    assert f"at element {where} " in error.value.__notes__[0]


@pytest.mark.compiler
@pytest.mark.parametrize("n", [1, 511, 513, 70_000])
def test_sums_of_functions_that_may_raise_while_arguments_are_overwritten(n: int) -> None:
    x, dy = np.arange(2.0, n + 2), np.full(n, 10.0)
    _, back = rrule(tmap, raising(), 1.5, x, residuals="recompute")
    expected = 10 * (2 * x).sum()
    _, _, da, dx = back(dy, out=(None, x))
    assert da == expected
    assert dx is x
    np.testing.assert_array_equal(dx, 30.0)
