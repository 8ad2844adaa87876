"""A soak: processes and threads do random things for a time, and every result is compared with another's.

    python tests/soaking.py --seconds 3600

`DEEDS` says what is done and `SUBJECTS` to which functions; what each step does follows from the seed and its
place, ``process/thread/step``, which a failure names: ``--only 1/0/17 --seed 5`` does that step alone. A result has
to have the bits of the same call on one thread, for plain arrays, and a few of its elements are compared with a
reference. Meanwhile processes are sent SIGINT, and they watch themselves: a step that takes too long, threads,
memory and files that become more, anything said on stderr.
"""

import argparse
import faulthandler
import functools
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import workloads
import zoo
from layouts import LAYOUTS
from random_programs import written
from same import PLAIN, SCHEDULES, bits

import tmapad
from tmapad import derivative, partials, rrule, tmap

TOO_LONG = 60.0  # s, of a step
MOST_TASKS = 100  # operating-system threads of a process
MOST_GROWTH = 300  # MB, of a process once it is warm
MOST_FILES = 40  # more than at the start
WARM = 1 / 3  # of the time
LONG_ENOUGH = 50.0  # s, for everything to be done once

Draw = random.Random


# ------------------------------------------------------------------------------------------- functions


@dataclass(frozen=True)
class Subject:
    """A function: `make` gives it, the same each time or a new one; without `partials` only its bits are compared."""

    name: str
    make: Callable[[Draw], Any]
    domain: tuple[tuple[float, float], ...]
    chars: str = "d"
    value: Callable[..., Any] | None = None
    partials: tuple[Callable[..., Any], ...] = ()


def attenuated(scale: float, steps: int) -> Callable[[float], float]:
    """A closure: its number is an argument of the compiled code, its integer a constant in it."""

    def closure(x: float) -> float:
        y = x
        for _ in range(steps):
            y = math.sin(y) * scale
        return y

    return closure


def program(draw: Draw) -> Any:
    return written(draw.randrange(12), nin=2, ncaptured=1, nout=1).function()


SUBJECTS = (
    *(Subject(e.name, lambda _, e=e: e.f, e.domain, e.chars, e.value, e.partials) for e in zoo.ENTRIES),
    *(Subject(w.name, lambda _, w=w: w.f, w.domain, "D" if w.complex else "fd") for w in workloads.WORKLOADS),
    Subject("closure", lambda draw: attenuated(draw.uniform(0.5, 2), draw.randrange(4)), ((-3, 3),), "fd"),
    Subject("partial", lambda draw: functools.partial(workloads.damped, draw.uniform(0.5, 2)), ((-3, 3),), "fd"),
    Subject("random program", program, ((-3, 3), (-3, 3))),
)

# --------------------------------------------------------------------------------------- arrays and options

SHAPES = (
    (),
    (0,),
    (3, 0),
    (1,),
    (7,),
    (513,),
    (2, 1, 40),
    (3000,),
    (41, 53),
    (9, 5, 60),
    (3000,),
    (20_000,),
    (70_000,),
)
THREADS = (None, 1, 2, 2, 3, 5)
CHUNKS = (None, None, 1, 7, 64, 1000)
WRITABLE = [name for name in LAYOUTS if name not in ("read-only", "memory-mapped", "unaligned")]


def options(draw: Draw) -> dict[str, Any]:
    return {
        "num_threads": draw.choice(THREADS),
        "schedule": draw.choice(SCHEDULES),
        "chunk_size": draw.choice(CHUNKS),
    }


def arguments(draw: Draw, subject: Subject, shape: tuple[int, ...]) -> list[Any]:
    """Plain arrays in the domain, which broadcast to `shape`."""
    rng = np.random.default_rng(draw.getrandbits(32))
    char, xs = draw.choice(subject.chars), []
    for k, (low, high) in enumerate(subject.domain):
        own = shape
        if k and draw.random() < 0.4:
            own = tuple(1 if draw.random() < 0.5 else n for n in shape)[draw.randrange(len(shape) + 1) :]
        x = rng.uniform(low, high, own) + (1j * rng.uniform(low, high, own) if char in "FD" else 0)
        xs.append(np.asarray(x).astype(char))
    return xs


