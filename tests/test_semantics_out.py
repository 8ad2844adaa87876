"""Shapes and layouts of arguments and results; ``out=``."""

from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES, array
from layouts import LAYOUTS, PAIRS, SHAPES
from same import assert_same

from tmapad import NoTangent, register, rrule, tmap

SIN = zoo.by_name("libm sin")


def sum_and_product(a: float, x: float) -> tuple[float, float]:
    return a + x, a * x


def sum_and_product_partials(a: float, x: float) -> tuple[float, float, float, float]:
    return a + x, a * x, 1.0, 1.0, x, a  # type: ignore[return-value]


BOTH = register(sum_and_product, value_and_derivative=sum_and_product_partials)

# ---- shapes


@pytest.mark.parametrize("residuals", ["save", "recompute"])
@pytest.mark.parametrize("shapes", PAIRS)
def test_arguments_broadcast_and_cotangents_do_not(shapes: tuple[Any, Any], residuals: str) -> None:
    a, x = (np.asarray(np.arange(np.prod(shape, dtype=int)) + 1.0).reshape(shape) for shape in shapes)
    expected = a * x
    dy = np.arange(expected.size).reshape(expected.shape) + 1.0
    y, back = rrule(tmap, TIMES, a, x, residuals=residuals)
    assert_same(np.asarray(y), np.asarray(expected))
    _, _, da, dx = back(dy)
    assert (np.shape(da), np.shape(dx)) == shapes
    for argument, cotangent, other in ((a, da, x), (x, dx, a)):
        terms = dy * other
        extra = terms.ndim - argument.ndim
        axes = (*range(extra), *(k + extra for k, n in enumerate(argument.shape) if n == 1))
        np.testing.assert_array_equal(cotangent, terms.sum(axes, keepdims=True).reshape(argument.shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("char", "efdD")
def test_empty_and_tiny_shapes(shape: tuple[int, ...], char: str) -> None:
    x = np.ones(shape, char)
    f = zoo.by_name("libm csinh").f if char == "D" else SIN.f
    for residuals in ("save", "recompute", "auto", "auto"):
        y, back = rrule(tmap, f, x, residuals=residuals)
        dx = back(np.ones(shape, char))[2]
        for result in (y, dx, tmap(f, x)):
            assert (result.shape, result.dtype) == (shape, x.dtype)


def test_many_axes() -> None:
    x = np.arange(2.0**5).reshape((2, 1) * 5 + (1,) * 22)
    y, back = rrule(tmap, TIMES, x.T, x)
    np.testing.assert_array_equal(y, x.T * x)
    np.testing.assert_array_equal(back(np.ones(y.shape))[3], np.full(x.shape, x.sum()))


# ---- layouts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2), (3, 0)])
def test_layout_of_the_result_is_k(layout: str, shape: tuple[int, ...]) -> None:
    """As NumPy's ufuncs lay theirs out: axes ordered as the argument's, without gaps."""
    x = LAYOUTS[layout](np.arange(np.prod(shape, dtype=float)).reshape(shape))
    of_numpy = np.positive(x)
    for y in (tmap(SIN.f, x), rrule(tmap, SIN.f, x)[0], rrule(tmap, SIN.f, x, residuals="save")[0]):
        long = [k for k, n in enumerate(shape) if n > 1]
        assert [y.strides[k] for k in long] == [of_numpy.strides[k] for k in long] or y.size == 0
        assert y.flags.owndata
        assert y.flags.writeable
        assert y.dtype.isnative


def test_layout_of_several_arguments_is_k() -> None:
    c, fortran = np.ones((3, 4, 5)), np.ones((3, 4, 5), order="F")
    mixed = np.ones((4, 5, 3)).transpose(2, 0, 1)
    pairs = [(c, c), (fortran, fortran), (mixed, mixed), (c, fortran), (fortran, c), (mixed, fortran)]
    pairs += [(fortran, np.ones((1, 4, 1))), (np.ones(5), fortran), (mixed, 2.0), (np.float64(2), fortran)]
    for a, x in pairs:
        assert tmap(TIMES, a, x).strides == np.multiply(a, x).strides


@pytest.mark.parametrize("layout", ["strided", "reversed", "Fortran", "last axis first"])
def test_layout_of_cotangents(layout: str) -> None:
    """A cotangent has no gaps, and is laid out as its argument."""
    x = LAYOUTS[layout](np.arange(24.0).reshape(2, 3, 4))
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, SIN.f, x, residuals=residuals)
        assert back(x)[2].strides == np.positive(x).strides


# ---- out=


@pytest.mark.parametrize(
    "layout", [name for name in LAYOUTS if name not in ("read-only", "memory-mapped", "unaligned")]
)
@pytest.mark.parametrize("shape", [(700,), (3, 4), (2, 3, 4), (0, 3)])
def test_out_of_any_layout(layout: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    expected = tmap(SIN.f, x)
    for num_threads in (1, 3):
        out = LAYOUTS[layout](np.full(shape, np.nan))
        assert tmap(SIN.f, x, out=out, num_threads=num_threads) is out
        assert_same(out.astype("d"), expected)
        out = LAYOUTS[layout](np.full(shape, np.nan))
        y, back = rrule(tmap, SIN.f, x, out=out, num_threads=num_threads)
        assert y is out
        assert_same(out.astype("d"), expected)
        dx = LAYOUTS[layout](np.full(shape, np.nan))
        assert back(x, out=dx)[2] is dx
        assert_same(dx.astype("d"), np.cos(x) * x if x.size else x)


def test_out_that_is_unaligned() -> None:
    memory = np.zeros(8 * 100 + 1, np.uint8)
    out = memory[1:].view("d")
    assert not out.flags.aligned
    tmap(SIN.f, np.arange(100.0), out=out, num_threads=2)
    assert_same(out.copy(), tmap(SIN.f, np.arange(100.0)))


def test_writing_to_a_part_leaves_the_rest() -> None:
    memory = np.full((50, 50), 7.0)
    tmap(SIN.f, np.zeros((20, 10)), out=memory[5:45:2, 40:20:-2], num_threads=3, chunk_size=7)
    assert (memory == 0).sum() == 200
    assert (memory == 7).sum() == 2300
    assert (memory[5:45:2, 40:20:-2] == 0).all()


@pytest.mark.parametrize(
    ("char", "of_out", "fits"),
    [
        ("d", "f", True), ("d", "e", True), ("d", "D", True), ("d", "F", True), ("f", "d", True), ("f", "e", True),
        ("e", "f", True), ("e", "D", True), ("e", "d", True), ("d", "l", False), ("d", "?", False), ("d", "g", False),
        ("e", "B", False),
    ],
)  # fmt: skip
def test_type_of_out(char: str, of_out: str, fits: bool) -> None:
    """As in NumPy, casting "same_kind"; the result is rounded to its own type first."""
    x = np.linspace(0, 1, 1000).astype(char)
    out = np.zeros(1000, of_out)
    if fits:
        assert tmap(SIN.f, x, out=out) is out
        np.testing.assert_array_equal(out, tmap(SIN.f, x).astype(of_out))
        return
    with pytest.raises(TypeError, match="out has dtype"):
        tmap(SIN.f, x, out=out)
    with pytest.raises(TypeError, match="out has dtype"):
        rrule(tmap, SIN.f, x, out=out)
    assert not out.any()


def test_integer_results_in_other_types() -> None:
    for char, of_out in (("B", "h"), ("i", "l"), ("h", "f"), ("?", "b"), ("q", "D"), ("l", "i")):
        out = np.zeros(5, of_out)
        tmap(np.add, array(char), array(char), out=out)
        np.testing.assert_array_equal(out, np.add(array(char), array(char)).astype(of_out))
    with pytest.raises(TypeError, match="out has dtype"):
        tmap(np.add, array("l"), array("l"), out=np.zeros(5, "L"))


def test_out_for_scalars_is_a_0d_array() -> None:
    out = np.empty(())
    assert tmap(SIN.f, 0.5, out=out) is out
    y, back = rrule(tmap, SIN.f, 0.5, out=out)
    assert y is out
    assert out == np.sin(0.5)
    dx = np.empty(())
    assert back(1.0, out=dx)[2] is dx
    assert dx == np.cos(0.5)


def test_out_for_tuples_is_an_array() -> None:
    out = np.empty(2)
    assert tmap(SIN.f, (0.5, 1.0), out=out) is out
    y, back = rrule(tmap, SIN.f, (0.5, 1.0), out=out)
    assert y is out
    assert type(back((1.0, 1.0))[2]) is tuple


def test_out_for_several_results() -> None:
    a, x = np.arange(4.0), np.arange(4.0)[:, None] + 2
    first, second = np.empty((4, 4)), np.empty((4, 4))
    for out in ((first, second), (None, second), (first, None), (None, None)):
        for arrays in (first, second):
            arrays[...] = np.nan
        y = tmap(BOTH, a, x, out=out)
        assert all(given is None or got is given for got, given in zip(y, out, strict=True))
        assert_same(y, (a + x, a * x))
        (y, back) = rrule(tmap, BOTH, a, x, out=out)
        assert_same(y, (a + x, a * x))
        np.testing.assert_array_equal(back((np.ones((4, 4)), np.ones((4, 4))))[2], (1 + x).sum(0) + 0 * a)
    assert tmap(SIN.f, x, out=(None,)).shape == x.shape


def test_results_over_each_others_arguments() -> None:
    """Of several results each is written over another argument: none may be read after it was written."""
    a, x = np.arange(3000.0), np.arange(3000.0)[::-1].copy()
    expected = tmap(BOTH, a, x)
    for swapped in (False, True):
        for run in ({"num_threads": 1}, {"num_threads": 3, "chunk_size": 7}):
            arguments = [a.copy(), x.copy()]
            out = tuple(arguments[::-1] if swapped else arguments)
            assert_same(tmap(BOTH, *arguments, out=out, **run), expected, swapped, run)
            arguments = [a.copy(), x.copy()]
            out = tuple(arguments[::-1] if swapped else arguments)
            _, back = rrule(tmap, BOTH, *arguments, out=out, **run)
            _, _, da, dx = back((a, a))
            assert_same((da, dx), (a + x * a, a + a * a), swapped, run)


def test_results_over_an_argument_that_is_broadcast() -> None:
    for one in (slice(5, 6), slice(0, 1), slice(9, 10)):
        for run in ({"num_threads": 1}, {"num_threads": 3, "chunk_size": 1}):
            memory = np.arange(10.0) + 1
            expected = tmap(TIMES, memory.copy(), memory[one].copy())
            assert_same(tmap(TIMES, memory, memory[one], out=memory, **run), expected)
    rows = np.arange(12.0).reshape(3, 4)
    expected = tmap(TIMES, rows.copy(), rows[1].copy())
    assert_same(tmap(TIMES, rows, rows[1], out=rows), expected)


BAD_OUT: list[tuple[Any, type, str]] = [
    (np.empty((3, 1)), ValueError, r"out has shape \(3, 1\); the result has shape \(3,\)"),
    (np.empty(()), ValueError, r"out has shape \(\)"),
    (np.empty(4), ValueError, r"out has shape \(4,\)"),
    ([0.0, 0.0, 0.0], TypeError, "out must be a NumPy array, not a list"),
    (2.0, TypeError, "out must be a NumPy array, not a float"),
    (np.ma.zeros(3), TypeError, "out is a masked array"),
    (np.empty(3, object), TypeError, "out has dtype object"),
    (np.empty(3, "M8[s]"), TypeError, "out has dtype datetime64"),
    (np.empty(3, "g"), TypeError, "out has dtype"),
    (LAYOUTS["read-only"](np.zeros(3)), ValueError, "out is read-only"),
    (np.broadcast_to(np.zeros(1), (3,)), ValueError, "out is read-only"),
    (np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,)), ValueError, r"out overlaps itself.*strides \(0,\)"),
    (np.lib.stride_tricks.as_strided(np.zeros(9), (3,), (4,)), ValueError, "out overlaps itself"),
    (np.lib.stride_tricks.as_strided(np.zeros(9)[5:], (3,), (-4,)), ValueError, "out overlaps itself"),
    ((np.empty(3), np.empty(3)), ValueError, "out must have an array or None for each of 1 output.*not 2"),
    ((), ValueError, "out must have an array or None for each of 1 output.*not 0"),
]


