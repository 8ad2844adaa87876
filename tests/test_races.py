"""Everything that workers share, at once: all schedules, failures, signals, callers in several threads.

Results are compared, but this is above all what the thread sanitizer watches.
"""

import itertools
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zoo

from tmapad import register, rrule, tmap

X = np.linspace(0.1, 1.0, 20_000)
RUNS = list(itertools.product((2, 3, 7, 9), ("static", "dynamic", "guided"), (None, 100, 5000)))


def inverse(x: float) -> float:
    return 1.0 / x


def parabola(a: float, x: float) -> float:
    return a * x * x + 1.0


@pytest.fixture(scope="module")
def functions() -> tuple[Any, Any, Any]:
    """A C function, a Python function that fails at zero, and one with a parameter that all elements share."""
    sin = register(zoo.libm("sin"), derivative=zoo.libm("cos"), replace=True)
    return sin, register(inverse, division="python", replace=True), register(parabola, replace=True)


def results(functions: tuple[Any, Any, Any], **how: Any) -> list[Any]:
    """What every kind of run gives: contiguous, strided, byte-swapped, summed, failing."""
    sin, failing, shared = functions
    found: list[Any] = []
    for x in (X, X.reshape(100, 200).T[::2]):
        y, back = rrule(tmap, sin, x, **how)
        found += [y, back(y)[2]]
    y, back = rrule(tmap, shared, 2.0, X, **how)
    found += [y, *back(X)[2:], back(y)[2]]
    found.append(tmap(zoo.libm("pow", nin=2), X[::-1], np.asarray(2.0, ">f8"), **how))
    found.append(tmap(np.exp, X.reshape(100, 200).T, **how))
    with pytest.raises(ZeroDivisionError) as error:
        tmap(failing, np.where(X < 0.5, X, 0.0), **how)
    return [*found, error.value.__notes__]


def same(some: list[Any], others: list[Any]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


def test_workers_do_not_get_into_each_others_way(functions: tuple[Any, Any, Any]) -> None:
    expected = results(functions, num_threads=1)
    for threads, schedule, chunk in RUNS:
        assert same(results(functions, num_threads=threads, schedule=schedule, chunk_size=chunk), expected)


def test_nor_do_callers(functions: tuple[Any, Any, Any]) -> None:
    """Each with workers of its own, and all with one pullback."""
    expected = results(functions, num_threads=1)
    _, back = rrule(tmap, functions[2], 2.0, X, num_threads=3)
    dx = back(X)[2]

    def call(number: int) -> bool:
        threads, schedule, chunk = RUNS[number % len(RUNS)]
        found = results(functions, num_threads=threads, schedule=schedule, chunk_size=chunk)
        return same(found, expected) and bool(back(X)[2] == dx)

    with ThreadPoolExecutor(5) as pool:
        assert all(pool.map(call, range(40)))


class Alarm(Exception):
    pass


def alarm(number: int, frame: Any) -> None:
    raise Alarm


@pytest.mark.skipif(sys.platform == "win32", reason="the system has no interval timer")
@pytest.mark.parametrize("schedule", ["static", "dynamic", "guided"])
def test_nor_does_a_signal(functions: tuple[Any, Any, Any], schedule: str) -> None:
    many = np.broadcast_to(X, (1000, X.size))

    def until_the_alarm() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            tmap(functions[0], many, num_threads=4, schedule=schedule)

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        for _ in range(5):
            with pytest.raises(Alarm):
                until_the_alarm()
    finally:
        signal.signal(signal.SIGALRM, before)
