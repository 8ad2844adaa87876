"""Where vectorized loops are run: on arguments that lie apart, so that all elements go through the same code.

NumPy's loops take an input that ends where the output begins for one that overlaps it, and then compute on another
path, which gives other bits. The loops used here are as particular, and say so: NaN.
"""

import ctypes
import functools
from typing import Any

import c_library
import numpy as np
import pytest
from layouts import LAYOUTS, SIZES
from same import assert_same

from tmapad import tmap
from tmapad._core import BLOCK_SIZE, Loop, Program, builtin_loop

pytestmark = pytest.mark.compiler

# Sizes at which strips and scratch are full, or just not.
STRIPS = sorted({*SIZES, 10, 100, 128, 448, 576, 1000, 1024, 8128, 8192, 8193, 8256, 20_000})
READ = list(LAYOUTS)
WRITTEN = [
    name for name in LAYOUTS if name not in ("byte-swapped", "unaligned", "packed field", "read-only", "memory-mapped")
]
SHAPES = ((100,), (2000,), (40, 64), (9, 512), (5, 7, 30))
threads = pytest.mark.parametrize("num_threads", [1, 2, 3])


@functools.cache
def loop(name: str, nin: int, *, dense: bool = False) -> Loop:
    types = f"{'d' * nin}->d"
    return Loop(c_library.address(name), 0, types, nin, group=64, dense=dense, keep=c_library.library())


def program(roles: str, *steps: tuple[int, ...], dense: bool = False) -> Program:
    """A program of loops of one input or two; roles are the slots' first letters."""
    names = {"i": "input", "o": "output", "s": "scratch", "b": "block_sum"}
    slots = [(names[role], 8, None) for role in roles]
    sum_block = builtin_loop("sum_block", "d->d")
    loops = {2: loop("apart_loop", 1, dense=dense), 3: loop("apart_add_loop", 2, dense=dense)}
    return Program(slots, [(sum_block if roles[step[-1]] == "b" else loops[len(step)], step) for step in steps])


# Programs of one input and one output, that all give the input's elements.
COPIES = {"one step": ("io", (0, 1)), "through scratch": ("ios", (0, 2), (2, 1))}
copies = pytest.mark.parametrize("steps", COPIES.values(), ids=COPIES)


def run(made: Program, *arrays: Any, num_threads: int = 1) -> None:
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    assert made.run(arrays, shape, num_threads=num_threads) is None


def numbers(*shape: int) -> Any:
    return np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)


def far_away(*shape: int) -> Any:
    """Memory that touches no other array's."""
    return np.full((3, *shape), -1.0)[1]


@pytest.mark.parametrize(
    ("x", "y", "good"),
    [(0, 8, False), (8, 0, False), (0, 5, False), (5, 0, False), (0, 9, True), (9, 0, True), (4, 4, True)],
)
def test_the_loops_tell_what_touches(x: int, y: int, good: bool) -> None:
    """Called by hand, on eight elements at these places."""
    memory = np.ones(24)
    pointers = (ctypes.c_void_p * 3)(*(memory[k:].ctypes.data for k in (x, x, y)))
    steps = (ctypes.c_ssize_t * 3)(8, 8, 8)
    c_library.library().apart_add_loop(pointers, ctypes.c_ssize_t(8), steps, None, None)
    assert np.isnan(memory[y : y + 8]).all() == (not good)
    memory[:] = 1
    c_library.library().apart_loop(ctypes.byref(pointers, 8), ctypes.c_ssize_t(8), steps, None, None)
    assert np.isnan(memory[y : y + 8]).all() == (not good)


@threads
@copies
def test_sizes(steps: Any, num_threads: int) -> None:
    made = program(*steps)
    for n in STRIPS:
        y = far_away(n)
        run(made, numbers(n), y, num_threads=num_threads)
        np.testing.assert_array_equal(y, numbers(n), err_msg=str(n))


@threads
@copies
@pytest.mark.parametrize("layout", READ)
def test_layouts(layout: str, steps: Any, num_threads: int) -> None:
    """Inputs, outputs and both in any layout: copied through scratch, or not."""
    made = program(*steps)
    for shape in SHAPES:
        expected = numbers(*shape)
        x = LAYOUTS[layout](expected)
        for out in {"contiguous", "strided", layout} & set(WRITTEN):
            y = LAYOUTS[out](far_away(*shape))
            run(made, x, y, num_threads=num_threads)
            np.testing.assert_array_equal(y, expected, err_msg=f"{shape} {out}")


