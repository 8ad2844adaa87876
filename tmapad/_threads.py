"""How many threads a call uses, and why.

The first of these that has something to say decides:

a. ``num_threads=`` of the call.
b. A build without OpenMP, or a process forked after tmapad was imported: 1.
c. A limit set in the calling thread, as by ``threadpoolctl.threadpool_limits``. OpenMP keeps a number for
   each thread, so a limit is a number other than a new thread's. One equal to it cannot be told from none.
d. ``OMP_NUM_THREADS`` as it was when tmapad was imported. OpenMP reads its variables once, at its start, and
   so does tmapad.
e. The smallest of OpenMP's own number, the CPUs the calling thread may run on, and the CPU quota rounded up.

Nothing here sets a limit, changes the environment or enters a parallel region.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import re
import reprlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from tmapad import _core
from tmapad._patterns import pattern

# More than anybody can mean. The OpenMP runtime ends the process when the system has no more threads for it.
LARGEST = max(1024, 8 * (os.cpu_count() or 1))

# Affinity and quota are taken to stay as they are for so many seconds: reading them can take a millisecond.
MEMORY = 1.0

# These make OpenMP pin threads, first of all the one that loads it, whose affinity then limits no other.
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")

ENVIRONMENT = {name: os.environ.get(name, "") for name in ("OMP_NUM_THREADS", *BINDING)}

# Rules, in the words of a report.
NO_OPENMP = "tmapad was built without OpenMP"
FORKED = "this process was forked from one that had imported tmapad: serial unless num_threads= is given"
LIMITED = "a limit is set in the calling thread"
REQUESTED = "OMP_NUM_THREADS"
SMALLEST = "the smallest of OpenMP's own number, the CPU affinity and the CPU quota rounded up"


@dataclass(frozen=True)
class ThreadReport:
    """The number of threads a call would use now, and why: which rule decided and what each source says."""

    number: int
    why: str


def get_num_threads() -> int:
    """Return the number of threads that a call without ``num_threads=`` would use now, in this thread.

    Returns
    -------
    int
        A limit set in the calling thread (``threadpoolctl.threadpool_limits``), else ``OMP_NUM_THREADS``,
        else the smallest of OpenMP's own number, the CPUs this thread may run on, and the CPU quota of its
        container rounded up. 1 in a forked child and in a build without OpenMP. Little work uses one thread
        all the same.

    Notes
    -----
    ``OMP_NUM_THREADS`` counts as it was when tmapad was imported: OpenMP too ignores later changes. Changes
    of affinity and quota are seen within two seconds.

    Examples
    --------
    >>> from threadpoolctl import threadpool_limits
    >>> from tmapad import get_num_threads
    >>> with threadpool_limits(1):
    ...     get_num_threads()
    1
    """
    return _decide_now()[0]


def thread_report() -> ThreadReport:
    """Return the number of threads that a call would use now, and why; affinity and quota are read anew."""
    _quota.cache_clear()
    _seen.answer = _NOTHING_SEEN
    number, rule = _decide_now(explain=True)
    return ThreadReport(number, f"{rule} ({_sources()})")


def check_num_threads(value: object) -> int:
    """Return the value of the keyword ``num_threads`` as an int, if it can be one."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        shown = f"{reprlib.repr(value)} ({type(value).__name__})"
        raise TypeError(f"num_threads must be an integer from 1 to {LARGEST}, got {shown}") from None
    if not 1 <= number <= LARGEST:
        # Python refuses to print thousands of digits.
        shown = str(number) if number.bit_length() <= 64 else f"one of {number.bit_length()} bits"
        raise ValueError(f"num_threads must be an integer from 1 to {LARGEST}, got {shown}")
    return number


def decide(
    own: int,
    requested: int | None,
    available: Callable[[], int],
    new_thread: Callable[[], int | None],
    *,
    explain: bool = False,
) -> tuple[int, str]:
    """Return the default number of threads where there can be several, and the rule that decided.

    Parameters
    ----------
    own : int
        OpenMP's number in the calling thread.
    requested : int or None
        What OMP_NUM_THREADS asks for.
    available : callable
        Returns the CPUs that affinity and quota leave. Called only without OMP_NUM_THREADS.
    new_thread : callable
        Returns OpenMP's number in a new thread, None if that cannot be found out. Called only if the number
        depends on it, as it may have to start one.
    explain : bool
        Whether to name a limit as the rule even where the number is the same without it.
    """
    own_counts = 1 <= own <= LARGEST
    if requested is not None:
        usual, rule = requested, REQUESTED
    else:
        usual, rule = available(), SMALLEST
        if own_counts and own < usual:
            usual = own
    if own_counts and (own != usual or explain) and new_thread() not in (own, None):
        return own, LIMITED
    return usual, rule


# A list has one number for each level of nested regions. More than nine digits need not fit OpenMP's int.
_NUMBER = r"\s*\+?0*[1-9]\d{0,8}\s*"
_NUMBERS = pattern(f"({_NUMBER})(?:,{_NUMBER})*", re.ASCII)


def parse_num_threads(text: str) -> int | None:
    """Return the first number of OMP_NUM_THREADS, None if it is malformed, as OpenMP sees it, or absurd."""
    match = _NUMBERS.fullmatch(text)
    number = int(match[1]) if match else 0
    return number if 1 <= number <= LARGEST else None


_requested = parse_num_threads(ENVIRONMENT["OMP_NUM_THREADS"])


