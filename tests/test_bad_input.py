"""Bad arguments and keywords of calls: the error names what it was, before anything is computed or changed."""

import functools
from typing import Any

import c_library
import numpy as np
import pytest
import scipy.special
import zoo

from tmapad import NoDerivativeError, NoRuleError, NoTangent, register, rrule, tmap
from tmapad._core import Loop
from tmapad._plan import Builder

X = np.ones(3)
RECORD = c_library.Record()
pytestmark = pytest.mark.compiler


@functools.cache
def noted() -> Any:
    """``a * x``; every call is counted, of its derivative too."""
    partials = tuple(c_library.function(name, nin=2, user_data=True) for name in ("noted_a", "noted_x"))
    return register(
        c_library.function("noted", nin=2, user_data=True), derivative=partials, user_data=RECORD, name="noted"
    )


def test_calls_are_counted() -> None:
    RECORD.clear()
    y, back = rrule(tmap, noted(), X, X)
    assert RECORD.calls == 3
    back(y)
    assert RECORD.calls == 9


# Arguments, keywords, the error and what it says.
CALLS: list[tuple[tuple[Any, ...], dict[str, Any], type, str]] = [
    ((), {}, TypeError, "noted takes 2 arguments, but 0 were given"),
    ((X,), {}, TypeError, "noted takes 2 arguments, but 1 was given"),
    ((X, X, X), {}, TypeError, "noted takes 2 arguments, but 3 were given"),
    ((X, np.ones(4)), {}, ValueError, r"arguments do not broadcast to one shape: x1: \(3,\), x2: \(4,\)"),
    ((np.ones((2, 3)), np.ones((3, 2))), {}, ValueError, r"x1: \(2, 3\), x2: \(3, 2\)"),
    ((X, (1.0, 2.0)), {}, ValueError, r"do not broadcast to one shape: x1: \(3,\), x2: \(2,\)"),
    (((1.0,), (1.0, 2.0)), {}, ValueError, "tuples must be of one length, not x1: 1, x2: 2"),
    ((X, "a"), {}, TypeError, "x2 is a str of dtype <U1; accepted are bool, integers, float16, .* and complex128"),
    ((X, None), {}, TypeError, "x2 is a NoneType of dtype object; .*pass a native Python or NumPy number array"),
    ((X, np.zeros(3, "g")), {}, TypeError, r"x2 is an array \(ndarray\) of dtype (float128|longdouble)"),
    ((X, X + 0j), {}, TypeError, "noted has no loop for .float64, complex128.: its numbers are float64"),
    ((X, 1j), {}, TypeError, "noted has no loop for .float64, complex.: its numbers are float64"),
    ((X, X + 0j), {"dtype": "d"}, TypeError, "x2 is complex .complex128.; dtype=float64 would drop its imaginary part"),
    ((X, X), {"dtype": "D"}, TypeError, "noted has no loop for .complex128, complex128."),
    ((X, X), {"dtype": int}, TypeError, "dtype must be float16, float32, float64, complex64 or complex128, not int64"),
    ((X, X), {"dtype": bool}, TypeError, "dtype must be float16, .*, not bool"),
    ((X, X), {"dtype": "g"}, TypeError, "dtype must be float16, .*, not (float128|longdouble)"),
    ((X, X), {"dtype": object}, TypeError, "dtype must be float16, .*, not object"),
    ((X, X), {"dtype": "foo"}, TypeError, "dtype must be float16, .*, not 'foo'"),
    ((X, X), {"dtype": 3}, TypeError, "dtype must be float16, .*, not 3"),
    ((X, X), {"schedule": "fast"}, ValueError, "schedule must be one of 'static', 'dynamic', 'guided', not 'fast'"),
    ((X, X), {"schedule": None}, ValueError, "schedule must be one of 'static', 'dynamic', 'guided', not None"),
    ((X, X), {"schedule": 1}, ValueError, "schedule must be one of .*, not 1"),
    ((X, X), {"schedule": ["static"]}, ValueError, r"schedule must be one of .*, not \['static'\]"),
    ((X, X), {"chunk_size": 0}, ValueError, "chunk_size must be a number of elements, at least 1, not 0"),
    ((X, X), {"chunk_size": -5}, ValueError, "chunk_size must be a number of elements, at least 1, not -5"),
    ((X, X), {"chunk_size": True}, ValueError, "chunk_size must be a number of elements, at least 1, not True"),
    ((X, X), {"chunk_size": 2**62}, ValueError, f"chunk_size must be a number of elements, .* not {2**62}"),
    ((X, X), {"chunk_size": 10.0}, TypeError, "chunk_size must be an int, not float"),
    ((X, X), {"chunk_size": "10"}, TypeError, "chunk_size must be an int, not str"),
    ((X, X), {"num_threads": 0}, ValueError, "num_threads must be an integer from 1 to .*, got 0"),
    ((X, X), {"num_threads": -1}, ValueError, "num_threads must be an integer from 1 to .*, got -1"),
    ((X, X), {"num_threads": 10**6}, ValueError, "num_threads must be an integer from 1 to .*, got 1000000"),
    ((X, X), {"num_threads": 2.0}, TypeError, "num_threads must be an integer from 1 to .*, got 2.0"),
    ((X, X), {"num_threads": True}, TypeError, "num_threads must be an integer from 1 to .*, got True"),
    ((X, X), {"out": np.zeros(4)}, ValueError, r"out has shape \(4,\); the result has shape \(3,\)"),
    ((X, X), {"out": np.zeros(3, int)}, TypeError, "out has dtype int64, which cannot hold the result's float64"),
    ((X, X), {"out": (np.zeros(3), None)}, ValueError, "out must have an array or None for each of 1 output"),
    ((X, X), {"threads": 2}, TypeError, "unexpected keyword argument 'threads'"),
]  # fmt: skip

