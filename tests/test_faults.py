"""Kinds of faults that users of such software reported, where no other file has a test of them."""

import ctypes
import functools
import gc
import threading
import weakref
from typing import Any

import c_library
import numpy as np
import pytest
import zoo
from same import SOME_RUNS, assert_same

from tmapad import get_num_threads, register, rrule, tmap
from tmapad._core import BLOCK_SIZE, Loop, Program, builtin_loop, openmp_enabled, sum_loop

compiled = pytest.mark.compiler

# ---- expensive functions are run on all threads


@functools.cache
def noted(record: Any, **keywords: Any) -> Any:
    """``a * x`` with a parameter, which notes the threads that call it."""
    partials = tuple(c_library.function(name, nin=2, user_data=True) for name in ("noted_a", "noted_x"))
    f = c_library.function("noted", nin=2, user_data=True)
    return register(f, derivative=partials, user_data=record, name="noted", replace=True, **keywords)


class Record(c_library.Record):
    __hash__ = object.__hash__


@compiled
@pytest.mark.parametrize("threads", [2, 3, 5, None])
def test_a_thousand_expensive_elements_use_all_threads(threads: int | None) -> None:
    """Also where all of them share a parameter, whose cotangent is one sum."""
    record = Record()
    expected = 1 if not openmp_enabled() else threads or get_num_threads()
    x = np.arange(1000.0)
    for f, xs in ((noted(record), (2.0, x)), (functools.partial(noted(record), 2.0), (x,))):
        # Longer and longer, until the busiest machine has started all threads before the work is done.
        for record.microseconds in (20, 200, 2000):
            record.clear()
            y, back = rrule(tmap, f, *xs, num_threads=threads, residuals="recompute")
            seen = [(record.calls, record.threads)]
            record.clear()
            result = back(x)
            seen.append((record.calls, record.threads))
            if seen == [(1000, expected), (2000, expected)]:
                break
        assert seen == [(1000, expected), (2000, expected)]
        assert (result[2] if len(xs) == 2 else result[1].x1) == np.sum(x * x)
        np.testing.assert_array_equal(y, 2 * x)


@compiled
def test_functions_that_are_not_thread_safe_run_on_the_calling_thread() -> None:
    record = Record(microseconds=10)
    f = noted(record, threadsafe=False)
    x = np.arange(200.0)
    y, back = rrule(tmap, f, 2.0, x, num_threads=3, chunk_size=1)
    back(y)
    assert record.calls == 600
    assert set(record.thread[: record.known]) == {threading.get_ident()}


@compiled
def test_cheap_elements_stay_on_the_calling_thread() -> None:
    record = Record()
    rrule(tmap, noted(record), 2.0, np.arange(20.0))[1](np.arange(20.0))
    assert set(record.thread[: record.known]) == {threading.get_ident()}


# ---- a value that could mean an exception is a value


@compiled
@pytest.mark.parametrize("raises", [False, True])
def test_minus_one_everywhere(raises: bool) -> None:
    """What C functions return where they set an exception: alone it means nothing, and costs nothing."""
    f = register(
        c_library.function("minus_one"), derivative=c_library.function("minus_one"), raises=raises, replace=True
    )
    x = np.linspace(1, 2, 3000)
    for run in SOME_RUNS:
        y, back = rrule(tmap, f, x, **run)
        assert (y == -1).all()
        assert_same(back(x)[2], -x)


# ---- what a function or a pullback needs lives as long as it does


@compiled
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_native_functions_and_their_data_outlive_all_names(residuals: str) -> None:
    pointer = c_library.function("user_data_times", user_data=True)
    data = (ctypes.c_double * 1)(3.0)
    alive = weakref.ref(data)
    register(pointer, derivative=pointer, user_data=data, replace=True)
    x = np.arange(4.0)
    y, back = rrule(tmap, pointer, x, residuals=residuals)
    del data
    # From here on only the pullback knows the function as it was.
    for k in range(200):
        other = register(pointer, derivative=pointer, user_data=(ctypes.c_double * 1)(k), replace=True)
        assert tmap(other, 1.0) == k
    gc.collect()
    np.testing.assert_array_equal(y, 3 * x)
    np.testing.assert_array_equal(back(np.ones(4))[2], 3 * x)
    if residuals == "recompute":
        assert alive() is not None
    del back
    gc.collect()
    assert alive() is None


