"""A local variable that is read where nothing was assigned to it is an error, as in Python, and no zero."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit

from tmapad import rrule, tmap


def forgotten_else(x: float) -> float:
    if x > 1.0:
        y = 2.0 * x
    return y


def a_loop_without_turns(x: float) -> float:
    for k in range(int(x)):
        last = k * x
    return last


def handed_on(x: float) -> float:
    if x > 1.0:
        y = x
    for k in range(3):
        if k == 1 and x > 1.0:
            y = y + 1.0
        if k == 2:
            z = y * 2.0
    return z


def an_integer(x: float) -> float:
    if x > 1.0:
        n = 3
    for i in range(2):
        if i:
            w = n + i
    return w * x


def an_array(x: float) -> float:
    if x > 1.0:
        a = np.zeros(2)
    a[0] = x
    return a[0] + a[1]


def a_result_that_does_not_need_it(x: float) -> float:
    if x > 1.0:
        y = x
    z = y
    return x if x > 0.0 else z


def a_complex_number(x: float) -> float:
    while x > 1.0:
        z = complex(x, 1.0)
        x = x - 1.0
    return x + z.real * z.imag


def helper(x: float) -> float:
    if x > 1.0:
        y = x
    return y + 1.0


def in_a_helper(x: float) -> float:
    return 2.0 * helper(x)


def joined_twice(x: float) -> float:
    if x > 1.0:
        y = x
    if x < -1.0:
        y = -x
    return y


UNASSIGNED = [
    forgotten_else, a_loop_without_turns, handed_on, an_integer, an_array, a_result_that_does_not_need_it,
    a_complex_number, in_a_helper, joined_twice,
]  # fmt: skip


@pytest.mark.parametrize("f", UNASSIGNED)
def test_it_is_an_error(f: Callable[..., Any]) -> None:
    x = np.array([2.5, 1.5, 0.5, 3.0, 0.25])
    np.testing.assert_array_equal(tmap(f, x[:2]), [f(float(one)) for one in x[:2]])
    for run in (lambda: tmap(f, x), lambda: rrule(tmap, f, x), lambda: tmap(f, x.astype("f"))):
        with pytest.raises(UnboundLocalError) as caught:
            run()
        assert "at element 2 " in caught.value.__notes__[0]
    _, back = rrule(tmap, f, x[:2])
    step = 1e-6
    slopes = [(f(float(one) + step) - f(float(one) - step)) / (2 * step) for one in x[:2]]
    np.testing.assert_allclose(back(np.ones(2))[2], slopes, rtol=1e-6)


def test_where_numba_itself_gives_zero() -> None:
    """The element is run in Python, where a helper made by ``njit`` is Numba's."""
    compiled = njit(helper)
    assert compiled(0.5) == 1.0
    with pytest.raises(RuntimeError, match=r"failed when compiled, but not in Python: in .*, at element 1 with"):
        tmap(lambda x: compiled(x), np.array([2.0, 0.5]))


def the_same_condition(x: float) -> float:
    if x > 1.0:
        y = 2.0 * x
    z = x
    if x > 1.0:
        z += y
    return z


def always_a_turn(x: float) -> float:
    for k in range(3):
        last = k * x
    return last


def assigned_in_both(x: float) -> float:
    if x > 1.0:
        a, n = x, 2
    else:
        a, n = -x, 3
    return a * n


def not_read(x: float) -> float:
    if x > 1.0:
        unused = x
        x = unused * 2.0
    return x


@pytest.mark.parametrize("f", [the_same_condition, always_a_turn, assigned_in_both, not_read])
def test_what_is_never_read_without_a_value_is_none(f: Callable[[float], float]) -> None:
    x = np.array([0.5, 1.5, -2.0])
    np.testing.assert_array_equal(tmap(f, x), [f(float(one)) for one in x])
