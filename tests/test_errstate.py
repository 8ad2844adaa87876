"""`numpy.errstate`: what a call reports, once, whatever threads, schedules and layouts it is run with."""

import ctypes
import math
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import pytest
from c_library import Meeting, function
from errstate import ACTIONS, reports
from foreign import address_of, from_ctypes
from scipy import special

from tmapad import ScalarFunction, _core, derivative, from_cython, partials, register, rrule, tmap

N = 100_000
threads = pytest.mark.parametrize("num_threads", [1, 4])


def plain(x: Any) -> Any:
    return math.log(x)


@numba.njit
def compiled(x: Any) -> Any:
    return math.log(x)


@numba.cfunc("float64(float64)")
def callback(x: Any) -> Any:
    return math.log(x)


def with_loop(x: Any) -> Any:
    total = 0.0
    for _ in range(3):
        total += math.log(x)
    return total


@numba.vectorize
def vectorized(x: Any) -> Any:
    return math.log(x)


@numba.vectorize
def vectorized_branch(x: Any) -> Any:
    return 1 / x if x != 0 else 0.0


LOG = from_ctypes(address_of("log"), "double", "double")

# All of them divide by zero at 0, and are invalid at -1: (function, name in messages).
FUNCTIONS: dict[str, tuple[ScalarFunction, str]] = {
    "ufunc": (register(np.log), "log"),
    "C": (register(LOG, derivative=lambda x: 1 / x, name="log_of_c"), "log_of_c"),
    "Cython": (from_cython("scipy.special.cython_special", "log1p", derivative=lambda x: 1 / (1 + x)), "log1p"),
    "Python": (register(plain), "plain"),
    "njit": (register(compiled), "compiled"),
    "cfunc": (register(callback, name="callback"), "callback"),
    "loop": (register(with_loop), "with_loop"),
    "vectorize": (register(vectorized, derivative=lambda x: 1 / x), "vectorized"),
}
kinds = pytest.mark.parametrize("kind", FUNCTIONS)


def case(kind: str, bad: float = 0.0, where: int = -1, n: int = N) -> tuple[ScalarFunction, Any, Callable[..., Any]]:
    """A function, an argument with one bad element, and what NumPy would say of it."""
    f, name = FUNCTIONS[kind]
    x = np.linspace(0.5, 2.0, n)
    x[where] = bad
    return f, x - (kind == "Cython"), lambda action="warn": [
        text.replace(" log", f" {name}") for text in reports(lambda: np.log(x), action)
    ]  # fmt: skip


def strided(x: Any) -> Any:
    wide = np.ones(2 * x.size)
    wide[::2] = x
    return wide[::2]


# Ways through the package: each runs f on the elements of x, once.
PATHS: dict[str, Callable[..., Any]] = {
    "map": lambda f, x, **how: tmap(f, x, **how),
    "call": lambda f, x, **how: f(x, **how),
    "tuple": lambda f, x, **how: tmap(f, tuple(x[-500:]), **how),
    "strided": lambda f, x, **how: tmap(f, strided(x), **how),
    "reversed": lambda f, x, **how: tmap(f, x[::-1], **how),
    "columns": lambda f, x, **how: tmap(f, x.reshape(-1, 10).T, **how),
    "swapped": lambda f, x, **how: tmap(f, x.astype(">f8"), **how),
    "out": lambda f, x, **how: tmap(f, x, out=np.empty(x.shape), **how),
    "out of float32": lambda f, x, **how: tmap(f, x, out=np.empty(x.shape, "f"), **how),
    "strided out": lambda f, x, **how: tmap(f, x, out=np.empty(2 * x.size)[::2], **how),
    "in place": lambda f, x, **how: tmap(f, x, out=x, **how),
    "strided in place": lambda f, x, **how: (lambda y: tmap(f, y, out=y, **how))(strided(x)),
    "rrule": lambda f, x, **how: rrule(tmap, f, x, **how),
    "saved": lambda f, x, **how: rrule(tmap, f, x, residuals="save", **how),
    "recomputed": lambda f, x, **how: rrule(tmap, f, x, residuals="recompute", **how),
    "rrule in place": lambda f, x, **how: rrule(tmap, f, x, out=x, **how),
    "partials": lambda f, x, **how: partials(f, x, **how),
}
DERIVED = {"rrule", "saved", "recomputed", "rrule in place", "partials"}