def test_compiled_functions_outlive_all_names() -> None:
    def make(k: float) -> Any:
        return lambda x: k * x * x

    x = np.arange(4.0)
    f = make(3.0)
    register(f, derivative=make(1.5))
    _, back = rrule(tmap, f, x, residuals="recompute", wrt=0)
    np.testing.assert_array_equal(back(np.ones(4))[2], 1.5 * x * x)
    for k in range(5):
        register(f, derivative=make(k), replace=True)
        gc.collect()
        assert_same(rrule(tmap, f, x, wrt=0)[1](np.ones(4))[2], k * x * x)
    np.testing.assert_array_equal(back(np.ones(4))[2], 1.5 * x * x)


def test_functions_that_were_never_registered_are_not_mixed_up() -> None:
    """An address that is used again is another function."""
    x = np.arange(1.0, 4.0)
    for k in range(300):
        pointer = zoo.libm("sin" if k % 2 else "cos")
        assert_same(tmap(pointer, x), tmap(zoo.by_name("libm sin").f, x) if k % 2 else tmap(np.cos, x), k)
        del pointer


# ---- read-only arrays


@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_read_only_and_repeated_arrays(residuals: str) -> None:
    f = zoo.by_name("numpy multiply").f
    repeated = np.broadcast_to(np.arange(5.0), (700, 5))
    one = np.broadcast_to(np.float64(2), (700, 5))
    for a, x, dy in ((repeated, one, repeated), (one, one, one), (one, repeated.copy(), one), (repeated, one, one)):
        y, back = rrule(tmap, f, a, x, residuals=residuals, num_threads=2)
        expected = rrule(tmap, f, a.copy(), x.copy(), residuals=residuals)
        assert_same(y, expected[0])
        assert_same(back(dy), expected[1](dy.copy()))


# ---- more elements than an int can count

HUGE = 2**33 + 7


def tally_program(fail: int = -1) -> tuple[c_library.Tally, Program]:
    tally = c_library.Tally(fail=fail)
    loop = Loop(c_library.address("tally_loop"), ctypes.addressof(tally), "B->B", 1, keep=tally)
    return tally, Program([("input", 1, None), ("scratch", 1, None)], [(loop, (0, 1))])


@compiled
@pytest.mark.parametrize(
    "run",
    [
        {"num_threads": 1},
        {"num_threads": 3, "schedule": "static"},
        {"num_threads": 3, "schedule": "guided"},
        {"num_threads": 3, "chunk_size": 2**25 + 1},
    ],
)
def test_every_element_is_visited_once(run: dict[str, Any]) -> None:
    tally, program = tally_program()
    x = np.broadcast_to(np.uint8(3), (HUGE,))
    assert program.run((x,), x.shape, **run) is None
    assert (tally.elements, tally.sum) == (HUGE, 3 * HUGE)


@compiled
def test_an_element_beyond_an_int_fails() -> None:
    index = 2**32 + 12_345
    _, program = tally_program(fail=index)
    x = np.broadcast_to(np.uint8(3), (HUGE,))
    assert program.run((x,), x.shape) == (0, index, None)
    _, program = tally_program(fail=index)
    x = np.broadcast_to(np.uint8(3), (2**17, 2**17))
    assert program.run((x,), x.shape) == (0, index, None)


@compiled
@pytest.mark.slow
def test_strided_arrays_of_more_elements_than_an_int() -> None:
    """Copied strip by strip, from rows that are all the same."""
    tally, program = tally_program()
    row = np.arange(4096, dtype="B")
    shape = (2**20 + 3, 2048)
    x = np.lib.stride_tricks.as_strided(row, shape, (0, 2), writeable=False)
    assert program.run((x,), shape, num_threads=2) is None
    assert (tally.elements, tally.sum) == (shape[0] * shape[1], shape[0] * int(row[::2].sum()))


def test_sums_of_more_terms_than_an_int() -> None:
    n = 2**31 + 1234
    blocks = np.empty(-(-n // BLOCK_SIZE))
    program = Program([("input", 8, None), ("block_sum", 8, None)], [(builtin_loop("sum_block", "d->d"), (0, 1))])
    x = np.broadcast_to(np.float64(0.5), (n,))
    assert program.run((x, blocks), x.shape, num_threads=2) is None
    assert blocks[0] == BLOCK_SIZE / 2
    assert blocks[-1] == (n % BLOCK_SIZE) / 2
    total = np.empty(1)
    row = blocks.view(np.dtype((np.void, blocks.nbytes)))
    loop = sum_loop("sum_block_sums", "d", blocks.size)
    Program([("input", blocks.nbytes, None), ("output", 8, None)], [(loop, (0, 1))]).run((row, total), (1,))
    assert total[0] == n / 2
