"""Peaks of memory: nothing of the size of the arrays but results, residuals and cotangents."""

import functools
import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES
from layouts import LAYOUTS

import tmapad
from tmapad import rrule, tmap

N = 360_000
SIDE = 600
ARRAY = 8 * N
# Scratch of the workers, sums of blocks, Python objects: nothing that counts beside an array.
SLACK = ARRAY // 20
SIN = zoo.by_name("libm sin")
FUNCTIONS = pytest.mark.parametrize(
    "f", [SIN.f, np.exp, zoo.by_name("Python, value and derivative").f], ids=["C", "ufunc", "Python"]
)
# Layouts that need no conversion; the others may be copied as a whole.
AS_THEY_ARE = [name for name in LAYOUTS if name not in ("byte-swapped", "unaligned", "packed field")]


def peak(call: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that a call had allocated at its peak, and what it returned; as the second such call."""
    call()
    tracemalloc.start()
    try:
        result = call()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


def peak_of_back(back: Any, *dy: Any, **keywords: Any) -> int:
    return peak(lambda: back(*dy, **keywords))[0]


def test_the_measure_sees_arrays() -> None:
    used, _ = peak(lambda: np.ones(N).sum())
    assert ARRAY <= used <= ARRAY + SLACK
    used, _ = peak(lambda: (np.ones(N) + np.ones(N)).sum())
    assert used >= 2 * ARRAY


@pytest.mark.parametrize("num_threads", [1, 3, None])
@FUNCTIONS
def test_map(f: Any, num_threads: int | None) -> None:
    x, out = np.linspace(0.5, 1, N), np.empty(N)
    used, _ = peak(lambda: tmap(f, x, num_threads=num_threads))
    assert used <= ARRAY + SLACK
    used, _ = peak(lambda: tmap(f, x, num_threads=num_threads, out=out))
    assert used <= SLACK
    used, _ = peak(lambda: tmap(f, x, num_threads=num_threads, chunk_size=1000, schedule="guided", out=x))
    assert used <= SLACK


@FUNCTIONS
def test_gradient(f: Any) -> None:
    x, dy, out = np.linspace(0.5, 1, N), np.ones(N), np.empty(N)
    used, (_, back) = peak(lambda: rrule(tmap, f, x, residuals="recompute"))
    assert used <= ARRAY + SLACK
    assert peak_of_back(back, dy) <= ARRAY + SLACK
    assert peak_of_back(back, dy, out=out) <= SLACK
    used, (_, back) = peak(lambda: rrule(tmap, f, x, residuals="save"))
    assert used <= 2 * ARRAY + SLACK
    assert peak_of_back(back, dy) <= ARRAY + SLACK
    assert peak_of_back(back, dy, out=out) <= SLACK
    used, _ = peak(lambda: rrule(tmap, f, x, residuals="save", wrt=()))
    assert used <= ARRAY + SLACK
    used, _ = peak(lambda: rrule(tmap, f, x, residuals="recompute", out=out))
    assert used <= SLACK


def test_gradient_of_two_arguments() -> None:
    a, x, dy = np.linspace(0.5, 1, N), np.linspace(1, 2, N), np.ones(N)
    for residuals, kept in (("recompute", 0), ("save", 2)):
        used, (_, back) = peak(lambda r=residuals: rrule(tmap, TIMES, a, x, residuals=r))
        assert used <= (1 + kept) * ARRAY + SLACK
        assert peak_of_back(back, dy) <= 2 * ARRAY + SLACK
        assert peak_of_back(back, dy, out=(a.copy(), x.copy())) <= SLACK
        _, back = rrule(tmap, TIMES, a, x, residuals=residuals, wrt=1)
        assert peak_of_back(back, dy) <= ARRAY + SLACK


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_not_copied(layout: str) -> None:
    """Whatever the layout of arguments and cotangents; only what must be converted may be copied."""
    x = LAYOUTS[layout](np.linspace(0.5, 1, N).reshape(60, 60, 100))
    more = 0 if layout in AS_THEY_ARE else ARRAY
    used, _ = peak(lambda: tmap(SIN.f, x))
    assert used <= ARRAY + more + SLACK
    for residuals, kept in (("recompute", 0), ("save", 1)):
        used, (_, back) = peak(lambda r=residuals: rrule(tmap, SIN.f, x, residuals=r))
        assert used <= (1 + kept) * ARRAY + more + SLACK
        assert peak_of_back(back, x) <= ARRAY + 2 * more + SLACK


@pytest.mark.parametrize("layout", [name for name in AS_THEY_ARE if name not in ("read-only", "memory-mapped")])
def test_out_of_any_layout_needs_no_copy(layout: str) -> None:
    x = np.linspace(0.5, 1, N).reshape(60, 60, 100)
    out = LAYOUTS[layout](x)
    assert peak(lambda: tmap(SIN.f, x, out=out))[0] <= SLACK
    assert peak(lambda: tmap(SIN.f, out, out=out))[0] <= SLACK
    _, back = rrule(tmap, SIN.f, x)
    assert peak_of_back(back, x, out=out) <= SLACK


@pytest.mark.parametrize("char", "?bhlef")
def test_casts_copy_at_most_once(char: str) -> None:
    x = np.ones(N, char)
    used, y = peak(lambda: tmap(SIN.f, x))
    assert used <= y.nbytes + ARRAY + SLACK


def test_cotangents_of_other_types_are_copied_at_most_once() -> None:
    _, back = rrule(tmap, SIN.f, np.ones(N))
    for char in "?lef":
        assert peak_of_back(back, np.ones(N, char)) <= 2 * ARRAY + SLACK


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("a", [0.5, np.full(1, 0.5), np.full((1, 1), 0.5), np.array(0.5)], ids=repr)
def test_cotangents_of_numbers_need_no_array(a: Any, residuals: str) -> None:
    """However many elements share a number, only the sums of blocks are kept."""
    for shape in ((1, N), (SIDE, SIDE)):
        x = np.linspace(0, 1, N).reshape(shape)
        for order in ("C", "F"):
            x, dy = np.array(x, order=order), np.ones(shape, order=order)
            _, back = rrule(tmap, TIMES, a, x, residuals=residuals, wrt=0)
            assert peak_of_back(back, dy) <= SLACK
            _, back = rrule(tmap, TIMES, a, x, residuals=residuals)
            assert peak_of_back(back, dy) <= ARRAY + SLACK


def test_cotangents_of_captures_need_no_array() -> None:
    x, dy = np.linspace(0, 1, N), np.ones(N)
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, functools.partial(TIMES, 0.5), x, residuals=residuals, wrt="a")
        assert peak_of_back(back, dy) <= SLACK


def test_terms_that_are_kept_are_few() -> None:
    """Up to 65536 terms of a sum may be kept until its end."""
    n = 65_536
    _, back = rrule(tmap, TIMES, 0.5, np.ones(n), wrt=0)
    assert peak_of_back(back, np.ones(n)) <= 8 * n + 50_000


@pytest.mark.parametrize("shapes", [((SIDE, 1), (1, SIDE)), ((SIDE,), (SIDE, 1)), ((SIDE, SIDE), (SIDE, 1))])
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_partly_broadcast_arguments_take_one_temporary(shapes: Any, residuals: str) -> None:
    a, x = (np.ones(shape) for shape in shapes)
    _, back = rrule(tmap, TIMES, a, x, residuals=residuals)
    cotangents = a.nbytes + x.nbytes
    assert peak_of_back(back, np.ones((SIDE, SIDE))) <= cotangents + ARRAY + SLACK


def test_partial_overlap_copies_once() -> None:
    x = np.ones(N + 1)
    assert peak(lambda: tmap(SIN.f, x[1:], out=x[:-1]))[0] <= ARRAY + SLACK


def test_no_objects_for_elements() -> None:
    """A pullback is a few objects, not one for each element."""
    x = np.linspace(0, 1, N)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        _, back = rrule(tmap, TIMES, 0.5, x)
        result = back(x)
        assert len(gc.get_objects()) - before < 200
        assert len(result) == 4
    finally:
        gc.enable()


# Peaks of the whole process, so that C code which asks nobody is seen too.
SCRIPT = """
import functools, resource, numpy as np, zoo
from tmapad import rrule, tmap

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * {unit}

n = 5_000_000
f = zoo.by_name("libm sin").f
x = np.linspace(0, 1, 2 * n)[::2]
y, dy, dx = np.ones(n), np.ones(n), np.ones(n)
small = x[:1000].copy()
for threads in (1, 3):
    rrule(tmap, f, small, num_threads=threads)[1](small)
    rrule(tmap, np.multiply, 0.5, small, num_threads=threads)[1](small)
before = peak()
for threads in (1, 3):
    tmap(f, x, out=y, num_threads=threads)
    _, back = rrule(tmap, f, x, out=y, residuals="recompute", num_threads=threads)
    back(dy, out=dx)
    _, back = rrule(tmap, np.multiply, 0.5, x, out=y, residuals="recompute", num_threads=threads, wrt=0)
    back(dy)
print(peak() - before)
"""


def test_peak_of_the_process() -> None:
    resource = pytest.importorskip("resource", reason="there is no getrusage on Windows")
    assert resource.RUSAGE_SELF == 0
    script = SCRIPT.format(unit=1 if sys.platform == "darwin" else 1024)
    env = {**os.environ, "PYTHONPATH": str(Path(tmapad.__path__[0]).parent)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 10_000_000, "of 40 MB for an array"