def laid_out(draw: Draw, x: Any, names: Any = tuple(LAYOUTS)) -> Any:
    return LAYOUTS[draw.choice(names)](x) if x.ndim else x


def cotangent(draw: Draw, y: Any) -> Any:
    """Numbers over many powers of ten, and some zeros."""
    rng = np.random.default_rng(draw.getrandbits(32))
    y = np.asarray(y)
    reach = 2 if y.dtype.char == "e" else 10
    dy = rng.normal(size=y.shape) * 10.0 ** rng.integers(-reach, reach, y.shape) * (rng.random(y.shape) < 0.9)
    return (dy * (1 - 0.5j) if y.dtype.kind == "c" else dy).astype(y.dtype)


# ------------------------------------------------------------------------------------------------- checking


class WrongError(Exception):
    pass


def same(got: Any, expected: Any, *told: Any) -> None:
    if bits(got) != bits(expected):
        raise WrongError(f"{told}: {got} instead of {expected}")


def near(draw: Draw, got: Any, xs: list[Any], reference: Callable[..., Any] | None) -> None:
    """A few elements of a result against scalar Python in double precision."""
    got = np.asarray(got)
    if reference is None or not got.size:
        return
    wide = np.broadcast_arrays(*xs)
    for _ in range(3):
        at = tuple(draw.randrange(n) for n in got.shape)
        expected = complex(reference(*(x[at].item() for x in wide)))
        tolerance = {2: 4e-3, 4: 1e-4, 8: 1e-9}[got.real.dtype.itemsize]
        if abs(complex(got[at]) - expected) > tolerance * max(abs(expected), 1.0):
            raise WrongError(f"element {at} is {got[at]}, and should be about {expected}")


# ----------------------------------------------------------------------------------------------- interrupts


