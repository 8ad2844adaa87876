"""What goes wrong in the function itself: which exception is raised, for which element, and what holds afterwards."""

import sys
from typing import Any

import c_library
import numpy as np
import pytest
from layouts import LAYOUTS
from same import RUNS, SOME_RUNS, assert_same

from tmapad import register, rrule, tmap


class OutOfRange(Exception):
    pass


def guarded(x: float) -> float:
    """Fails where x is in one of two ranges."""
    if x > 1000:
        raise OutOfRange(f"{x} is too large", x)
    if x < 0:
        raise ValueError("negative")
    return 2 * x


def guarded_derivative(x: float) -> float:
    if x == 7:
        raise LookupError("seven")
    return 2.0


def guarded_from_output(y: float, x: float) -> float:
    if y == 14:
        raise LookupError("fourteen", y, x)
    return 2.0


def guarded_both(x: float) -> tuple[float, float]:
    if x == 7:
        raise LookupError("both")
    return guarded(x), 2.0


GUARDED = register(guarded, derivative=guarded_derivative)
N = 20_000


def failing(*bad: tuple[int, float], n: int = N) -> Any:
    x = np.full(n, 3.0)
    for index, value in bad:
        x[index] = value
    return x


@pytest.fixture(autouse=True)
def nothing_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> Any:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    yield
    assert not seen


def test_the_exception_is_the_functions_own() -> None:
    x = failing((1234, 2000.0))
    for call in (tmap, lambda *args: rrule(tmap, *args)):
        with pytest.raises(OutOfRange) as error:
            call(GUARDED, x)
        assert error.value.args == ("2000.0 is too large", 2000.0)
        assert error.value.__notes__ == ["tmapad: in guarded, at element 1234 with arguments (2000.0)"]
        assert error.traceback[-1].name == "guarded"


