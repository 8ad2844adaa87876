"""Ten million badly scaled terms, and how accurate sums are: whatever threads do, bit by bit."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from same import SCHEDULES, assert_same, bits

from tmapad import rrule, tmap

N = 10**7
EPS = np.finfo(float).eps


def repeated(a: float, x: float) -> float:
    y = x
    for _ in range(3):
        y = y * a + 0.25
    return y


def formula(a: float, x: float) -> float:
    return a * x - x / a


def badly_scaled(n: int, char: str = "d", seed: int = 1) -> Any:
    """Numbers over thirty powers of ten, or fifteen, that cancel but for what is rounded."""
    rng = np.random.default_rng(seed)
    reach = 15 if char in "dD" else 7
    half = 10.0 ** rng.uniform(-reach, reach, n // 2)
    x = np.concatenate([half, rng.permutation(-half), np.full(n % 2, 0.3)])
    x = rng.permutation(x)
    return (x * (1 - 0.5j) if char in "FD" else x).astype(char)


# Every number of threads with every schedule; the rest changes along with them.
RUNS: list[dict[str, Any]] = [
    {"num_threads": threads, "schedule": schedule, "chunk_size": chunk, "residuals": residuals}
    for (threads, schedule), chunk, residuals in zip(
        itertools.product((1, 2, 3, 7), SCHEDULES),
        itertools.cycle((1, 1000, None, 64, 100_001)),
        itertools.cycle(("save", "recompute")),
        strict=False,
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("f", "char"), [(np.multiply, "d"), (formula, "d"), (repeated, "f"), (formula, "D")])
def test_ten_million_terms(f: Any, char: str) -> None:
    """Values, a cotangent of an array and one that is the sum of all terms."""
    x, dy = badly_scaled(N, char), badly_scaled(N, char, seed=2)
    a = x.dtype.type(1.5)
    y, back = rrule(tmap, f, a, x, **RUNS[0])
    expected = bits(back(dy)[2:])
    for run in RUNS[1:]:
        z, back = rrule(tmap, f, a, x, **run)
        assert_same(z, y, run)
        assert bits(back(dy)[2:]) == expected, run
    assert bits(back(dy)[2:]) == expected


def test_the_order_of_ten_million_terms_would_show() -> None:
    x = badly_scaled(N)
    assert len({np.sum(x), np.sum(x[::-1].copy()), np.sum(np.roll(x, 1000))}) == 3


# ---- accuracy


def families(n: int, seed: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(seed)
    yield "positive", rng.uniform(size=n)
    yield "all the same", np.full(n, 0.1)
    yield "cancels", badly_scaled(n, seed=seed)
    yield "badly scaled", rng.normal(size=n) * 10.0 ** rng.uniform(-15, 15, n)
    yield "ascending", np.sort(10.0 ** rng.uniform(-15, 15, n))
    yield "descending", np.sort(10.0 ** rng.uniform(-8, 8, n))[::-1].copy()
    yield "harmonic", 1.0 / np.arange(1, n + 1)
    yield "alternating", (-1.0) ** np.arange(n) / np.arange(1, n + 1)
    yield "two large ones", np.concatenate([[1e16], rng.uniform(size=n - 2), [-1e16]])


def summed(x: Any) -> Any:
    return rrule(tmap, np.multiply, 1.0, x)[1](np.ones(x.shape))[2]


def summed_by_compiled(x: Any) -> Any:
    """The terms are those of `formula` with a = 1, whose partial derivative in a is 2 x."""
    return rrule(tmap, formula, 1.0, x / 2)[1](np.ones(x.shape))[2]


def errors(total: Callable[[Any], Any], n: int) -> dict[str, float]:
    """The mean error on the data sets of each family, in units of the sum of absolute values."""
    found: dict[str, list[float]] = {}
    for seed in range(8):
        for name, x in families(n, seed):
            found.setdefault(name, []).append(abs(total(x) - math.fsum(x)) / math.fsum(np.abs(x)))
    return {name: float(np.mean(each)) for name, each in found.items()}


@pytest.mark.parametrize("n", [1000, 30_000, 100_001])
@pytest.mark.parametrize("total", [summed, summed_by_compiled])
def test_sums_are_as_accurate_as_pairwise_ones(total: Callable[[Any], Any], n: int) -> None:
    """But for one rounding: which of two sums of one data set is closer is chance."""
    ours, of_numpy = errors(total, n), errors(np.sum, n)
    assert {name: (error, of_numpy[name]) for name, error in ours.items() if error > of_numpy[name] + EPS} == {}


def test_the_data_tells_sums_apart() -> None:
    """Added one after the other, most of it gives worse sums."""
    plain, of_numpy = errors(lambda x: np.cumsum(x)[-1], 100_001), errors(np.sum, 100_001)
    assert sum(plain[name] > of_numpy[name] + EPS for name in plain) >= 5


# ---- where an element stands


@pytest.mark.parametrize("f", [formula, repeated])
@pytest.mark.parametrize("char", "efdFD")
def test_an_element_of_an_array_and_alone(f: Any, char: str) -> None:
    """Its value and its derivatives, in compiled functions of every type, in arrays of every length."""
    rng = np.random.default_rng(3)
    n = 700
    x, a, dy = (rng.uniform(0.5, 2, n) + (1j * rng.uniform(0.5, 2, n) if char in "FD" else 0) for _ in range(3))
    x, a, dy = (one.astype(char) for one in (x, a, dy))
    y, back = rrule(tmap, f, a, x)
    _, _, da, dx = back(dy)
    parts = [slice(k, k + length) for length in (1, 2, 3, 5, 17, 64, 129, 513) for k in (0, 1, 7, 33, n - length)]
    for part in (*parts, slice(None, None, -1), slice(None, None, 3)):
        for run in ({}, {"num_threads": 3, "chunk_size": 1}):
            z, back = rrule(tmap, f, a[part], x[part], **run)
            assert_same((z, *back(dy[part])[2:]), (y[part], da[part], dx[part]), part, run)
