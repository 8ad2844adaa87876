"""The pullback: called again, from several threads; what it holds; ``wrt``."""

import gc
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES
from same import assert_same, bits

from tmapad import NoDerivativeError, NoTangent, Tangent, register, rrule, tmap

entries = pytest.mark.parametrize("entry", zoo.parameters())
RESIDUALS = pytest.mark.parametrize("residuals", ["save", "recompute", "auto"])
# The second call for arrays of the same types takes a shorter way than the first; some keywords never take it.
WAYS = pytest.mark.parametrize("keywords", [{}, {"num_threads": 1}], ids=["usual", "with a keyword"])
SIN = zoo.by_name("libm sin")


class Subclass(np.ndarray):
    pass


def subclass(x: Any) -> Any:
    return x.copy().view(Subclass)


def owner(x: Any) -> Any:
    """A weak reference to the array that has the memory."""
    return weakref.ref(x if x.base is None else x.base)


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- called again


@entries
@RESIDUALS
def test_back_may_be_called_again(entry: zoo.Entry, residuals: str) -> None:
    """The second call gives the same, after any other call, and changes nothing."""
    xs = entry.arguments((3, 50))
    y = tmap(entry.f, *xs)
    u, v = y.copy(), np.asarray(2 * y + 1, y.dtype)
    for _ in range(2):
        y, back = rrule(tmap, entry.f, *xs, residuals=residuals)
        of_u, of_v = back(u), back(v)
        kept = bits(of_u)
        assert_same(back(u), of_u)
        assert_same(back(v), of_v)
        for dx in of_u[2:]:
            dx[...] = np.nan
        assert bits(back(u)) == kept
        assert_same(y, tmap(entry.f, *xs))


@RESIDUALS
@WAYS
def test_back_from_several_threads(residuals: str, keywords: dict[str, Any]) -> None:
    a, x = np.float64(0.7), np.linspace(0, 3, 20_000)
    dys = [np.full(x.shape, k + 1.0) for k in range(4)]
    expected = [rrule(tmap, TIMES, a, x)[1](dy) for dy in dys]
    for _ in range(2):
        _, back = rrule(tmap, TIMES, a, x, residuals=residuals, **keywords)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(back, dys * 10))
        for k, result in enumerate(results):
            assert_same(result, expected[k % 4], k)


# ---- what it holds


@WAYS
def test_saved_residuals_hold_no_inputs(no_garbage_collection: None, keywords: dict[str, Any]) -> None:
    for wrap in (np.copy, subclass, np.asfortranarray):
        for _ in range(2):
            a, x = (wrap(np.linspace(1, 2, 6).reshape(2, 3)) for _ in range(2))
            y, back = rrule(tmap, TIMES, a, x, residuals="save", **keywords)
            seen = [owner(a), owner(x), owner(y)]
            del a, x, y
            assert [ref() for ref in seen] == [None] * 3
            np.testing.assert_allclose(back(np.ones((2, 3)))[2], np.linspace(1, 2, 6).reshape(2, 3))


@WAYS
def test_recomputing_holds_inputs_and_lets_go(no_garbage_collection: None, keywords: dict[str, Any]) -> None:
    """Of the result nothing is held; without a reference cycle everything is freed at once."""
    for wrap in (np.copy, subclass, np.asfortranarray):
        for _ in range(2):
            x = wrap(np.linspace(1, 2, 6).reshape(2, 3))
            y, back = rrule(tmap, SIN.f, x, residuals="recompute", **keywords)
            dy = np.ones((2, 3))
            result = back(dy)
            seen = owner(x), owner(y), owner(dy), owner(result[2])
            del x, y, dy, result
            assert seen[0]() is not None
            assert [ref() for ref in seen[1:]] == [None] * 3
            np.testing.assert_allclose(back(np.ones((2, 3)))[2], np.cos(np.linspace(1, 2, 6).reshape(2, 3)))
            repr(back)
            del back
            assert seen[0]() is None


def test_nothing_wanted_nothing_held(no_garbage_collection: None) -> None:
    f = register(zoo.libm("fabs"), derivative=None, name="fabs")
    for call in (
        lambda x: rrule(tmap, SIN.f, x, wrt=()),
        lambda x: rrule(tmap, np.isfinite, x),
        lambda x: rrule(tmap, f, x, wrt=()),
    ):
        x = np.ones(5)
        y, back = call(x)
        seen = weakref.ref(x)
        del x, y
        assert seen() is None
        assert back.nbytes == 0


