"""Kepler's equation, a loop that ends when the data says so: value and gradient, against Numba's value alone.

Nobody wrote a derivative: tmapad takes it from the code, in both arguments. What two threads can give at all on this
machine is told by two threads of Python, each of which runs Numba's loop on its half and shares nothing with the other.
Then the time to a first result, in processes of their own: import, compile and call, with an empty cache and with one
that has the function.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
from _compare import compare, in_words, rounds_from_command_line, show, spread, target
from numba import njit

from tmapad import rrule, tmap

ROUNDS = rounds_from_command_line(__doc__, 25)
ELEMENTS = 1_000_000
STARTS = 7  # of processes of each kind


def kepler(mean: float, e: float) -> float:
    anomaly = mean
    for _ in range(50):
        step = (anomaly - e * math.sin(anomaly) - mean) / (1.0 - e * math.cos(anomaly))
        anomaly = anomaly - step
        if abs(step) < 1e-14:
            break
    return anomaly


compiled = njit(error_model="numpy")(kepler)


@njit(error_model="numpy", nogil=True)
def by_numba(mean, e, out):
    for i in range(mean.size):
        out[i] = compiled(mean[i], e)


e, mean = 0.3, np.random.default_rng(1).uniform(0.1, 4.1, ELEMENTS)
dy, y, dmean, expected = np.ones_like(mean), np.empty_like(mean), np.empty_like(mean), np.empty_like(mean)


def by_two_threads() -> None:
    half = ELEMENTS // 2
    threads = [
        threading.Thread(target=by_numba, args=(mean[part], e, expected[part]))
        for part in (slice(half), slice(half, None))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_tmapad(threads: int) -> float:
    _, back = rrule(tmap, kepler, mean, e, out=y, num_threads=threads)
    return back(dy, out=(dmean, None))[3]


by_numba(mean, e, expected)
for threads in (1, 2):
    de = by_tmapad(threads)
    slope = 1.0 - e * np.cos(y)
    np.testing.assert_allclose(y, expected, rtol=4e-15)
    np.testing.assert_allclose(dmean, 1.0 / slope, rtol=1e-13)
    np.testing.assert_allclose(de, math.fsum(np.sin(y) / slope), rtol=1e-13)

value, halves = "njit, value", "njit, value, on halves by 2 threads of Python"
one, two = "tmapad, value and gradient, 1 thread", "tmapad, value and gradient, 2 threads"
comparison = compare(
    {
        value: lambda: by_numba(mean, e, expected),
        halves: by_two_threads,
        one: lambda: by_tmapad(1),
        two: lambda: by_tmapad(2),
    },
    rounds=ROUNDS,
)
show(f"Kepler's equation for {ELEMENTS:,} mean anomalies, times that of the value by njit", comparison)
target("value and gradient on one thread, over njit's value,", comparison.ratios(one, value), at_most=1.3)
target("one thread, over two,", comparison.ratios(one, two), at_least=1.9)
print(f"  control: the same of two threads that share nothing: {spread(comparison.ratios(value, halves))}")

# ---------------------------------------------------------------------------------------------- first results

# What each process runs after a clock was started; `kepler` is in a file that they import.
FIRST_NUMBA = """
from numba import njit
y = njit(kepler)(1.0, 0.3)
"""
FIRST_TMAPAD = """
import numpy as np
from tmapad import rrule, tmap
y, back = rrule(tmap, kepler, np.array([1.0]), 0.3)
y, (_, _, dmean, de) = y[0], back(np.ones(1))
assert abs(dmean[0] * (1.0 - 0.3 * math.cos(y)) - 1.0) < 1e-13
"""
TIMED = """
import math, time
from kepler import kepler
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
assert abs(y - 0.3 * math.sin(y) - 1.0) < 1e-14
"""


def first_result(code: str, folder: Path, cache: Path) -> float:
    """Seconds to a first result in a fresh process."""
    env = {**os.environ, "TMAPAD_CACHE_DIR": str(cache), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", TIMED.format(code=code)]
    return float(subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=True).stdout)


SOURCE = "".join(Path(__file__).read_text().partition("def kepler")[1:]).partition("\n\n\n")[0]
first = {"njit, value": FIRST_NUMBA, "tmapad, value and gradient": FIRST_TMAPAD, "the same, cached": FIRST_TMAPAD}
times: dict[str, list[float]] = {name: [] for name in first}
with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary)
    (folder / "kepler.py").write_text(f"import math\n\n{SOURCE}\n")
    # The first round fills the cache, and compiles the modules of all packages to bytecode; it does not count.
    for k in range(-1, STARTS):
        for name, code in first.items():
            cache = "cached" if name == "the same, cached" else f"empty {k}"
            taken = first_result(code, folder, folder / cache)
            if k >= 0:
                times[name].append(taken)

print("\nFirst result in a fresh process, after Python itself has started")
for name, taken in times.items():
    print(f"  {name:<26}  {in_words(statistics.median(taken)):>9}")
ratios = [[a / b for a, b in zip(taken, times["njit, value"], strict=True)] for taken in times.values()]
target("value and gradient, over njit's value,", ratios[1], at_most=3.0)
target("from the cache, over njit's value,", ratios[2], at_most=0.2)