# Those of rrule alone.
GRADIENTS: list[tuple[tuple[Any, ...], dict[str, Any], type, str]] = [
    ((X, X), {"residuals": "keep"}, ValueError, "residuals must be one of 'auto', 'save', 'recompute', not 'keep'"),
    ((X, X), {"residuals": None}, ValueError, "residuals must be one of 'auto', 'save', 'recompute', not None"),
    ((X, X), {"residuals": ["save"]}, ValueError, r"residuals must be one of .*, not \['save'\]"),
    ((X, X), {"wrt": 2}, ValueError, "wrt names argument 2; there are 2, from 0 to 1"),
    ((X, X), {"wrt": (0, "x1")}, ValueError, "wrt names 'x1'; noted captured nothing"),
    ((X, X), {"wrt": 0.0}, TypeError, "wrt must hold positions of arguments and names of captures, not float"),
]


@pytest.mark.parametrize(("xs", "keywords", "error", "message"), CALLS, ids=[row[3][:40] for row in CALLS])
def test_bad_calls(xs: tuple[Any, ...], keywords: dict[str, Any], error: type, message: str) -> None:
    RECORD.clear()
    out = keywords.get("out", np.full(3, 7.0))
    for call in (tmap, functools.partial(rrule, tmap)):
        for f in (noted(), functools.partial(noted())):
            with pytest.raises(error, match=message):
                call(f, *xs, **{"out": out, **keywords})
            with pytest.raises(error, match=message):
                call(f, *xs, **keywords)
    with pytest.raises(error, match=message):
        noted()(*xs, **keywords)
    assert RECORD.calls == 0
    assert not isinstance(out, np.ndarray) or set(np.unique(out)) <= {0, 7}
    assert (X == 1).all()


