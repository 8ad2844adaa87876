"""A process that makes calls which signals are to end, and tells how late that was."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tmapad

KINDS = ("SIGALRM", "SIGINT")
needs_timer = pytest.mark.skipif(sys.platform == "win32", reason="the system has no interval timer")

START = """
import json, os, signal, sys, threading, time
import numpy as np
from tmapad import register, rrule, tmap

AFTER = 0.15

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
"""
# What comes between says what is called, and `works`, a call that is not interrupted.
SERVE = """
for line in sys.stdin:
    kind, call = json.loads(line)
    late = seconds[kind](eval(f"lambda: {call}"))
    print(json.dumps([late, bool(works())]), flush=True)
"""


class Interrupted:
    """Such a process.

    Parameters
    ----------
    script : str
        What calls need, and a function `works`.
    *arguments : str
        Of the script.
    **environment : str
        Variables for it.
    """

    def __init__(self, script: str, *arguments: str, **environment: str) -> None:
        path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START + script + SERVE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
        )

    def __enter__(self) -> "Interrupted":
        return self

    def __exit__(self, *exception: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(60) == 0
        finally:
            self._process.kill()
            self._process.stdout.close()

    def seconds_late(self, call: str, kind: str = "SIGALRM") -> float:
        """How long after a signal its exception arrived; it is an error if the call ended without one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([kind, call]) + "\n")
        self._process.stdin.flush()
        late, works_again = json.loads(self._process.stdout.readline())
        assert works_again
        assert late is not None
        return late
