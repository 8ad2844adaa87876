"""What `back` takes: the shape and the type of `dy`, zeros, thunks; arrays as ``out``."""

from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES, array
from same import assert_same

from tmapad import NoTangent, Tangent, Thunk, ZeroTangent, register, rrule, tmap

SIN = zoo.by_name("libm sin")
NOTHING = pytest.mark.parametrize("nothing", [NoTangent(), ZeroTangent()])


def quotients(a: float, x: float) -> tuple[float, float]:
    return a / x, x / a


def quotients_partials(a: float, x: float) -> Any:
    return a / x, x / a, 1 / x, -a / (x * x), -x / (a * a), 1 / a


QUOTIENTS = register(quotients, value_and_derivative=quotients_partials)

# ---- shape


@pytest.mark.parametrize(
    ("shape", "of_dy"),
    [
        ((3,), (3, 1)), ((3,), (1, 3)), ((3,), (1,)), ((3,), ()), ((3, 4), (4, 3)), ((3, 4), (4,)), ((3, 4), (3, 1)),
        ((3, 4), (12,)), ((1,), ()), ((), (1,)), ((0,), (1,)), ((3, 0), (0,)), ((3, 4), (1, 3, 4)),
    ],
)  # fmt: skip
def test_cotangents_do_not_broadcast(shape: tuple[int, ...], of_dy: tuple[int, ...]) -> None:
    x = np.ones(shape)
    for _ in range(2):
        _, back = rrule(tmap, SIN.f, x)
        with pytest.raises(ValueError, match=r"dy has shape .* y has shape .*cotangents do not broadcast") as error:
            back(np.ones(of_dy))
        assert str(of_dy) in str(error.value)
        assert str(shape) in str(error.value)


def test_a_python_scalar_only_for_a_scalar() -> None:
    for x in (np.ones(3), np.ones(1), np.ones((1, 1)), (1.0,), [1.0]):
        _, back = rrule(tmap, SIN.f, x)
        for dy in (1.0, 1, True, 1j):
            with pytest.raises(ValueError, match="dy is a Python scalar; it must have the shape of y"):
                back(dy)
    for x in (1.0, np.float32(1), np.array(1.0)):
        _, back = rrule(tmap, SIN.f, x)
        assert back(2)[2] == back(2.0)[2] == 2 * type(back(2)[2])(np.cos(1.0))
        assert back(True)[2] == type(back(2)[2])(np.cos(1.0))


# ---- type


def test_dy_is_cast_to_the_type_of_y() -> None:
    dy = np.full(3, 0.1)
    for char in "ef":
        x = np.full(3, 2, char)
        _, back = rrule(tmap, TIMES, 3.0, x)
        assert_same(back(dy)[3], np.full(3, 3 * char_of(0.1, char), char))
        assert back(dy)[2] == 3 * 2 * float(char_of(0.1, char))


def char_of(value: float, char: str) -> Any:
    return np.array(value).astype(char)[()]


@pytest.mark.parametrize("of_y", "efdFD")
@pytest.mark.parametrize("of_dy", "?bBhHiIlLqQefdFD")
def test_types_of_dy(of_y: str, of_dy: str) -> None:
    x = array(of_y)
    dy = array(of_dy)
    for _ in range(2):
        y, back = rrule(tmap, TIMES, x, x)
        assert y.dtype.char == of_y
        if of_dy in "FD" and of_y not in "FD":
            with pytest.raises(TypeError, match=r"dy is complex .*, but y is real .*; pass its real part"):
                back(dy)
            continue
        dx = back(dy)[2]
        assert dx.dtype.char == of_y
        np.testing.assert_array_equal(dx, (dy * x).astype(of_y))


def test_complex_dy_without_imaginary_part_is_still_complex() -> None:
    _, back = rrule(tmap, SIN.f, np.ones(3))
    with pytest.raises(TypeError, match="dy is complex"):
        back(np.ones(3, complex))
    _, back = rrule(tmap, SIN.f, 1.0)
    with pytest.raises(TypeError, match="dy is complex"):
        back(1 + 0j)


def test_dy_of_any_kind() -> None:
    """Whatever an array can be made of."""
    _, back = rrule(tmap, SIN.f, np.arange(3.0))
    expected = back(np.arange(3.0))
    for dy in ([0, 1, 2], (0.0, 1.0, 2.0), range(3), np.arange(3.0, dtype=">f4"), np.arange(6.0)[::2] / 2):
        assert_same(back(dy), expected)


def test_a_tangent_is_no_cotangent_of_an_array() -> None:
    _, back = rrule(tmap, SIN.f, np.arange(3.0))
    with pytest.raises(TypeError, match="dy is a Tangent; y is an array"):
        back(Tangent(a=1.0))


# ---- zeros and thunks


@NOTHING
def test_nothing_comes_back_for_every_argument(nothing: Any) -> None:
    for residuals in ("save", "recompute"):
        for a, x in ((np.ones(3), np.ones(3)), (1.0, np.ones((2, 3))), (1.0, 2.0), ((1.0,), 2.0)):
            _, back = rrule(tmap, TIMES, a, x, residuals=residuals)
            result = back(nothing)
            assert len(result) == 4
            assert result[0] is result[1] is NoTangent()
            assert result[2] is result[3] is nothing
            assert back(Thunk(lambda: nothing))[2] is nothing


