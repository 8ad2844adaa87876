"""Where there is no memory, and no thread to be had: a MemoryError or a right result, nothing leaked, nothing ended.

Every call is made in a process of its own, which is given a limit, or whose allocations fail one after the other.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tmapad
from tmapad import _core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux, and so is /proc")
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")


def run_python(script: str, *arguments: str, **environment: str) -> str:
    """What a process prints, which is to end well and to say nothing else."""
    path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# ---- each allocation of a call fails, one after the other

WALK = """
import functools, sys
import _testcapi
import numpy as np
from tmapad import partials, rrule, tmap

sys.unraisablehook = lambda _: None     # Python itself has no memory to close its generators

def scaled(x, a):
    return a * x * x

def scaled_by(a):
    return lambda x: a * x * x

x = np.linspace(0, 1, 3000)
swapped = x[::-2].astype(">f8")

def arrays(y, back, *others):
    return [y, *others, *(a for a in back(y)[2:] if isinstance(a, np.ndarray))]

CALLS = {
    "short way": lambda: arrays(*rrule(tmap, np.exp, x), tmap(np.exp, x)),
    "threads": lambda: arrays(*rrule(tmap, np.exp, x, num_threads=2, chunk_size=100), tmap(np.exp, x, num_threads=2)),
    "Python": lambda: arrays(*rrule(tmap, scaled, x, 2.0, num_threads=2)),
    "closure": lambda: arrays(*rrule(tmap, scaled_by(2.5), x)),
    "partial": lambda: arrays(*rrule(tmap, functools.partial(scaled, a=2.5), x)),
    "conversion": lambda: [tmap(scaled, swapped, 0.5)],
}
call = CALLS[sys.argv[1]]

def result():
    return [a.tobytes() for a in call()]

for _ in range(3):
    expected = result()
n = failed = in_a_row = 0
while in_a_row < 50:
    n += 1
    _testcapi.set_nomemory(n, n + 1)
    try:
        got = call()
    except MemoryError:
        got = None
    finally:
        _testcapi.remove_mem_hooks()
    failed += got is None
    in_a_row = 0 if got is None else in_a_row + 1
    assert got is None or [a.tobytes() for a in got] == expected, n
    assert result() == expected, n
assert failed > 5
"""


@pytest.mark.parametrize("call", ["short way", "threads", "Python", "closure", "partial", "conversion"])
def test_every_allocation_may_fail(call: str) -> None:
    pytest.importorskip("_testcapi", reason="this Python comes without the module that makes allocations fail")
    run_python(WALK, call)


# ---- no room for arrays

LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from tmapad import partials, rrule, tmap

def mapped():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmSize")))

def scaled(x, a):
    return a * x * x

def own_array(x, n):
    terms = np.zeros(int(n))
    for i in range(4):
        terms[i] = terms[i] + x * i
    return terms[2] + x

MB = 2**20
N = 20 * MB                                        # elements of an array of 160 MB
one = np.broadcast_to(1.0, (N,))                   # that takes no memory
ones = np.ones(N)
swapped = np.broadcast_to(np.array(1.0, ">f8"), (N,))
few = np.linspace(0, 1, 3000)
out = np.empty(N)
_, back = rrule(tmap, scaled, one, one[:, None][:, 0], out=out, residuals="recompute")
_, back_of_sum = rrule(tmap, scaled, np.broadcast_to(1.0, (2, N // 2)), np.ones((2, 1)), residuals="recompute",
                       out=np.empty((2, N // 2)), wrt=1)

# What is called, and for how many MB there is room.
CALLS = {
    "results": (lambda: tmap(np.exp, one), 100),
    "one of two results": (lambda: tmap(np.modf, one), 250),
    "residuals": (lambda: rrule(tmap, scaled, one, one, residuals="save"), 250),
    "residuals beside out": (lambda: rrule(tmap, scaled, one, one, out=out, residuals="save"), 100),
    "conversions": (lambda: tmap(scaled, swapped.copy(), 2.0, out=out), 100),
    "overlap": (lambda: tmap(np.exp, out[1:], out=out[:-1]), 100),
    "cotangents": (lambda: back(one), 100),
    "one of two cotangents": (lambda: back(one), 250),
    "conversion of dy": (lambda: back(one.astype("f4")), 100),
    "products that are summed": (lambda: back_of_sum(np.broadcast_to(1.0, (2, N // 2))), 40),
    "partials": (lambda: partials(scaled, one, 2.0), 250),
    "array in a function": (lambda: tmap(own_array, few, 1e8, num_threads=1), 200),
    "array in a function, two threads": (lambda: tmap(own_array, few, 1e8, num_threads=2, chunk_size=9), 200),
    "array in a gradient": (lambda: rrule(tmap, own_array, few, 1e8, num_threads=1), 200),
    "derivatives of an array": (lambda: rrule(tmap, own_array, few, 1e7, wrt=0, num_threads=1), 130),
}

def works():
    y, back = rrule(tmap, scaled, few, 2.0, num_threads=2)
    z, back_of_own = rrule(tmap, own_array, few, 100.0)
    return [a.tobytes() for a in (tmap(np.exp, few), y, *back(y)[2:], z, *back_of_own(z)[2:])]

expected, _ = works(), rrule(tmap, own_array, few[:3], 10.0, wrt=0)
for name, (call, room) in CALLS.items():
    before = None
    for _ in range(4):
        resource.setrlimit(resource.RLIMIT_AS, (mapped() + room * MB, -1))
        try:
            call()
        except MemoryError as error:
            del error
        else:
            print(f"{name}: there was memory")
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        if works() != expected:
            print(f"{name}: then something was wrong")
        before = mapped() if before is None else before
    if mapped() - before > 20 * MB:
        print(f"{name}: it was not freed")
print("done")
"""


def test_no_memory_is_a_memory_error() -> None:
    """The next call works, and nothing is leaked."""
    assert run_python(LIMITED) == "done\n"


# ---- no thread to be had

THREADS = """
import os, resource, sys, threading
import numpy as np
from tmapad import rrule, tmap

x = np.linspace(0, 1, 300_000)
y, back = rrule(tmap, np.sin, x, num_threads=1)
expected = [a.tobytes() for a in (y, back(y)[2])]

def right(threads):
    y, back = rrule(tmap, np.sin, x, num_threads=threads)
    return [a.tobytes() for a in (y, back(y)[2])] == expected

def in_child(threads):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if right(threads) else 1)
    return os.waitpid(pid, 0)[1] == 0

if sys.argv[1] == "memory":
    size = 1024 * int(open("/proc/self/status").read().split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (size + 200 * 2**20, -1))
else:
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)           # root is not limited
    resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        pass
    else:
        sys.exit("there are threads")
assert right(1) and right(2) and right(3) and right(900) and right(None) and right(2)
if sys.argv[1] == "memory":                         # else there is no child to be had
    assert in_child(None) and in_child(2) and in_child(900)
"""


@needs_openmp
@pytest.mark.parametrize("limit", ["memory", "number"])
@pytest.mark.parametrize("stack", ["", "100M"])
def test_threads_that_cannot_be_started_are_done_without(limit: str, stack: str) -> None:
    """OpenMP's runtime would end the process."""
    run_python(THREADS, limit, **{"OMP_STACKSIZE": stack} if stack else {})