def test_failed_calls_hold_nothing(no_garbage_collection: None) -> None:
    def fails(x: float) -> float:
        if x > 2:
            raise ValueError("too large")
        return x

    x = np.arange(4.0)
    before = sys.getrefcount(x)
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            tmap(fails, x)
        with pytest.raises(TypeError):
            tmap(fails, x, x)
        with pytest.raises(ValueError, match="out has shape"):
            tmap(fails, x, out=np.empty(3))
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize("n", [1, 7, 70_000])
def test_nbytes(n: int) -> None:
    x = np.linspace(0.5, 1, n)
    for _ in range(2):
        assert rrule(tmap, SIN.f, x, residuals="save")[1].nbytes == 8 * n
        assert rrule(tmap, zoo.by_name("libm sinf").f, x.astype("f"), residuals="save")[1].nbytes == 4 * n
        assert rrule(tmap, SIN.f, x)[1].nbytes == 0
        assert rrule(tmap, TIMES, x, x, residuals="save")[1].nbytes == 16 * n
        assert rrule(tmap, TIMES, x, x, residuals="save", wrt=0)[1].nbytes == 8 * n
        assert rrule(tmap, zoo.by_name("Python, value and derivative").f, x)[1].nbytes == 8 * n


def test_repr() -> None:
    x = np.ones((3, 4))
    for _ in range(2):
        for residuals, kept in (("save", "96 bytes of partial derivatives"), ("recompute", "the inputs")):
            _, back = rrule(tmap, SIN.f, x, residuals=residuals)
            assert repr(back) == f"<pullback of tmap(sin) for shape (3, 4), keeps {kept}>"


def test_a_pullback_is_made_by_rrule_only() -> None:
    _, back = rrule(tmap, SIN.f, np.ones(3))
    with pytest.raises(TypeError, match=r"made by rrule\(tmap"):
        type(back)()
    with pytest.raises(TypeError):
        back()
    with pytest.raises(TypeError):
        back(np.ones(3), np.ones(3), np.ones(3))


# ---- wrt


def test_wrt_names_positions() -> None:
    a, x = np.arange(3.0), np.arange(3.0) + 5
    no = NoTangent()
    for residuals in ("save", "recompute"):
        for wrt, da, dx in (
            (0, x, no), (1, no, a), ((0,), x, no), ((1,), no, a), ((0, 1), x, a), ((1, 0), x, a), ((), no, no),
            ((0, 0), x, no), (np.int64(1), no, a),
        ):  # fmt: skip
            y, back = rrule(tmap, TIMES, a, x, wrt=wrt, residuals=residuals)
            assert_same(y, a * x)
            assert_same(back(np.ones(3)), (no, no, da, dx), wrt)


def test_what_is_not_wanted_costs_nothing() -> None:
    """No derivative is asked for, none is needed."""
    f = register(zoo.libm("pow", nin=2), derivative=(zoo.libm("fmax", nin=2), None), name="pow")
    x = np.ones(3)
    _, back = rrule(tmap, f, x, x)
    assert back(x)[3] is NoTangent()
    g = register(zoo.libm("pow", nin=2), name="pow")
    y, back = rrule(tmap, g, x, x, wrt=())
    assert back(y)[2:] == (NoTangent(), NoTangent())
    with pytest.raises(NoDerivativeError, match="pow has no derivative in x1"):
        rrule(tmap, g, x, x, wrt=0)


@pytest.mark.parametrize(
    ("wrt", "error", "message"),
    [
        (2, ValueError, "wrt names argument 2; there are 2, from 0 to 1"),
        (-1, ValueError, "wrt names argument -1; there are 2"),
        ((0, 5), ValueError, "wrt names argument 5"),
        ("a", ValueError, r"wrt names 'a'; times captured nothing \(arguments are named by position; .* an integer is"),
        (1.0, TypeError, "wrt must hold positions of arguments and names of captures, not float"),
        (True, TypeError, "not bool"),
        ([0], TypeError, "not list"),
        ((None,), TypeError, "not NoneType"),
    ],
)
def test_bad_wrt(wrt: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        rrule(tmap, TIMES, np.ones(3), np.ones(3), wrt=wrt)


def test_cotangents_are_a_plain_tuple() -> None:
    _, back = rrule(tmap, TIMES, 1.0, np.ones(3))
    for dy in (np.ones(3), np.zeros(3), NoTangent()):
        assert type(back(dy)) is tuple
        assert len(back(dy)) == 4
        assert not isinstance(back(dy)[1], Tangent)
