"""What cannot be compiled of Python: one TypeError that quotes the line and says why in a sentence."""

# ruff: noqa: F401, ICN001 - they are read by the functions below, which are text

import collections
import datetime
import decimal
import fractions
import functools
import itertools
import linecache
import math
import os
import random
import re
import statistics
import threading
import time
from typing import Any

import numpy as np
import pytest

from tmapad import NoDerivativeError, rrule, tmap

X, Y = np.array([0.3, 1.7, 2.5]), np.array([1.2, -0.7, 0.4])


class Box:
    def __init__(self, v: float) -> None:
        self.v = v

    @property
    def double(self) -> float:
        return 2 * self.v


def keyword_only(x: float, *, k: float) -> float:
    return x * k


def with_default(x: float, y: float = 1.0) -> float:
    return x * y


box, lock, counter, arr, mat = Box(2.0), threading.Lock(), 0, np.arange(3.0), np.eye(3)
printing, drawing = (print, print), (random.random, random.random)

NONE = "Numba has no compiled form of "
TEXT = "there is no text of a float in compiled code"
YIELDS = "generators and generator expressions are not compiled: write a loop, or name what they yield in a tuple"
BLAS = "products of arrays are made by SciPy's BLAS, which Numba asks Python for: write the sums as loops"
RANDOM = "it draws random numbers, so its results would depend on the threads"
RETURNS = "it must return a number, or a tuple of at least two numbers for several results"
OTHER = " got other arguments than it takes: "

