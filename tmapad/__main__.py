"""``python -m tmapad``: versions, threads, and the main job on the orbit of a comet, checked and timed.

The main job needs Numba, which compiles a Python function, to be differentiated as it stands. Without it the
same orbit serves for functions that need no compiler. The exit status is 0 if every check passed, else 1.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import json
import math
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tmapad import get_num_threads, register, rrule, show_versions, tmap

Array = np.ndarray[Any, Any]

# Record 90000030 of JPL's Horizons, https://ssd.jpl.nasa.gov/horizons: heliocentric elements of 1968-Feb-21,
# solution JPL#74 of 2024-Apr-16, from observations of 1835 to 1994.
ECCENTRICITY = 0.9679221169240834
ORBIT = {
    "object": "1P/Halley",
    "eccentricity": ECCENTRICITY,
    "perihelion distance in au": 0.575157544193894,
    "period in years": 75.924140333742,
    "source": "JPL Horizons, record 90000030, solution JPL#74, osculating at JD 2439907.5 TDB",
}
SHOWN = f"{ORBIT['object']}, e = {ECCENTRICITY} ({ORBIT['source']})"

ANOMALIES = 1_000_000
REPEATS = 3
EPS = float(np.finfo(np.float64).eps)


@dataclass
class Check:
    """An error that was found, and what it may be."""

    name: str
    error: float
    bound: float
    passed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.passed = bool(self.error <= self.bound)
        if not math.isfinite(self.error):  # JSON has no such number
            self.error = sys.float_info.max


@dataclass
class Timing:
    """Median times of one pass, in seconds, by the number of threads."""

    name: str
    seconds: dict[int, float]


@dataclass
class Job:
    """What was done, and what came of it."""

    description: str
    checks: list[Check] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    missing: str | None = None


# --------------------------------------------------------------------------------------------- the main job


def eccentric_anomaly(mean: float, e: float) -> float:
    """Solve Kepler's equation, mean = E - e sin E, for a mean anomaly from -pi to pi.

    Newton's method from pi or -pi goes straight to the solution: E - e sin E is convex on one side of 0 and
    concave on the other, so that no step leads past it. The nearer to the sun, the more steps it takes.
    """
    anomaly = math.copysign(math.pi, mean)
    step = 1.0
    while abs(step) > 1e-10:  # squared by each step: the next one would be below rounding
        step = (anomaly - e * math.sin(anomaly) - mean) / (1.0 - e * math.cos(anomaly))
        anomaly -= step
    return anomaly


def anomalies() -> Array:
    """Return angles from -pi to pi at equal distances. Of mean anomalies: times at equal distances."""
    return (2.0 * math.pi / ANOMALIES) * (np.arange(ANOMALIES) + 0.5) - math.pi


def kepler(derivative: Callable[..., Any] | None = None) -> Job:
    """Solve Kepler's equation, and differentiate the mean of cos E in every mean anomaly and in e.

    Nobody wrote the derivative: it is that of the code, unless a test gives another one. Over a revolution the mean of
    cos E is -e/2, so its derivative in e must be -1/2: a check that knows nothing of the equation.

    Raises
    ------
    ImportError
        Without Numba.
    """
    e, mean = ECCENTRICITY, anomalies()
    if derivative is not None:
        register(eccentric_anomaly, derivative_from_output=derivative, replace=True)
    y, back = rrule(tmap, eccentric_anomaly, mean, e)
    dy = -np.sin(y) / ANOMALIES
    _, _, dmean, de = back(dy)

    # By the implicit function theorem: dE/dM = 1 / (1 - e cos E), dE/de = sin E / (1 - e cos E).
    slope = 1.0 - e * np.cos(y)
    amplified = 4.0 * EPS / (1.0 - e)  # cos E is rounded in two ways, and 1 - e cos E cancels
    total = math.fsum((dy * np.sin(y) / slope).tolist())
    job = Job(
        f"Kepler's equation M = E - e sin E for {ANOMALIES:,} mean anomalies M of {SHOWN}, solved by "
        "Newton's method in a Python function; the gradient of the mean of cos E in every M and in e, of which nobody "
        "wrote a derivative: it is taken from the code, and compared with the implicit function theorem's."
    )
    job.checks = [
        Check("|E - e sin E - M|", largest(y - e * np.sin(y) - mean), 4.0 * EPS * math.pi),
        Check("gradient in M, relative to the theorem's", relative(dmean, dy / slope), amplified),
        Check("gradient in e, relative to the theorem's", relative(de, total), amplified),
        Check("gradient in e, from -1/2", largest(de + 0.5), 1e-13),
    ]
    time_passes(job, "", eccentric_anomaly, (mean, e), dy)
    return job


# --------------------------------------------------------------------------------------- without a compiler


def no_compiler() -> Job:
    """Map what is compiled already, libm's sin through ctypes and ufuncs of NumPy, on the same orbit."""
    e, anomaly = ECCENTRICITY, anomalies()
    minor = math.sqrt(1.0 - e * e)
    sin, cos = libm("sin"), libm("cos")
    register(sin, derivative=cos, check=0.5, replace=True)
    y, back = rrule(tmap, sin, anomaly)
    dy = np.cos(3.0 * anomaly)
    _, _, danomaly = back(dy)
    # Coordinates in the plane of the orbit, in units of its semi-major axis. Their length is 1 - e cos E.
    u, v = np.cos(anomaly) - e, minor * y
    r, back_r = rrule(tmap, np.hypot, u, v)
    _, _, du, dv = back_r(dy)
    # A factor of all elements gets one cotangent, a sum.
    _, back_v = rrule(tmap, np.multiply, minor, y)
    _, _, dminor, _ = back_v(y)

    job = Job(
        f"Positions at {ANOMALIES:,} eccentric anomalies E on the orbit of {SHOWN}, and gradients: by "
        "libm's sin called through ctypes, with libm's cos for its derivative, and the ufuncs np.hypot and "
        "np.multiply."
    )
    job.checks = [
        Check("sin E, from NumPy's", largest(y - np.sin(anomaly)), 2.0 * EPS),
        Check("its gradient, from NumPy's", largest(danomaly - np.cos(anomaly) * dy), 2.0 * EPS),
        Check("distance r, from 1 - e cos E", largest(r - (1.0 - e * np.cos(anomaly))), 8.0 * EPS),
        Check("its gradient, from (u, v) / r", largest([du - dy * u / r, dv - dy * v / r]), 4.0 * EPS),
        Check("gradient of a factor, relative to fsum's", relative(dminor, math.fsum((y * y).tolist())), 1e-13),
    ]
    time_passes(job, "sin, ", sin, (anomaly,), dy)
    time_passes(job, "hypot, ", np.hypot, (u, v), dy)
    return job