def run(path: str, kind: str, x: Any, **how: Any) -> None:
    f = FUNCTIONS[kind][0]
    if kind == "cfunc" and path in DERIVED:
        f = FUNCTIONS["Python"][0]
    PATHS[path](f, x, **how)


# ---- Reported


@threads
@kinds
@pytest.mark.parametrize("action", ACTIONS)
def test_every_action(kind: str, action: str, num_threads: int, capfd: Any) -> None:
    for bad in (0.0, -1.0):
        f, x, _ = case(kind, bad)
        said = reports(lambda x=x, f=f: tmap(f, x, num_threads=num_threads), action, capfd=capfd)
        name = FUNCTIONS[kind][1]
        numpy_x = x + (kind == "Cython")
        by_numpy = reports(lambda x=numpy_x: np.log(x), action, capfd=capfd)
        assert said == [text.replace(" log", f" {name}") for text in by_numpy]
        assert len(said) == (action != "ignore")


@threads
@kinds
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("where", [0, N - 1])
def test_every_path(path: str, kind: str, where: int, num_threads: int) -> None:
    if path == "tuple" and where < N - 1:
        where = N - 400
    _, x, _ = case(kind, where=where)
    name = "plain" if kind == "cfunc" and path in DERIVED else FUNCTIONS[kind][1]
    assert reports(lambda: run(path, kind, x, num_threads=num_threads)) == [f"divide by zero encountered in {name}"]


@kinds
@pytest.mark.parametrize("n", [1, 2, 700])
def test_short_calls(kind: str, n: int) -> None:
    """The second call for the same types takes the short way."""
    f, x, expected = case(kind, -1.0, n - 1, n)
    assert expected() == [f"invalid value encountered in {FUNCTIONS[kind][1]}"]
    for _ in range(3):
        assert reports(lambda: tmap(f, x)) == expected()
        assert reports(lambda: tmap(f, x, out=np.empty(n))) == expected()
        assert reports(lambda: tmap(f, x.copy(), out=x.copy())) == expected()
    in_place = x.copy()
    assert reports(lambda: tmap(f, in_place, out=in_place)) == expected()
    assert np.isnan(in_place[-1])


@pytest.mark.parametrize("kind", ["ufunc", "C", "Python"])
@pytest.mark.parametrize("value", [0.0, np.float64(0.0), np.array(0.0), np.array([[0.0]]), (0.0, 1.0)])
def test_numbers(kind: str, value: Any) -> None:
    f, name = FUNCTIONS[kind]
    assert reports(lambda: tmap(f, value)) == [f"divide by zero encountered in {name}"]
    assert reports(lambda: rrule(tmap, f, value)) == [f"divide by zero encountered in {name}"]


@kinds
def test_all_categories_at_once(kind: str) -> None:
    f, x, _ = case(kind)
    x[0] = -1.0 - (kind == "Cython")
    name = FUNCTIONS[kind][1]
    both = [f"divide by zero encountered in {name}", f"invalid value encountered in {name}"]
    for num_threads in (1, 4):
        assert reports(lambda n=num_threads: tmap(f, x, num_threads=n)) == both


SCHEDULES = [("static", None), ("dynamic", None), ("guided", None), ("dynamic", 1), ("static", 3000)]


@pytest.mark.parametrize(("schedule", "chunk_size"), SCHEDULES)
@kinds
def test_every_schedule(kind: str, schedule: str, chunk_size: int | None) -> None:
    f, x, expected = case(kind, where=777, n=5000)
    for num_threads in (1, 2, 4):
        how = {"num_threads": num_threads, "schedule": schedule, "chunk_size": chunk_size}
        assert reports(lambda how=how: tmap(f, x, **how)) == expected()


def test_flags_of_other_threads() -> None:
    """The calling thread finds nothing, and waits for those that do."""
    if not _core.openmp_enabled():
        pytest.skip("there are no other threads in a build without OpenMP")
    meeting = Meeting.of_this_thread()
    f = register(function("divides_elsewhere", user_data=True), user_data=meeting, name="elsewhere")
    assert reports(lambda: tmap(f, np.ones(64), num_threads=2, chunk_size=1)) == [
        "divide by zero encountered in elsewhere"
    ]
    assert meeting.begun


def test_flags_of_other_registers() -> None:
    f = register(function("long_reciprocal"), name="long")
    assert reports(lambda: tmap(f, np.array([1.0, 0.0, 2.0]))) == ["divide by zero encountered in long"]


