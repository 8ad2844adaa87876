"""Compiled functions that run for ever are interrupted, in every pass and on every thread.

Calls are made in a process of their own, as in `test_interruption`. An element of each never ends.
"""

from collections.abc import Iterator

import pytest
from interrupting import KINDS, START, Interrupted, needs_timer
from test_process import needs_fork, run_python

from tmapad import _core

pytestmark = needs_timer
LATEST = 1.0  # s, against 0.3 that is promised: a loop that does not look takes for ever
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")

HALVES = """
bad = np.full(9, -1.0)
good = np.linspace(0.5, 2.0, 1000)

def halves(x):                  # below zero it comes to -2, and stays there
    while x < 0.0:
        x = 0.5 * x - 1.0
    return x

def works():
    return (tmap(halves, good, num_threads=2) == good).all()
"""
SCRIPT = f"""{HALVES}
import math

def no_progress(x):
    while x < 0.0:
        pass
    return x

def counts(x):
    total = 0
    for i in range(10**15 if x < 0.0 else 3):
        total += i * i % 7
    return total + x

def short_loops(x):
    while x < 0.0:
        for i in range(3):
            for j in range(int(-x) % 5):
                x = 0.5 * x - 1.0
    return x

def calls(x):
    while x < 0.0:
        x = math.sin(x) - halves(abs(x) + 2.0)
    return x

def raises(x):
    while x < 0.0:
        x = 0.5 * x - 1.0
        if x > 0.0:
            raise ValueError(x)
    return x

def with_memory(x):
    terms = np.zeros(3)
    while x < 0.0:
        terms[int(-x) % 3] = x
        x = 0.5 * x - 1.0
    return x + terms[0]

FUNCTIONS = halves, no_progress, counts, short_loops, calls, raises, with_memory
double = register(lambda x: 2.0 * x, derivative=halves)
square = register(lambda x: x * x, derivative_from_output=lambda y, x: halves(x))
scale = register(lambda x, a: a * x, derivative=(None, lambda x, a: halves(x)))
held = good.copy()

def one(n, at):
    x = np.ones(n)
    x[at] = -1.0
    return x

def results():
    passes = [tmap(f, good, num_threads=2) for f in FUNCTIONS]
    passes += [rrule(tmap, f, good)[1](good)[2] for f in (double, square, halves)]
    passes += [rrule(tmap, f, good, residuals="save", num_threads=2)[1](good)[2] for f in (double, square)]
    return passes + [rrule(tmap, scale, good, 2.0)[1](good)[3]]

def back(f, *others, **options):
    # The forward pass keeps the inputs, which change.
    held[:] = good
    y, pull = rrule(tmap, f, held, *others, residuals="recompute", **options)
    held[:] = -1.0
    return pull(good)

expected = results()

def works():
    return all((a == b).all() for a, b in zip(results(), expected))
"""

FUNCTIONS = ("halves", "no_progress", "counts", "short_loops", "calls", "raises", "with_memory")
CALLS = {
    **{f"{name}, one thread": f"tmap({name}, bad, num_threads=1)" for name in FUNCTIONS},
    **{f"{name}, two threads": f"tmap({name}, bad, num_threads=2)" for name in FUNCTIONS},
    "three threads": "tmap(halves, np.full(1000, -1.0), num_threads=3)",
    "one element": "tmap(halves, -1.0)",
    "the first element": "tmap(halves, one(10**6, 0))",
    "an element of the trial": "tmap(halves, one(10**6, 20))",
    "the last element": "tmap(halves, one(10**6, -1))",
    "the last element, one thread": "tmap(halves, one(10**6, -1), num_threads=1)",
    "only on the calling thread": "tmap(halves, one(1000, 0), num_threads=2, schedule='static')",
    "only on another thread": "tmap(halves, one(1000, -1), num_threads=2, schedule='static')",
    "arrays that are staged": "tmap(halves, np.full((20, 30), -1.0)[::-1, ::2], num_threads=2)",
    "out": "tmap(halves, bad, out=np.empty(9))",
    "forward": "rrule(tmap, double, bad, residuals='save', num_threads=1)",
    "forward, two threads": "rrule(tmap, double, bad, residuals='save', num_threads=2)",
    "forward, from the output": "rrule(tmap, square, bad, residuals='save')",
    "back": "back(double)",
    "back, one thread": "back(double, num_threads=1)",
    "back, two threads": "back(double, num_threads=2)",
    "back, from the output": "back(square, num_threads=2)",
    "forward, automatic": "rrule(tmap, halves, bad)",
    "back, automatic": "back(halves, num_threads=2)",
    "back to a sum": "back(scale, 2.0, num_threads=2)",
}


@pytest.fixture(scope="module")
def process() -> Iterator[Interrupted]:
    with Interrupted(SCRIPT) as running:
        yield running


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_endless_call_is_interrupted(process: Interrupted, call: str) -> None:
    assert process.seconds_late(call) < LATEST


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_by_ctrl_c(process: Interrupted, threads: int) -> None:
    assert process.seconds_late(f"tmap(halves, bad, num_threads={threads})", "SIGINT") < LATEST


@needs_fork
@pytest.mark.parametrize("kind", KINDS)
def test_in_forked_children(kind: str) -> None:
    """After a parallel call, in a process without OpenMP's threads."""
    run_python(f"""{START}{HALVES}
assert works()
for threads in (None, 1, 2):
    child = os.fork()
    if child == 0:
        late = seconds["{kind}"](lambda: tmap(halves, bad, num_threads=threads))
        os._exit(0 if late is not None and late < 1.0 and works() else 1)
    assert os.waitpid(child, 0)[1] == 0, threads
""")


# A function whose calls take a second or so, and end.
LONG = f"""{START}
def turns(x):
    n = 1
    for i in range(int(x)):
        n = (n * 25214903917 + 11) % 65536
    return n

MANY = 1_500_000_000
expected = turns(MANY % 65536)  # the period
tmap(turns, np.ones(2))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_handlers_that_return_run_meanwhile_as_do_other_threads(threads: int) -> None:
    handled, others, right = run_python(f"""{LONG}
handled, others, over = [], [], []
signal.signal(signal.SIGALRM, lambda number, frame: handled.append(number))

def other():
    while not over:
        others.append(0)
        time.sleep(0.01)

thread = threading.Thread(target=other)
thread.start()
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
y = tmap(turns, np.full(2, float(MANY)), num_threads={threads})
counts = len(handled), len(others)
signal.setitimer(signal.ITIMER_REAL, 0)
over.append(True)
thread.join()
print(*counts, (y == expected).all())
""").split()
    assert int(handled) >= 3
    assert int(others) >= 10
    assert right == "True"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_of_another_thread_goes_on(threads: int) -> None:
    """Python handles signals on its main thread, and it is that one which Ctrl-C ends."""
    late, running, right = run_python(f"""{LONG}
results = []
x = np.full(2, float(MANY))
thread = threading.Thread(target=lambda: results.append(tmap(turns, x, num_threads={threads})))
thread.start()
late = seconds_until_ctrl_c_is_seen(lambda: time.sleep(30))
running = not results
thread.join()
print(late, running, (results[0] == expected).all())
""").split()
    assert float(late) < 0.5
    assert (running, right) == ("True", "True")


@pytest.mark.parametrize("threads", [1, 2])
def test_an_endless_call_of_a_daemon_thread_does_not_outlive_the_process(threads: int) -> None:
    run_python(f"""{START}{HALVES}
assert works()
threading.Thread(target=lambda: tmap(halves, bad, num_threads={threads}), daemon=True).start()
time.sleep(0.3)
""")
