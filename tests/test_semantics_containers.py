"""What arguments are given as, results and cotangents come back as: scalars, tuples, lists, memmaps, Series."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES
from same import assert_same

from tmapad import NoTangent, rrule, tmap

SIN = zoo.by_name("libm sin")
COMPLEX = zoo.by_name("libm csinh")


class Series:
    """What pandas gives: no array, but one can be made of it."""

    def __init__(self, values: list[float]) -> None:
        self._values = np.array(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._values, dtype)

    def __len__(self) -> int:
        return len(self._values)


class Subclass(np.ndarray):
    pass


# ---- scalars


@pytest.mark.parametrize(
    ("x", "scalar"),
    [
        (0.5, np.float64),
        (2, np.float64),
        (np.float64(0.5), np.float64),
        (np.float32(0.5), np.float32),
        (np.float16(0.5), np.float16),
        (np.int8(2), np.float64),
        (np.array(0.5), np.float64),
        (np.array(2), np.float64),
        (np.array(0.5, "f"), np.float32),
        (np.array(0.5, ">f4"), np.float32),
    ],
    ids=repr,
)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_scalars_give_numpy_scalars(x: Any, scalar: type, residuals: str) -> None:
    assert type(tmap(SIN.f, x)) is scalar
    y, back = rrule(tmap, SIN.f, x, residuals=residuals)
    assert type(y) is scalar
    assert y == scalar(np.sin(float(x)))
    for dy in (1.0, 1, np.float64(1), np.float32(1), np.array(1.0), np.array(1)):
        no, df, dx = back(dy)
        assert type(dx) is scalar
        assert dx == scalar(np.cos(float(x)))
        assert no is df is NoTangent()


def test_bool_scalars_are_numbers_without_tangent() -> None:
    for x in (True, np.True_, np.array(True)):
        y, back = rrule(tmap, SIN.f, x)
        assert y == np.sin(1.0)
        assert back(1.0)[2] is NoTangent()


def test_complex_scalars() -> None:
    for x, scalar in ((1 + 2j, np.complex128), (np.complex64(1 + 2j), np.complex64), (np.array(1j), np.complex128)):
        y, back = rrule(tmap, COMPLEX.f, x)
        dx = back(1.0)[2]
        assert type(y) is type(dx) is scalar
        np.testing.assert_allclose([y, dx], [np.sinh(x), np.conj(np.cosh(x))], rtol=1e-6)


def test_arrays_of_one_element_are_arrays() -> None:
    for x in (np.array([0.5]), np.array([[0.5]]), [0.5]):
        y, back = rrule(tmap, SIN.f, x)
        assert type(y) is np.ndarray
        assert y.shape == np.shape(x)
        dx = back(np.ones(np.shape(x)))[2]
        assert type(dx) is np.ndarray
        assert dx.shape == np.shape(x)


def test_scalars_among_arrays() -> None:
    """Each cotangent is of its own argument's kind."""
    x = np.arange(3.0)
    _, back = rrule(tmap, TIMES, 2.0, x)
    _, _, da, dx = back(np.ones(3))
    assert (type(da), type(dx)) == (np.float64, np.ndarray)
    assert da == 3


# ---- tuples


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("x", [(0.5, 1.0, 2.0), (1, 2), (np.float32(1), 2.0), (np.float32(1), np.float32(2)), (1.0,)])
def test_tuples_give_tuples(x: tuple[Any, ...], residuals: str) -> None:
    y, back = rrule(tmap, SIN.f, x, residuals=residuals)
    assert type(y) is tuple
    char = np.asarray(x).dtype.char
    assert {type(item) for item in y} == {np.float32 if char == "f" else np.float64}
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-6)
    for dy in ((1.0,) * len(x), np.ones(len(x)), [1] * len(x)):
        dx = back(dy)[2]
        assert type(dx) is tuple
        np.testing.assert_allclose(dx, np.cos(x), rtol=1e-6)
    assert tmap(SIN.f, x) == y


def test_empty_tuple() -> None:
    y, back = rrule(tmap, SIN.f, ())
    assert y == ()
    assert back(())[2] == ()
    assert back(np.empty(0))[2] == ()


def test_tuples_of_bools_have_no_tangent() -> None:
    y, back = rrule(tmap, SIN.f, (True, False))
    assert y == (np.sin(1.0), 0.0)
    assert back((1.0, 1.0))[2] is NoTangent()


