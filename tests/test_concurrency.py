"""Many calls at once, and one after the other: right results, and no thread and no memory is left over."""

import functools
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import c_library
import numpy as np
import pytest
from same import bits
from test_process import TASKS, needs_proc, run_python
from thread_states import thread_states

from tmapad import register, rrule, tmap

X = np.linspace(0.1, 3.0, 5_000)


def halved(x: float) -> float:
    while x > 1.0:
        x = 0.5 * x
    if x < 0.0:
        raise ValueError("negative")
    return x


def of_c() -> Any:
    names = "not_negative", "not_negative_derivative"
    f, derivative = map(c_library.function, names)
    return register(f, derivative=derivative, raises=True, name="of_c", replace=True)


def forward_and_back(f: Any, threads: int, **more: Any) -> Any:
    y, back = rrule(tmap, f, X, num_threads=threads, **more)
    return y, back(y)


def failing(f: Any, threads: int) -> Any:
    x = X.copy()
    x[4_321] = x[4_900] = -2.5
    with pytest.raises((ValueError, ArithmeticError)) as error:
        tmap(f, x, num_threads=threads)
    return np.array(error.value.__notes__[0].count("at element 4321 with arguments (-2.5)"))


def said(f: Any, threads: int) -> Any:
    """Whoever is told of progress makes calls too."""
    heard: list[Any] = []

    def hear(done: int, total: int) -> None:
        heard.append(bits(tmap(np.cos, X[:1000], num_threads=threads)))

    y = tmap(f, X, num_threads=threads, progress=hear)
    return y, np.array(len(set(heard)))


# What each thread does in turn: functions of all kinds, forward and back, errors, calls from within calls.
JOBS: dict[str, Callable[[], Callable[[int], Any]]] = {
    "a ufunc": lambda: lambda threads: forward_and_back(np.sin, threads),
    "saved": lambda: lambda threads: forward_and_back(np.exp, threads, residuals="save"),
    "compiled": lambda: lambda threads: forward_and_back(halved, threads),
    "C, raises": lambda: functools.partial(forward_and_back, of_c()),
    "an error": lambda: lambda threads: failing(halved, threads),
    "an error in C": lambda: functools.partial(failing, of_c()),
    "progress": lambda: lambda threads: said(halved, threads),
}


@pytest.fixture(scope="module")
def jobs() -> list[Callable[[int], Any]]:
    return [make() for make in JOBS.values()]


@pytest.mark.compiler
def test_eight_threads_forward_and_back(jobs: list[Callable[[int], Any]]) -> None:
    """200 calls each, of everything."""
    expected = [bits(job(1)) for job in jobs]
    begin = threading.Barrier(8)

    def work(k: int) -> int:
        begin.wait()
        right = 0
        for call in range(200):
            number = (call + k) % len(jobs)
            right += bits(jobs[number](1 + (call + k) % 3)) == expected[number]
        return right

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [200] * 8


@pytest.mark.compiler
@needs_proc
def test_hundreds_of_short_lived_threads(jobs: list[Callable[[int], Any]]) -> None:
    """Several at a time, each with a parallel call and then gone: so are the threads that worked for it."""
    expected = [bits(job(1)) for job in jobs]
    right: list[int] = []

    def work(number: int) -> None:
        if bits(jobs[number](2 + number % 2)) == expected[number]:
            right.append(number)

    def wave(numbers: list[int]) -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    numbers = list(itertools.islice(itertools.cycle(range(len(jobs))), 400))
    wave(numbers[:8])
    before = len(list(TASKS.iterdir()))
    for k in range(0, 400, 8):
        wave(numbers[k : k + 8])
    assert len(right) == 408
    # The system takes a moment to forget a thread that has ended.
    assert len(list(TASKS.iterdir())) <= before + 8
    assert thread_states() == threading.active_count()


@pytest.mark.parametrize("threads", [1, 3, None])
def test_a_thread_pool_around_calls(threads: int | None) -> None:
    blocks = [np.full(3_000, 0.01 * k) for k in range(100)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: rrule(tmap, np.sin, x, num_threads=threads)[1](x)[2], blocks))
    for x, dx in zip(blocks, results, strict=True):
        np.testing.assert_array_equal(dx, rrule(tmap, np.sin, x, num_threads=1)[1](x)[2])


def test_a_pullback_is_called_by_many_threads() -> None:
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, halved, X, residuals=residuals, num_threads=2)
        dys = [X * k for k in range(8)]
        expected = [back(dy)[2] for dy in dys]

        def work(k: int) -> bool:
            return all((back(dys[k])[2] == expected[k]).all() for _ in range(50))  # noqa: B023 - done in this turn

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))


def test_a_function_is_compiled_by_many_threads_at_once() -> None:
    begin = threading.Barrier(8)
    k = 1.5

    def f(x: float) -> float:
        return k * x * x if x > 1.0 else x

    def work(number: int) -> Any:
        begin.wait()
        y, back = rrule(tmap, f, X)
        return bits((y, back(y)))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    y, back = rrule(tmap, f, X, num_threads=1)
    assert all(result == bits((y, back(y))) for result in results)


LEAKS = """
import gc, os, resource, sys
import numpy as np
from tmapad import rrule, tmap

x = np.linspace(0.1, 3.0, 20_000)
bad = x.copy()
bad[19_000] = -1.0

def f(x):
    if x < 0.0:
        raise ValueError("negative")
    return x * x

def hear(done, total):
    pass

def calls(times):
    for k in range(times):
        y, back = rrule(tmap, f, x, num_threads=2)
        back(y)
        tmap(np.sqrt, x, num_threads=3, progress=hear)
        try:
            tmap(f, bad, num_threads=2)
        except ValueError:
            pass
        else:
            raise AssertionError

def kilobytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024

def tasks():
    return len(os.listdir("/proc/self/task"))

calls(300)
memory, threads, objects = kilobytes(), tasks(), len(gc.get_objects())
calls(2500)  # of four
print(kilobytes() - memory, tasks() - threads, len(gc.get_objects()) - objects)
"""


@needs_proc
def test_ten_thousand_calls_leak_nothing() -> None:
    """An array of these has 160 kilobytes, the smallest object that each call might forget 50 bytes: 500 in all."""
    memory, threads, objects = map(int, run_python(LEAKS, timeout=300).split())
    assert threads <= 0
    assert objects < 100
    assert memory < 400