@NOTHING
def test_nothing_written_to_out(nothing: Any) -> None:
    x = np.ones(3)
    _, back = rrule(tmap, TIMES, x, x)
    out = np.full(3, 7.0)
    result = back(nothing, out=(None, out))
    assert result[3] is out
    assert not out.any()
    assert result[2] is nothing


def test_thunks_are_resolved_once() -> None:
    x = np.arange(3.0)
    calls = []
    thunk = Thunk(lambda: calls.append(1) or np.ones(3))
    for _ in range(2):
        _, back = rrule(tmap, SIN.f, x)
        assert_same(back(thunk)[2], np.cos(x))
    assert calls == [1]


def test_an_array_of_zeros_gives_arrays() -> None:
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, TIMES, 2.0, np.ones(3), residuals=residuals)
        assert_same(back(np.zeros(3))[2:], (np.float64(0), np.zeros(3)))


# ---- several results


@NOTHING
def test_cotangents_of_several_results(nothing: Any) -> None:
    a, x = np.array([1.0, 2.0]), np.array([[4.0], [5.0]])
    for residuals in ("save", "recompute"):
        y, back = rrule(tmap, QUOTIENTS, a, x, residuals=residuals)
        assert_same(y, (a / x, x / a))
        u, v = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.5, 0.0], [1.0, 2.0]])
        da_u, dx_u = (u / x).sum(0), (u * -a / (x * x)).sum(1, keepdims=True)
        da_v, dx_v = (v * -x / (a * a)).sum(0), (v / a).sum(1, keepdims=True)
        for dy, da, dx in (
            ((u, v), da_u + da_v, dx_u + dx_v),
            ((u, nothing), da_u, dx_u),
            ((nothing, v), da_v, dx_v),
            ((Thunk(lambda u=u: u), Thunk(lambda: nothing)), da_u, dx_u),
            (Thunk(lambda u=u, v=v: (u, v)), da_u + da_v, dx_u + dx_v),
            ((nothing, nothing), 0 * a, 0 * x),
        ):
            result = back(dy)
            np.testing.assert_allclose(result[2], da, rtol=1e-15)
            np.testing.assert_allclose(result[3], dx, rtol=1e-15)
            assert (result[2].shape, result[3].shape) == (a.shape, x.shape)
        assert back(nothing)[2] is nothing


@pytest.mark.parametrize(
    ("dy", "message"),
    [
        (np.ones(3), "a tuple with a cotangent for each of 2 results, not ndarray"),
        ((np.ones(3),), "a tuple with a cotangent for each of 2 results, not 1 entries"),
        ((np.ones(3),) * 3, "each of 2 results, not 3 entries"),
        (np.ones((2, 3)), "each of 2 results, not ndarray"),
        ((np.ones(3), np.ones(2)), r"dy\[1\] has shape \(2,\); y has shape \(3,\)"),
        ((np.ones(3), 1.0), r"dy\[1\] is a Python scalar"),
    ],
)
def test_bad_cotangents_of_several_results(dy: Any, message: str) -> None:
    _, back = rrule(tmap, QUOTIENTS, np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match=message):
        back(dy)


# ---- out


def test_bad_out_of_back() -> None:
    a, x = np.ones(3), np.ones((2, 3), "f")
    good = np.full((2, 3), 7, "f")
    bad: list[tuple[Any, type, str]] = [
        (good, ValueError, "out must have an array or None for each of 2 arguments, not 1"),
        ((None, good, good), ValueError, "out must have an array or None for each of 2 arguments, not 3"),
        ((good, None), ValueError, r"out\[0\] has shape \(2, 3\)"),
        ((None, good.T), ValueError, r"out\[1\] has shape \(3, 2\)"),
        ((np.empty(3, "f"), good), TypeError, r"out\[0\] has dtype float32; the cotangent has float64"),
        ((None, np.empty((2, 3))), TypeError, r"out\[1\] has dtype float64; the cotangent has float32"),
        ((None, good.tolist()), TypeError, r"out\[1\] must be a NumPy array, not a list"),
        ((None, np.broadcast_to(good[:1], (2, 3))), ValueError, r"out\[1\] is read-only"),
    ]
    for _ in range(2):
        _, back = rrule(tmap, TIMES, a, x)
        for out, error, message in bad:
            with pytest.raises(error, match=message):
                back(np.ones((2, 3)), out=out)
        assert (good == 7).all()
    _, back = rrule(tmap, TIMES, a, x, wrt=1)
    with pytest.raises(ValueError, match=r"out\[0\] is given, but argument 0 has no cotangent"):
        back(np.ones((2, 3)), out=(np.empty(3), good))
    _, back = rrule(tmap, TIMES, a, a)
    memory = np.zeros(5)
    with pytest.raises(ValueError, match=r"out\[1\] shares memory with another array in out"):
        back(a, out=(memory[:3], memory[2:]))
    assert not memory.any()


def test_dy_is_checked_before_out_is_written() -> None:
    out = np.full(3, 7.0)
    _, back = rrule(tmap, SIN.f, np.ones(3))
    for dy in (np.ones(2), np.ones(3, complex), ["a"] * 3, 1.0, Tangent()):
        with pytest.raises((TypeError, ValueError)):
            back(dy, out=out)
    assert (out == 7).all()