@pytest.mark.parametrize("run", RUNS[::4])
def test_the_lowest_element_is_named(run: dict[str, Any]) -> None:
    """Whatever threads did: errors at 5, before the end, everywhere."""
    every = np.where(np.arange(N) % 2, 3.0, -1.0)
    for x, index in (
        (failing((5, -1), (19_990, 2000.0)), 5),
        (failing((19_990, -1), (19_991, 2000.0)), 19_990),
        (failing((N - 1, -1)), N - 1),
        (failing((0, -1), (1, 2000)), 0),
        (failing((511, -1), (512, 2000), (513, 2000)), 511),
        (every, 0),
    ):
        for out in (None, np.empty(N)):
            with pytest.raises(ValueError, match="negative") as error:
                tmap(GUARDED, x, out=out, **run)
            assert f"at element {index} with arguments (-1.0)" in error.value.__notes__[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_lowest_element_is_that_in_c_order(layout: str) -> None:
    """Not the first that a run over this layout would come to."""
    x = np.full((60, 70), 3.0)
    x[40, 2] = x[20, 60] = x[20, 61] = x[59, 0] = -1
    x[21, 0] = 2000.0
    laid_out = LAYOUTS[layout](x)
    for run in SOME_RUNS:
        with pytest.raises(ValueError, match="negative") as error:
            tmap(GUARDED, laid_out, **run)
        assert "at element (20, 60) with arguments (-1.0)" in error.value.__notes__[0]


@pytest.mark.parametrize("layout", ["contiguous", "Fortran", "reversed", "strided", "byte-swapped", "last axis first"])
def test_in_place(layout: str) -> None:
    """The element named is one that fails, though others were overwritten: 600 fails only when it is doubled."""
    x = np.full((60, 70), 600.0)
    x[40, 2] = x[20, 60] = -1
    for run in SOME_RUNS:
        laid_out = LAYOUTS[layout](x)
        with pytest.raises(ValueError, match="negative") as error:
            tmap(GUARDED, laid_out, out=laid_out, **run)
        assert "at element (20, 60) with arguments (-1.0)" in error.value.__notes__[0]
        moved = LAYOUTS[layout](np.pad(x, 1, constant_values=3.0))
        with pytest.raises(ValueError, match="negative") as error:
            tmap(GUARDED, moved[1:-1, 1:-1], out=moved[2:, 2:], **run)
        assert "at element (20, 60) with arguments (-1.0)" in error.value.__notes__[0]


def test_elements_and_arguments_of_broadcast_maps() -> None:
    def ratio(a: float, b: float) -> float:
        if b == 4:
            raise ArithmeticError
        return a / b

    f = register(ratio, derivative=lambda a, b: (1 / b, -a / b**2))
    a, b = np.arange(3.0)[:, None], np.arange(6.0)
    for arguments, where in (
        ((a, b), "element (0, 4) with arguments (0.0, 4.0)"),
        ((a.T, b[:, None]), "element (4, 0) with arguments (0.0, 4.0)"),
        ((7.0, b), "element 4 with arguments (7.0, 4.0)"),
        ((b, 4), "element 0 with arguments (0.0, 4.0)"),
        ((1, 4), "the only element with arguments (1.0, 4.0)"),
        (((1.0, 2.0), 4.0), "element 0 with arguments (1.0, 4.0)"),
    ):
        with pytest.raises(ArithmeticError) as error:
            tmap(f, *arguments)
        assert where in error.value.__notes__[0]


# ---- in derivatives


@pytest.mark.parametrize("run", SOME_RUNS)
@pytest.mark.parametrize(
    ("form", "part", "message"),
    [
        ("derivative", guarded_derivative, "seven"),
        ("derivative_from_output", guarded_from_output, "fourteen"),
        ("value_and_derivative", guarded_both, "both"),
    ],
)
def test_errors_in_derivatives(form: str, part: Any, message: str, run: dict[str, Any]) -> None:
    """Raised where the derivative is computed: forward if it is saved, else backward."""
    f = register(guarded, replace=True, **{form: part})
    x = failing((15_000, 7), (15_001, 7))
    with pytest.raises(LookupError, match=message) as error:
        rrule(tmap, f, x, residuals="save", **run)
    assert "at element 15000 with arguments (7.0)" in error.value.__notes__[0]
    if form == "value_and_derivative":
        return
    y, back = rrule(tmap, f, x, residuals="recompute", **run)
    for _ in range(2):
        with pytest.raises(LookupError, match=message) as error:
            back(y)
        assert "at element 15000 with arguments (7.0)" in error.value.__notes__[0]
    assert error.value.args == (
        {"derivative": "seven"}.get(form, "fourteen"),
        *(() if form == "derivative" else (14.0, 7.0)),
    )


def test_errors_in_derivatives_of_sums() -> None:
    def scaled(a: float, x: float) -> float:
        return a * x

    def scaled_partials(a: float, x: float) -> tuple[float, float]:
        if x == 7:
            raise LookupError("seven")
        return x, a

    f = register(scaled, derivative=scaled_partials)
    for n in (N, 80_000):
        x = failing((n - 3, 7), (n - 2, 7), n=n)
        _, back = rrule(tmap, f, 2.0, x)
        for order in ("C", "F"):
            dy = np.ones((2, n), order=order)[0]
            with pytest.raises(LookupError) as error:
                back(dy)
            assert f"at element {n - 3} with arguments (2.0, 7.0)" in error.value.__notes__[0]


def test_where_dy_is_zero_the_derivative_may_still_fail() -> None:
    """A strong zero hides infinities, not exceptions."""
    _, back = rrule(tmap, GUARDED, failing((10, 7)))
    with pytest.raises(LookupError):
        back(np.zeros(N))


# ---- afterwards


def test_the_next_call_works() -> None:
    x = failing((N // 2, -1))
    good = failing()
    for run in SOME_RUNS:
        with pytest.raises(ValueError, match="negative"):
            tmap(GUARDED, x, **run)
        np.testing.assert_array_equal(tmap(GUARDED, good, **run), 2 * good)


def test_inputs_are_not_changed() -> None:
    x = failing((N // 2, -1))
    before = x.copy()
    with pytest.raises(ValueError, match="negative"):
        rrule(tmap, GUARDED, x)
    np.testing.assert_array_equal(x, before)


def test_the_shorter_way_fails_as_the_first() -> None:
    """Later calls for arrays of the same types take a shorter way, which knows nothing of errors."""
    good, bad = failing(), failing((77, -1), (88, 2000))
    seven = failing((99, 7))
    for _ in range(3):
        tmap(GUARDED, good)
        with pytest.raises(ValueError, match="negative") as error:
            tmap(GUARDED, bad)
        assert "at element 77" in error.value.__notes__[0]
        with pytest.raises(ValueError, match="negative"):
            rrule(tmap, GUARDED, bad)
        _, back = rrule(tmap, GUARDED, seven)
        with pytest.raises(LookupError) as found:
            back(good)
        assert "at element 99" in found.value.__notes__[0]


# ---- native code that sets Python exceptions


@pytest.mark.compiler
@pytest.mark.parametrize("run", SOME_RUNS)
def test_exceptions_of_native_code(run: dict[str, Any]) -> None:
    f = register(
        c_library.function("not_negative"),
        derivative=c_library.function("not_negative_derivative"),
        raises=True,
        name="not_negative",
        replace=True,
    )
    x = failing((123, -2.5), (124, -3))
    for call in (tmap, lambda *args, **run: rrule(tmap, *args, **run)):
        with pytest.raises(ArithmeticError, match=r"-2\.5 is negative") as error:
            call(f, x, **run)
        assert error.value.__notes__ == ["tmapad: in not_negative, at element 123 with arguments (-2.5)"]
    ones = np.ones(N)
    y, back = rrule(tmap, f, ones, **run)
    np.testing.assert_array_equal(y, -ones)  # what it returns is no exception by itself
    assert_same(back(ones)[2], 2 * ones)
    held = np.abs(x)
    _, back = rrule(tmap, f, held, **run)
    held[...] = x
    with pytest.raises(ArithmeticError, match=r"-2\.5 is negative") as error:
        back(x)
    assert "at element 123" in error.value.__notes__[0]


@pytest.mark.compiler
@pytest.mark.parametrize("n", [1000, 80_000])
def test_exceptions_of_native_code_in_sums(n: int) -> None:
    """Few terms of a sum are kept, of many only the sums of blocks: the element is the same."""
    names = ("not_negative_times", "not_negative_times_a", "not_negative_times_x")
    f, *partials = (c_library.function(name, nin=2) for name in names)
    times = register(f, derivative=tuple(partials), raises=True, name="times", replace=True)
    x = failing((n - 700, 4), (n - 400, 5), n=n)
    _, back = rrule(tmap, times, 2.0, x)
    assert back(np.ones(n))[2] == 2 * x.sum()
    x[n - 700] = x[n - 400] = -2.5
    for wrt in (None, 0):
        held = np.abs(x)
        _, back = rrule(tmap, times, 2.0, held, wrt=wrt)
        held[...] = x
        with pytest.raises(ArithmeticError, match=r"-2\.5 is negative") as error:
            back(np.ones(n))
        assert error.value.__notes__ == [f"tmapad: in times, at element {n - 700} with arguments (2.0, -2.5)"]
