"""Automatic derivatives bit by bit: whatever is asked for, wherever an element stands, however many threads."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_programs import written
from same import assert_same, bits, gradient

from tmapad import rrule, tmap

SIZE = 2003
# One of the functions takes roots of negative numbers: NaN has bits too.
pytestmark = pytest.mark.usefixtures("without_reports")


def kepler(m: float, e: float) -> float:
    x = m
    for _ in range(50):
        d = (x - e * math.sin(x) - m) / (1.0 - e * math.cos(x))
        x = x - d
        if abs(d) < 1e-14:
            break
    return x


def straight(x: float, y: float) -> float:
    return math.sin(x * y) * math.exp(-y) / (1.0 + x * x) + x**1.5 % 0.7


def of_two(x: float, y: float) -> tuple[float, float]:
    total = np.zeros(2)
    for i in range(4):
        total[i % 2] += x / (y + i) - math.sqrt(total[1 - i % 2] + x)
    return total[0], total.sum()


def to_complex(x: float, y: float) -> complex:
    return (complex(x, y) ** 3 + x) / complex(y, 1.0)


FUNCTIONS = [kepler, straight, of_two, to_complex, written(5, nin=2, ncaptured=1).function()]


def arguments() -> Any:
    return np.random.default_rng(0).uniform(0.05, 0.95, (2, SIZE)) * np.array([[6.0], [1.0]])


def cotangent(y: Any) -> Any:
    if isinstance(y, tuple):
        return tuple(map(cotangent, y))
    dy = np.random.default_rng(1).normal(size=y.shape)
    return dy + 1j * dy[::-1] if np.iscomplexobj(y) else dy


@pytest.mark.parametrize("f", FUNCTIONS)
def test_the_value_whatever_is_asked_for(f: Callable[..., Any]) -> None:
    xs = arguments()
    y = tmap(f, *xs)
    for wrt in (None, 0, 1, (0, 1)):
        for residuals in ("auto", "save", "recompute"):
            assert_same(rrule(tmap, f, *xs, wrt=wrt, residuals=residuals)[0], y, wrt, residuals)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_the_gradient_however_it_is_computed(f: Callable[..., Any]) -> None:
    xs = arguments()
    dy = cotangent(tmap(f, *xs))
    whole = gradient(f, *xs, dy=dy, num_threads=1)
    for threads in (1, 2, 3):
        for residuals in ("save", "recompute"):
            for chunk in (1, 7, None):
                run = {"num_threads": threads, "residuals": residuals, "chunk_size": chunk}
                assert_same(gradient(f, *xs, dy=dy, **run), whole, run)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_parts_of_the_gradient(f: Callable[..., Any]) -> None:
    xs = arguments()
    dy = cotangent(tmap(f, *xs))
    whole = gradient(f, *xs, dy=dy)
    for i in range(2):
        assert_same(gradient(f, *xs, dy=dy, wrt=i)[2 + i], whole[2 + i], i)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_wherever_an_element_stands(f: Callable[..., Any]) -> None:
    xs = arguments()
    dy = cotangent(tmap(f, *xs))

    def part(result: Any, where: Any) -> Any:
        return tuple(part(one, where) for one in result) if isinstance(result, tuple) else result[where]

    y, _, *dxs = gradient(f, *xs, dy=dy)
    order = np.random.default_rng(2).permutation(SIZE)
    for where in (slice(1, None), slice(3, 4), slice(None, None, -1), slice(5, 900, 7), order):
        got_y, _, *got = gradient(f, *(x[where] for x in xs), dy=part(dy, where))
        assert bits(part(y, where)) == bits(got_y), where
        for one, dx in zip(got, dxs, strict=True):
            np.testing.assert_array_equal(one, dx[where], err_msg=f"{where}")


def test_a_broadcast_argument() -> None:
    """Its derivative is a sum of the same terms, in whatever order the elements are computed."""
    x = arguments()[0]
    results = [
        gradient(kepler, x, 0.3, dy=x, num_threads=threads, residuals=residuals)
        for threads in (1, 2, 3)
        for residuals in ("save", "recompute")
    ]
    for result in results[1:]:
        assert_same(result, results[0])
    terms = gradient(kepler, x, np.full(SIZE, 0.3), dy=x)[3]
    assert results[0][3] == pytest.approx(math.fsum(terms), rel=1e-13)