def libm(name: str) -> Any:
    """Return a function of the C library that takes and returns a double."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else ctypes.util.find_library("m"))
    function = library[name]
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
    return function


# ----------------------------------------------------------------------------------- checks, times, a report


def largest(difference: Any) -> float:
    """Return the largest absolute value; NaN if there is one."""
    return float(np.abs(difference).max())


def relative(found: Any, expected: Any) -> float:
    """Return the largest relative difference."""
    return largest((found - expected) / np.maximum(np.abs(expected), np.finfo(np.float64).tiny))


def time_passes(job: Job, name: str, f: Any, xs: tuple[Any, ...], dy: Array) -> None:
    """Add times of both passes on one thread and on all, taken in turn; check that results are the same."""
    numbers = sorted({1, get_num_threads()})
    times: dict[str, dict[int, list[float]]] = {
        pass_: {number: [] for number in numbers} for pass_ in ("forward", "backward")
    }
    results = {}
    for _ in range(REPEATS):
        for number in numbers:
            start = time.perf_counter()
            y, back = rrule(tmap, f, *xs, num_threads=number)
            middle = time.perf_counter()
            _, _, *dxs = back(dy)
            end = time.perf_counter()
            times["forward"][number].append(middle - start)
            times["backward"][number].append(end - middle)
            results[number] = [y, *dxs]
    for pass_, taken in times.items():
        medians = {number: statistics.median(seconds) for number, seconds in taken.items()}
        job.timings.append(Timing(name + pass_, medians))
    pairs = zip(results[1], results[numbers[-1]], strict=True)
    differ = sum(int(np.count_nonzero(one != all_)) for one, all_ in pairs)
    job.checks.append(Check(f"{name}results that depend on threads", differ, 0))


def table(job: Job) -> str:
    """Lay out checks and times."""
    names = [*(check.name for check in job.checks), *(timing.name for timing in job.timings)]
    width = max(map(len, names))
    numbers = sorted(job.timings[0].seconds)
    heads = "".join(f"{number:>7} thread{'s' if number > 1 else ' '}" for number in numbers)
    lines = [f"{'check':<{width}}{'error':>12}{'bound':>12}"]
    for check in job.checks:
        verdict = "passed" if check.passed else "FAILED"
        lines.append(f"{check.name:<{width}}{check.error:>12.2g}{check.bound:>12.2g}  {verdict}")
    lines += ["", f"{'time, the median of ' + str(REPEATS):<{width}}{heads}     ratio"]
    for timing in job.timings:
        cells = "".join(f"{timing.seconds[number] * 1e3:>11.1f} ms" for number in numbers)
        ratio = timing.seconds[numbers[0]] / timing.seconds[numbers[-1]]
        lines.append(f"{timing.name:<{width}}{cells}{ratio:>10.2f}")
    return "\n".join(lines)


def run(job: Callable[[], Job]) -> Job:
    """Do a job; without Numba the other one, and say what is missing."""
    try:
        return job()
    except ImportError as error:
        if error.name != "numba":
            raise
        done = no_compiler()
        done.missing = str(error)
        return done


def main(arguments: Sequence[str] | None = None, job: Callable[[], Job] = kepler) -> int:
    """Do what the command line asks for, and return the exit status; tests have another job done."""
    parser = argparse.ArgumentParser(
        prog="python -m tmapad", description="Versions, threads, and the main job, checked and timed."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    done = run(job)
    passed = all(check.passed for check in done.checks)
    if options.json:
        report = {**(show_versions("dicts") or {}), "orbit": ORBIT, **asdict(done), "passed": passed}
        print(json.dumps(report, indent=2))
    else:
        show_versions()
        print("", textwrap.fill(done.description, 110, break_on_hyphens=False), "", table(done), "", sep="\n")
        if done.missing:
            print(textwrap.fill(f"Not tried: {done.missing}", 110, break_on_hyphens=False))
        print("All checks passed." if passed else "A check FAILED.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
