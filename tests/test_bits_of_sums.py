"""Cotangents of broadcast arguments are sums: the same, bit by bit, whatever threads do; and accurate."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import zoo
from layouts import LAYOUTS, PAIRS
from same import PLAIN, RUNS, SOME_RUNS, assert_same, bits, gradient

from tmapad import NoTangent, rrule, tmap

BINARY = pytest.mark.parametrize("entry", zoo.parameters([e for e in zoo.ENTRIES if e.nin == 2]))
# Up to 65536 terms are kept until the end, beyond only the sums of blocks of 512.
KEPT = 65536
LONG = 70_000


def badly_scaled(shape: Any, char: str = "d", seed: int = 1) -> Any:
    """Numbers over thirty powers of ten that nearly cancel: every order of additions has its own sum."""
    rng = np.random.default_rng(seed)
    reach = 15 if char in "dD" else 8
    numbers = np.empty(shape)
    half = 10.0 ** rng.uniform(-reach, reach, numbers.size // 2)
    numbers.flat = [*half, *rng.permutation(-half), *[0.3] * (numbers.size % 2)]
    return (numbers * (1 + 0.5j) if char in "FD" else numbers).astype(char)


def test_badly_scaled_data_tells_orders_apart() -> None:
    rng = np.random.default_rng(0)
    for char in "fdFD":
        x = badly_scaled(5000, char)
        assert len({rng.permutation(x).sum(dtype="D" if char in "FD" else "d") for _ in range(20)}) >= 5


@BINARY
@pytest.mark.parametrize("n", [2, 511, 512, 513, 5000, KEPT, KEPT + 1, LONG])
def test_one_sum(entry: zoo.Entry, n: int) -> None:
    """One of the arguments is a number for all elements."""
    xs = entry.arguments((n,))
    y = tmap(entry.f, *xs)
    dy = badly_scaled((n,), y.dtype.char)
    runs = RUNS if n == LONG and entry in zoo.FOUND else SOME_RUNS
    for k in (0, 1):
        arguments = list(xs)
        arguments[k] = xs[k][:1].copy()
        expected = gradient(entry.f, *arguments, dy=dy, **PLAIN)
        assert expected[2 + k].shape == (1,)
        for number, run in enumerate(runs):
            residuals = ("save", "recompute")[number % 2]
            assert_same(gradient(entry.f, *arguments, dy=dy, residuals=residuals, **run), expected, run, residuals)


@BINARY
@pytest.mark.parametrize("shapes", PAIRS)
def test_broadcast_shapes(entry: zoo.Entry, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Small shapes made large, so that sums have many terms."""
    factor = {0: 1, 1: 5000, 2: 31, 3: 7}[max(map(len, shapes))]
    long = [tuple(n if n == 1 else factor * n for n in shape) for shape in shapes]
    xs = entry.arguments(long)
    dy = badly_scaled(np.broadcast_shapes(*long), tmap(entry.f, *xs).dtype.char)
    expected = gradient(entry.f, *xs, dy=dy, **PLAIN)
    for k, layout in enumerate(["contiguous", "reversed", "transposed", "last axis first", "byte-swapped"]):
        arguments = [LAYOUTS[layout](x) if x.ndim else x for x in xs]
        of_dy = LAYOUTS[layout](dy) if dy.ndim else dy
        for residuals in ("save", "recompute"):
            result = gradient(entry.f, *arguments, dy=of_dy, residuals=residuals, **SOME_RUNS[k])
            assert_same(result, expected, layout, residuals)


@BINARY
@pytest.mark.parametrize("shape", [(LONG,), (70, 1000), (2, 35_000)])
def test_sums_in_every_layout(entry: zoo.Entry, shape: tuple[int, ...]) -> None:
    """More terms than are kept: the sum of a Fortran-ordered array has the order of a C-ordered one."""
    x = entry.arguments(shape)[1]
    a = x.dtype.type(0.7)
    dy = badly_scaled(shape, tmap(entry.f, a, x).dtype.char)
    expected = gradient(entry.f, a, x, dy=dy, **PLAIN)
    for k, layout in enumerate(["Fortran", "reversed", "strided", "inside", "byte-swapped", "unaligned"]):
        arguments, of_dy = (a, LAYOUTS[layout](x)), LAYOUTS[layout](dy)
        for residuals in ("save", "recompute"):
            result = gradient(entry.f, *arguments, dy=of_dy, residuals=residuals, **SOME_RUNS[k % 3])
            assert_same(result, expected, layout, residuals)


@BINARY
@pytest.mark.parametrize("n", [1000, LONG])
def test_captured_numbers(entry: zoo.Entry, n: int) -> None:
    """What `functools.partial` binds has the sum that it has as a scalar argument."""
    x = entry.arguments((n,))[1]
    first, second = zoo.parameter_names(entry)
    dy = badly_scaled((n,), tmap(entry.f, 0.7, x).dtype.char)
    y, _, da, dx = gradient(entry.f, 0.7, x, dy=dy, **PLAIN)
    for f, name in (
        (functools.partial(entry.f, 0.7), first),
        (functools.partial(entry.f, **{first: 0.7}), first),
    ):
        for run in SOME_RUNS:
            for residuals in ("save", "recompute"):
                result = gradient(f, x, dy=dy, residuals=residuals, **run)
                assert list(result[1]) == [name]
                assert_same((result[0], result[1][name], result[2]), (y, da, dx), run, residuals)
    db = gradient(entry.f, x, 0.7, dy=dy, **PLAIN)[3]
    assert_same(gradient(functools.partial(entry.f, **{second: 0.7}), x, dy=dy)[1][second], db)