@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize(
    ("ufunc", "arguments"),
    [
        (np.divide, ([0.0, 1.0, 1.0], [0.0, 2.0, 0.0])),
        (np.exp, ([1.0, 1000.0],)),
        (np.exp, ([1.0, -1000.0],)),
        (np.sqrt, ([-1.0, 4.0],)),
        (np.multiply, ([1e200, 1.0], [1e200, 1.0])),
        (np.multiply, ([1e-200, 1.0], [1e-200, 1.0])),
        (np.floor_divide, ([1.0, 0.0], [0.0, 0.0])),
        (np.floor_divide, ([1, 2, 0], [0, 1, 0])),
        (np.remainder, ([1, 2, 0], [0, 1, 0])),
        (np.arccosh, ([0.5],)),
        (np.power, ([0.0, -1.0], [-1.0, 0.5])),
        (np.divide, ([1j, 0j], [0j, 0j])),
        (np.log, ([1j, 0j],)),
        (np.divmod, ([1.0, 1.0], [0.0, 2.0])),
        (np.modf, ([np.inf, np.nan],)),
        (np.isnan, ([np.nan],)),
        (np.less, ([np.nan, 1.0], [1.0, np.nan])),
        (np.maximum, ([np.nan, 1.0], [1.0, np.nan])),
        (np.absolute, ([-np.inf, np.nan],)),
        (np.subtract, ([np.inf, np.nan], [np.inf, 1.0])),
        (np.square, ([np.nan, np.inf],)),
        (special.log1p, ([-1.0, -2.0],)),
        (special.gammaln, ([0.0, -1.0],)),
        (special.exp10, ([1000.0],)),
        (special.xlogy, ([1.0], [0.0])),
        (special.expit, ([-1000.0, 1000.0],)),
        (special.jv, ([0.5], [-1.0])),
    ],
)
@pytest.mark.parametrize("dtype", [None, "f", "e"])
def test_ufuncs_say_what_they_say_in_numpy(
    ufunc: np.ufunc, arguments: tuple[Any, ...], dtype: str | None, num_threads: int
) -> None:
    xs = [np.tile(np.asarray(x), 30) for x in arguments]
    if dtype is not None:
        with np.errstate(all="ignore"):
            to = {"f": dtype, "c": "F"}
            xs = [x.astype(to.get(x.dtype.kind, x.dtype)) for x in xs]
    by_numpy = reports(lambda: ufunc(*xs), under="warn")
    assert reports(lambda: tmap(ufunc, *xs, num_threads=num_threads), under="warn") == by_numpy
    assert reports(lambda: tmap(ufunc, *xs), under="warn") == by_numpy
    apart = [strided(x) if x.dtype == "d" else x[::-1] for x in xs]
    assert reports(lambda: tmap(ufunc, *apart), under="warn") == by_numpy


@pytest.mark.parametrize(
    ("run_in_numpy", "run_here"),
    [
        (lambda x: np.multiply(x, 1e300), lambda x: tmap(np.multiply, x, 1e300)),
        (lambda x: np.multiply(x, 1e-300), lambda x: tmap(np.multiply, x, 1e-300)),
        (lambda x: np.multiply(x[:0], 1e300), lambda x: tmap(np.multiply, x[:0], 1e300)),
        (
            lambda x: np.multiply(x.astype("d"), 1e300, out=np.empty(x.shape, "f"), casting="same_kind"),
            lambda x: tmap(np.multiply, x.astype("d"), 1e300, out=np.empty(x.shape, "f")),
        ),
        (
            lambda x: np.multiply(x.astype("d"), 1e30, out=np.empty(x.shape, "e"), casting="same_kind"),
            lambda x: tmap(np.multiply, x.astype("d"), 1e30, out=np.empty(x.shape, "e")),
        ),
        (
            lambda x: (x.astype("d") * 1e300).astype("f"),
            lambda x: tmap(np.positive, x.astype("d") * 1e300, dtype="f"),
        ),
        (
            lambda x: (x.astype("d") * 1e-300).astype("e"),
            lambda x: tmap(np.positive, x.astype("d") * 1e-300, dtype="e"),
        ),
    ],
)
def test_casts(run_in_numpy: Callable[..., Any], run_here: Callable[..., Any]) -> None:
    x = np.linspace(1.0, 2.0, 1000, dtype="f")
    assert reports(lambda: run_here(x), under="warn") == reports(lambda: run_in_numpy(x), under="warn")


