"""What has no derivative, or cannot be mapped, is shown: the line of the user's source, wherever it is."""

import ctypes
import ctypes.util
import functools
import linecache
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from tmapad import NoDerivativeError, derivative, partials, register, rrule, tmap

_libm = ctypes.CDLL(ctypes.util.find_library("m"))
_cbrt, _exp2 = _libm.cbrt, _libm.exp2
for _function in (_cbrt, _exp2):
    _function.argtypes, _function.restype = [ctypes.c_double], ctypes.c_double


def unknown(x: float) -> float:
    y = x + 1.0
    return y * _cbrt(y)  # here


def in_several_lines(x: float) -> float:
    return (
        math.sin(x)
        + _cbrt(x)  # here
        + math.cos(x)
    )


def in_a_branch(x: float) -> float:
    y = 0.0
    for k in range(3):
        if x > k:
            y += _cbrt(x)  # here
        else:
            y -= x
    return y


def helper(a: float, b: float) -> float:
    c = a * b
    return c + _cbrt(c)  # here


def in_a_helper(x: float) -> float:
    return helper(x, 2.0) + helper(x, 3.0)


@njit
def compiled_helper(a: float) -> float:
    d = a
    d += _cbrt(d)  # here
    return d


def in_a_compiled_helper(x: float) -> float:
    return 1.0 + compiled_helper(x)


def in_a_closure() -> Callable[[float], float]:
    a = 2.0

    def inner(x: float) -> float:
        def innermost(z: float) -> float:
            return _cbrt(a * z)  # here

        return a * innermost(x)

    return inner


def of_bits(x: float) -> float:
    v = np.empty(1)
    v[0] = x
    bits = v.view(np.int64)
    bits[0] &= -2
    return v[0]  # here


def a_list(x: float) -> float:
    items = [x, 2.0 * x]  # here
    return sum(items)


def itself(n: int, x: float) -> float:
    return x if n <= 0 else itself(n - 1, x) * x  # here


def recursive(x: float) -> float:
    y = 2.0 * x
    return y + itself(3, y)


class Model:
    def __init__(self, a: float) -> None:
        self.a = a

    def __call__(self, x: float) -> float:
        return self.a + _cbrt(x)  # here


registered = register(_exp2, name="registered")


def a_registered_function(x: float) -> float:
    y = x * x
    return 1.0 + registered(y)  # here


def two_arguments(x: float, a: float) -> float:
    return a * _cbrt(x)  # here


WITHOUT_DERIVATIVE: dict[str, tuple[Any, str]] = {
    "an unknown function": (unknown, "return y * _cbrt(y)"),
    "an expression in several lines": (in_several_lines, "+ _cbrt(x)"),
    "a branch in a loop": (in_a_branch, "y += _cbrt(x)"),
    "a helper": (in_a_helper, "return c + _cbrt(c)"),
    "a helper that was compiled": (in_a_compiled_helper, "d += _cbrt(d)"),
    "a nested closure": (in_a_closure(), "return _cbrt(a * z)"),
    "bits": (of_bits, "return v[0]"),
    "a list": (a_list, "items = [x, 2.0 * x]"),
    "recursion": (recursive, "return x if n <= 0 else itself(n - 1, x) * x"),
    "an object that is called": (Model(2.0), "return self.a + _cbrt(x)"),
    "a registered function": (a_registered_function, "return 1.0 + registered(y)"),
    "a lambda": (lambda x: 3.0 * _cbrt(x), "lambda x: 3.0 * _cbrt(x)"),  # here
    "arguments that are bound": (functools.partial(two_arguments, a=2.0), "return a * _cbrt(x)"),
}


def marked() -> list[str]:
    """How the marked lines of this file end a message."""
    lines = enumerate(Path(__file__).read_text().splitlines(), 1)
    return [f"(line {k}: `{line.strip()}`)" for k, line in lines if line.endswith("# here")]


