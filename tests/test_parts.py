"""What a derivative is made of, or a function calls, brings its own rules along: errors, warnings, threads."""

import ctypes
import ctypes.util
import functools
import warnings
from typing import Any

import c_library
import numba
import numpy as np
import pytest
import zoo
from scipy import special

from tmapad import _core, from_cython, register, rrule, tmap

N = 100_000
needs_openmp = pytest.mark.skipif(not _core.openmp_enabled(), reason="built without OpenMP")
threads = pytest.mark.parametrize("num_threads", [None, 1, 2, 3])


def exponential_integral(n: Any) -> Any:
    """SciPy's, which complains of negative numbers, with its first argument bound."""
    return functools.partial(special.expn, n)


def lgamma() -> Any:
    return zoo.libm("lgamma")


# Functions with a derivative of SciPy's, which need not be the right one: what is registered, and a number of which it
# complains.
COMPLAINING: dict[str, tuple[Any, float, str]] = {
    "C": (lambda: register(lgamma(), derivative=special.psi), -1.0, "singularity"),
    "C, in a tuple": (lambda: register(lgamma(), derivative=(special.psi,)), -1.0, "singularity"),
    "C, a number bound": (lambda: register(lgamma(), derivative=exponential_integral(2)), -1.0, "domain"),
    "Python": (lambda: register(lambda x: x * x, derivative=special.psi), -1.0, "singularity"),
    "Cython": (
        lambda: from_cython("scipy.special.cython_special", "gammaln", derivative=special.psi), -1.0, "singularity"
    ),
}  # fmt: skip
complaining = pytest.mark.parametrize("entry", COMPLAINING.values(), ids=COMPLAINING)


@complaining
@threads
def test_errors_of_a_derivative_by_scipy_are_raised(entry: Any, num_threads: int | None) -> None:
    make, bad, message = entry
    x = np.linspace(1.0, 2.0, N)
    _, back = rrule(tmap, make(), x, num_threads=num_threads, residuals="recompute")
    right = back(np.ones(N))[2]
    x[[700, N - 5]] = bad
    for _ in range(2):
        with special.errstate(all="raise"):
            with pytest.raises(special.SpecialFunctionError, match=message) as error:
                back(np.ones(N))
            assert "at element 700 " in error.value.__notes__[0]
            with pytest.raises(special.SpecialFunctionError, match=message):
                back(np.ones(N), out=np.empty(N))
        # Told not to, it says nothing.
        dx = back(np.ones(N))[2]
        assert not np.isfinite(dx[[700, N - 5]]).any()
        good = np.delete(np.arange(N), [700, N - 5])
        np.testing.assert_array_equal(dx[good], right[good])


@threads
def test_errors_of_saved_derivatives_are_raised_by_the_forward_pass(num_threads: int | None) -> None:
    f, x = register(lgamma(), derivative=special.psi), np.linspace(1.0, 2.0, N)
    x[700] = -1.0
    with (
        special.errstate(all="raise"),
        pytest.raises(special.SpecialFunctionError, match="singularity") as error,
    ):
        rrule(tmap, f, x, num_threads=num_threads, residuals="save")
    assert "at element 700 " in error.value.__notes__[0]