def test_the_warning_names_the_line_of_the_caller() -> None:
    f, x, _ = case("Python", n=10)
    for call in (
        lambda: tmap(f, x),
        lambda: tmap(f, x, num_threads=2),
        lambda: f(x),
        lambda: rrule(tmap, f, x),
        lambda: partials(f, x),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [(w.filename, w.lineno) for w in caught] == [(__file__, call.__code__.co_firstlineno)]
        assert caught[0].category is RuntimeWarning


def test_two_actions_in_one_call() -> None:
    f, x, _ = case("ufunc", n=10)
    x[0] = -1.0
    calls: list[Any] = []
    with (
        np.errstate(divide="warn", invalid="call", call=lambda *what: calls.append(what)),
        pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as caught,
    ):
        tmap(f, x)
    assert len(caught) == 1
    assert calls == [("invalid value", 8)]
    with (
        np.errstate(divide="warn", invalid="raise"),
        pytest.warns(RuntimeWarning),
        pytest.raises(FloatingPointError, match="invalid value encountered in log"),
    ):
        tmap(f, x)


@threads
@kinds
def test_results_are_complete_when_it_is_raised(kind: str, num_threads: int) -> None:
    f, x, _ = case(kind, where=5)
    with np.errstate(all="ignore"):
        expected, out = tmap(f, x), np.full(N, 7.0)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        tmap(f, x, out=out, num_threads=num_threads)
    np.testing.assert_array_equal(out, expected)
    assert reports(lambda: tmap(f, np.ones(5) - (kind == "Cython"), num_threads=num_threads)) == []


# ---- Not reported


def branch(x: Any) -> Any:
    return 1 / x if x != 0 else 0.0


def guarded(x: Any) -> Any:
    return math.sqrt(x) if x >= 0 else -1.0


def given_nan(x: Any) -> Any:
    if x < 0:
        return math.nan
    return 1 / x if x != 0 else 0.0


def given_infinity(x: Any) -> Any:
    if x < 0:
        return math.inf
    return 1 / x if x != 0 else 0.0


def vanishing(x: Any) -> Any:
    return 1 / (1 + math.exp(x))


def whole(x: Any) -> Any:
    return x > 1 / x


def identity(x: Any) -> Any:
    return x


SILENT: dict[str, tuple[Any, list[float]]] = {
    "a branch not taken": (branch, [0.0, 1.0]),
    "a branch of numba.vectorize": (register(vectorized_branch, derivative=lambda x: 1.0), [0.0, 1.0]),
    "a root not taken": (guarded, [-1.0, 1.0]),
    "NaN that was written": (given_nan, [-1.0, 0.0, 1.0]),
    "infinity that was written": (given_infinity, [-1.0, 0.0, 1.0]),
    "an infinity that vanishes": (vanishing, [1000.0]),
    "a bool": (whole, [0.0]),
    "NaN in": (plain, [math.nan]),
    "infinity in": (plain, [math.inf]),
    "NaN and infinity": (identity, [math.nan, math.inf, -math.inf]),
    "NaN in a ufunc": (np.log, [math.nan, math.inf]),
    "NaN in C": (LOG, [math.nan, math.inf]),
    "underflow": (np.exp, [-1000.0]),
    "underflow in Python": (lambda x: math.exp(x), [-1000.0]),
    "underflow in C": (from_ctypes(address_of("exp"), "double", "double"), [-1000.0]),
}


@threads
@pytest.mark.parametrize("label", SILENT)
def test_silent(label: str, num_threads: int) -> None:
    f, values = SILENT[label]
    for n in (1, 1000, 20_000):
        x = np.tile(values, n)
        for how in ({}, {"chunk_size": 1}, {"chunk_size": 4096}):
            assert reports(lambda x=x, how=how: tmap(f, x, num_threads=num_threads, **how)) == []
        if not isinstance(f, np.ufunc) and label != "a bool" and "C" not in label:
            assert reports(lambda x=x: rrule(tmap, f, x, num_threads=num_threads)) == []
        assert reports(lambda x=x: tmap(f, x, out=x if label != "a bool" else None, num_threads=num_threads)) == []


def test_one_reason_among_many_strays() -> None:
    """Found wherever it is among elements whose result is NaN, but for no reason, or whose flags have no result."""

    def f(x: Any) -> Any:
        if x < 0:
            return math.nan
        if x == 5:
            return math.sqrt(4 - x)
        return 1 / x if x != 0 else 0.0

    x = np.tile([-1.0, 0.0, 1.0], 5000)
    for where in (0, 1, 511, 512, 7000, x.size - 1):
        for num_threads in (1, 4):
            y = x.copy()
            y[where] = 5
            assert reports(lambda y=y, n=num_threads: tmap(f, y, num_threads=n)) == ["invalid value encountered in f"]


def test_underflow_is_reported_where_values_are_not_compiled_here() -> None:
    x = np.array([1.0, -1000.0])
    exp = register(from_ctypes(address_of("exp"), "double", "double"), name="exp_of_c")
    assert reports(lambda: tmap(np.exp, x), under="warn") == ["underflow encountered in exp"]
    assert reports(lambda: tmap(exp, x), under="warn") == ["underflow encountered in exp_of_c"]
    assert reports(lambda: tmap(lambda x: math.exp(x), x), under="warn") == []
    assert reports(lambda: tmap(lambda x: math.exp(x), x.astype("f")), under="warn") == []


# ---- Derivatives and pullbacks


DERIVATIVES: dict[str, Callable[[], Any]] = {
    "a table's": lambda: rrule(tmap, np.sqrt, np.array([0.0, 4.0])),
    "a table's, saved": lambda: rrule(tmap, np.sqrt, np.array([0.0, 4.0]), residuals="save"),
    "automatic": lambda: rrule(tmap, lambda x: math.sqrt(x), np.array([0.0, 4.0])),
    "automatic, saved": lambda: rrule(tmap, lambda x: x**0.5, np.array([0.0, 4.0]), residuals="save"),
    "a Python function": lambda: rrule(
        tmap, register(np.sqrt, derivative=lambda x: 0.5 / math.sqrt(x), replace=True), np.array([0.0, 4.0])
    ),
    "from the value": lambda: rrule(
        tmap, register(lambda x: math.sqrt(x), derivative_from_output=lambda y, x: 0.5 / y), np.array([0.0, 4.0])
    ),
    "of C": lambda: rrule(
        tmap,
        register(
            from_ctypes(address_of("sqrt"), "double", "double"),
            derivative=function("reciprocal_square_derivative"),
            replace=True,
        ),
        np.array([0.0, 4.0]),
    ),
    "together": lambda: rrule(
        tmap,
        register(lambda x: math.sqrt(x), value_and_derivative=lambda x: (math.sqrt(x), 0.5 / math.sqrt(x))),
        np.array([0.0, 4.0]),
    ),
}


@pytest.mark.parametrize("label", DERIVATIVES)
def test_derivatives_are_not_the_operation_asked_for(label: str) -> None:
    made: list[Any] = []
    assert reports(lambda: made.append(DERIVATIVES[label]()), under="warn") == []
    back = made[0][1]
    for dy in (np.ones(2), np.array([1e308, 1e308])):
        assert reports(lambda dy=dy: made.append(back(dy)), under="warn") == []
    assert np.isinf(made[-1][2][0])


def test_sums_of_cotangents_report_nothing() -> None:
    big = np.full(2000, 3e38, "f")
    back = rrule(tmap, np.multiply, np.float32(1), big)[1]
    other = rrule(tmap, np.multiply, big[:, None], np.ones(3, "f"))[1]
    made: list[Any] = []
    assert reports(lambda: made.append(back(np.ones(2000, "f"))[2]), under="warn") == []
    assert reports(lambda: made.append(other(np.ones((2000, 3), "f"))[3]), under="warn") == []
    assert all(np.isinf(y).all() for y in made)


def test_the_derivative_as_a_function_reports() -> None:
    df = derivative(register(lambda x: math.sqrt(x)))
    assert reports(lambda: tmap(df, np.array([0.0, 4.0]))) == [f"divide by zero encountered in {df.name}"]


def test_the_value_in_a_joint_loop_is_judged_by_the_value() -> None:
    """A value that overflows, with a derivative that divides by zero, in one loop."""

    def f(x: Any) -> Any:
        return math.exp(1000.0) * x if x > 1 else math.sqrt(x)

    both = register(f, value_and_derivative=lambda x: (f(x), 0.5 / math.sqrt(x - x)), replace=True)
    x = np.array([0.5, 2.0])
    for make in (lambda: rrule(tmap, both, x), lambda: partials(both, x), lambda: tmap(both, x)):
        assert reports(make) == ["overflow encountered in f"]


# ---- What was captured


def test_what_is_captured_counts_as_an_argument() -> None:
    table = np.array([1.0, math.nan, 0.0])

    def f(x: Any) -> Any:
        return 1 / table[2] if x > 0 else table[1]

    x = np.array([1.0, -1.0])
    for _ in range(3):  # the short way as well
        assert reports(lambda: tmap(f, x)) == []  # an infinity that may come of the NaN, as far as anybody knows
        assert reports(lambda: rrule(tmap, f, x)) == []
    table[1] = 5.0
    assert reports(lambda: rrule(tmap, f, x)) == ["divide by zero encountered in f"]
    assert reports(lambda: tmap(f, x)) == ["divide by zero encountered in f"]
    assert reports(lambda: tmap(f, x, out=table[:2])) == ["divide by zero encountered in f"]
    a = math.nan

    def g(x: Any) -> Any:
        return math.sqrt(x) * a

    assert reports(lambda: tmap(g, x)) == []
    a = 1.0
    assert reports(lambda: tmap(g, x)) == ["invalid value encountered in g"]
    a = 1e300
    assert reports(lambda: tmap(g, np.ones(2, "f"))) == ["overflow encountered in g"]


# ---- Several outputs, complex numbers, types


@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (lambda x: (x, 1 / x), 0.0, "divide by zero"),
        (lambda x: (1 / x, x), 0.0, "divide by zero"),
        (lambda x: (math.log(x), x > 1), -1.0, "invalid value"),
        (lambda x: x * x, 1e200, "overflow"),
        (lambda z: z * z, 1e200 + 0j, "overflow"),
        (lambda z: z * 2, complex(math.nan, 1), None),
        (lambda z: abs(z), 1.5e308 + 1.5e308j, "overflow"),
        (lambda x: x * x, np.float32(1e30), "overflow"),
        (lambda x: x * x, np.float16(1e4), "overflow"),
        (lambda x: 1 / x, np.float16(0), "divide by zero"),
        (lambda x: int(x), 0.5, None),
    ],
)
def test_types_of_compiled_functions(f: Any, x: Any, expected: str | None, num_threads: int) -> None:
    x = np.full(3000, x)
    register(f, name="f", replace=True)
    said = reports(lambda: tmap(f, x, num_threads=num_threads))
    assert said == ([] if expected is None else [f"{expected} encountered in f"])
    for single in (1, 3):
        assert reports(lambda n=single: tmap(f, x[:n])) == said


