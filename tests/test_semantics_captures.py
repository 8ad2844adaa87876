"""Numbers captured by `functools.partial`, their cotangents in ``df``, and constants."""

import functools
from typing import Any

import c_library
import numpy as np
import pytest
import zoo
from functions import TIMES, times
from same import assert_same

from tmapad import NoTangent, Tangent, ZeroTangent, register, rrule, tmap

partial = functools.partial


def affine(a: Any, x: Any, b: Any) -> Any:
    return a * x + b


def affine_partials(a: Any, x: Any, b: Any) -> Any:
    return x, a, 1.0 + 0 * b


AFFINE = register(affine, derivative=affine_partials)
X = np.arange(4.0)
DY = np.array([1.0, 10.0, 100.0, 1000.0])


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize(
    ("f", "names"),
    [
        (partial(AFFINE, 2.0), ("a",)),
        (partial(AFFINE, a=2.0), ("a",)),
        (partial(AFFINE, x=2.0), ("x",)),
        (partial(AFFINE, b=2.0), ("b",)),
        (partial(AFFINE, 2.0, b=2.0), ("a", "b")),
        (partial(AFFINE, b=2.0, a=2.0), ("a", "b")),
        (partial(partial(AFFINE, 2.0), b=2.0), ("a", "b")),
        (partial(partial(AFFINE, b=2.0), 2.0), ("a", "b")),
        (partial(partial(AFFINE, b=5.0), b=2.0), ("b",)),
        (partial(affine, 2.0), ("a",)),
        (partial(AFFINE, np.float64(2)), ("a",)),
        (partial(AFFINE, np.array(2.0)), ("a",)),
    ],
)
def test_by_position_and_by_name(f: Any, names: tuple[str, ...], residuals: str) -> None:
    """The arguments left over take the arrays, in their order."""
    left = [name for name in ("a", "x", "b") if name not in names]
    values = {**dict.fromkeys(names, 2.0), **{name: X + k for k, name in enumerate(left)}}
    arrays = [values[name] for name in left]
    expected = {"a": values["x"] * DY, "x": values["a"] * DY, "b": DY}
    y, back = rrule(tmap, f, *arrays, residuals=residuals)
    np.testing.assert_array_equal(y, values["a"] * values["x"] + values["b"])
    assert_same(tmap(f, *arrays), y)
    no, df, *dxs = back(DY)
    assert no is NoTangent()
    assert type(df) is Tangent
    assert tuple(df) == names
    for name in names:
        assert type(df[name]) is np.float64
        assert df[name] == np.sum(expected[name])
    for name, dx in zip(left, dxs, strict=True):
        np.testing.assert_array_equal(dx, expected[name])


def test_the_tangent_of_captures() -> None:
    df = rrule(tmap, partial(AFFINE, 2.0, b=3.0), X)[1](np.ones(4))[1]
    assert (df.a, df["b"]) == (6.0, 4.0)
    assert list(df) == ["a", "b"]
    assert df._asdict() == {"a": 6.0, "b": 4.0}
    assert df == Tangent(b=4.0, a=6.0)
    assert df != Tangent(a=6.0)


@pytest.mark.parametrize("f", [AFFINE, TIMES])
def test_without_captures_df_is_no_tangent(f: Any) -> None:
    _, back = rrule(tmap, f, *[X] * f.nin)
    assert back(X)[1] is NoTangent()


@pytest.mark.parametrize("bound", [2, True, np.int64(2), np.bool_(True), np.uint8(2), np.array(2)])
def test_integers_and_bools_are_constants(bound: Any) -> None:
    y, back = rrule(tmap, partial(TIMES, bound), X)
    np.testing.assert_array_equal(y, X * int(bound))
    _, df, dx = back(DY)
    assert df is NoTangent()
    np.testing.assert_array_equal(dx, DY * int(bound))
    _, df, _ = rrule(tmap, partial(AFFINE, bound, b=0.5), X)[1](DY)
    assert tuple(df) == ("b",)


@pytest.mark.parametrize(
    ("bound", "of_x", "of_y", "of_df"),
    [
        (2.0, "f", "f", "d"),
        (2.0, "e", "e", "d"),
        (2.0, "F", "F", "d"),
        (2.0j, "f", "F", "D"),
        (np.float32(2), "f", "f", "f"),
        (np.float32(2), "d", "d", "f"),
        (np.float64(2), "f", "d", "d"),
        (np.complex64(2j), "f", "F", "F"),
        (2, "f", "f", ""),
    ],
)
def test_types_of_captures(bound: Any, of_x: str, of_y: str, of_df: str) -> None:
    """As of arguments: Python's numbers are weak."""
    x = np.arange(4).astype(of_x)
    y, back = rrule(tmap, partial(TIMES, bound), x)
    assert y.dtype.char == of_y
    _, df, dx = back(np.ones(4, of_y))
    assert df is NoTangent() if not of_df else df.a.dtype.char == of_df
    assert dx.dtype.char == of_x
    if of_df:
        assert df.a == 6
    np.testing.assert_array_equal(dx, np.full(4, (np.conj(bound) if of_x in "FD" else np.real(bound))))