@pytest.mark.parametrize(("out", "error", "message"), BAD_OUT, ids=[m for _, _, m in BAD_OUT])
def test_bad_out(out: Any, error: type, message: str) -> None:
    x = np.ones(3)
    for call in (lambda: tmap(SIN.f, x, out=out), lambda: rrule(tmap, SIN.f, x, out=out)):
        with pytest.raises(error, match=message):
            call()
    if isinstance(out, np.ndarray) and out.dtype == "d" and "read-only" not in message:
        assert not np.isin(out, np.sin(1.0)).any()


def test_bad_out_of_several_results() -> None:
    x, good = np.ones(3), np.zeros(6)
    for out, error, message in (
        ((good[:3], good[1:4]), ValueError, "arrays in out share memory"),
        ((good[:3], np.empty(4)), ValueError, r"out\[1\] has shape \(4,\)"),
        ((good[:3], [0.0]), TypeError, r"out\[1\] must be a NumPy array, not a list"),
        ((good[:3], np.empty(3, "l")), TypeError, r"out\[1\] has dtype int64, which cannot hold.*float64"),
        (good[:3], ValueError, "out must have an array or None for each of 2 outputs, not 1"),
    ):
        with pytest.raises(error, match=message):
            tmap(BOTH, x, x, out=out)
        assert not good.any()


