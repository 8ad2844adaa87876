"""Values and cotangents are the same, bit by bit, whatever threads do and wherever an element stands."""

from typing import Any

import numpy as np
import pytest
import zoo
from layouts import LAYOUTS, SIZES
from same import PLAIN, RUNS, SOME_RUNS, assert_same, gradient

from tmapad import rrule, tmap

entries = pytest.mark.parametrize("entry", zoo.parameters())


def cotangent(y: Any, seed: int = 9) -> Any:
    """Numbers of y's kind, some of them zero."""
    y = np.asarray(y)
    rng = np.random.default_rng(seed)
    dy = rng.normal(size=y.shape) + (1j * rng.normal(size=y.shape) if y.dtype.kind == "c" else 0)
    return np.where(rng.random(y.shape) < 0.1, 0, dy).astype(y.dtype)


def plain(entry: zoo.Entry, xs: Any, **keywords: Any) -> tuple[Any, Any]:
    """A cotangent, and the gradient of one thread for contiguous arrays."""
    xs = [x.copy() for x in xs]
    dy = cotangent(tmap(entry.f, *xs, **PLAIN))
    return dy, gradient(entry.f, *xs, dy=dy, residuals="save" if entry.saves else "recompute", **PLAIN)


@entries
def test_threads_schedules_chunks(entry: zoo.Entry) -> None:
    xs = entry.arguments((5000,))
    dy, expected = plain(entry, xs)
    for k, run in enumerate(RUNS):
        assert_same(tmap(entry.f, *xs, **run), expected[0], run)
        residuals = ("save", "recompute")[k % 2]
        assert_same(gradient(entry.f, *xs, dy=dy, residuals=residuals, **run), expected, run, residuals)


@entries
@pytest.mark.parametrize("n", SIZES)
def test_sizes(entry: zoo.Entry, n: int) -> None:
    """Round what a loop, a strip, a block may hold."""
    xs = entry.arguments((n,), seed=n)
    dy, expected = plain(entry, xs)
    for k, run in enumerate(SOME_RUNS):
        residuals = ("save", "recompute")[(k + n) % 2]
        assert_same(gradient(entry.f, *xs, dy=dy, residuals=residuals, **run), expected, run, residuals)


@entries
def test_types(entry: zoo.Entry) -> None:
    for char in entry.chars:
        xs = entry.arguments((1300,), char)
        dy, expected = plain(entry, xs)
        for residuals in ("save", "recompute"):
            for run in SOME_RUNS[:2]:
                assert_same(gradient(entry.f, *xs, dy=dy, residuals=residuals, **run), expected, char, run)


@entries
@pytest.mark.parametrize("shape", [(1211,), (7, 173), (3, 5, 97)])
def test_layouts(entry: zoo.Entry, shape: tuple[int, ...]) -> None:
    xs = entry.arguments(shape)
    dy, expected = plain(entry, xs)
    names = list(LAYOUTS)
    for k, layout in enumerate(names):
        laid_out = [LAYOUTS[layout](x) for x in xs]
        mixed = [LAYOUTS[names[(k + 4 * i) % len(names)]](x) for i, x in enumerate(xs)]
        of_dy = LAYOUTS[names[-k]](dy)
        for arguments in (laid_out, mixed):
            for residuals in ("save", "recompute"):
                for run in (PLAIN, {"num_threads": 3, "chunk_size": 50}):
                    result = gradient(entry.f, *arguments, dy=of_dy, residuals=residuals, **run)
                    assert_same(result, expected, layout, residuals, run)


@entries
def test_positions(entry: zoo.Entry) -> None:
    """An element's value is the same wherever it stands, whatever stands around it, and alone."""
    xs = entry.arguments((700,))
    dy, (y, _, *dxs) = plain(entry, xs)
    for k in range(130):
        for part in (slice(k, None), slice(None, k), slice(k, k + 64), slice(None, None, -1 - k)):
            arguments = [x[part] for x in xs]
            assert_same(tmap(entry.f, *arguments), y[part], part)
            if k % 16 == 3:
                _, _, *parts = gradient(entry.f, *arguments, dy=dy[part])
                assert_same(tuple(parts), tuple(dx[part] for dx in dxs), part)
    for k in range(0, 700, 37):
        alone = tuple(x[k] for x in xs)
        result = gradient(entry.f, *alone, dy=dy[k])
        assert_same(result[0], y[k], k)
        assert_same(result[2:], tuple(dx[k] for dx in dxs), k)
        assert_same(tmap(entry.f, *(x[k : k + 1] for x in xs)), y[k : k + 1], k)


@entries
def test_in_place(entry: zoo.Entry) -> None:
    """The result written over each of the arguments, or over a part of one."""
    xs = entry.arguments((9, 211))
    _, (y, *_) = plain(entry, xs)
    for layout in ("contiguous", "strided", "reversed", "transposed", "inside", "byte-swapped"):
        for k in range(entry.nin):
            for run in (PLAIN, {"num_threads": 3, "schedule": "guided"}):
                arguments = [LAYOUTS[layout](x) for x in xs]
                out = arguments[k]
                assert tmap(entry.f, *arguments, out=out, **run) is out
                assert_same(np.asarray(out, y.dtype), y, layout, k, run)


@entries
@pytest.mark.parametrize("shift", [1, 3, -1, -64])
def test_partial_overlap(entry: zoo.Entry, shift: int) -> None:
    """The result lies over the arguments, moved by a few elements: as if they had been copied."""
    memory = entry.arguments((3000,))
    part = slice(100, 2900)
    moved = slice(100 + shift, 2900 + shift)
    expected = tmap(entry.f, *(m[part].copy() for m in memory), **PLAIN)
    for k in range(entry.nin):
        for run in (PLAIN, {"num_threads": 3, "chunk_size": 64}):
            copies = [m.copy() for m in memory]
            tmap(entry.f, *(c[part] for c in copies), out=copies[k][moved], **run)
            assert_same(copies[k][moved], expected, k, run)
            assert_same(copies[k][: min(moved.start, 100)], memory[k][: min(moved.start, 100)], k, run)


@entries
@pytest.mark.parametrize("residuals", ["save", "recompute", "auto"])
def test_gradient_in_place(entry: zoo.Entry, residuals: str) -> None:
    """`y` over an argument; cotangents over `dy`, over arguments, and over one another's arguments."""
    xs = entry.arguments((1000,))
    dy, expected = plain(entry, xs)
    run = {"residuals": residuals, "num_threads": 3, "chunk_size": 7}
    for k in range(entry.nin):
        arguments = [x.copy() for x in xs]
        assert_same(gradient(entry.f, *arguments, dy=dy, out=arguments[k], **run), expected, k)
        _, back = rrule(tmap, entry.f, *xs, **run)
        over_dy = dy.copy()
        out = tuple(over_dy if i == k else None for i in range(entry.nin))
        assert_same(back(over_dy, out=out)[1:], expected[1:], k)
        arguments = [x.copy() for x in xs]
        _, back = rrule(tmap, entry.f, *arguments, **run)
        assert_same(back(dy, out=(*arguments[k:], *arguments[:k]))[1:], expected[1:], k)