def test_wrt_names_captures() -> None:
    f = partial(AFFINE, 2.0, b=3.0)
    no = NoTangent()
    for residuals in ("save", "recompute"):
        for wrt, names, dx in (
            ("a", ("a",), no), ("b", ("b",), no), (("a", "b"), ("a", "b"), no), (0, (), 2 * DY),
            (("b", 0), ("b",), 2 * DY), ((), (), no),
        ):  # fmt: skip
            _, df, got = rrule(tmap, f, X, wrt=wrt, residuals=residuals)[1](DY)
            assert_same(got, dx, wrt)
            assert df is no if not names else tuple(df) == names
    with pytest.raises(ValueError, match=r"wrt names 'x'; affine captured 'a', 'b' \(arguments are named"):
        rrule(tmap, f, X, wrt="x")
    with pytest.raises(ValueError, match="wrt names argument 1; there are 1, from 0 to 0"):
        rrule(tmap, f, X, wrt=1)


def test_a_constant_named_by_wrt_has_no_tangent() -> None:
    _, df, dx = rrule(tmap, partial(TIMES, 2), X, wrt="a")[1](DY)
    assert df is dx is NoTangent()


@pytest.mark.parametrize("nothing", [NoTangent(), ZeroTangent()])
def test_nothing_comes_back_for_captures(nothing: Any) -> None:
    _, back = rrule(tmap, partial(TIMES, 2.0), X)
    assert back(nothing) == (NoTangent(), nothing, nothing)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_captures_of_empty_maps_have_gradient_zero(shape: tuple[int, ...]) -> None:
    for bound, char in ((2.0, "d"), (np.float32(2), "f"), (2j, "D")):
        for residuals in ("save", "recompute"):
            y, back = rrule(tmap, partial(TIMES, bound), np.ones(shape), residuals=residuals)
            _, df, dx = back(np.ones(shape, y.dtype))
            assert df.a == 0
            assert df.a.dtype.char == char
            assert dx.shape == shape


def test_captures_do_not_decide_the_kind_of_the_result() -> None:
    assert type(tmap(partial(TIMES, 2.0), 3.0)) is np.float64
    assert tmap(partial(TIMES, 2.0), (1.0, 2.0)) == (2.0, 4.0)
    _, back = rrule(tmap, partial(TIMES, 2.0), (1.0, 2.0))
    _, df, dx = back((1.0, 1.0))
    assert (df.a, dx) == (3.0, (2.0, 2.0))


@pytest.mark.compiler
def test_captures_of_native_functions_have_numbered_names() -> None:
    f = zoo.by_name("C product of three").f
    _, df, dx = rrule(tmap, partial(f, 2.0, x3=5.0), X)[1](DY)
    assert df == Tangent(x1=5 * np.sum(X * DY), x3=2 * np.sum(X * DY))
    np.testing.assert_array_equal(dx, 10 * DY)
    pointer = c_library.function("product", nin=3)
    register(pointer, derivative=tuple(c_library.function(f"product_{k}", nin=3) for k in "xyz"))
    assert rrule(tmap, partial(pointer, 2.0, 3.0), X)[1](DY)[1].x2 == 2 * np.sum(X * DY)


def test_captures_of_ufuncs() -> None:
    _, df, dx = rrule(tmap, partial(np.multiply, 2.0), X)[1](DY)
    assert df == Tangent(x1=np.sum(X * DY))
    np.testing.assert_array_equal(dx, 2 * DY)


BAD: list[tuple[Any, int, type, str]] = [
    (
        partial(TIMES, np.ones(3)),
        1,
        TypeError,
        r"captured a is an array of shape \(3,\); partial can capture numbers only: pass an array",
    ),
    (partial(TIMES, np.ones(1)), 1, TypeError, r"captured a is an array of shape \(1,\)"),
    (partial(TIMES, [1.0, 2.0]), 1, TypeError, r"captured a is an array of shape \(2,\)"),
    (partial(TIMES, (1.0, 2.0)), 1, TypeError, r"captured a is an array of shape \(2,\)"),
    (partial(TIMES, "a"), 1, TypeError, "captured a is a str"),
    (partial(TIMES, None), 1, TypeError, "captured a is a NoneType"),
    (partial(TIMES, c=1.0), 1, TypeError, "partial binds 'c'; times has the arguments a, x"),
    (partial(TIMES, 1.0, a=1.0), 1, TypeError, "partial binds 'a' twice, by position and by name"),
    (partial(TIMES, 1.0, 2.0, 3.0), 1, TypeError, "partial binds 3 arguments; times takes 2"),
    (partial(TIMES, 1.0), 2, TypeError, "times takes 2 arguments, of which 1 bound, but 2 were given"),
    (partial(TIMES, 1.0), 0, TypeError, "times takes 2 arguments, of which 1 bound, but 0 were given"),
    (partial(TIMES, 1.0, 2.0), 0, TypeError, "times takes 2 arguments, of which 2 bound, but 0 were given"),
    (partial(max, 1.0), 1, TypeError, "f.* is .*max"),
]


@pytest.mark.parametrize(("f", "n", "error", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_captures(f: Any, n: int, error: type, message: str) -> None:
    for call in (lambda *xs: tmap(f, *xs), lambda *xs: rrule(tmap, f, *xs)):
        with pytest.raises(error, match=message):
            call(*[X] * n)


def test_the_registration_of_a_partial_is_refused() -> None:
    with pytest.raises(TypeError, match=r"f is a functools.partial: register the function inside of it"):
        register(partial(times, 2.0), derivative=times)