@threads
@copies
def test_neighbouring_arrays(steps: Any, num_threads: int) -> None:
    """Each array's neighbour in memory is the other one, on either side."""
    made = program(*steps)
    for n in STRIPS:
        memory = np.full(3 * n, -1.0)
        x, left, right = memory[n : 2 * n], memory[:n], memory[2 * n :]
        x[:] = numbers(n)
        for y in (left, right):
            run(made, x, y, num_threads=num_threads)
            np.testing.assert_array_equal(y, numbers(n), err_msg=str(n))
        np.testing.assert_array_equal(x, numbers(n))


@threads
@pytest.mark.parametrize("rows", [2, 7, 64])
@pytest.mark.parametrize("columns", [64, 100, 512])
def test_interleaved_arrays(rows: int, columns: int, num_threads: int) -> None:
    """Every row of the input is followed by one of the output, every column by one."""
    made = program("io", (0, 1))
    expected = numbers(rows, columns)
    memory = np.full((rows, 2, columns), -1.0)
    memory[:, 0] = expected
    run(made, memory[:, 0], memory[:, 1], num_threads=num_threads)
    np.testing.assert_array_equal(memory[:, 1], expected)
    memory = np.stack([expected, -expected], axis=-1)
    run(made, memory[..., 0], memory[..., 1], num_threads=num_threads)
    np.testing.assert_array_equal(memory[..., 1], expected)


@threads
@copies
def test_an_output_that_is_the_input(steps: Any, num_threads: int) -> None:
    made = program(*steps)
    for n in STRIPS:
        x = far_away(n)
        x[:] = numbers(n)
        run(made, x, x, num_threads=num_threads)
        np.testing.assert_array_equal(x, numbers(n), err_msg=str(n))


@threads
@pytest.mark.parametrize("order", ["x1 x2 y", "y x1 x2", "x1 y x2", "x1 x2 y y"])
def test_two_inputs(order: str, num_threads: int) -> None:
    """All neighbours; with a second output, too, between which and its inputs other arrays lie."""
    names = order.split()
    outputs = names.count("y")
    made = program("ii" + "o" * outputs, *((0, 1, 2 + k) for k in range(outputs)))
    for n in STRIPS:
        memory = np.full(len(names) * n, -1.0)
        parts: dict[str, list[Any]] = {"x1": [], "x2": [], "y": []}
        for k, name in enumerate(names):
            parts[name].append(memory[k * n : (k + 1) * n])
        (x1,), (x2,), ys = parts.values()
        x1[:], x2[:] = numbers(n), 10 * numbers(n)
        run(made, x1, x2, *ys, num_threads=num_threads)
        for y in ys:
            np.testing.assert_array_equal(y, 11 * numbers(n), err_msg=str(n))


@threads
@pytest.mark.parametrize("dense", [False, True])
def test_uniform_inputs(dense: bool, num_threads: int) -> None:
    """Next to the output, too: a loop that is dense gets them as an array in scratch."""
    made = program("iio", (0, 1, 2), dense=dense)
    for n in STRIPS[1:]:
        memory = np.full(2 * n + 1, 5.0)
        x, y, number = memory[:n], memory[n + 1 :], memory[n : n + 1]
        x[:] = numbers(n)
        run(made, x, number, y, num_threads=num_threads)
        np.testing.assert_array_equal(y, numbers(n) + 5, err_msg=str(n))


@threads
def test_terms_of_sums(num_threads: int) -> None:
    """Blocks are computed in scratch, the last one in part of it."""
    made = program("isb", (0, 1), (1, 2))
    for n in STRIPS[1:]:
        sums = np.full(-(-n // BLOCK_SIZE), -1.0)
        assert made.run((numbers(n), sums), (n,), num_threads=num_threads) is None
        assert sums.sum() == n * (n + 1) / 2


@pytest.mark.parametrize("f", [np.exp, np.log, np.tan, np.arctan, np.cbrt, np.log1p])
def test_ufuncs_of_neighbouring_arrays(f: Any) -> None:
    for n in (64, 100, 512, 8192):
        memory = np.linspace(0.1, 3.0, 3 * n)
        expected = tmap(f, memory[n : 2 * n].copy())
        for place in (slice(0, n), slice(2 * n, 3 * n)):
            assert_same(tmap(f, memory[n : 2 * n], out=memory[place]), expected, n, place)