def test_two_dimensional_out_that_overlaps_itself() -> None:
    x = np.ones((3, 4))
    memory = np.zeros(100)
    for strides, fits in (((8, 24), True), ((32, 8), True), ((8, 8), False), ((16, 8), False), ((-32, 8), True)):
        out = np.lib.stride_tricks.as_strided(memory[50:], (3, 4), strides)
        if fits:
            np.testing.assert_array_equal(tmap(SIN.f, x, out=out), np.sin(1.0))
        else:
            with pytest.raises(ValueError, match="out overlaps itself"):
                tmap(SIN.f, x, out=out)


def test_cotangents_written_by_back() -> None:
    a, x = np.arange(3.0), np.arange(12.0).reshape(4, 3)
    for residuals in ("save", "recompute"):
        _, back = rrule(tmap, TIMES, a, x, residuals=residuals)
        _, _, da, dx = back(x)
        for given in ((True, True), (True, False), (False, True), (False, False)):
            out = tuple(np.full(z.shape, np.nan) if g else None for g, z in zip(given, (a, x), strict=True))
            result = back(x, out=out)
            assert_same(result[2:], (da, dx))
            assert all(o is None or r is o for r, o in zip(result[2:], out, strict=True))
            assert_same(back(x)[2:], (da, dx))
        assert rrule(tmap, TIMES, a, x, wrt=1)[1](x, out=(None, np.empty((4, 3))))[2] is NoTangent()
