"""Native functions that set Python exceptions: on whatever thread one is set, that of the lowest element is raised."""

import ctypes
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ClassVar

import c_library
import numpy as np
import pytest
from errstate import reports
from layouts import LAYOUTS
from native_build import native_functions
from same import SCHEDULES, SOME_RUNS, assert_same
from test_process import TASKS, needs_fork, needs_proc
from thread_states import thread_states

from tmapad import from_cython, get_num_threads, register, rrule, tmap
from tmapad._core import openmp_enabled

pytestmark = pytest.mark.compiler
N = 100_000
BOTH_ENDS = ((5, 99_990), (99_990,))  # elements that fail


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return native_functions(tmp_path_factory.getbasetemp() / "native")


@pytest.fixture(autouse=True)
def nothing_is_printed_or_swallowed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    yield
    assert not seen
    assert capfd.readouterr() == ("", "")


def cython(name: str) -> Callable[[ModuleType], Any]:
    return lambda native: from_cython(native, name, derivative="checked_derivative", raises=True)


def in_c(native: ModuleType) -> Any:
    names = "not_negative", "not_negative_derivative"
    f, derivative = map(c_library.function, names)
    return register(f, derivative=derivative, raises=True, name="in_c", replace=True)


def both_in_c(native: ModuleType) -> Any:
    """Value and derivative, written through pointers."""
    f, both = c_library.function("not_negative"), c_library.writer("not_negative_both", 1, 2)
    return register(f, value_and_derivative=both, raises=True, name="both_in_c", replace=True)


def both_in_cython(native: ModuleType) -> Any:
    return from_cython(native, "checked", value_and_derivative="checked_both", raises=True)


def vectorized(native: ModuleType) -> Any:
    """A ufunc, compiled by Numba, which sets an exception for every element that fails."""
    import numba

    def doubled(x: float) -> float:
        if x < 0:
            raise ArithmeticError("negative", x)
        return -1.0 if x == 1 else 2 * x

    return register(numba.vectorize(doubled), derivative=lambda x: 2.0)


# How it is made, and what the exception is: its type, and its arguments for -2.5.
KINDS: dict[str, tuple[Callable[[ModuleType], Any], str, tuple[Any, ...]]] = {
    "Cython's except? -1": (cython("checked"), "Refusal", ("negative", -2.5)),
    "Cython's except *": (cython("checked_always"), "Refusal", ("negative", -2.5)),
    "C": (in_c, "ArithmeticError", ("-2.5 is negative",)),
    "C, both together": (both_in_c, "ArithmeticError", ("-2.5 is negative",)),
    "Cython, both together": (both_in_cython, "Refusal", ("negative", -2.5)),
    "numba.vectorize": (vectorized, "ArithmeticError", None),
}
Kind = tuple[Callable[[ModuleType], Any], str, Any]


def failing(at: tuple[int, ...], n: int = N) -> Any:
    x = np.full(n, 3.0)
    x[list(at)] = -3.0
    x[at[0]] = -2.5
    return x


def check(error: BaseException, kind: Kind, index: Any) -> None:
    _, name, args = kind
    assert type(error).__name__ == name
    if args is not None:
        assert error.args == args
    assert len(error.__notes__) == 1
    assert error.__notes__[0].endswith(f", at element {index} with arguments (-2.5)")