# ---- Errors, signals, SciPy


def test_an_error_is_raised_without_a_report() -> None:
    def f(x: Any) -> Any:
        if x == 3:
            raise KeyError("three")
        return 1 / x

    with pytest.raises(KeyError, match="three"):
        tmap(f, np.array([0.0, 1.0, 3.0]))


def test_zero_division_stays_an_error() -> None:
    f = register(lambda x: 1 / x, division="python")
    with pytest.raises(ZeroDivisionError):
        tmap(f, np.array([0.0, 1.0]))


def test_settings_of_scipy_are_its_own() -> None:
    x = np.array([1.0, -1.0])
    with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
        tmap(special.gammaln, x)
    with special.errstate(all="warn"), pytest.warns(special.SpecialFunctionWarning):
        tmap(special.gammaln, x)
    assert reports(lambda: tmap(special.gammaln, x), under="warn") == []


@pytest.fixture
def handler_with_flags() -> Iterator[list[int]]:
    """Signals every 20 ms, whose handler leaves flags behind."""
    libm = ctypes.CDLL(None)
    handled: list[int] = []

    def handle(number: int, frame: Any) -> None:
        handled.append(number)
        libm.feraiseexcept(0x1F)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    yield handled
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")
@threads
def test_flags_of_a_signal_handler_are_not_reported(handler_with_flags: list[int], num_threads: int) -> None:
    def long(x: Any) -> Any:
        total = 0.0
        for k in range(40_000_000):
            total += x * k
        return total

    tmap(long, np.zeros(0))
    for f in (register(function("sleeps"), name="sleeps"), register(long)):
        handled = len(handler_with_flags)
        x = np.full(20 if f.name == "sleeps" else 4, 0.02)
        assert reports(lambda f=f, x=x: tmap(f, x, num_threads=num_threads), under="warn") == []
        assert len(handler_with_flags) > handled