def binding_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable that makes OpenMP pin threads to CPUs, if one does."""
    says = {name: environment.get(name, "").strip().lower() for name in BINDING}
    return next((name for name in BINDING if says[name] not in ("", "false")), None)


def cpu_affinity() -> int:
    """Return the number of CPUs that the calling thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Return the number of CPUs whose time the process may use, None without a limit.

    Both versions of cgroups are asked, and every ancestor that can be seen; the smallest limit counts. What
    is missing or malformed limits nothing. `root` is where the file system begins, for tests.
    """
    paths = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "cpu" in controllers.split(","):
            paths["cgroup"] = path
        elif number == "0":
            paths["cgroup2"] = path
    quotas = [
        _quota_of(directory, kind)
        for kind, mounted, point in _mounts(root)
        for directory in _directories(root / point.lstrip("/"), mounted, paths.get(kind, "/"))
    ]
    return min((quota for quota in quotas if quota is not None), default=None)


# Limits change, mounts do not; and a host of containers has thousands of them.
@functools.cache
def _mounts(root: Path) -> list[tuple[str, str, str]]:
    """Return type, mounted directory and mount point of every hierarchy that can limit CPU time."""
    mounts = []
    for line in _read(root / "proc/self/mountinfo").splitlines():
        # proc(5): id, parent, device, mounted directory, mount point, ..., "-", type, source, its options
        before, _, after = line.partition(" - ")
        place, (kind, *rest) = before.split(" ")[3:5], after.split(" ")
        if len(place) == 2 and (kind == "cgroup2" or (kind == "cgroup" and "cpu" in rest[-1].split(","))):
            mounts.append((kind, _unescape(place[0]), _unescape(place[1])))
    usual = (("cgroup2", ""), ("cgroup", "/cpu"), ("cgroup", "/cpu,cpuacct"))
    return mounts or [(kind, "/", f"/sys/fs/cgroup{place}") for kind, place in usual]


def _unescape(field: str) -> str:
    r"""Return a field of mountinfo as it was before spaces became \040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _directories(point: Path, mounted: str, path: str) -> Iterator[Path]:
    """Yield the mount point and, if the cgroup `path` is below it, every directory down to that."""
    yield point
    try:
        below = PurePosixPath(path).relative_to(mounted).parts
    except ValueError:
        # The path of another namespace: what is mounted is then the container's own cgroup.
        return
    for part in () if ".." in below else below:
        point /= part
        yield point


def _quota_of(directory: Path, kind: str) -> float | None:
    """Return the limit of one cgroup: microseconds of CPU time in each period of so many microseconds."""
    if kind == "cgroup2":
        fields = _read(directory / "cpu.max").split()
    else:
        fields = [_read(directory / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    try:
        quota, period = map(int, fields)
        # No limit is "max" in version 2, which is no integer, and -1 in version 1.
        return quota / period if quota > 0 and period > 0 else None
    except (ValueError, OverflowError):
        return None


def _read(path: Path) -> str:
    """Return the text of a file, "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (OSError, ValueError):
        return ""


@functools.lru_cache(maxsize=1)
def _quota(period: int) -> float | None:  # noqa: ARG001 - another period of MEMORY seconds is another reading
    return cgroup_quota()


_NOTHING_SEEN = (0.0, 1)


class _Seen(threading.local):
    """Until when an answer holds, and the answer. Affinity belongs to a thread, so each has its own."""

    answer = _NOTHING_SEEN


_seen = _Seen()


def _available() -> int:
    """Return the number of CPUs that affinity and quota leave the calling thread."""
    until, number = _seen.answer
    now = time.monotonic()
    if now >= until:
        number = LARGEST if binding_variable(ENVIRONMENT) else cpu_affinity()
        quota = _quota(int(now / MEMORY))
        if quota is not None:
            number = min(number, math.ceil(quota))
        _seen.answer = now + MEMORY, number
    return number


@functools.cache
def _number_in_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(_core.openmp_max_threads()), name="tmapad-threads")
    thread.start()
    thread.join()
    return found[0]


def _new_thread() -> int | None:
    """Return OpenMP's number in a new thread, in which nobody set a limit; None if none can be started."""
    try:
        # A thread that starts while Python shuts down is never heard of again.
        return None if sys.is_finalizing() else _number_in_new_thread()
    except RuntimeError:
        # The process has all the threads it may have.
        return None


def _decide_now(*, explain: bool = False) -> tuple[int, str]:
    if not _core.openmp_enabled():
        return 1, NO_OPENMP
    if _core.in_forked_child():
        return 1, FORKED
    return decide(_core.openmp_max_threads(), _requested, _available, _new_thread, explain=explain)


def _sources() -> str:
    """Return what each source says."""
    text, binding, quota = ENVIRONMENT["OMP_NUM_THREADS"], binding_variable(ENVIRONMENT), cgroup_quota()
    says = {
        "OMP_NUM_THREADS": repr(text) if text else "not set",
        "OpenMP": "not asked",
        "CPU affinity": str(cpu_affinity()),
        "CPU quota": "none" if quota is None else f"{quota:.4g}",
    }
    if text and _requested is None:
        says["OMP_NUM_THREADS"] += f", ignored as it is no number from 1 to {LARGEST}"
    if _core.openmp_enabled() and not _core.in_forked_child():
        own, other = _core.openmp_max_threads(), _new_thread() or "unknown"
        says["OpenMP"] = f"{own} in this thread, {other} in a new one"
    if binding:
        says["CPU affinity"] += f", not counted as {binding} pins threads"
    return "; ".join(f"{source}: {said}" for source, said in says.items())
