"""What a call does to the process it runs in: threads, forks, signals in forked children, and nothing else."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tmapad import _core, rrule, tmap

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
TASKS = Path("/proc/self/task")
needs_proc = pytest.mark.skipif(not TASKS.is_dir(), reason="the system does not list its threads")
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")


def run_python(script: str, *, timeout: float = 60.0) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_proc
@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("tmap(np.exp, x, num_threads=1)", False),
        ("rrule(tmap, np.exp, x, num_threads=1)[1](x)", False),
        ("tmap(np.exp, x[:3])", False),
        pytest.param("tmap(np.exp, x, num_threads=3)", True, marks=needs_openmp),
    ],
)
def test_one_thread_never_enters_the_runtime(call: str, more: bool) -> None:
    script = f"""
import os, numpy as np
from tmapad import rrule, tmap
x = np.linspace(0, 1, 100_000)
before = len(os.listdir('/proc/self/task'))
{call}
print(len(os.listdir('/proc/self/task')) > before)
"""
    assert run_python(script) == str(more)


FORK = """
import os, sys, numpy as np
from tmapad import rrule, tmap

x = np.linspace(0, 1, 200_000)
y, back = rrule(tmap, np.sin, x, num_threads=2)
expected = back(y)[2]

def same(threads):
    y2, back2 = rrule(tmap, np.sin, x, num_threads=threads)
    return (y2 == y).all() and (back2(y2)[2] == expected).all() and (back(y)[2] == expected).all()

def child(depth):
    good = same(None) and same(2) and same(3) and same(1)
    if depth:
        good = good and fork(depth - 1)
    os._exit(0 if good else 1)

def fork(depth):
    pid = os.fork()
    if pid == 0:
        child(depth)
    return os.waitpid(pid, 0)[1] == 0

sys.exit(0 if fork(1) and same(2) else 1)
"""


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_and_theirs_map_and_pull_back() -> None:
    run_python(FORK)


@needs_fork
def test_a_fork_pool_maps() -> None:
    script = """
import multiprocessing, numpy as np
from tmapad import tmap
x = np.linspace(0, 1, 100_000)
y = tmap(np.exp, x, num_threads=2)
def work(k):
    return bool((tmap(np.exp, x) == y).all())
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map(work, range(8))))
"""
    assert run_python(script) == "True"


def test_many_threads_call_at_once() -> None:
    x = np.linspace(0, 3, 50_000)
    y, back = rrule(tmap, np.sin, x)
    dx = back(y)[2]

    def work(k: int) -> bool:
        mine, my_back = rrule(tmap, np.sin, x, num_threads=1 + k % 3)
        return bool((mine == y).all() and (my_back(mine)[2] == dx).all() and (back(y)[2] == dx).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(400)))


POOL_OF_THREADS = """
import os, numpy as np
from concurrent.futures import ThreadPoolExecutor
from tmapad import tmap

x = np.linspace(0, 1, 100_000)
expected = np.exp(x)

def work(k):
    right = (tmap(np.exp, x, num_threads=3) == expected).all()
    return right, len(os.listdir('/proc/self/task'))

with ThreadPoolExecutor(4) as pool:
    right, tasks = zip(*pool.map(work, range(400)))
print(all(right), max(tasks) <= 1 + 4 * 3 + 4 * 4)
"""


@needs_proc
def test_calls_from_a_pool_have_a_bounded_number_of_threads() -> None:
    """Each thread keeps a team of its own; for a moment there are also those that try how many there can be."""
    assert run_python(POOL_OF_THREADS) == "True True"


@needs_proc
def test_short_lived_threads_leave_nothing_behind() -> None:
    x = np.linspace(0, 3, 10_000)
    expected = np.cos(x)

    def work() -> None:
        assert (tmap(np.cos, x, num_threads=2) == expected).all()

    for _ in range(20):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    before = len(list(TASKS.iterdir()))
    for _ in range(200):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(list(TASKS.iterdir())) <= before + 4


CHILD_SIGNALS = """
import os, random, signal, sys, time, numpy as np
from tmapad import tmap

x = np.linspace(0.1, 1, 300_000)
y = tmap(np.exp, x, num_threads=2)
pid = os.fork()
if pid:
    sys.exit(os.waitpid(pid, 0)[1] != 0)

class Alarm(Exception):
    pass

def handler(number, frame):
    raise Alarm

signal.signal(signal.SIGALRM, handler)
end, done, stopped = time.monotonic() + 3, 0, 0
while time.monotonic() < end:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-2))
        z = tmap(np.exp, x, num_threads=2)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if (z != y).any():
            os._exit(2)
        done += 1
    except Alarm:
        stopped += 1
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Alarm:
            pass
os._exit(0 if done and stopped else 3)
"""


@needs_fork
def test_signal_handlers_raise_at_any_time_in_a_forked_child() -> None:
    run_python(CHILD_SIGNALS)


# What a child does, forked while a thread of its parent is somewhere in the compiler.
CHILD = """
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    good = (tmap(numba.vectorize(lambda x: x + 1), np.ones(2)) == 2).all()
    good = good and (tmap(lambda x: x + 2, np.ones(2)) == 3).all()
    os._exit(0 if good else 1)
thread.join()
sys.exit(os.waitpid(pid, 0)[1] != 0)
"""

COMPILING = """
import os, signal, sys, threading, time, numba, numpy as np
from tmapad import tmap

functions = [numba.vectorize(eval(f"lambda x: x * x + {i}.5")) for i in range(8)]
functions += [eval(f"lambda x: x * x + {i}.25") for i in range(8)]
thread = threading.Thread(target=lambda: [tmap(f, np.ones(3)) for f in functions])
thread.start()
time.sleep(float(sys.argv[1]))
"""


@needs_fork
@pytest.mark.parametrize("delay", ["0.3", "0.7", "1.2"])
def test_a_child_forked_during_a_compilation_compiles(delay: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILING + CHILD, delay],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr


IMPORTING = """
import os, signal, sys, threading, time, numba, numpy as np
from tmapad import tmap

reached = threading.Event()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1] and not reached.is_set():
            reached.set()
            time.sleep(0.5)

sys.meta_path.insert(0, Slow())
function = numba.vectorize(lambda x: x * x) if sys.argv[2] == "ufunc" else lambda x: x * x
thread = threading.Thread(target=lambda: [tmap(function, np.ones(3)), tmap(lambda x: x + 3, np.ones(3))])
thread.start()
assert reached.wait(30)
"""


@needs_fork
@pytest.mark.parametrize("function", ["ufunc", "Python"])
@pytest.mark.parametrize("module", ["frontend", "engine"])
def test_a_child_forked_while_the_compiler_is_imported_compiles(module: str, function: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTING + CHILD, f"tmapad.jit.{module}", function],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "TMAPAD_CACHE_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
