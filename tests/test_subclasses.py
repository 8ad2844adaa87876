"""Subclasses of arrays and strings: taken for what they are, asked nothing that their class may refuse."""

from typing import Any

import numpy as np
import pytest
import zoo
from functions import TIMES

from tmapad import register, rrule, tmap

SIN = zoo.by_name("libm sin").f


class Refusing(np.ndarray[Any, Any]):
    """An array that NumPy's functions cannot be called with."""

    def __array_function__(self, *arguments: Any) -> Any:
        raise NotImplementedError("no function takes this array")

    def __array_ufunc__(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError("no ufunc takes this array")


def refusing(*shape: int) -> Any:
    return np.full(shape, -1.0).view(Refusing)


def plain(array: Any) -> Any:
    assert type(array) is Refusing
    return array.view(np.ndarray)


def test_the_class_refuses() -> None:
    with pytest.raises(NotImplementedError, match="no function"):
        np.may_share_memory(refusing(3), np.zeros(3))
    with pytest.raises(NotImplementedError, match="no function"):
        np.copyto(refusing(3), np.zeros(3))
    with pytest.raises(NotImplementedError, match="no ufunc"):
        np.exp(refusing(3))


@pytest.mark.parametrize("shape", [(), (5,), (3, 700)])
@pytest.mark.parametrize("f", [np.sin, SIN, lambda x: x * x], ids=["ufunc", "C", "Python"])
def test_results_are_written_to_it(f: Any, shape: tuple[int, ...]) -> None:
    x = np.linspace(0.1, 1, int(np.prod(shape))).reshape(shape)
    y = tmap(f, x)
    for _ in range(2):
        out = refusing(*shape)
        assert tmap(f, x, out=out) is out
        np.testing.assert_array_equal(plain(out), y)
    # Written over the argument.
    both = x.copy()
    assert tmap(f, both, out=(view := both.view(Refusing))) is view
    np.testing.assert_array_equal(both, y)


def test_several_results_are_written_to_it() -> None:
    x, out = np.linspace(0.1, 3, 100), (refusing(100), refusing(100))
    results = tmap(np.modf, x, out=out)
    assert results[0] is out[0]
    assert results[1] is out[1]
    for y, expected in zip(results, np.modf(x), strict=True):
        np.testing.assert_array_equal(plain(y), expected)


@pytest.mark.parametrize("residuals", ["auto", "save", "recompute"])
@pytest.mark.parametrize("n", [5, 2000])
def test_cotangents_are_written_to_it(n: int, residuals: str) -> None:
    a, x, dy = np.arange(1.0, n + 1), np.arange(n, 2.0 * n), np.full(n, 2.0)
    y = refusing(n)
    result, back = rrule(tmap, TIMES, a, x, out=y, residuals=residuals)
    assert result is y
    np.testing.assert_array_equal(plain(y), a * x)
    for out in ((refusing(n), refusing(n)), (None, refusing(n)), (a.view(Refusing), x.view(Refusing))):
        expected = (x * dy, a * dy)
        results = back(dy, out=out)[2:]
        for given, dx, right in zip(out, results, expected, strict=True):
            assert given is None or dx is given
            np.testing.assert_array_equal(np.ndarray.view(dx, np.ndarray), right)


class Word(str):
    """A string of a class of its own."""


@pytest.mark.parametrize("kind", [np.str_, Word])
@pytest.mark.parametrize("schedule", ["static", "dynamic", "guided"])
def test_strings_that_are_a_subclass(schedule: str, kind: Any) -> None:
    x = np.linspace(0, 1, 50_000)
    expected = np.cos(x)
    for f in (np.sin, SIN):
        for threads in (None, 1, 2):
            y, back = rrule(tmap, f, x, schedule=kind(schedule), residuals=kind("recompute"), num_threads=threads)
            np.testing.assert_allclose(y, np.sin(x), rtol=1e-15)
            np.testing.assert_allclose(back(np.ones(x.size))[2], expected, rtol=1e-14)
            for _ in range(2):
                y2 = tmap(f, x, schedule=kind(schedule), num_threads=threads)
                np.testing.assert_array_equal(y2, y)


@pytest.mark.parametrize("residuals", [np.array(["auto", "save"]), ["auto"], b"auto", 3, None], ids=repr)
def test_residuals_that_are_no_word(residuals: Any) -> None:
    with pytest.raises(ValueError, match="residuals must be one of 'auto', 'save', 'recompute', not "):
        rrule(tmap, np.sin, np.ones(3), residuals=residuals)


@pytest.mark.parametrize("make", [lambda: register(zoo.libm("sin")), lambda: register(lambda x: x)])
@pytest.mark.parametrize("keywords", [{}, {"replace": True}])
def test_what_register_returned_is_not_registered_again(make: Any, keywords: dict[str, Any]) -> None:
    f = make()
    message = r"f is what register or from_cython returned for .*: pass its derivative there"
    with pytest.raises(TypeError, match=message):
        register(f, derivative=zoo.libm("cos"), **keywords)