# Lines of a function of x and y, of which the one that is quoted begins with ">", and words of the reason.
REFUSED: list[tuple[str, str]] = [
    ('>return dict(a=x)["a"]', "Numba cannot make dict of this: dict(a=float64)"),
    (">s = {i * 2 for i in range(3)}\nreturn x * len(s)", "Unknown attribute 'add' of type range_iter_int64"),
    ('>return float(f"{x}")', TEXT),
    ('>return float(f"{x:.3f}")', "a format spec in f-strings is not compiled"),
    (">return len(str(x)) * x", TEXT),
    (">return len(repr(x)) * x", TEXT),
    ('>return float("%f" % x)', "No implementation of function mod found for signature: mod(Literal[str]("),
    ('>return float("{}".format(x))', "Unknown attribute 'format' of type Literal[str]({})"),
    (">return sum(v for v in (x, y))", YIELDS),
    (">return any(v > 1 for v in (x, y)) * x", YIELDS),
    (">return next(v for v in (x, y))", YIELDS),
    ("def g():\n>    yield x\nfor v in g():\n    y += v\nreturn y", YIELDS),
    (">return all([x > 1, y > 1]) * x", "all takes a tuple of numbers in a function that is mapped, not list(bool)"),
    (">return any(x) * x", "any takes a tuple of numbers in a function that is mapped, not float64"),
    (">return functools.reduce(max, (x, y))", "No implementation of function reduce found"),
    ("try:\n    y = 1 / x\n>except ZeroDivisionError:\n    y = 0.0\nreturn y", "an except clause that names what it"),
    ("try:\n    y = 1 / x\n>except Exception as e:\n    y = 0.0\nreturn y", "an exception has no name"),
    (">with lock:\n    y = x * x\nreturn y", "a function that is mapped has no with blocks"),
    (">with lock as b:\n    y = x * x\nreturn y", "a function that is mapped has no with blocks"),
    (">class Local:\n    pass\nreturn x", "a class is made in it: make it outside"),
    ("global counter\n>counter = counter + 1\nreturn x", "it assigns a global variable"),
    (">def inner(v, *, k=2.0): return v * k\nreturn inner(x)", "an inner function with defaults of keyword-only"),
    (">return lambda: x", "Cannot capture the non-constant value associated with variable 'x'"),
    (">a, *b = (x, y, 1.0)\nreturn a + b[0]", "a starred variable is not compiled: index the tuple"),
    ('>return with_default(**{"x": x})', "arguments by ** are not compiled: name them"),
    (">return keyword_only(x)", f"keyword_only(){OTHER}missing a required"),
    (">return keyword_only(x, y)", f"keyword_only(){OTHER}too many positional arguments"),
    (">return keyword_only(x, k=y, z=1)", f"keyword_only(){OTHER}got an unexpected keyword argument 'z'"),
    (">return with_default(x, y, x)", f"with_default(){OTHER}too many positional arguments"),
    (">return with_default()", f"with_default(){OTHER}missing a required argument: 'x'"),
    (">return np.dot(arr, arr) * x", BLAS),
    (">return np.vdot(arr, arr) * x", BLAS),
    (">return (mat @ arr)[0] * x", BLAS),
    (">return np.convolve(arr, arr)[0] * x", BLAS),
    (">return np.random.rand() * x", RANDOM),
    (">return random.gauss(x, y)", RANDOM),
    (">rng = np.random.default_rng(0)\nreturn rng.normal() * x", f"{NONE}numpy.random.default_rng"),
    (">return datetime.datetime.now().timestamp() * x", f"{NONE}datetime.datetime"),
    (">return float(decimal.Decimal(2)) * x", f"{NONE}decimal.Decimal"),
    (">return float(fractions.Fraction(1, 2)) * x", f"{NONE}fractions.Fraction"),
    (">return time.time() * x", f"{NONE}time.time"),
    (">return len(os.getcwd()) * x", f"{NONE}os.getcwd"),
    (">return sum(itertools.accumulate((x, y)))", f"{NONE}itertools.accumulate"),
    (">return statistics.mean((x, y))", "Numba fails at it (ValueError: Invalid reduction function)"),
    ('>return collections.namedtuple("P", "a b")(x, y).a', ""),
    (">print(x)\nreturn x", "it prints, for which threads would have to wait for each other"),
    (">import math as m\nreturn m.sin(x)", "it imports: do so outside of the function"),
    (">from math import cos\nreturn cos(x)", "it imports: do so outside of the function"),
    (">del y\nreturn x", "the variable of del y is deleted, which is not compiled"),
    ('>return eval("x")', f"{NONE}eval"),
    ('>exec("x = 1")\nreturn x', f"{NONE}exec"),
    (">return box.double * x", "the attribute 'box.double' is a property: make it a method, or store its value"),
    ('>setattr(box, "v", 1.0)\nreturn x', f"{NONE}setattr"),
    (">box.v = x\nreturn x", "the attribute 'v' cannot be set"),
    (">return x.hex()", "Unknown attribute 'hex' of type float64"),
    (">return id(x)", f"{NONE}id"),
    ('>return open("f").read()', f"{NONE}open"),
    (">return x[0]", "No implementation of function getitem found for signature: getitem(float64, Literal[int](0))"),
    (">x[0] = 1.0\nreturn x", "No implementation of function setitem found"),
    (">return x()", "Invalid use of float64 with parameters ()"),
    (">return x @ y", BLAS),
    (">return x & y", "No implementation of function and_ found"),
    (">return ~x", "No implementation of function invert found"),
    (">return not_defined(x)", "NameError: name 'not_defined' is not defined"),
    (">return math.foo(x)", "module 'math' has no attribute 'foo'"),
    (">return x + np.linalg.foo(x)", "module 'numpy.linalg' has no attribute 'foo'"),
    ('>return np.array([x, "a"])[0]', "No implementation of function array found"),
    (">return np.polyval(arr, x)", f"{NONE}np.polyval, or not for this"),
    (">return np.einsum('i,i', arr, arr) * x", f"{NONE}np.einsum, or not for this"),
    (">return np.vectorize(math.sin)(x)", f"{NONE}np.vectorize, or not for this"),
    (">return np.piecewise(x, [x < 0], [0.0, 1.0])", f"{NONE}np.piecewise, or not for this"),
    (">return np.unwrap(x)", "Numba fails at it (AttributeError: "),
    (">return np.fft.fft(arr)[0].real * x", f"{NONE}numpy.fft.fft"),
    (">return np.clip(x, 0.0, 1.0, out=arr)", "np.clip of a number takes two bounds and nothing else"),
    (">return np.fix(arr)[0] * x", "np.fix takes a real number in a function that is mapped, not readonly array"),
    (">return complex(x) // 2", "No implementation of function floordiv found"),
    (">return complex(x) < 2", "No implementation of function lt found"),
    (">return math.sin(complex(x, y))", "No implementation of function sin found for signature: sin(complex128)"),
    ("match (x, y):\n>    case (a, b):\n        return a * b\nreturn x", "patterns of match are not compiled"),
    (">for v in reversed((x, y)):\n    y += v\nreturn y", "reversed, of type <class 'type'>, means nothing"),
    (">for i, v in enumerate((x, y), start=1):\n    y += i * v\nreturn y", "Numba fails at it (AssertionError)"),
    (">arr[0] = x\nreturn x", "No implementation of function setitem found for signature: setitem(readonly array"),
    (">return bytes(3)", "Numba cannot make bytes of this: bytes(Literal[int](3))"),
    (">return pow(2, 3, 5) * x", "No implementation of function pow found"),
    ('>return int("3") * x', "Numba cannot make int of this: int(Literal[str](3))"),
    (">return max((x, y), key=abs)", "No implementation of function max found"),
    (">return locals()", f"{NONE}locals"),
    ('>return x ** "a"', "No implementation of function pow found for signature: pow(float64, Literal[str](a))"),
    (">return (x, y) * 2", "No implementation of function mul found"),
    (">return (x, y)[2]", "tuple index out of range"),
    (">return (x, 1)[int(x) % 2]", "No implementation of function getitem found"),
    (">return 2 ** 70 * x", "1180591620717411303424 is no integer of 64 bits: write it as a float"),
    (">return 12345678901234567890123 * x", "Int value is too large"),
    (">return np.longdouble(x)", "Numba has no long doubles"),
]  # fmt: skip

