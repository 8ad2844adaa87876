"""Processes made of processes: whenever they are forked, and however they are made, they map and pull back."""

import os
import subprocess
import sys
from pathlib import Path

import c_library
import pytest

import tmapad
from tmapad import _core

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")
needs_compiler = pytest.mark.compiler
TIMES = 50

# What every process does, and what the first one made of it.
MODULE = """
import functools, math, multiprocessing, os, signal, sys, threading
import numpy as np
from tmapad import get_num_threads, rrule, tmap

x = np.linspace(0.1, 1, 100_000)

def damped(t, rate):
    return math.exp(-rate * t) * math.cos(t)

def results(threads=None):
    y, back = rrule(tmap, np.sin, x, num_threads=threads)
    z, back_of_damped = rrule(tmap, damped, x, 0.5, num_threads=threads)
    arrays = [y, z, back(y)[2], *back_of_damped(z)[2:], tmap(functools.partial(damped, rate=0.25), x)]
    return [np.asarray(a).tobytes() for a in arrays]

def same(expected, threads=None):
    signal.alarm(60)      # what hangs is ended
    return results(threads) == expected

def work(k):
    return results((None, 1, 2, 3)[k % 4])

def child(*calls):
    pid = os.fork()
    if pid == 0:
        good = False
        try:
            good = all(call() for call in calls)
        finally:
            os._exit(0 if good else 1)
    return os.waitpid(pid, 0)[1] == 0
"""


def run_python(folder: Path, script: str, *arguments: str) -> str:
    """Run a script beside the module. A warning is an error, but for Python's own of forks while there are threads."""
    (folder / "what_is_done.py").write_text(MODULE)
    (folder / "script.py").write_text(f"from what_is_done import *\n{script}")
    path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
    command = [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "script.py", *arguments]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, env=env, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


POOL = """
if __name__ == "__main__":
    expected = results(2)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(all(result == expected for result in pool.map(work, range(8))))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_map_and_pull_back(tmp_path: Path, method: str) -> None:
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"the system has no {method}")
    assert run_python(tmp_path, POOL, method) == "True"


POOL_OF_A_THREAD = """
if __name__ == "__main__":
    expected, right = results(2), []
    def pool():
        with multiprocessing.get_context("fork").Pool(2) as pool:
            right.append(all(result == expected for result in pool.map(work, range(8))))
    threads = [threading.Thread(target=pool) for _ in range(2)]
    for thread in threads:
        thread.start()
    right.append(same(expected, 2))
    for thread in threads:
        thread.join()
    print(right)
"""


@needs_fork
def test_a_fork_pool_of_a_thread(tmp_path: Path) -> None:
    """While the main thread and another pool are at work."""
    assert run_python(tmp_path, POOL_OF_A_THREAD) == "[True, True, True]"


WHILE_OTHERS_CALL = """
expected, over, wrong = results(2), threading.Event(), []

def calls(threads):
    while not over.is_set():
        if results(threads) != expected:
            wrong.append(threads)

threads = [threading.Thread(target=calls, args=(k,)) for k in (2, 3)]
for thread in threads:
    thread.start()
everything = [lambda k=k: same(expected, k) for k in (None, 2, 1, 3)]
good = [child(*everything[:2], *[lambda: child(*everything)] * (k % 5 == 0)) for k in range(int(sys.argv[1]))]
over.set()
for thread in threads:
    thread.join()
print(sum(good), wrong)
"""


@needs_fork
def test_forks_in_the_middle_of_calls_of_other_threads(tmp_path: Path) -> None:
    """Children and grandchildren, with threads and without."""
    assert run_python(tmp_path, WHILE_OTHERS_CALL, str(TIMES)) == f"{TIMES} []"


WHILE_OTHERS_COMPILE = """
os.environ["TMAPAD_CACHE"] = "0"
expected, over, wrong, compiled = results(2), threading.Event(), [], 0

def compiles():
    global compiled
    while not over.is_set():
        if tmap(eval(f"lambda t: t * t + {compiled}"), 2.0) != 4 + compiled:
            wrong.append(compiled)
        compiled += 1

def compiles_in_child():
    return bool(tmap(lambda t: t + 0.5, 1.0) == 1.5)

thread = threading.Thread(target=compiles)
thread.start()
good = [child(lambda: same(expected, (None, 2)[k % 2]), compiles_in_child) for k in range(int(sys.argv[1]))]
over.set()
thread.join()
print(sum(good), wrong, compiled > 3)
"""


@needs_fork
def test_forks_in_the_middle_of_compilations(tmp_path: Path) -> None:
    assert run_python(tmp_path, WHILE_OTHERS_COMPILE, "12") == "12 [] True"


PARALLEL = """
import c_library, ctypes
from tmapad import register

library = ctypes.CDLL(sys.argv[1])
c_library.library = lambda: library
record = c_library.Record(microseconds=200)
noted = register(
    c_library.function("noted", nin=2, user_data=True), derivative=(None, None), user_data=record, name="noted"
)
numbers = np.arange(1000.0)

def threads_of(threads):
    record.clear()
    assert (tmap(noted, 2.0, numbers, num_threads=threads) == 2 * numbers).all()
    return record.threads

def in_parallel():
    record.microseconds = 200
    while record.microseconds < 10_000 and threads_of(3) != 3:
        record.microseconds *= 5      # until the busiest machine has started all threads before the work is done
    return threads_of(3) == 3 and threads_of(2) == 2 and threads_of(None) == threads_of(1) == 1

assert threads_of(2) == 2
print(child(in_parallel, lambda: get_num_threads() == 1, lambda: child(in_parallel)))
"""


@needs_fork
@needs_openmp
@needs_compiler
def test_children_use_as_many_threads_as_they_ask_for_and_else_one(tmp_path: Path) -> None:
    assert run_python(tmp_path, PARALLEL, c_library.library()._name) == "True"