@pytest.mark.parametrize("at", BOTH_ENDS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_lowest_element_is_raised(native: ModuleType, kind: Kind, at: tuple[int, ...]) -> None:
    f = kind[0](native)
    x, good = failing(at), np.full(N, 3.0)
    for threads in (1, 2, 3, 4):
        for schedule in SCHEDULES:
            run = {"num_threads": threads, "schedule": schedule}
            with pytest.raises(ArithmeticError) as error:
                tmap(f, x, **run)
            check(error.value, kind, at[0])
            with pytest.raises(ArithmeticError) as error:
                rrule(tmap, f, x, **run)
            check(error.value, kind, at[0])
            assert (tmap(f, good, **run) == 6).all()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_in_place_the_arguments_are_still_known(native: ModuleType, kind: Kind) -> None:
    f = kind[0](native)
    for run in SOME_RUNS:
        for at in BOTH_ENDS:
            x = failing(at)
            with pytest.raises(ArithmeticError) as error:
                tmap(f, x, out=x, **run)
            check(error.value, kind, at[0])
        x = np.linspace(1, 2, N)
        expected = tmap(f, x)
        assert_same(tmap(f, x, out=x, **run), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["Cython's except? -1", "C, both together"])
def test_the_lowest_element_is_that_in_c_order(native: ModuleType, name: str, layout: str) -> None:
    f = KINDS[name][0](native)
    x = np.full((60, 70), 3.0)
    x[40, 2] = x[20, 61] = x[59, 0] = -3
    x[20, 60] = -2.5
    laid_out = LAYOUTS[layout](x)
    for run in SOME_RUNS:
        for call in (tmap, lambda *args, **more: rrule(tmap, *args, **more)):
            with pytest.raises(ArithmeticError) as error:
                call(f, laid_out, **run)
            check(error.value, KINDS[name], (20, 60))


@pytest.mark.parametrize("at", BOTH_ENDS)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_derivatives_raise_too(native: ModuleType, residuals: str, at: tuple[int, ...]) -> None:
    """Where they are computed: forward if they are saved, else backward."""
    f = KINDS["Cython's except? -1"][0](native)
    x = np.full(N, 3.0)
    x[list(at)] = 7
    for threads in (1, 2, 3, 4):
        for schedule in SCHEDULES:
            run = {"num_threads": threads, "schedule": schedule, "residuals": residuals}
            for _ in range(2):
                with pytest.raises(LookupError, match="seven") as error:
                    rrule(tmap, f, x, **run)[1](x)
                assert error.value.__notes__ == [f"tmapad: in checked, at element {at[0]} with arguments (7.0)"]
            y, back = rrule(tmap, f, np.full(N, 3.0), **run)
            assert_same(back(y)[2], 2 * y)


def test_value_and_derivative_fail_at_different_elements(native: ModuleType) -> None:
    """In one strip the value is computed first, for all elements: what fails lower is raised, be it found later."""
    f = KINDS["Cython's except? -1"][0](native)
    mixed = register(
        c_library.function("not_negative"), derivative=seven_fails, raises=True, name="mixed", replace=True
    )
    reverse = register(seven_fails, derivative=c_library.function("not_negative"), raises=True, replace=True)
    for negative, seven in ((10, 12), (12, 10), (70_000, 70_001), (70_001, 70_000), (5, 99_990), (99_990, 5)):
        x = np.full(N, 3.0)
        x[negative], x[seven] = -2.5, 7
        expected: type[Exception] = ArithmeticError if negative < seven else LookupError
        for g in (f, mixed, reverse):
            for run in SOME_RUNS:
                with pytest.raises(expected) as error:
                    rrule(tmap, g, x, residuals="save", **run)
                assert f"at element {min(negative, seven)} " in error.value.__notes__[0]


def seven_fails(x: float) -> float:
    if x == 7:
        raise LookupError("seven")
    return 2.0


@pytest.mark.parametrize("name", KINDS)
def test_results_are_the_same_bit_by_bit(native: ModuleType, name: str) -> None:
    """What is returned where an exception would be set is a value like others, if none is."""
    f = KINDS[name][0](native)
    x = np.tile([1.0, 0.5, 3.0], 7001)
    y, back = rrule(tmap, f, x, num_threads=1)
    assert set(y) == {-1.0, 1.0, 6.0}
    dx = back(y)[2]
    for run in SOME_RUNS:
        for laid_out in (x, x[::-1].copy()[::-1], x.reshape(3, -1).copy(order="F").reshape(-1)):
            y2, back2 = rrule(tmap, f, laid_out, **run)
            assert_same((y2, back2(y)[2]), (y, dx))


def test_single_precision(native: ModuleType) -> None:
    f = from_cython(native, "checked_single", raises=True)
    for at in BOTH_ENDS:
        x = failing(at).astype(np.float32)
        with pytest.raises(ArithmeticError) as error:
            tmap(f, x, num_threads=3)
        check(error.value, KINDS["Cython's except? -1"], at[0])


def test_powers_of_integers() -> None:
    """NumPy's own loop sets the exception."""
    n = np.ones(N, int)
    for at in BOTH_ENDS:
        n[:] = 1
        n[list(at)] = -1
        for run in SOME_RUNS:
            with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed") as error:
                tmap(np.power, 3, n, **run)
            assert f"at element {at[0]} " in error.value.__notes__[0]


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize("threads", [2, 3, None])
def test_they_run_on_all_threads(threads: int | None) -> None:
    record = c_library.Record()
    f = c_library.function("noted", nin=2, user_data=True)
    f = register(f, user_data=record, raises=True, name="noted", replace=True)
    expected = threads or get_num_threads()
    for record.microseconds in (20, 200, 2000):
        record.clear()
        assert (tmap(f, np.ones(1000), 2.0, num_threads=threads) == 2).all()
        if record.threads == expected:
            break
    assert (record.calls, record.threads) == (1000, expected)


def test_those_not_thread_safe_run_on_the_calling_thread() -> None:
    record = c_library.Record(microseconds=10)
    f = c_library.function("noted", nin=2, user_data=True)
    f = register(f, user_data=record, raises=True, threadsafe=False, name="noted", replace=True)
    tmap(f, np.ones(200), 2.0, num_threads=3, chunk_size=1)
    assert set(record.thread[: record.known]) == {threading.get_ident()}


def test_while_another_thread_of_python_is_busy(native: ModuleType) -> None:
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            sum(range(1000))

    other = threading.Thread(target=busy)
    other.start()
    try:
        for name in ("Cython's except *", "C"):
            f = KINDS[name][0](native)
            for _ in range(10):
                with pytest.raises(ArithmeticError) as error:
                    tmap(f, failing((5, 99_990)), num_threads=3)
                check(error.value, KINDS[name], 5)
    finally:
        over.set()
        other.join()


def test_from_threads_of_python(native: ModuleType) -> None:
    kind = KINDS["Cython's except? -1"]
    f = kind[0](native)
    right: list[int] = []

    def work(k: int) -> None:
        x = failing((17 + k, 99_000 + k))
        for _ in range(20):
            with pytest.raises(ArithmeticError) as error:
                tmap(f, x, num_threads=1 + k % 3)
            check(error.value, kind, 17 + k)
        right.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == list(range(6))


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_forked_children(native: ModuleType) -> None:
    import os

    kind = KINDS["Cython's except? -1"]
    f = kind[0](native)
    tmap(f, np.full(N, 3.0), num_threads=2)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for threads in (None, 1, 2, 3):
                for at in BOTH_ENDS:
                    try:
                        tmap(f, failing(at), num_threads=threads)
                    except ArithmeticError as error:
                        check(error, kind, at[0])
                    else:
                        raise AssertionError
                assert (tmap(f, np.full(N, 3.0), num_threads=threads) == 6).all()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


# ---- floating-point errors


@pytest.mark.parametrize("threads", [1, 4])
def test_their_floating_point_errors_are_reported(threads: int) -> None:
    """Those of elements that a result explains; of a call that fails none."""
    import numba

    @numba.vectorize(["f8(f8)"])
    def reciprocal(x: float) -> float:
        if x < 0:
            raise ValueError("negative")
        return 1 / x

    x = np.arange(1.0, 10_001.0)
    run: dict[str, Any] = {"num_threads": threads, "chunk_size": 7}
    assert reports(lambda: tmap(reciprocal, x, **run)) == []
    x[9000] = 0.0
    assert reports(lambda: tmap(reciprocal, x, **run)) == ["divide by zero encountered in reciprocal"]

    def fails() -> None:
        with pytest.raises(ValueError, match="negative") as caught:
            tmap(reciprocal, x, **run)
        assert "at element 9100 " in caught.value.__notes__[0]

    x[9100] = -1.0
    assert reports(fails) == []


@pytest.mark.parametrize("threads", [1, 4])
def test_an_exception_of_an_element_run_again_is_dropped(threads: int) -> None:
    """It is run again to see which flags it raises; its result is there already."""
    import numba

    runs: list[float] = []

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    def times(x: float) -> float:
        if x == 0:
            runs.append(x)
        return len(runs)

    @numba.vectorize(["f8(f8)"])
    def once(x: float) -> float:
        if times(x) > 1 and x == 0:
            raise ValueError("asked again")
        return 1 / x

    x = np.arange(1.0, 3001.0)
    x[2500] = 0.0
    assert reports(lambda: tmap(once, x, num_threads=threads, chunk_size=7)) == []
    assert len(runs) == 2


# ---- nothing is left


@pytest.mark.parametrize("name", ["Cython's except? -1", "Cython, both together"])
def test_no_exception_is_kept(native: ModuleType, name: str) -> None:
    """That of the lowest element is the caller's alone, and those of other elements are gone."""
    f = KINDS[name][0](native)
    x = np.full(2000, -2.5)
    gc.collect()  # what other tests left
    for threads in (1, 3):
        for _ in range(500):
            try:
                rrule(tmap, f, x, num_threads=threads, chunk_size=7)
            except ArithmeticError:
                assert len(native.alive) == 1
            assert len(native.alive) == 0  # by itself: there is no cycle for the garbage collector


class Forgotten(Exception):
    alive: ClassVar[weakref.WeakSet["Forgotten"]] = weakref.WeakSet()

    def __init__(self) -> None:
        self.alive.add(self)


@pytest.mark.parametrize("n", [1, 5000])
def test_no_exception_of_a_python_function_is_kept(n: int) -> None:
    def f(x: float) -> float:
        if x < 0:
            raise Forgotten
        return x

    register(f, derivative=f)
    bad = np.ones(n)
    _, back = rrule(tmap, f, bad, residuals="recompute")
    bad[:] = -1.0
    calls = (
        lambda: tmap(f, bad),
        lambda: rrule(tmap, f, bad),
        lambda: tmap(f, bad, progress=print_nothing),
        lambda: back(np.ones(n)),
    )
    gc.disable()
    try:
        for call in calls:
            for _ in range(3):
                try:
                    call()
                except Forgotten:
                    assert len(Forgotten.alive) == 1
                assert len(Forgotten.alive) == 0
    finally:
        gc.enable()


def print_nothing(done: int, total: int) -> None:
    raise AssertionError("the call fails")


@pytest.mark.skipif(not openmp_enabled(), reason="built without OpenMP")
@pytest.mark.parametrize(("seconds", "alive"), [(1e-3, 1), (0.3, 0)])
def test_no_exception_is_kept_when_another_is_raised(native: ModuleType, seconds: float, alive: int) -> None:
    """By who is told of progress, say, after one thread has failed, or before it does, while the other goes on."""
    f = from_cython(native, "checked_sleep", raises=True)
    gc.collect()

    class Enough(Exception):
        pass

    def told(done: int, total: int) -> None:
        seen.append(len(native.alive))
        raise Enough

    seen: list[int] = []
    x = np.full(1000, 5e-3)
    x[500:] = -seconds
    with pytest.raises(Enough):
        tmap(f, x, num_threads=2, schedule="static", progress=told)
    assert seen == [alive]
    assert len(native.alive) == 0
    with pytest.raises(ArithmeticError):
        tmap(f, x[490:501], num_threads=2)


@needs_proc
def test_threads_and_their_states_are_bounded(native: ModuleType) -> None:
    f = KINDS["Cython's except? -1"][0](native)
    x = failing((5, 99_990))

    def fail(times: int) -> None:
        for _ in range(times):
            with pytest.raises(ArithmeticError):
                tmap(f, x, num_threads=3)

    fail(5)
    before = len(list(TASKS.iterdir()))
    states = thread_states()
    fail(300)
    assert len(list(TASKS.iterdir())) <= before
    assert thread_states() == states == threading.active_count()


# ---- what it costs


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_minus_one_everywhere_costs_nothing(raises: bool, threads: int) -> None:
    """It is what functions return that set an exception: to ask after each whether one did may cost no lock."""
    one, two = (register(c_library.function(f"minus_{name}"), raises=raises, replace=True) for name in ("one", "two"))
    x = np.zeros(200_000)

    def seconds(f: Any) -> float:
        began = time.perf_counter()
        tmap(f, x, num_threads=threads)
        return time.perf_counter() - began

    pairs = [(seconds(one), seconds(two)) for _ in range(20)]
    assert min(a for a, _ in pairs) < 5 * min(b for _, b in pairs)


def test_a_reference_to_the_function_is_enough(native: ModuleType) -> None:
    """The loop that looks for exceptions holds the one inside."""
    data = (ctypes.c_double * 1)(3.0)
    f = c_library.function("user_data_times", user_data=True)
    f = register(f, user_data=data, raises=True, replace=True)
    del data
    gc.collect()
    assert (tmap(f, np.ones(1000), num_threads=2) == 3).all()