@pytest.mark.parametrize(("xs", "keywords", "error", "message"), GRADIENTS, ids=[row[3][:40] for row in GRADIENTS])
def test_bad_gradients(xs: tuple[Any, ...], keywords: dict[str, Any], error: type, message: str) -> None:
    RECORD.clear()
    out = np.full(3, 7.0)
    for more in ({}, {"out": out}):
        with pytest.raises(error, match=message):
            rrule(tmap, noted(), *xs, **keywords, **more)
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            tmap(noted(), *xs, **keywords, **more)
    assert RECORD.calls == 0
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("dy", "out", "error", "message"),
    [
        (np.ones(4), None, ValueError, r"dy has shape \(4,\); y has shape \(3,\)"),
        (np.ones((3, 1)), None, ValueError, r"dy has shape \(3, 1\); y has shape \(3,\)"),
        (1.0, None, ValueError, r"dy is a Python scalar; it must have the shape of y, \(3,\)"),
        (X * 1j, None, TypeError, r"dy is complex \(complex128\), but y is real \(float64\); pass its real part"),
        (np.array(["a"] * 3), None, TypeError, "dy has dtype <U1; accepted are bool"),
        (np.zeros(3, "g"), None, TypeError, "dy has dtype (float128|longdouble); accepted"),
        (np.ma.ones(3), None, TypeError, r"dy is a masked array; pass dy.filled\(...\)"),
        (X, (None, np.full(4, 7.0)), ValueError, r"out\[1\] has shape \(4,\)"),
        (X, (np.full(3, 7.0), np.full(3, 7, "f")), TypeError, r"out\[1\] has dtype float32; the cotangent has float64"),
        (X, (np.full(3, 7.0),), ValueError, "out must have an array or None for each of 2 arguments, not 1"),
        (X, np.full(3, 7.0), ValueError, "out must have an array or None for each of 2 arguments, not 1"),
    ],
)
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_bad_cotangents(dy: Any, out: Any, error: type, message: str, residuals: str) -> None:
    for _ in range(2):
        _, back = rrule(tmap, noted(), X, X, residuals=residuals)
        RECORD.clear()
        with pytest.raises(error, match=message):
            back(dy, out=out)
        with pytest.raises(error, match=message):
            back(dy, out)
        assert RECORD.calls == 0
    for array in out if isinstance(out, tuple) else (out,):
        assert array is None or (array == 7).all()


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (
            None,
            r"f is None \(NoneType\); it must be a Python or njit function, a method or an object that is called, a",
        ),
        (3.0, r"f is 3.0 \(float\); it must be"),
        ("sin", r"f is 'sin' \(str\); it must be"),
        ([], r"f is \[\] \(list\); it must be"),
        (int, r"f is <class 'int'> \(type\); it must be"),
        (len, r"f is the builtin len, which has no code to compile: pass lambda x: len\(x\)"),
        (np.matmul, "matmul works on vectors, not on elements"),
        (np.frompyfunc(lambda x: x, 1, 1), "works on Python objects"),
        (np.sum, "f is|sum"),
    ],
)
def test_bad_functions(f: Any, message: str) -> None:
    for call in (tmap, functools.partial(rrule, tmap)):
        with pytest.raises(TypeError, match=message):
            call(f, X)
    if f is not None:  # which makes a decorator
        with pytest.raises(TypeError, match=message):
            register(f)


@pytest.mark.parametrize("f", [np.sin, None, [], {}, len, "tmap"])
def test_no_rule(f: Any) -> None:
    with pytest.raises(NoRuleError, match=r"there is no rule for .*: for a scalar function write rrule\(tmap, "):
        rrule(f, X)


def test_no_function_at_all() -> None:
    for call in (tmap, rrule, functools.partial(rrule, tmap)):
        with pytest.raises(TypeError):
            call()


def test_no_derivative() -> None:
    f = register(zoo.libm("pow", nin=2), name="pow")
    for wrt, less in ((None, "1,"), (0, ""), ((0, 1), "1,")):
        with pytest.raises(NoDerivativeError, match="pow has no derivative in x1: register one with") as error:
            rrule(tmap, f, X, X, wrt=wrt)
        assert error.match(r"tmapad.register\(pow, derivative=...\), where None stands for 'not differentiable'")
        assert error.match(rf"or leave it out: rrule\(..., wrt=\({less}\)\)")
    with pytest.raises(NoDerivativeError, match=r"pow has no derivative in x2.*leave it out: rrule\(..., wrt=\(\)\)"):
        rrule(tmap, functools.partial(f, 2.0), X, wrt=0)
    with pytest.raises(NoDerivativeError):
        rrule(tmap, register(zoo.libm("sin"), name="sin"), X)


def test_no_derivative_in_captured_variables() -> None:
    """A closure's variables are differentiated by no registered derivative: it is not left out silently."""
    rate = 2.0
    f = register(lambda x: rate * x, derivative=lambda x: rate)
    for wrt in (None, "rate", (0, "rate")):
        with pytest.raises(
            NoDerivativeError, match="captured rate, in which its derivative is not known: make it an arg"
        ):
            rrule(tmap, f, X, wrt=wrt)
    np.testing.assert_array_equal(rrule(tmap, f, X, wrt=0)[1](X)[2], [2, 2, 2])


def test_no_derivative_in_the_table() -> None:
    jv = scipy.special.jv
    with pytest.raises(NoDerivativeError, match=r"jv has no derivative in x1.*leave it out: rrule\(..., wrt=\(1,\)\)"):
        rrule(tmap, jv, 2.5, X)
    assert rrule(tmap, jv, 2, X)[1](X)[2] is NoTangent()  # an integer order is a constant


def test_steps_of_a_program_fit_together() -> None:
    builder = Builder()
    x = builder.input("f")
    with pytest.raises(TypeError, match="<Loop dd->d> was given f"):
        builder.call(Loop(1, 0, "dd->d", 2), [x])
    with pytest.raises(TypeError, match="there is no loop pull for fd->f"):
        builder.builtin("pull", x, builder.input("d"), to="f")
