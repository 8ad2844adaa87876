"""Ctrl-C, and errors that signal handlers raise, end a call soon: they are seen while it runs, not when it is over.

All calls are made in one process of their own. Each sleeps in C for some seconds; after a part of one a signal is sent,
and the process tells how long it took until the exception arrived.
"""

from collections.abc import Callable, Iterator

import c_library
import numpy as np
import pytest
from interrupting import KINDS, Interrupted, needs_timer
from run_loop import Polls, call
from scipy import special

from tmapad import _core
from tmapad._core import Program, pointer_loop, ufunc_loop

pytestmark = [pytest.mark.compiler, needs_timer]
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")

SCRIPT = """
import ctypes
import c_library

library = ctypes.CDLL(sys.argv[1])
c_library.library = lambda: library
sleeps = register(c_library.function("sleeps"), derivative=c_library.function("sleeps_derivative"))

def each(n, seconds, free=0):
    return np.concatenate([np.zeros(free), np.full(n, float(seconds))])

def slow_back():
    # A pullback that reads the inputs again, which have become expensive.
    x = np.zeros(300)
    y, back = rrule(tmap, sleeps, x, num_threads=2, residuals="recompute")
    x[:] = 0.025
    return back

data = c_library.Meeting.of_this_thread()
elsewhere = register(c_library.function("sleeps_elsewhere", user_data=True), user_data=data)
numbers = np.arange(1000.0) - 1000

def works():
    data.begun = 0
    return (tmap(sleeps, numbers, num_threads=2) == numbers).all()
"""

# What is called; without a signal each takes three seconds and more, an element a few hundredths of one.
CALLS = {
    "one thread": "tmap(sleeps, each(150, 0.025), num_threads=1)",
    "two threads": "tmap(sleeps, each(300, 0.025), num_threads=2)",
    "as many threads as there are": "tmap(sleeps, each(150 * os.cpu_count(), 0.025))",
    "chunks of 1": "tmap(sleeps, each(300, 0.025), num_threads=2, chunk_size=1)",
    "chunks of 8": "tmap(sleeps, each(300, 0.025), num_threads=2, chunk_size=8)",
    "chunks of 8, many elements": "tmap(sleeps, each(6000, 0.001), num_threads=2, chunk_size=8)",
    "guided": "tmap(sleeps, each(300, 0.025), num_threads=2, schedule='guided')",
    "static": "tmap(sleeps, each(300, 0.025), num_threads=2, schedule='static')",
    "static, the second half is expensive": (
        "tmap(sleeps, each(2000, 0.002, free=2000), num_threads=2, schedule='static')"
    ),
    "static, the first half is expensive": (
        "tmap(sleeps, each(150, 0.025, free=150)[::-1].copy(), num_threads=2, schedule='static')"
    ),
    "few elements": "tmap(sleeps, each(16, 0.2), num_threads=1)",
    "few elements, two threads": "tmap(sleeps, each(32, 0.2), num_threads=2)",
    "cheap elements first": "tmap(sleeps, each(3500, 0.001, free=100), num_threads=1)",
    "more cheap elements first": "tmap(sleeps, each(3500, 0.001, free=2000), num_threads=1)",
    "many cheap elements first": "tmap(sleeps, each(3500, 0.001, free=10**6), num_threads=1)",
    "cheap elements first, two threads": "tmap(sleeps, each(7000, 0.001, free=2000), num_threads=2)",
    "arrays that are staged": "tmap(sleeps, each(300, 0.025).reshape(20, 15)[::-1, ::-1], num_threads=2)",
    "forward pass": "rrule(tmap, sleeps, each(150, 0.025), num_threads=1)",
    "forward pass that saves": "rrule(tmap, sleeps, each(75, 0.025), num_threads=1, residuals='save')",
    "pullback": "slow_back()(np.ones(300))",
}


# A thread that has its half of the elements done at once, and waits for the other one.
WAITS = {
    "static": "tmap(elsewhere, each(300, 0.025), num_threads=2, schedule='static')",
    "dynamic": "tmap(elsewhere, each(300, 0.025), num_threads=2, chunk_size=150)",
}
# One element: what is seen is seen after it.
LATE = "tmap(sleeps, each(1, 1.5), num_threads=1)"


@pytest.fixture(scope="module")
def process() -> Iterator[Interrupted]:
    with Interrupted(SCRIPT, c_library.library()._name) as running:
        yield running


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_signal_handler_that_raises_ends_a_call(process: Interrupted, call: str) -> None:
    assert process.seconds_late(call) < 1.0


@pytest.mark.parametrize("name", ["one thread", "two threads", "chunks of 1", "as many threads as there are"])
def test_ctrl_c_ends_a_call(process: Interrupted, name: str) -> None:
    assert process.seconds_late(CALLS[name], "SIGINT") < 1.0


@needs_openmp
@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_calling_thread_that_only_waits_sees_signals(process: Interrupted, call: str, kind: str) -> None:
    assert process.seconds_late(call, kind) < 1.0


@needs_openmp
def test_fewer_threads_than_asked_for() -> None:
    with Interrupted(SCRIPT, c_library.library()._name, OMP_THREAD_LIMIT="2") as process:
        call = "tmap(elsewhere, each(300, 0.025), num_threads=3, schedule='static')"
        assert process.seconds_late(call) < 1.0


LOOPS = {
    "a C function": (lambda: pointer_loop(c_library.address("sleeps"), "d", 1, 0, "", 0, None), 128),
    "a ufunc of SciPy's": (lambda: ufunc_loop(special.erf, special.erf.types.index("d->d"), 1), 512),
}


@pytest.mark.parametrize(("loop", "every"), LOOPS.values(), ids=LOOPS)
def test_loops_poll(loop: Callable[[], _core.Loop], every: int) -> None:
    polls = Polls()
    assert call(loop(), np.zeros(8 * every), poll=polls)[0] == 0
    assert polls.count in (7, 8)
    assert call(loop(), np.zeros(100), poll=polls)[0] == 0
    assert polls.count in (7, 8)
    stopped, index, (y,) = call(loop(), np.zeros(8 * every), poll=Polls(3))
    assert (stopped, index) in ((1, 2 * every), (1, 3 * every))
    np.testing.assert_array_equal(y[:index], 0)
    np.testing.assert_array_equal(y[index:], -99)


def test_loops_of_numpy_need_no_polls() -> None:
    polls = Polls()
    call(ufunc_loop(np.exp, np.exp.types.index("d->d"), 64), np.zeros(8192), poll=polls)
    assert polls.count == 0


def test_an_exception_that_was_not_announced_ends_a_run() -> None:
    """No signal handler can run while it is pending, so the run is not to go on."""
    raises, sleeps = (
        pointer_loop(c_library.address(name), "d", 1, 0, "", 0, None) for name in ("not_negative", "sleeps")
    )
    program = Program([("input", 8, None)] * 2 + [("output", 8, None)] * 2, [(raises, (0, 2)), (sleeps, (1, 3))])
    outputs = np.zeros((2, 300))
    with pytest.raises(ArithmeticError, match=r"-1\.0 is negative"):
        program.run((np.full(300, -1.0), np.full(300, 0.025), *outputs), (300,), num_threads=1)
    assert outputs[1, -1] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_measure_sees_a_call_that_is_not_interrupted(process: Interrupted, kind: str) -> None:
    """So the tests above can fail."""
    assert process.seconds_late(LATE, kind) > 1.0
