"""``progress=``: who is told how far a call has come, by which thread, and what becomes of an error in it."""

import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import c_library
import numpy as np
import pytest
from same import assert_same
from test_process import needs_fork, run_python

from tmapad import partials, register, rrule, tmap

pytestmark = pytest.mark.compiler
RUNS: list[dict[str, Any]] = [
    {"num_threads": 1},
    {"num_threads": 2},
    {"num_threads": 4, "schedule": "static"},
    {"num_threads": 3, "schedule": "guided"},
    {"num_threads": 2, "chunk_size": 1},
    {},
]


class Heard:
    """To be called with progress: notes what was said, and by which thread; does something more."""

    def __init__(self, more: Callable[[], object] = lambda: None) -> None:
        self.said: list[tuple[int, int]] = []
        self.threads: set[int] = set()
        self.more = more

    def __call__(self, done: int, total: int) -> None:
        self.said.append((done, total))
        self.threads.add(threading.get_ident())
        self.more()

    def check(self, total: int) -> None:
        """What holds of every call that ended well."""
        assert self.said[-1] == (total, total)
        done = [d for d, _ in self.said]
        assert all(a < b for a, b in itertools.pairwise(done))
        assert done[0] >= 0
        assert {t for _, t in self.said} == {total}
        assert all(type(d) is int for d in done)
        assert self.threads == {threading.get_ident()}


@functools.cache
def sleeps() -> Any:
    """x, after x seconds, and the derivative 1 after as long."""
    return register(c_library.function("sleeps"), derivative=c_library.function("sleeps_derivative"))


def naps(seconds: float, n: int = 400) -> Any:
    return np.full(n, seconds / n)


# ---- what is said


@pytest.mark.parametrize("run", RUNS, ids=repr)
def test_a_long_call_says_how_far_it_is(run: dict[str, Any]) -> None:
    heard = Heard()
    x = naps(0.5 * run.get("num_threads", 2))
    assert (tmap(sleeps(), x, progress=heard, **run) == x).all()
    heard.check(400)
    assert len(heard.said) >= 3


@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_both_passes_of_a_gradient_say_so(residuals: str) -> None:
    heard = Heard()
    x = naps(0.4)
    y, back = rrule(tmap, sleeps(), x, residuals=residuals, num_threads=1, progress=heard)
    heard.check(400)
    assert len(heard.said) >= 3
    for _ in range(2):
        heard.said.clear()
        back(y)
        heard.check(400)
        assert residuals == "save" or len(heard.said) >= 3


