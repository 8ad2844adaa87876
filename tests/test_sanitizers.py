"""The sanitizers find what they are there for: faults are planted in a copy of the core, and each one is reported.

The copy is built once for each sanitizer, with all faults in it; the environment says which one is there.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
RUNTIMES = {"address": "libasan.so", "thread": "libtsan.so"}
FOUND = 99  # the exit status after a report

pytestmark = [
    pytest.mark.compiler,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the runtimes are loaded as Linux loads them"),
]

PLANTED = """
#ifndef PLANTED
#include <stdlib.h>
#include <string.h>
#define PLANTED(name) (getenv("TMAPAD_PLANTED") && !strcmp(getenv("TMAPAD_PLANTED"), name))
#endif
"""


class Fault(NamedTuple):
    """What is planted where, what meets it, and what the report says."""

    file: str
    old: str
    new: str
    code: str
    report: str


START = """
import ctypes, signal, numpy as np
from tmapad import register, rrule, tmap
sin = ctypes.CDLL(None).sin
sin.argtypes, sin.restype = [ctypes.c_double], ctypes.c_double
x = np.linspace(0.0, 1.0, 100_000)
"""
IN_CHUNKS = "tmap(sin, x, num_threads=4, chunk_size=100)"
INTERRUPTED = """
class Alarm(Exception):
    pass
def handler(number, frame):
    raise Alarm
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while True:
        tmap(sin, np.broadcast_to(x, (400, x.size)), num_threads=4)
except Alarm:
    pass
"""
FAILING = """
f = register(lambda x: 1.0 / x, division="python")
try:
    tmap(f, np.where(x < 0.01, 1.0, 0.0), num_threads=4, chunk_size=100)
except ZeroDivisionError:
    pass
