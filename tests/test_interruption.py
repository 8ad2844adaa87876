"""Ctrl-C, and errors that signal handlers raise, end a call soon: they are seen while it runs, not when it is over.

All calls are made in one process of their own. Each sleeps in C for some seconds; after a part of one a signal is sent,
and the process tells how long it took until the exception arrived.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import c_library
import pytest

import tmapad
from tmapad import _core

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timer"),
]
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")

SCRIPT = """
import ctypes, json, os, signal, sys, threading, time
import numpy as np
from tmapad import register, rrule, tmap
import c_library

library, AFTER = ctypes.CDLL(sys.argv[1]), 0.15
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

class Sent(Exception):
    pass

def handler(number, frame):
    raise Sent

signal.signal(signal.SIGALRM, handler)

def seconds_until_alarm_is_seen(call):
    sent = time.perf_counter() + AFTER
    try:
        signal.setitimer(signal.ITIMER_REAL, AFTER)
        call()
    except Sent:
        return time.perf_counter() - sent

def seconds_until_ctrl_c_is_seen(call):
    sent = []
    def send():
        time.sleep(AFTER)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=send)
    try:
        thread.start()
        call()
    except KeyboardInterrupt:
        late = time.perf_counter() - sent[0]
        thread.join()
        return late

seconds = {"SIGALRM": seconds_until_alarm_is_seen, "SIGINT": seconds_until_ctrl_c_is_seen}
numbers = np.arange(1000.0) - 1000
for line in sys.stdin:
    kind, call = json.loads(line)
    late = seconds[kind](eval(f"lambda: {call}"))
    data.begun = 0
    # The next call works.
    print(json.dumps([late, bool((tmap(sleeps, numbers, num_threads=2) == numbers).all())]), flush=True)
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
    "static, the first half is expensive": (
        "tmap(sleeps, each(150, 0.025, free=150)[::-1].copy(), num_threads=2, schedule='static')"
    ),
    "few elements": "tmap(sleeps, each(16, 0.2), num_threads=1)",
    "few elements, two threads": "tmap(sleeps, each(32, 0.2), num_threads=2)",
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
def process() -> Iterator[subprocess.Popen[str]]:
    path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, c_library.library()._name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
    ) as running:
        yield running
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(60) == 0


def seconds_late(process: subprocess.Popen[str], call: str, kind: str = "SIGALRM") -> float:
    """How long after a signal its exception arrived; it is an error if the call ended without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([kind, call]) + "\n")
    process.stdin.flush()
    late, works_again = json.loads(process.stdout.readline())
    assert works_again
    assert late is not None
    return late


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_signal_handler_that_raises_ends_a_call(process: subprocess.Popen[str], call: str) -> None:
    assert seconds_late(process, call) < 1.0


@pytest.mark.parametrize("name", ["one thread", "two threads", "chunks of 1", "as many threads as there are"])
def test_ctrl_c_ends_a_call(process: subprocess.Popen[str], name: str) -> None:
    assert seconds_late(process, CALLS[name], "SIGINT") < 1.0


@needs_openmp
@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("kind", ["SIGALRM", "SIGINT"])
def test_a_calling_thread_that_only_waits_sees_signals(process: subprocess.Popen[str], call: str, kind: str) -> None:
    assert seconds_late(process, call, kind) < 1.0


@pytest.mark.parametrize("kind", ["SIGALRM", "SIGINT"])
def test_the_measure_sees_a_call_that_is_not_interrupted(process: subprocess.Popen[str], kind: str) -> None:
    """So the tests above can fail."""
    assert seconds_late(process, LATE, kind) > 1.0