CALLS: dict[str, Callable[..., object]] = {
    "tmap": lambda x, **more: tmap(np.sin, x, **more),
    "out": lambda x, **more: tmap(np.sin, x, out=np.empty_like(x), **more),
    "f(x)": lambda x, **more: register(np.sin)(x, **more),
    "rrule": lambda x, **more: rrule(tmap, np.sin, x, **more)[0],
    "partials": lambda x, **more: partials(np.sin, x, **more),
}
SHAPES = [(), (1,), (7,), (3, 5), (0,), (3, 0), (20_000,)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_short_call_says_once_that_it_is_done(call: Callable[..., object], shape: tuple[int, ...]) -> None:
    """Also without elements, and where calls of the same kind take the short way."""
    x = np.full(shape, 0.5)
    expected = call(x)
    for _ in range(3):
        heard = Heard()
        assert_same(call(x, progress=heard), expected)
        heard.check(x.size)
        assert call(x) is not None


def test_pullbacks_of_nothing_say_so_too() -> None:
    from tmapad import ZeroTangent

    for n in (0, 5):
        heard = Heard()
        y, back = rrule(tmap, np.sin, np.ones(n), progress=heard)
        for dy in (y, ZeroTangent(), y):
            heard.said.clear()
            back(dy)
            assert heard.said == [(n, n)]


def test_passes_of_several_runs_are_one() -> None:
    """Cotangents of broadcast arguments and of captured arrays take a run each, or more."""
    table = np.linspace(0.1, 1.0, 20)

    def f(x: float, a: float, b: float) -> float:
        s = 0.0
        for i in range(20):
            s += table[i] * x + a * b
        return s

    n = 100_000
    x, a, b = np.ones((n, 2)), np.ones((1, 2)), np.ones((1, 2))
    told: list[Heard] = []
    results = []
    for more in ({}, {"progress": Heard()}):
        y, back = rrule(tmap, f, x, a, b, num_threads=2, **more)
        if more:
            told.append(more["progress"])
            told[0].check(2 * n)
            told[0].said.clear()
        results.append((y, back(np.ones_like(y))))
    assert_same(results[0], results[1])
    told[0].check(2 * n)
    heard = Heard()
    assert_same(
        partials(f, x[:2000], 1.0, 1.0, wrt=(0, "table"), progress=heard),
        partials(f, x[:2000], 1.0, 1.0, wrt=(0, "table")),
    )
    heard.check(4000)


def test_the_share_of_each_run() -> None:
    from tmapad._progress import Pass

    said: list[tuple[int, int]] = []
    with Pass(lambda *now: said.append(now), 10) as followed:
        followed.runs = 2
        for done in (0, 3, 3, 8, 10):
            followed(done)
        followed.finished = 1
        for done in (0, 1, 2, 10):
            followed(done)
    assert said == [(0, 10), (1, 10), (4, 10), (5, 10), (6, 10), (10, 10)]


def test_it_is_said_from_inside_of_an_element() -> None:
    """Compiled loops look up now and then."""

    def turns(x: float) -> int:
        n = 1
        for _ in range(int(x)):
            n = (n * 25214903917 + 11) % 65536
        return n

    tmap(turns, np.ones(2))
    heard = Heard()
    tmap(turns, np.full(2, 1e9), num_threads=1, progress=heard)
    heard.check(2)
    assert (0, 2) in heard.said


def test_a_run_that_fails_is_repeated_and_goes_on_from_there() -> None:
    """In C order: this one is first run along the other axis. What is said neither begins again nor ends."""

    def f(x: float) -> float:
        if x == 5.0:
            raise ValueError("five")
        s = 0.0
        for i in range(3000):
            s += x * i % 7.0
        return s

    tmap(f, np.ones(2))
    x = np.asfortranarray(np.full((200, 200), 0.5))
    x[150, 199] = 5.0
    heard = Heard()
    with pytest.raises(ValueError, match="five"):
        tmap(f, x, num_threads=1, progress=heard)
    assert len(heard.said) >= 3
    assert heard.said == sorted(set(heard.said))
    assert heard.said[-1][0] < 40_000


def test_other_threads_of_python_are_told_on_their_own() -> None:
    heard = [Heard() for _ in range(3)]

    def work(k: int) -> None:
        tmap(sleeps(), naps(0.3 * (1 + k)), num_threads=1 + k, progress=heard[k])
        heard[k].check(400)
        assert len(heard[k].said) >= 3
        checked.append(k)

    checked: list[int] = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(checked) == [0, 1, 2]


# ---- errors in it


class Enough(Exception):
    pass


@pytest.mark.parametrize("error", [Enough, KeyboardInterrupt])
@pytest.mark.parametrize("run", RUNS, ids=repr)
def test_an_error_ends_the_call(run: dict[str, Any], error: type[BaseException]) -> None:
    def more() -> None:
        raise error("told")

    x = naps(6.0 * run.get("num_threads", 2), 4000)
    began = time.monotonic()
    with pytest.raises(error, match="told"):
        tmap(sleeps(), x, progress=Heard(more), **run)
    assert time.monotonic() - began < 3.0
    y = np.arange(50.0) - 100.0
    assert (tmap(sleeps(), y, **run) == y).all()


def test_an_error_ends_a_pullback() -> None:
    x = np.zeros(4000)
    errors: list[Exception] = []

    def more() -> None:
        if errors:
            raise errors[0]

    y, back = rrule(tmap, sleeps(), x, residuals="recompute", progress=Heard(more), num_threads=2)
    errors.append(Enough("of it"))
    x[:] = 3e-3
    began = time.monotonic()
    with pytest.raises(Enough) as raised:
        back(y)
    assert raised.value is errors[0]
    assert time.monotonic() - began < 3.0


def test_an_error_at_the_end_is_raised() -> None:
    def more() -> None:
        raise Enough

    for shape in SHAPES:
        with pytest.raises(Enough):
            tmap(np.sin, np.ones(shape), progress=Heard(more))


# ---- calls made by it


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_it_may_call_tmap(threads: int) -> None:
    inner = np.linspace(0.0, 1.0, 3000)
    expected = np.sin(inner)

    def more() -> None:
        for number in (None, 1, 3):
            y, back = rrule(tmap, np.sin, inner, num_threads=number, progress=said.append)
            assert (y == expected).all()
            back(y)

    class Said(list[Any]):
        def append(self, done: int, total: int) -> None:  # type: ignore[override]
            super().append((done, total))

    said = Said()
    heard = Heard(more)
    x = naps(0.3 * threads)
    assert (tmap(sleeps(), x, num_threads=threads, progress=heard) == x).all()
    heard.check(400)
    assert len(heard.said) >= 3
    assert len(said) >= 6 * len(heard.said)


@needs_fork
def test_in_forked_children() -> None:
    """There the work may be done by another thread, but it is this one that is told, and that stops it."""
    run_python("""
import os, sys, threading, time
import numpy as np
from tmapad import tmap

def slow(x):
    s = 0.0
    for i in range(100_000):
        s += x * i % 7.0
    return s

def heard(done, total):
    said.append((done, total, threading.get_ident() == threading.main_thread().ident))
    if raises:
        raise raises[0]
    assert (tmap(np.sin, inner, num_threads=2) == expected).all()

inner = np.linspace(0.0, 1.0, 3000)
expected = tmap(np.sin, inner, num_threads=2)
x = np.ones(1000)
y = tmap(slow, x, num_threads=2)
said, raises = [], []
child = os.fork()
if child == 0:
    for threads in (1, 2, 3):
        said.clear()
        raises.clear()
        good = (tmap(slow, x, num_threads=threads, progress=heard) == y).all()
        good = good and len(said) >= 3 and said[-1] == (1000, 1000, True) and all(main for *_, main in said)
        good = good and said == sorted(set(said))
        raises.append(LookupError("enough"))
        said.clear()
        try:
            tmap(slow, x, num_threads=threads, progress=heard)
            good = False
        except LookupError as error:
            good = good and error is raises[0] and len(said) == 1 and said[0][0] < 1000
        if not good:
            print(said, file=sys.stderr)
            os._exit(threads)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")


# ---- what it may be


@pytest.mark.parametrize("given", [None, 1, "yes", 0.5, [], np.ones(2)], ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_it_may_not_be(call: Callable[..., object], given: object) -> None:
    shown = "progress must be True, False or a function that is called with (done, total), not "
    with pytest.raises(TypeError) as error:
        call(np.ones(3), progress=given)
    assert str(error.value).startswith(shown + f"{given!r:.60}")


def test_false_of_any_kind_is_none() -> None:
    assert tmap(np.square, 3.0, progress=np.False_) == tmap(np.square, 3.0, progress=False) == 9.0


# ---- the bar


class Bar:
    """In the place of tqdm's."""

    made: list["Bar"]

    def __init__(self, *, total: int, initial: int, **looks: Any) -> None:
        self.total, self.n, self.closed = total, initial, False
        self.made.append(self)

    def update(self, more: int) -> None:
        assert more >= 0
        assert not self.closed
        self.n += more

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    import tqdm.auto

    Bar.made = []
    monkeypatch.setattr(tqdm.auto, "tqdm", Bar)
    return Bar.made


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bar_for_a_long_call(bars: list[Bar], threads: int) -> None:
    y, back = rrule(tmap, sleeps(), naps(0.8 * threads), num_threads=threads, residuals="recompute", progress=True)
    (bar,) = bars
    assert (bar.n, bar.total, bar.closed) == (400, 400, True)
    back(y)
    assert [(b.n, b.total, b.closed) for b in bars] == [(400, 400, True)] * 2


def test_a_bar_for_one_long_element(bars: list[Bar]) -> None:
    tmap(sleeps(), 0.6, progress=True)
    assert [(b.n, b.total, b.closed) for b in bars] == [(1, 1, True)]


def test_no_bar_for_a_short_call(bars: list[Bar]) -> None:
    for call in CALLS.values():
        call(np.ones(1000), progress=True)
    assert tmap(np.square, 3.0, progress=np.True_) == 9.0
    assert bars == []


def test_a_bar_is_closed_when_the_call_fails(bars: list[Bar]) -> None:
    def f(x: float) -> float:
        n = int(x * x)
        for _ in range(2_000_000):
            n = (n * 25214903917 + 11) % 65536
        if x < 0:
            raise Enough
        return x + n

    x = np.ones(4000)
    x[-1] = -1.0
    with pytest.raises(Enough):
        tmap(f, x, num_threads=1, progress=True)
    (bar,) = bars
    assert 0 < bar.n < 4000
    assert bar.closed


def test_the_bar_of_tqdm(capfd: pytest.CaptureFixture[str]) -> None:
    tmap(sleeps(), naps(0.8), num_threads=1, progress=True)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "tmapad: 100%" in printed.err
    tmap(sleeps(), naps(0.1), num_threads=1, progress=True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_without_tqdm_the_error_says_how_to_install_it(
    call: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"progress=True .* python -m pip install 'tmapad\[progress\]'"):
        call(np.ones(3), progress=True)
    heard = Heard()
    call(np.ones(3), progress=heard)
    heard.check(3)


def test_nothing_is_run_before_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    record = c_library.Record()
    f = register(c_library.function("noted", nin=2, user_data=True), user_data=record, replace=True)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="progress=True"):
        tmap(f, np.ones(5), 1.0, progress=True)
    with pytest.raises(TypeError, match="progress must be"):
        tmap(f, np.ones(5), 1.0, progress=1)
    assert record.calls == 0


def test_tqdm_is_not_imported_without_being_asked_for() -> None:
    script = """
import sys
import numpy as np
from tmapad import tmap
tmap(np.sin, np.ones(3), progress=lambda done, total: None)
print("tqdm" in sys.modules)
"""
    assert run_python(script) == "False"