@complaining
@threads
def test_warnings_of_a_derivative_by_scipy_are_those_of_a_plain_call(entry: Any, num_threads: int | None) -> None:
    make, bad, message = entry
    x = np.ones(5)
    _, back = rrule(tmap, make(), x, num_threads=num_threads, residuals="recompute")
    x[:] = 1.0, bad, 2.0, bad, 1.5
    with special.errstate(all="warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        back(np.ones(5))
    assert len(caught) == 2
    assert all(warning.category is special.SpecialFunctionWarning for warning in caught)
    assert all(message in str(warning.message) for warning in caught)


@threads
def test_flags_from_before_are_no_errors(num_threads: int | None) -> None:
    """SciPy looks at the processor's flags, which may be up for other reasons."""
    raise_flags = ctypes.CDLL(ctypes.util.find_library("m")).feraiseexcept
    x = np.linspace(1.0, 2.0, 1000)
    f = register(lgamma(), derivative=special.psi)
    expected = special.psi(x)
    with special.errstate(all="raise"):
        raise_flags(0x1F)
        np.testing.assert_array_equal(tmap(special.psi, x, num_threads=num_threads), expected)
        _, back = rrule(tmap, f, x, num_threads=num_threads, residuals="recompute")
        raise_flags(0x1F)
        np.testing.assert_array_equal(back(np.ones(1000))[2], expected)


# How a derivative may be given that was registered: what `register` returned for it, or the function itself.
def as_returned(name: str, record: c_library.Record, **keywords: Any) -> Any:
    return register(c_library.function(name, nin=2, user_data=True), user_data=record, **keywords)


def as_registered(name: str, record: c_library.Record, **keywords: Any) -> Any:
    pointer = c_library.function(name, nin=2, user_data=True)
    register(pointer, user_data=record, **keywords)
    return pointer


@pytest.mark.compiler
@pytest.mark.parametrize("threadsafe", [False, pytest.param(True, marks=needs_openmp)])
@pytest.mark.parametrize("given", [as_returned, as_registered])
@pytest.mark.parametrize("which", [("noted_a",), ("noted_x",), ("noted_a", "noted_x")])
def test_derivatives_that_are_not_threadsafe_run_on_one_thread(which: Any, given: Any, threadsafe: bool) -> None:
    """And others, to see that they can, on two."""
    record, x = c_library.Record(microseconds=100), np.arange(1.0, 1001)
    names = ("noted_a", "noted_x")
    partials = tuple(given(name, record, threadsafe=threadsafe or name not in which) for name in names)
    value = c_library.function("noted", nin=2, user_data=True)
    f = register(value, derivative=partials, user_data=record)
    _, back = rrule(tmap, f, 2.0, x, num_threads=2, residuals="recompute")
    record.clear()
    _, _, da, dx = back(np.ones(1000))
    assert record.calls >= 2000
    assert record.threads == (2 if threadsafe else 1)
    assert da == x.sum()
    np.testing.assert_array_equal(dx, 2.0)
    assert f.explain(2.0, x).threads.startswith("1: registered with threadsafe=False") == (not threadsafe)


@pytest.mark.compiler
@pytest.mark.parametrize("threadsafe", [False, pytest.param(True, marks=needs_openmp)])
def test_a_bound_derivative_that_is_not_threadsafe_runs_on_one_thread(threadsafe: bool) -> None:
    record, x = c_library.Record(microseconds=100), np.arange(1.0, 1001)
    partial = functools.partial(as_returned("noted_a", record, threadsafe=threadsafe), 2.0)
    _, back = rrule(tmap, register(zoo.libm("fabs"), derivative=partial), x, num_threads=2, residuals="recompute")
    _, _, dx = back(np.ones(1000))
    assert record.threads == (2 if threadsafe else 1)
    np.testing.assert_array_equal(dx, x)


@pytest.mark.compiler
def test_python_functions_do_not_call_what_is_not_threadsafe() -> None:
    """They are run on many threads."""
    unsafe = register(c_library.function("reciprocal_square"), threadsafe=False)
    safe = register(c_library.function("reciprocal_square"))
    x = np.array([1.0, 2.0, 4.0])

    def calls_a_safe_one(x: float) -> float:
        return 2.0 * safe(x)

    def calls_an_unsafe_one(x: float) -> float:
        return 2.0 * unsafe(x)

    np.testing.assert_array_equal(tmap(calls_a_safe_one, x), 2 / x**2)
    np.testing.assert_array_equal(tmap(unsafe, x), 1 / x**2)
    with pytest.raises(TypeError, match="cannot be called from a compiled Python function"):
        tmap(calls_an_unsafe_one, x)
    with pytest.raises(TypeError, match="cannot be called from a compiled Python function"):
        tmap(register(calls_an_unsafe_one, threadsafe=False), x)


@numba.vectorize(["float64(float64)"])
def exponential(x: float) -> float:
    return np.exp(x)


def derivative_of_output(y: float, x: float) -> float:
    if x > 2:
        raise ValueError("of mine", y, x)
    return y


# Functions whose value has no Python function to ask.
NATIVE: dict[str, Any] = {
    "C": lambda: (zoo.libm("exp"), "d"),
    "ufunc": lambda: (exponential, "d"),
    "float": lambda: (zoo.libm("expf", "float"), "f"),
}


@pytest.mark.parametrize("make", NATIVE.values(), ids=NATIVE)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
@threads
def test_errors_of_a_derivative_of_the_output(make: Any, residuals: str, num_threads: int | None) -> None:
    """Of a native function: the exception is the derivative's own, raised for the value that there is."""
    f, char = make()
    register(f, derivative_from_output=derivative_of_output, replace=True)
    x = np.linspace(0.0, 1.0, 3000, dtype=char).reshape(30, 100)
    y, back = rrule(tmap, f, x, residuals=residuals, num_threads=num_threads)
    np.testing.assert_array_equal(back(np.ones_like(y))[2], y)
    x[[7, 20], [3, 0]] = 3.0
    with pytest.raises(ValueError, match="of mine") as error:
        rrule(tmap, f, x, residuals=residuals, num_threads=num_threads)[1](np.ones_like(y))
    said, value, argument = error.value.args
    assert (said, argument) == ("of mine", 3.0)
    assert value == tmap(f, x)[7, 3] == pytest.approx(np.exp(3.0), rel=1e-6)
    assert "at element (7, 3) " in error.value.__notes__[0]


def test_errors_of_a_derivative_with_a_default_of_its_own() -> None:
    """It takes one argument more than was given, which is not the output."""

    def value(x: float, c: tuple[float, float] = (1.0, 2.0)) -> float:
        return x * c[0]

    def partial(x: float, c: tuple[float, float] = (3.0, 4.0)) -> float:
        if x < 0:
            raise ValueError("of mine", x, c)
        return c[0]

    register(value, derivative=(partial, None))
    _, back = rrule(tmap, value, np.array([1.0, -1.0]), residuals="recompute")
    with pytest.raises(ValueError, match="of mine") as error:
        back(np.ones(2))
    assert error.value.args == ("of mine", -1.0, (3.0, 4.0))