@BINARY
def test_what_else_is_wanted(entry: zoo.Entry) -> None:
    """A cotangent is the same whatever other cotangents are asked for."""
    xs = entry.arguments([(40, 1), (1, 2000)])
    dy = badly_scaled((40, 2000), tmap(entry.f, *xs).dtype.char)
    _, _, da, dx = gradient(entry.f, *xs, dy=dy)
    for residuals in ("save", "recompute"):
        assert_same(gradient(entry.f, *xs, dy=dy, wrt=0, residuals=residuals)[2:], (da, NoTangent()))
        assert_same(gradient(entry.f, *xs, dy=dy, wrt=(1,), residuals=residuals)[2:], (NoTangent(), dx))


def test_same_in_fifty_runs() -> None:
    x, dy = badly_scaled(LONG, seed=2), badly_scaled(LONG, seed=3)
    _, back = rrule(tmap, np.multiply, 1.5, x, num_threads=3, chunk_size=512)
    assert len({bits(back(dy)[2]) for _ in range(50)}) == 1


@pytest.mark.parametrize("n", [100, 1000, 10_000, KEPT, 100_000])
def test_sums_are_as_accurate_as_numpys(n: int) -> None:
    """Pairwise sums: the error grows with the logarithm of the number of terms, as that of numpy.sum does."""
    eps = np.finfo(float).eps
    errors, of_numpy = [], []
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=n) + 0.1
        _, back = rrule(tmap, np.multiply, 1.0, x)
        total = back(np.ones(n))[2]
        exact, size = math.fsum(x), math.fsum(np.abs(x))
        errors.append(abs(total - exact) / size)
        of_numpy.append(abs(np.sum(x) - exact) / size)
        assert errors[-1] <= eps * math.log2(n)
    assert np.mean(errors) <= 1.25 * np.mean(of_numpy) + eps / n**0.5


@pytest.mark.parametrize("n", [1000, 100_000])
def test_sums_of_columns_are_as_accurate(n: int) -> None:
    """numpy.sum over the first axis adds one row after another; ours is as good over every axis."""
    x = np.random.default_rng(0).normal(size=(n, 3)) + 0.1
    _, back = rrule(tmap, np.multiply, np.ones((1, 3)), x)
    dx = back(np.ones((n, 3)))[2]
    for column in range(3):
        exact, size = math.fsum(x[:, column]), math.fsum(np.abs(x[:, column]))
        assert abs(dx[0, column] - exact) <= np.finfo(float).eps * math.log2(n) * size


@pytest.mark.parametrize("n", [1000, 100_000])
@pytest.mark.parametrize("char", "efF")
def test_narrow_types_are_summed_in_double_precision(n: int, char: str) -> None:
    """The terms are rounded to their own precision, their sum but once."""
    x = np.random.default_rng(5).uniform(0, 1, n).astype(char)
    x = x * x.dtype.type(1 - 0.5j) if char == "F" else x
    _, back = rrule(tmap, np.multiply, x.dtype.type(1), x)
    total = back(np.ones(n, char))[2]
    exact = complex(math.fsum(x.real), -math.fsum(x.imag))
    assert total.dtype == x.dtype
    assert total == np.array(exact if char == "F" else exact.real).astype(char)


def test_no_term_is_lost() -> None:
    """A parameter that every element shares gets the sum of all its cotangents, not those that won a race."""
    n = 2000
    _, back = rrule(tmap, np.add, 1.0, np.zeros(n), num_threads=8, chunk_size=1)
    assert [back(np.ones(n))[2] for _ in range(200)] == [n] * 200


@pytest.mark.compiler
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_sums_written_over_dy_and_arguments(residuals: str) -> None:
    """However many runs it takes to find all cotangents, none sees what another has written."""
    entry = zoo.by_name("C product of three")
    for shapes in ([(300, 300), (300, 1), (1, 300)], [(300, 1), (300, 300), (1, 300)], [(300, 1), (1, 300), (300,)]):
        xs = entry.arguments(shapes)
        dy = badly_scaled((300, 300))
        expected = gradient(entry.f, *xs, dy=dy, **PLAIN)[2:]
        full = next((k for k, shape in enumerate(shapes) if shape == (300, 300)), None)
        arguments, of_dy = [x.copy() for x in xs], dy.copy()
        _, back = rrule(tmap, entry.f, *arguments, residuals=residuals)
        if full is not None:
            assert_same(back(of_dy, out=tuple(of_dy if k == full else None for k in range(3)))[2:], expected)
        assert_same(back(dy, out=tuple(arguments))[2:], expected)