# Registered functions of float64 take no float32, which is an error of its own.
IN_SINGLE = [name for name in WITHOUT_DERIVATIVE if name != "a registered function"]


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, "d") for name in WITHOUT_DERIVATIVE] + [(name, "f") for name in IN_SINGLE]
)
def test_the_line_without_a_derivative(name: str, dtype: str) -> None:
    f, line = WITHOUT_DERIVATIVE[name]
    x = np.array([0.5, 1.5], dtype)
    with pytest.raises(NoDerivativeError, match="cannot be differentiated: its result depends on ") as caught:
        rrule(tmap, f, x)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(tuple(marked()))
    assert f": `{line}" in message or (name == "a lambda" and line in message)


@pytest.mark.parametrize("ask", [derivative(derivative(unknown)), derivative(unknown)], ids=["second", "first"])
def test_derivatives_of_derivatives(ask: Any) -> None:
    with pytest.raises(NoDerivativeError, match=r"\(line \d+: `return y \* _cbrt\(y\)  # here`\)$"):
        tmap(ask, np.ones(3))


def test_partials() -> None:
    with pytest.raises(NoDerivativeError, match=r"\(line \d+: `return a \* _cbrt\(x\)  # here`\)$"):
        partials(two_arguments, np.ones(3), 2.0)


def test_source_that_is_nowhere() -> None:
    """The line's number is known without it."""
    names = {"cbrt": _cbrt}
    exec("def f(x):\n    y = x\n    return y + cbrt(y)\n", names)
    with pytest.raises(NoDerivativeError, match=r"no derivative is registered for: register\(.*\) \(line 3\)$"):
        rrule(tmap, names["f"], np.ones(3))


def test_source_of_a_notebook() -> None:
    """It is where the traceback module finds it."""
    source = "def f(x):\n    y = x\n    return y + cbrt(y)\n"
    name, names = '<cell "1" é>', {"cbrt": _cbrt}
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), names)
    try:
        with pytest.raises(NoDerivativeError, match=r"\(line 3: `return y \+ cbrt\(y\)`\)$"):
            rrule(tmap, names["f"], np.ones(3))
    finally:
        del linecache.cache[name]


def draws(x: float) -> float:
    y = x
    if x > 0.0:
        y += random.random()  # here
    return y


def prints(x: float) -> float:
    y = x
    print(y)  # here
    return y


def draws_in_a_helper(x: float) -> float:
    return 2.0 * draws(x)


@pytest.mark.parametrize(("f", "reason"), [(draws, "random"), (prints, "print"), (draws_in_a_helper, "random")])
def test_the_line_that_cannot_be_mapped(f: Any, reason: str) -> None:
    for _ in range(2):  # also once it was refused
        with pytest.raises(TypeError, match=f"cannot compile {f.__name__}: it .*{reason}") as caught:
            tmap(f, np.ones(3))
        assert str(caught.value).endswith(tuple(marked()))


def test_what_is_refused_for_a_derivative_can_be_mapped() -> None:
    np.testing.assert_allclose(tmap(unknown, np.array([7.0])), 16.0)


def long_line(x: float) -> float:
    return _cbrt(x) + 1.0 + 2.0 * x + 3.0 * x + 4.0 * x + 5.0 * x + 6.0 * x + 7.0 * x + 8.0 * x + 9.0 * x + 10.0 * x


def test_long_lines_are_cut() -> None:
    with pytest.raises(NoDerivativeError, match=r"`return _cbrt\(x\) .*`\)$") as caught:
        rrule(tmap, long_line, np.ones(3))
    assert str(caught.value).endswith("x`)")
    source = f"def f(x):\n    return cbrt(x){' + x' * 100}\n"
    name, names = "<a long cell>", {"cbrt": _cbrt}
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), names)
    try:
        with pytest.raises(NoDerivativeError, match=r"`return cbrt\(x\)[ +x]*\.\.\.`\)$") as caught:
            rrule(tmap, names["f"], np.ones(3))
        assert len(str(caught.value)) < 350
    finally:
        del linecache.cache[name]