@pytest.mark.parametrize("scalar", [2.0, 2, np.float64(2), np.array(2.0)])
def test_tuples_with_scalars_give_tuples(scalar: Any) -> None:
    y, back = rrule(tmap, TIMES, scalar, (1.0, 2.0))
    assert y == (2.0, 4.0)
    assert type(y) is tuple
    _, _, da, dx = back((1.0, 10.0))
    assert da == 21.0
    assert isinstance(da, np.float64)
    assert dx == (2.0, 20.0)


def test_two_tuples() -> None:
    y, back = rrule(tmap, TIMES, (1.0, 2.0), (3, 4))
    assert y == (3.0, 8.0)
    assert back((1.0, 1.0))[2:] == ((3.0, 4.0), (1.0, 2.0))


@pytest.mark.parametrize("other", [np.array([1.0, 2.0]), [1.0, 2.0], np.ones((2, 1)), np.ones((3, 2)), Series([1, 2])])
def test_tuples_with_arrays_give_arrays(other: Any) -> None:
    """A tuple still gets a tuple, summed where it was broadcast."""
    wide = np.asarray(other)
    y, back = rrule(tmap, TIMES, (3.0, 4.0), other)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, np.array([3.0, 4.0]) * wide)
    _, _, da, dx = back(np.ones(y.shape))
    assert type(da) is tuple
    np.testing.assert_array_equal(da, np.broadcast_to(wide, y.shape).reshape(-1, 2).sum(axis=0))
    assert type(dx) is np.ndarray
    assert dx.shape == wide.shape


def test_tuples_of_unequal_length() -> None:
    for lengths in ((2, 3), (1, 3), (0, 1), (3, 0)):
        xs = [(1.0,) * n for n in lengths]
        with pytest.raises(ValueError, match=f"tuples must be of one length, not a: {lengths[0]}, x: {lengths[1]}"):
            tmap(TIMES, *xs)
        with pytest.raises(ValueError, match="tuples must be of one length"):
            rrule(tmap, TIMES, *xs)


# ---- anything else that an array can be made of


def test_lists_give_arrays() -> None:
    for x in ([0.5, 1.0], [[0.5, 1.0]], [1, 2], [], [(1.0, 2.0)], range(3), [np.float32(1), np.float32(2)]):
        y, back = rrule(tmap, SIN.f, x)
        dx = back(np.ones(np.shape(x)))[2]
        assert type(y) is type(dx) is np.ndarray
        assert y.dtype == dx.dtype == (np.asarray(x).dtype if np.asarray(x).dtype.kind == "f" else "f8")
        np.testing.assert_allclose(dx, np.cos(x), rtol=1e-6)


def test_series_give_arrays() -> None:
    x = Series([0.5, 1.0])
    y, back = rrule(tmap, SIN.f, x)
    assert_same(y, np.sin([0.5, 1.0]))
    assert_same(back(Series([1.0, 2.0]))[2], np.cos([0.5, 1.0]) * [1, 2])


@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_memmaps_give_arrays(tmp_path: Path, residuals: str) -> None:
    x = np.linspace(0, 1, 100)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for _ in range(2):
        y, back = rrule(tmap, SIN.f, mapped, residuals=residuals)
        dx = back(mapped)[2]
        assert type(y) is type(dx) is np.ndarray
        assert_same((y, dx), (tmap(SIN.f, x), rrule(tmap, SIN.f, x)[1](x)[2]))


def test_results_may_be_written_to_a_memmap(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 100)
    out = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", shape=(100,), dtype="d")
    assert tmap(SIN.f, x, out=out) is out
    out.flush()
    assert_same(np.load(tmp_path / "y.npy"), tmap(SIN.f, x))


def test_subclasses_of_ndarray_give_arrays() -> None:
    x = np.arange(3.0).view(Subclass)
    y, back = rrule(tmap, SIN.f, x)
    assert type(y) is type(back(x)[2]) is np.ndarray


def test_inputs_are_not_changed() -> None:
    lists, tuples = [0.5, 1.0], (0.5, 1.0)
    for x in (lists, tuples, np.array([0.5, 1.0]), np.array([1, 2]), np.array([0.5], ">f4")):
        before = x.copy() if isinstance(x, np.ndarray) else x[:]
        y, back = rrule(tmap, SIN.f, x)
        dy = np.ones(np.shape(y))
        back(dy)
        np.testing.assert_array_equal(x, before)
        np.testing.assert_array_equal(dy, 1)
