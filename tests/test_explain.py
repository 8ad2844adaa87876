"""`ScalarFunction.explain` says what would run: how many threads, and for how many arguments."""

import math
import re
from typing import Any

import c_library
import numpy as np
import pytest
import zoo

from tmapad import from_cython, register

X = np.ones(3)


def not_negative(part: str = "", **keywords: Any) -> Any:
    return register(c_library.function(f"not_negative{part}"), **keywords)


# Functions, and how their line about threads begins; None: with a number of threads and no reason to run on one.
SERIAL: dict[str, tuple[Any, str | None]] = {
    "not threadsafe": (lambda: not_negative(threadsafe=False), "1: registered with threadsafe=False"),
    "its derivative is not threadsafe": (
        lambda: register(zoo.libm("exp"), derivative=not_negative("_derivative", threadsafe=False)),
        "1: registered with threadsafe=False",
    ),
    "Python, not threadsafe": (
        lambda: register(lambda x: 2 * x, threadsafe=False), "1: registered with threadsafe=False"
    ),
    "C": (not_negative, None),
    "raises": (lambda: not_negative(raises=True), None),
    "its derivative raises": (
        lambda: register(zoo.libm("exp"), derivative=not_negative("_derivative", raises=True)), None
    ),
    "Cython, raises": (lambda: from_cython("scipy.special.cython_special", "gammaln", raises=True), None),
    "raises, not threadsafe": (
        lambda: not_negative(raises=True, threadsafe=False, replace=True), "1: registered with threadsafe=False"
    ),
    "C with a derivative": (lambda: register(zoo.libm("exp"), derivative=zoo.libm("exp")), None),
    "Python": (lambda: register(lambda x: 2 * x), None),
}  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize(("make", "threads"), SERIAL.values(), ids=SERIAL)
def test_threads(make: Any, threads: str | None) -> None:
    f = make()
    said = f.explain(X).threads
    if threads is None:
        assert said.endswith("; 1 for little work")
        assert "registered" not in said
    else:
        assert said == threads
    assert f"threads: {said}" in str(f.explain(X))


@pytest.mark.parametrize(
    ("f", "xs", "message"),
    [
        (lambda: register(zoo.libm("sin")), (1.0, 2.0), "takes 1 argument; 2 were given"),
        (lambda: register(zoo.libm("sin")), (), "takes 1 argument; 0 were given"),
        (lambda: register(zoo.libm("pow", nin=2)), (X,), "takes 2 arguments; 1 were given"),
        (lambda: register(zoo.libm("pow", nin=2)), (X, X, X), "takes 2 arguments; 3 were given"),
        (lambda: register(lambda a, x: a * x), (X, X, X), "<lambda> takes 2 arguments; 3 were given"),
        (lambda: register(lambda x, k=2.0: k * x), (X, X, X), "<lambda> takes 2 arguments; 3 were given"),
    ],
)
def test_a_wrong_number_of_arguments(f: Any, xs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        f().explain(*xs)


def test_arguments_with_defaults_may_be_left_out() -> None:
    f = register(lambda x, k=2.0: k * x)
    assert "d->d" in f.explain(X).loop
    assert "dd->d" in f.explain(X, 3.0).loop


def test_derivatives_of_code_are_looked_for() -> None:
    f = register(lambda x, y: 2.0 * x + [y, x][0], name="f")
    said = f.explain(X, 1.0).derivative
    assert re.fullmatch(r"x: none \(.*depends on a list: .*\(line \d+: `.*`\)\), y: none \(.*\)", said)
    g = register(lambda x, y: math.sin(x) + math.floor(y), name="g")
    assert g.explain(X, 1.0).derivative == "x: known, y: known"
