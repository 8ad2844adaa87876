"""Residuals: which are kept, and what a pullback gives when inputs or globals changed since its forward pass."""

import numpy as np
import pytest
import zoo
from functions import TIMES
from same import assert_same

from tmapad import register, rrule, tmap

entries = pytest.mark.parametrize("entry", zoo.parameters())
RESIDUALS = pytest.mark.parametrize("residuals", ["save", "recompute", "auto"])
SIN = zoo.by_name("libm sin")


@entries
def test_which_residuals_are_kept(entry: zoo.Entry) -> None:
    """ "auto" is a fixed rule: partial derivatives that came with the value are kept."""
    xs = entry.arguments((100,))
    for _ in range(2):
        assert bool(rrule(tmap, entry.f, *xs)[1].nbytes) == entry.saves
        assert rrule(tmap, entry.f, *xs, residuals="save")[1].nbytes > 0
        assert rrule(tmap, entry.f, *xs, residuals="recompute")[1].nbytes == 0


@entries
@RESIDUALS
def test_inputs_changed_between_the_passes(entry: zoo.Entry, residuals: str) -> None:
    """Saved: the gradient of the forward pass. Recomputed: that of the changed values."""
    first, second = entry.arguments((100,), seed=1), entry.arguments((100,), seed=2)
    for _ in range(2):
        xs = [x.copy() for x in first]
        y, back = rrule(tmap, entry.f, *xs, residuals=residuals)
        for x, other in zip(xs, second, strict=True):
            x[...] = other
        saved = residuals == "save" or (residuals == "auto" and entry.saves)
        expected = rrule(tmap, entry.f, *(first if saved else second))[1](y)
        assert_same(back(y), expected)


@pytest.mark.parametrize("char", "lefd")
@pytest.mark.parametrize("n", [1, 2])
def test_inputs_of_one_element_changed(n: int, char: str) -> None:
    """Arrays are held by reference, however small they are and whatever they are cast to."""
    for _ in range(2):
        x = np.full(n, 2, char)
        _, back = rrule(tmap, TIMES, np.ones(n), x, residuals="recompute")
        x[:] = 5
        np.testing.assert_array_equal(back(np.ones(n))[2], np.full(n, 5.0))


def test_a_result_over_an_argument_saves_residuals() -> None:
    for part in (slice(0, 100), slice(1, 101), slice(99, None, -1)):
        memory = np.linspace(0, 1, 101)
        x, expected = memory[:100], np.cos(memory[:100])
        _, back = rrule(tmap, SIN.f, x, out=memory[part], residuals="recompute")
        assert back.nbytes == 800
        np.testing.assert_allclose(back(np.ones(100))[2], expected, rtol=1e-15)
    memory = np.linspace(0, 1, 200)
    _, back = rrule(tmap, SIN.f, memory[:100], out=memory[100:], residuals="recompute")
    assert back.nbytes == 0


RATE = 2.0


def rated(x: float) -> float:
    return RATE * x


def rated_derivative(x: float) -> float:
    return RATE


@RESIDUALS
def test_a_pullback_belongs_to_its_forward_pass(residuals: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function reads from outside itself is as it was then, whatever programs the cotangent still needs."""
    f = register(rated, derivative=rated_derivative)
    for char in "df":
        for _ in range(2):
            monkeypatch.setitem(globals(), "RATE", 2.0)
            x = np.ones(3, char)
            y, back = rrule(tmap, f, x, residuals=residuals)
            monkeypatch.setitem(globals(), "RATE", 7.0)
            assert y[0] == 2
            for of_dy in ("f", "d", "l", "e"):
                np.testing.assert_array_equal(back(np.ones(3, of_dy))[2], 2 * x, err_msg=f"{char} {of_dy}")
            np.testing.assert_array_equal(rrule(tmap, f, x, residuals=residuals)[1](x)[2], 7 * x)