# The same of what a function returns.
RETURNED: list[tuple[str, str]] = [
    (">return x if y else None", "f returns float64 for some arguments and None for others"),
    (">return (x, None)", "f returns Tuple(float64, none)"),
    (">return [x]", "f returns list(float64)"),
    (">return np.array([x, y]) * 2", "f returns array(float64, 1d, C)"),
    (">return slice(0, 1)", "f returns slice<a:b>"),
    (">return range(3)", "f returns range_state_int64"),
]


def made(source: str) -> tuple[Any, str]:
    """A function of these lines, and the line that is marked; a traceback can show them."""
    (quoted,) = (line.lstrip(">").strip() for line in source.split("\n") if line.startswith(">"))
    lines = [f"    {line.removeprefix('>')}\n" for line in source.split("\n")]
    text = "".join(["def f(x, y):\n", *lines])
    name = f"/refused/{abs(hash(text))}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = dict(globals())
    exec(compile(text, name, "exec"), names)
    return names["f"], quoted


# By CPython 3.13, of what Numba then does with a generator; it goes on, where warnings are no errors.
@pytest.mark.filterwarnings("ignore:Assigning a code object of non-matching type:DeprecationWarning")
@pytest.mark.parametrize(("source", "reason"), REFUSED, ids=[source.replace("\n", ";") for source, _ in REFUSED])
def test_refused(source: str, reason: str) -> None:
    f, quoted = made(source)
    with pytest.raises(TypeError) as info:
        tmap(f, X, Y)
    message = str(info.value)
    assert message.startswith("cannot compile f: ")
    assert reason in message
    assert re.search(rf" \(line \d: `{re.escape(quoted)}`\)$", message), message
    assert "\n" not in message
    assert len(message) < 400
    assert not re.search(r"numba\.(core|np|cpython)|0x[0-9a-f]{6}|github|\$", message)


@pytest.mark.parametrize(("source", "reason"), RETURNED, ids=[source for source, _ in RETURNED])
def test_refused_results(source: str, reason: str) -> None:
    f, quoted = made(source)
    with pytest.raises(TypeError, match=re.escape(reason)) as info:
        tmap(f, X, Y)
    assert re.search(rf"{RETURNS} \(line \d: `{re.escape(quoted)}`\)$", str(info.value))


def test_what_runs_python_is_seen_where_its_name_is_not() -> None:
    for f, reason in (
        (lambda x: x if printing[0](x) is None else 0.0, "<lambda> cannot be mapped: it runs Python code (print,"),
        (lambda x: x + drawing[0](), "<lambda> cannot be mapped: it draws random numbers, so"),
    ):
        with pytest.raises(TypeError, match=re.escape(reason)):
            tmap(f, X)


UNDIFFERENTIABLE: list[tuple[str, str]] = [
    (">kept = {}\nkept[1.0] = x\nreturn kept[1.0]", "a dictionary: use an array in its place"),
    ('>d = {"a": x}\nreturn d["a"]', "a dictionary: use an array in its place"),
    (">d = {i: x for i in range(3)}\nreturn d[0]", "a dictionary: use an array in its place"),
    (">return sorted((x, y))[0]", "a list: use an array in its place"),
    (">a = [v * v for v in (x, y)]\nreturn a[0]", "a list: use an array in its place"),
    (">a = [x] * 3\nreturn a[1]", "a list: use an array in its place"),
    (">return list(map(math.sin, (x, y)))[0]", "a list: use an array in its place"),
    (">return np.linalg.det(np.array([[x, y], [y, x]]))", "a list: use an array in its place"),
]


@pytest.mark.parametrize(("source", "reason"), UNDIFFERENTIABLE, ids=[source for source, _ in UNDIFFERENTIABLE])
def test_no_derivative(source: str, reason: str) -> None:
    """What has the value of Python, but no derivative."""
    f, _ = made(source)
    np.testing.assert_allclose(tmap(f, X, Y), [f(*at) for at in zip(X.tolist(), Y.tolist(), strict=True)], rtol=1e-14)
    with pytest.raises(NoDerivativeError, match=re.escape(reason)):
        rrule(tmap, f, X, Y)
