"""Edges of types and shapes: float16 beside Python numbers, more axes than 32, exceptions that take no notes."""

import copy
import pickle

import c_library
import numpy as np
import pytest
import zoo

from tmapad import register, rrule, tmap

HALVES = np.array([0.1, 0.3, 2.0, 2048.0], "f2")


@pytest.mark.parametrize("number", [0.1, 0.3, 2049.0, 1e-9])
@pytest.mark.parametrize("f", [np.equal, np.less, np.greater_equal, np.floor_divide, np.remainder, np.multiply, np.add])
def test_python_numbers_are_float16_beside_float16(f: np.ufunc, number: float) -> None:
    for arguments in ((HALVES, number), (number, HALVES)):
        with np.errstate(all="ignore"):
            expected, y = f(*arguments), tmap(f, *arguments)
        np.testing.assert_array_equal(y, expected)
        assert y.dtype == expected.dtype


def test_as_many_axes_as_numpy_has() -> None:
    x, row = np.ones((1,) * 63 + (5,)), np.arange(5.0)
    y, back = rrule(tmap, np.multiply, x, row)
    np.testing.assert_array_equal(y, x * row)
    dx, drow = back(y)[2:]
    assert dx.shape == x.shape
    np.testing.assert_array_equal(drow, row)


class Noteless(Exception):
    """An exception of a user's that takes no notes."""

    def add_note(self, note: str) -> None:
        raise TypeError("no notes, please")


def refuses(x: float) -> float:
    if x > 1.0:
        raise Noteless("mine")
    return x


def test_an_exception_that_takes_no_notes_is_raised_as_itself() -> None:
    with pytest.raises(Noteless, match="mine"):
        tmap(refuses, np.array([0.0, 2.0]))


def test_pullbacks_are_not_copied_or_pickled() -> None:
    for _ in range(2):
        _, back = rrule(tmap, np.sin, np.ones(3))
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="a pullback cannot be pickled or copied"):
                copied(back)


@pytest.mark.compiler
def test_a_registered_pointer_keeps_its_user_data_as_a_derivative() -> None:
    record = c_library.Record()
    noted = c_library.function("noted_x", nin=2, user_data=True)
    register(noted, user_data=record, replace=True)
    f = register(zoo.libm("pow", nin=2), derivative=(noted, noted), replace=True)
    x = np.linspace(1.0, 2.0, 50)
    _, back = rrule(tmap, f, x, 2.0)
    assert np.isfinite(back(np.ones(50))[2]).all()