class Window:
    """When the main thread may be interrupted: in calls of functions that have been compiled."""

    open = False
    seen = 0

    @classmethod
    def call(cls, f: Callable[..., Any], *xs: Any, **keywords: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return f(*xs, **keywords)
        cls.open = True
        try:
            return f(*xs, **keywords)
        finally:
            cls.open = False

    @classmethod
    def handler(cls, number: int, frame: Any) -> None:
        if cls.open:
            cls.open = False
            cls.seen += 1
            raise KeyboardInterrupt


# -------------------------------------------------------------------------------------------- what is done


@dataclass
class Case:
    """A function with arguments, and what one thread makes of them."""

    draw: Draw
    subject: Subject
    f: Any
    xs: list[Any]

    @classmethod
    def of(cls, draw: Draw, *, subjects: Any = SUBJECTS, shape: tuple[int, ...] | None = None) -> "Case":
        subject = draw.choice(subjects)
        return cls(
            draw, subject, subject.make(draw), arguments(draw, subject, draw.choice(SHAPES) if shape is None else shape)
        )

    def serial(self) -> Any:
        return tmap(self.f, *(x.copy() for x in self.xs), **PLAIN)

    def serial_gradient(self, dy: Any) -> Any:
        _, back = rrule(tmap, self.f, *(x.copy() for x in self.xs), **PLAIN)
        return back(dy)


def maps(draw: Draw) -> None:
    """Values, into a new array or over an argument, from arrays of any layout."""
    case = Case.of(draw)
    y = case.serial()
    near(draw, y, case.xs, case.subject.value)
    same(Window.call(tmap, case.f, *(laid_out(draw, x) for x in case.xs), **options(draw)), y, "map")
    first = case.xs[0]
    if np.ndim(y) and first.shape == y.shape and first.dtype == y.dtype:
        out = laid_out(draw, first, WRITABLE)
        others = [laid_out(draw, x) for x in case.xs[1:]]
        Window.call(tmap, case.f, out, *others, out=out, **options(draw))
        same(np.asarray(out, y.dtype), y, "in place")


def pulls(draw: Draw) -> None:
    """Gradients, with saved and recomputed residuals, several times, also from several threads at once."""
    case = Case.of(draw)
    y = case.serial()
    dy = cotangent(draw, y)
    expected = case.serial_gradient(dy)
    xs = [laid_out(draw, x) for x in case.xs]
    residuals = draw.choice(("auto", "save", "recompute"))
    got, back = Window.call(rrule, tmap, case.f, *xs, residuals=residuals, **options(draw))
    same(got, y, "forward", residuals)
    for _ in range(draw.randrange(1, 3)):
        same(Window.call(back, laid_out(draw, dy)), expected, "back", residuals)
    if draw.random() < 0.3:
        with ThreadPoolExecutor(3) as pool:
            for result in pool.map(back, [dy] * 4):
                same(result, expected, "back from a thread", residuals)
    full = [dx for dx, x in zip(expected[2:], case.xs, strict=True) if x.shape == np.shape(y)]
    if len(full) == len(case.subject.partials) and np.size(y):
        ones = case.serial_gradient(np.ones_like(y))
        for dx, partial in zip(ones[2:], case.subject.partials, strict=True):
            near(draw, np.conj(dx), case.xs, partial)


def takes_partials(draw: Draw) -> None:
    """The Jacobian: what the pullback makes of ones, where nothing is summed."""
    case = Case.of(draw)
    xs = [np.broadcast_to(x, np.broadcast_shapes(*(x.shape for x in case.xs))) for x in case.xs]
    if xs[0].ndim == 0 or xs[0].dtype.kind == "c":
        return
    case.xs = [x.copy() for x in xs]
    y = case.serial()
    if np.asarray(y).dtype != xs[0].dtype:
        return
    expected = case.serial_gradient(np.ones_like(y))
    got, ds = Window.call(partials, case.f, *xs, wrt=tuple(range(len(xs))), **options(draw))
    same(got, y, "partials")
    for d, dx in zip(ds, expected[2:], strict=True):
        np.testing.assert_array_equal(d, dx)


def differentiates(draw: Draw) -> None:
    """A derivative that is a function of its own."""
    case = Case.of(
        draw, subjects=[s for s in SUBJECTS if s.name in ("kepler", "logistic", "power", "damped", "closure")]
    )
    slope = derivative(case.f)
    y = tmap(slope, *case.xs, **PLAIN)
    same(Window.call(tmap, slope, *(laid_out(draw, x) for x in case.xs), **options(draw)), y, "derivative")


def picky(x: float) -> float:
    if x > 10.0:
        raise ValueError("too large")
    return x * x


def fails(draw: Draw) -> None:
    """The exception is that of the lowest element, which it names."""
    n = draw.choice((1, 50, 3000, 70_000))
    x = np.linspace(0, 9, n)
    bad = sorted(draw.sample(range(n), min(n, draw.randrange(1, 5))))
    x[bad] = 11.0
    call = draw.choice((tmap, functools.partial(rrule, tmap)))
    try:
        Window.call(call, picky, laid_out(draw, x), **options(draw))
    except ValueError as error:
        if f"at element {bad[0]} with" not in error.__notes__[0]:
            raise WrongError(f"{error.__notes__} instead of element {bad[0]}") from error
    else:
        raise WrongError("nothing was raised")


def sums(draw: Draw) -> None:
    """The cotangent of a number that all elements share: every term once, accurately."""
    n = draw.choice((1000, 20_000, 100_000))
    rng = np.random.default_rng(draw.getrandbits(32))
    x, dy = rng.normal(size=n), rng.normal(size=n) * 10.0 ** rng.integers(-8, 8, n)
    expected = rrule(tmap, np.multiply, 1.5, x, **PLAIN)[1](dy)[2]
    terms = x * dy
    error = abs(expected - math.fsum(terms)) / math.fsum(np.abs(terms))
    if error > 1e-14:
        raise WrongError(f"a sum is wrong by {error}")
    _, back = rrule(tmap, np.multiply, 1.5, laid_out(draw, x), **options(draw))
    same(Window.call(back, laid_out(draw, dy))[2], expected, "sum")


def counts(draw: Draw) -> None:
    """None of them is lost."""
    n = draw.randrange(1, 5000)
    _, back = rrule(tmap, np.add, 1.0, np.zeros(n), num_threads=draw.randrange(2, 9), chunk_size=1)
    same(back(np.ones(n))[2], np.float64(n), "count")


def compiles(draw: Draw) -> None:
    """A function that is new to this process, and maybe to the cache."""
    k, c = draw.randrange(8), draw.uniform(-1, 1)
    x = np.linspace(0, 1, 1000)
    y, back = rrule(tmap, lambda t: t * t * k + c, x, **options(draw))
    same(y, x * x * k + c, "compiled")
    same(back(np.ones(1000))[1].c, np.float64(1000), "captured")


def in_pools(draw: Draw) -> None:
    """Threads of Python that come, call and go."""
    case = Case.of(draw, shape=(3000,))
    y, run = case.serial(), options(draw)
    with ThreadPoolExecutor(3) as pool:
        for result in pool.map(lambda _: tmap(case.f, *case.xs, **run), range(6)):
            same(result, y, "in a pool")


def forks(draw: Draw) -> None:
    """A child, forked while other threads are in the middle of anything, does the same things."""
    seed = draw.getrandbits(32)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(int(TOO_LONG / 2))
            child_draw = Draw(seed)
            for _ in range(3):
                child_draw.choice((maps, pulls, fails, sums, compiles, counts, grandchild))(child_draw)
            status = 0
        except BaseException as error:  # noqa: BLE001 - nothing may go on in the parent's place
            os.write(1, f"WRONG in a forked child: {error!r}\n".encode())
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise WrongError("a forked child failed")


def grandchild(draw: Draw) -> None:
    if draw.random() < 0.5:
        forks(draw)


# What is done, and how often in comparison.
DEEDS: dict[Callable[[Draw], None], int] = {
    maps: 10,
    pulls: 10,
    takes_partials: 3,
    differentiates: 1,
    fails: 3,
    sums: 3,
    counts: 2,
    compiles: 2,
    in_pools: 2,
    forks: 2,
}

# ------------------------------------------------------------------------------------------------ a process


class Soak:
    """What one process does: the main thread and others take steps, another one watches."""

    def __init__(self, seed: int, process: int, threads: int, seconds: float) -> None:
        self.seed, self.process, self.threads = seed, process, threads
        self.began = time.monotonic()
        self.end = self.began + seconds
        self.warm = self.began + WARM * seconds
        self.done: Counter[str] = Counter()
        self.at: dict[int, tuple[float, str]] = {}  # by thread: since when it does which step
        self.wrong: list[str] = []
        self.most: dict[str, float] = {}

    def step(self, thread: int, number: int) -> None:
        place = f"{self.process}/{thread}/{number}"
        draw = Draw(f"{self.seed}/{place}")
        deed = draw.choices(list(DEEDS), list(DEEDS.values()))[0]
        self.at[thread] = time.monotonic(), f"{place} {deed.__name__}"
        try:
            deed(draw)
            self.done[deed.__name__] += 1
        except KeyboardInterrupt:
            self.done["interrupted"] += 1
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is wrong
            self.wrong.append(f"--only {place} --seed {self.seed}: {deed.__name__}: {type(error).__name__}: {error}")

    def steps(self, thread: int) -> None:
        number = 0
        while time.monotonic() < self.end and not self.wrong:
            self.step(thread, number)
            number += 1
        self.at.pop(thread, None)

    def watch(self) -> None:
        """Threads, memory and files, which may not become more and more; steps that do not end."""
        start: dict[str, float] = {}
        while self.at:
            now = usage()
            if time.monotonic() > self.warm:
                start = start or now
                self.most = {name: max(value, self.most.get(name, 0)) for name, value in now.items()}
                for name, most in (("tasks", MOST_TASKS), ("MB", start["MB"] + MOST_GROWTH), ("files", MOST_FILES)):
                    if now[name] > most:
                        self.wrong.append(f"{name}: {now[name]:.0f}, more than {most:.0f}")
            for since, what in list(self.at.values()):
                if time.monotonic() - since > TOO_LONG:
                    print(f"WRONG hangs: --seed {self.seed} {what}", flush=True)
                    faulthandler.dump_traceback(file=sys.stdout)
                    os._exit(3)
            time.sleep(0.2)
        self.most["MB grown"] = self.most.get("MB", 0) - start.get("MB", 0)

    def run(self) -> int:
        faulthandler.enable()
        faulthandler.register(signal.SIGALRM, file=sys.stdout, chain=True)  # of a forked child that takes too long
        signal.signal(signal.SIGINT, Window.handler)
        sys.unraisablehook = self.unraisable
        print("ready", flush=True)
        now = time.monotonic(), "starts"
        self.at = dict.fromkeys(range(self.threads), now)
        others = [threading.Thread(target=self.steps, args=(k,)) for k in range(1, self.threads)]
        watcher = threading.Thread(target=self.watch)
        for thread in (*others, watcher):
            thread.start()
        self.steps(0)
        for thread in (*others, watcher):
            thread.join()
        for wrong in self.wrong:
            print("WRONG", wrong, flush=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(json.dumps({**self.done, "interrupts": Window.seen, **self.most}), flush=True)
        return 1 if self.wrong else 0

    def unraisable(self, what: Any) -> None:
        """Ctrl-C may strike where Python can only print it; nothing else may."""
        if what.exc_type is not KeyboardInterrupt:
            self.wrong.append(f"unraisable: {what.exc_value!r} in {what.object!r}")


def usage() -> dict[str, float]:
    status = Path("/proc/self/status").read_text()
    resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "tasks": sum(1 for _ in Path("/proc/self/task").iterdir()),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "MB": int(resident) / 1024,
    }


# --------------------------------------------------------------------------------------------- all of them


def soak(seconds: float, seed: int, processes: int, threads: int, without: list[str]) -> list[str]:
    """Run the processes, interrupting them; return what was wrong, and print what was done."""
    draw, wrong, total = Draw(seed), [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TMAPAD_CACHE_DIR": f"{folder}/cache"}
        command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__]  # of forks while there are threads
        command += ["--seconds", str(seconds), "--seed", str(seed), "--threads", str(threads)]
        command += [f"--without={deed}" for deed in without]
        running = []
        for k in range(processes):
            with Path(folder, f"out{k}").open("w") as out, Path(folder, f"err{k}").open("w") as err:
                running.append(subprocess.Popen([*command, "--process", str(k)], stdout=out, stderr=err, env=env))
        end = time.monotonic() + seconds + 2 * TOO_LONG
        while any(process.poll() is None for process in running):
            time.sleep(draw.uniform(0.01, 0.2))
            for k, process in enumerate(running):
                late = time.monotonic() > end
                if process.poll() is None and (late or Path(folder, f"out{k}").stat().st_size):
                    process.send_signal(signal.SIGABRT if late else signal.SIGINT)
        for k, process in enumerate(running):
            out, err = (Path(folder, f"{name}{k}").read_text() for name in ("out", "err"))
            wrong += [f"process {k}: {line}" for line in out.splitlines() if line.startswith("WRONG")]
            wrong += [f"process {k} ended with {process.returncode}: {out[-3000:]}"] * (process.returncode != 0)
            wrong += [f"process {k} said: {err[-3000:]}"] * bool(err)
            if process.returncode == 0:
                summary = json.loads(out.splitlines()[-1])
                print(f"process {k}: {summary}")
                total.update({name: summary.get(name, 0) for name in (*(d.__name__ for d in DEEDS), "interrupts")})
    if seconds >= LONG_ENOUGH:
        wrong += [f"never done: {name}" for name, count in total.items() if not count]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Random work for a time, every result compared.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=3, help="of Python, in each process")
    parser.add_argument("--process", type=int, help="be this one of the processes")
    parser.add_argument("--only", help="do one step: process/thread/number")
    parser.add_argument("--without", action="append", default=[], help="leave this out of what is done")
    given = parser.parse_args()
    for deed in [deed for deed in DEEDS if deed.__name__ in given.without]:
        del DEEDS[deed]
    if given.only:
        process, thread, number = map(int, given.only.split("/"))
        one = Soak(given.seed, process, given.threads, 0)
        one.step(thread, number)
        print(*one.wrong or [one.at[thread][1], "right"])
        return len(one.wrong)
    if given.process is not None:
        return Soak(given.seed, given.process, given.threads, given.seconds).run()
    print(f"seed {given.seed}", flush=True)
    wrong = soak(given.seconds, given.seed, given.processes, given.threads, given.without)
    print(*wrong or ["nothing was wrong"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