"""
MISALIGNED = "tmap(sin, np.frombuffer(bytes(8001), np.float64, 1000, 1))"

FAULTS = {
    "address": {
        "an element too many": Fault(
            "_scalar_loops.h", "for (; i < hi; i++) {", 'for (hi += PLANTED("an element too many"); i < hi; i++) {',
            "tmap(sin, x[:1000].copy())", "heap-buffer-overflow.*tmapad_loop_d1none",
        ),
        "signed overflow": Fault(
            "_scalar_loops.h", "*stop = state->stop;",
            '*stop = state->stop; int most = INT_MAX; if (PLANTED("signed overflow")) most += (int)n; '
            "state->index = most;",
            "tmap(sin, x)", "_scalar_loops.h:.*signed integer overflow",
        ),
        "misaligned access": Fault(
            "_strided.h", "memcpy(parts, from, sizeof parts);",
            'if (PLANTED("misaligned access")) parts[0] = *(const UNIT *)from; else memcpy(parts, from, sizeof parts);',
            MISALIGNED, "_strided.h:.*load of misaligned address",
        ),
        "leak": Fault(
            "_core_programs.pxi", "            PyMem_RawFree(r.memory)",
            '            if not PLANTED(b"leak"): PyMem_RawFree(r.memory)',
            "for _ in range(20): tmap(sin, x)", "leak of .*__pyx_f_6tmapad_5_core_bind",
        ),
    },
    "thread": {
        "counter without an atomic": Fault(
            "_atomics.h", "{ return __atomic_fetch_add(p, v,",
            '{ if (PLANTED("counter without an atomic")) { *p += v; return *p - v; } return __atomic_fetch_add(p, v,',
            IN_CHUNKS, "data race.*tmapad_fetch_add",
        ),
        "chunks overlap": Fault(
            "_atomics.h", "__atomic_fetch_add(p, v,",
            '__atomic_fetch_add(p, PLANTED("chunks overlap") && v > 1 ? v - 1 : v,',
            IN_CHUNKS, "data race.*tmapad_loop_d1none",
        ),
        "flag without an atomic": Fault(
            "_atomics.h", "__atomic_store_n(p, v, __ATOMIC_RELAXED);",
            'if (PLANTED("flag without an atomic")) *p = v; else __atomic_store_n(p, v, __ATOMIC_RELAXED);',
            INTERRUPTED, "data race.*tmapad_store_int",
        ),
        "minimum without an atomic": Fault(
            "_atomics.h", "int64_t seen = tmapad_load(p);",
            'if (PLANTED("minimum without an atomic")) { if (v < *p) *p = v; return; } int64_t seen = tmapad_load(p);',
            FAILING, "data race.*tmapad_fetch_min",
        ),
    },
}  # fmt: skip
EACH = [(sanitizer, name) for sanitizer, faults in FAULTS.items() for name in faults]


class Copy:
    """A copy of tmapad with planted faults, built in place."""

    def __init__(self, folder: Path, sanitizer: str) -> None:
        compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
        asked = [compiler, f"-print-file-name={RUNTIMES[sanitizer]}"]
        if not Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()).is_absolute():
            pytest.skip(f"{compiler} has no {RUNTIMES[sanitizer]}")
        self.folder, self.sanitizer = folder, sanitizer
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "tmapad", folder / "tmapad", ignore=ignored)
        shutil.copy(ROOT / "setup.py", folder)
        for fault in FAULTS[sanitizer].values():
            path = folder / "tmapad" / fault.file
            text = path.read_text()
            assert fault.old in text, f"{fault.file} has no {fault.old!r}"
            path.write_text(text.replace(fault.old, fault.new))
        for name in {fault.file for fault in FAULTS[sanitizer].values()}:
            if name.endswith(".h"):
                path = folder / "tmapad" / name
                path.write_text(f"#include <limits.h>\n{PLANTED}{path.read_text()}")
        path = folder / "tmapad" / "_core.pyx"
        declared = f'cdef extern from *:\n    """{PLANTED}"""\n    bint PLANTED(const char *) noexcept nogil\n\n'
        path.write_text(path.read_text().replace("cnp.import_array()", f"{declared}cnp.import_array()"))
        command = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace"]
        env = {**os.environ, "TMAPAD_SANITIZE": sanitizer}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def run(self, code: str, planted: str = "", **environ: str) -> tuple[int, str]:
        """Run a script with the sanitizer; return its exit status and what it said of errors."""
        command = [str(ROOT / ".ci" / "sanitized"), self.sanitizer, sys.executable, "-c", START + code]
        env = {**os.environ, "PYTHONPATH": str(self.folder), "TMAPAD_PLANTED": planted, **environ}
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=300
        )
        return done.returncode, done.stderr


@pytest.fixture(scope="module")
def copy_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Copy]:
    return functools.cache(lambda sanitizer: Copy(tmp_path_factory.mktemp(sanitizer), sanitizer))


def leaks_of_ours(report: str) -> list[str]:
    """Leaks of what our functions allocated: Python and NumPy keep much until the end, where nobody searches."""
    leaks = re.findall(r"(?:Direct|Indirect) leak of .*?\n\n", report, re.DOTALL)
    return [leak for leak in leaks if re.search(r"#[1-4] .* __pyx_p?[fw]_", leak)]


LEAKS = {"ASAN_OPTIONS": "detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=12"}


@pytest.mark.parametrize(("sanitizer", "name"), EACH, ids=[name for _, name in EACH])
def test_planted_faults_are_found(copy_for: Callable[[str], Copy], sanitizer: str, name: str) -> None:
    fault, copy = FAULTS[sanitizer][name], copy_for(sanitizer)
    if name == "leak":
        assert leaks_of_ours(copy.run(fault.code, **LEAKS)[1]) == []
        leaks = leaks_of_ours(copy.run(fault.code, name, **LEAKS)[1])
        assert leaks
        assert all(re.search(fault.report, leak, re.DOTALL) for leak in leaks), leaks
        return
    # Without the fault nothing is said, so that it is this fault that is found.
    assert copy.run(fault.code) == (0, "")
    status, report = copy.run(fault.code, name)
    assert status == FOUND, report
    assert re.search(fault.report, report, re.DOTALL), report
