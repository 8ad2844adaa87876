"""Bad arguments of `register` and `from_cython`: found when a function is registered, which then is not."""

import functools
import math
from types import FunctionType
from typing import Any

import c_library
import numpy as np
import pytest
import zoo

from tmapad import NoDerivativeError, NoTangent, SignatureError, from_cython, register, rrule, tmap
from tmapad._find import registered

X = np.ones(3)
SIN, COS, POW = zoo.libm("sin"), zoo.libm("cos"), zoo.libm("pow", nin=2)
SINF, COSF = zoo.libm("sinf", "float"), zoo.libm("cosf", "float")
CSIN = zoo.libm("csin", "double complex")


def line(a: float, x: float) -> float:
    return a * x


def pair(x: float) -> tuple[float, float]:
    return x, 2 * x


def positive(x: float) -> float:
    if x < 0:
        raise ValueError("x is negative")
    return 2 * x


# What is registered, with which keywords, the error and what it says.
REGISTRATIONS: list[tuple[Any, dict[str, Any], type, str]] = [
    (SIN, {"derivative": COS, "value_and_derivative": COS}, TypeError,
     "give one of derivative, derivative_from_output, value_and_derivative, not derivative and value_and_derivative"),
    (SIN, {"name": 3}, TypeError, "name must be a string, not 3"),
    (line, {"division": "c"}, ValueError, "division must be 'ieee' or 'python', not 'c'"),
    (line, {"user_data": 3.0}, TypeError, "user_data is for C functions with a last void .; line is not a C function"),
    (SIN, {"user_data": 3.0}, TypeError, "given user_data, but its signature .* has no last void"),
    (line, {"nondiff": "b"}, ValueError, "nondiff names 'b'; line has the arguments a, x"),
    (line, {"nondiff": ("a", "c")}, ValueError, "nondiff names 'c'; line has the arguments a, x"),
    (POW, {"nondiff": "x3"}, ValueError, "nondiff names 'x3'; .* has the arguments x1, x2"),
    (line, {"nondiff": None}, TypeError, "nondiff"),
    (line, {"nondiff": 3}, TypeError, "nondiff"),
    (SIN, {"derivative": 3.0}, TypeError, r"derivative is 3.0 \(float\); it must be"),
    (SIN, {"derivative": "cos"}, TypeError, "derivative is the string 'cos'; strings name functions of a module"),
    (POW, {"derivative": [POW, POW]}, TypeError, r"derivative is \[.*\(list\); it must be"),
    (SIN, {"derivative": POW}, SignatureError, "derivative .* takes 2 arguments; it must take 1: those of"),
    (line, {"derivative": (lambda a: a, None)}, SignatureError, "<lambda> of line takes 1 argument; it must"),
    (SIN, {"derivative_from_output": COS}, SignatureError, "takes 1 argument; it must take 2: the output, then"),
    (SIN, {"value_and_derivative": COS}, SignatureError, "gives 1 number.*, not 2: 1 value and 1 x 1 partial"),
    (POW, {"derivative": POW}, SignatureError, "is one function that gives 1 number; give a tuple of 2, one for each"),
    (POW, {"derivative": (POW, POW, POW)}, SignatureError, "derivative of .* is given for 3 outputs; .* has 1"),
    (line, {"derivative": ((POW,), (POW, POW))}, SignatureError,
     "has 1 entries; line takes 2 arguments|is given for 2 outputs; line has 1"),  # if it was compiled before
    (SIN, {"derivative": (COS, COS)}, SignatureError, "derivative of .* has 2 entries; .* takes 1 argument"),
    (SIN, {"derivative": functools.partial(POW, "a")}, TypeError, "binds something else than numbers"),
    (functools.partial(line, 2.0), {"derivative": COS}, TypeError, "f is a functools.partial: register the function"),
    (SIN, {"derivative": COS, "check": (1.0, 2.0)}, TypeError, "takes 1 argument, but 2 were given"),
    (POW, {"derivative": (POW, POW), "check": 1.0}, TypeError, "takes 2 arguments, but 1 was given"),
    (SIN, {"derivative": SIN, "check": 0.3}, ValueError,
     "derivative of .* in x is registered as 0.295.* at x=0.3, but differences of the function give 0.955"),
    (SIN, {"derivative": COS, "check": "a"}, (TypeError, ValueError), "check"),
    (SIN, {"derivative": COS, "check": (None,)}, (TypeError, ValueError), "check"),
    (SIN, {"check": 0.3}, (TypeError, ValueError), "derivative"),
    (positive, {"derivative": lambda x: 2.0, "check": -1.0}, ValueError, "x is negative"),
    (lambda x: 2 * x, {"derivative": positive, "check": -1.0}, ValueError, "x is negative"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("f", "keywords", "error", "message"), REGISTRATIONS, ids=[row[3][:40] for row in REGISTRATIONS]
)
def test_bad_registrations(f: Any, keywords: dict[str, Any], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        register(f, **keywords)
    with pytest.raises(error, match=message):
        register(**keywords)(f)
    # Nothing was registered: the derivative of native code is as unknown as before, and nobody's word is taken.
    if not isinstance(f, functools.partial) and f.__module__ != "tmapad":
        assert registered(f) is None
        if not isinstance(f, FunctionType):
            with pytest.raises(NoDerivativeError):
                rrule(tmap, f, *[X] * (2 if f is POW else 1))


@pytest.mark.compiler
def test_bad_registrations_of_writers() -> None:
    six, six_all = c_library.function("six", nin=6), c_library.writer("six_all", 6, 7)
    with pytest.raises(SignatureError, match=r"writes through pointers \(.*\); f must return its value"):
        register(six_all)
    with pytest.raises(SignatureError, match="gives 6 numbers, not 7: 1 value and 1 x 6 partial derivatives"):
        register(six, value_and_derivative=c_library.writer("six_all", 6, 6))
    one = c_library.writer("six_all", 1, 1)
    with pytest.raises(SignatureError, match=r"derivative .* writes through pointers \(.*\); it must return its value"):
        register(SIN, derivative=one)


# Of Python functions only compiling tells how many numbers they give, and of which type.
COMPILED: list[tuple[Any, dict[str, Any], type, str]] = [
    (line, {"derivative": lambda a, x: (x, a, x)}, SignatureError,
     "the derivative <lambda> of line returns 3 numbers, not one for each of 2|gives 3 numbers; give a tuple of 2"),
    (line, {"derivative": lambda a, x: x}, SignatureError,
     "of line returns 1 number.*, not one for each of 2|gives 1 number; give a tuple of 2"),
    (math.fabs, {}, TypeError, "f is the builtin math.fabs"),
    (lambda x: x * x, {"derivative": lambda x: (x, x)}, SignatureError, "returns 2 numbers, not one"),
    (line, {"derivative": (lambda a, x: (x, a), lambda a, x: a)}, SignatureError, "returns 2 numbers, not one"),
    (lambda x: x * x, {"derivative_from_output": lambda y, x: (x, x)}, SignatureError, "returns 2 numbers, not one"),
    (lambda x: x * x, {"value_and_derivative": lambda x: (x, x, x)}, SignatureError, "gives 3 numbers, not 2: 1 value"),
    (lambda x: x * x, {"value_and_derivative": lambda x: x}, SignatureError, "gives 1 number.*, not 2: 1 value"),
    (pair, {"derivative": lambda x: 1.0}, SignatureError,
     "pair has 2 outputs, and derivatives are registered for 1|derivative of pair is given for 1 outputs; pair has 2"),
    (pair, {"value_and_derivative": lambda x: (x, 1.0)}, SignatureError, "gives 2 numbers, not 4: 2 values and 2 x 1"),
    (lambda x: x * x, {"derivative": lambda x: 2j * x}, TypeError,
     "a real function of a real argument has a complex derivative"),
    (lambda x: x * x, {"derivative": lambda x: "two"}, TypeError, "<lambda> returns .*; it must return a number"),
    (lambda x: "one", {"derivative": lambda x: 2.0}, TypeError, "<lambda> returns .*; it must return a number"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "keywords", "error", "message"), COMPILED, ids=[row[3][:40] for row in COMPILED])
@pytest.mark.parametrize("residuals", ["save", "recompute"])
def test_bad_derivatives_that_must_be_compiled(
    f: Any, keywords: dict[str, Any], error: type, message: str, residuals: str
) -> None:
    """Found before anything is computed: by rrule at the latest, whichever pass would need it."""

    def forward() -> None:
        made = register(f, replace=True, **keywords)
        rrule(tmap, made, *[X] * made.nin, residuals=residuals)

    with pytest.raises(error, match=message):
        forward()


def test_registering_again() -> None:
    f = register(line, derivative=(POW, POW), replace=True)
    assert register(line, derivative=(POW, POW)).name == f.name  # the same once more is no error
    for other in ({"derivative": (POW, None)}, {"nondiff": "a", "derivative": (POW, POW)}, {}, {"division": "python"}):
        with pytest.raises(ValueError, match="line is registered already, with something else; pass replace=True"):
            register(line, **other)
    register(line, derivative=(lambda a, x: x, lambda a, x: a), replace=True)
    np.testing.assert_array_equal(rrule(tmap, line, 2.0, X)[1](X)[3], [2, 2, 2])


def test_registering_what_was_registered() -> None:
    f = register(SIN, derivative=COS, name="sine", replace=True)
    with pytest.raises(TypeError, match="what register or from_cython returned for sine: pass its derivative there"):
        register(f, derivative=COS)


def test_none_stands_for_all_partial_derivatives() -> None:
    f = register(pair, derivative=(None, lambda x: 2.0), replace=True)
    y, back = rrule(tmap, f, X)
    np.testing.assert_array_equal(back(y)[2], 2 * y[1])
    two = register(line, derivative=((None, lambda a, x: a),), replace=True)
    assert rrule(tmap, two, X, X)[1](X)[2] is NoTangent()


def test_a_check_that_holds() -> None:
    register(SIN, derivative=COS, check=0.3, replace=True)
    register(SINF, derivative=COSF, check=0.3, replace=True)
    register(CSIN, derivative=zoo.libm("ccos", "double complex"), check=0.3 + 0.2j, replace=True)
    register(line, derivative=lambda a, x: (x, a), check=(2.0, 3.0), replace=True)
    register(pair, derivative=(lambda x: 1.0, lambda x: 2.0), check=0.5, replace=True)


@pytest.mark.parametrize(
    ("module", "name", "error", "message"),
    [
        ("math", "sin", AttributeError, "module 'math' exports no Cython functions .it has no __pyx_capi__."),
        ("scipy.special.cython_special", "errf", AttributeError, "exports no Cython function 'errf'; it has .*erf"),
        ("no_such_module", "f", ModuleNotFoundError, "no_such_module"),
        ("scipy.special.cython_special", "airy", SignatureError, "airy"),
        (3, "erf", TypeError, "module"),
    ],
)
def test_bad_from_cython(module: Any, name: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        from_cython(module, name)


def test_bad_derivatives_of_from_cython() -> None:
    special = "scipy.special.cython_special"
    for derivative, error, message in (
        ("errf", AttributeError, "exports no Cython function 'errf'"),
        ("no_such_module:f", ModuleNotFoundError, "no_such_module"),
        ("eval_legendre", SignatureError, "takes 2 arguments; it must take 1|eval_legendre"),
        (3, TypeError, r"derivative is 3 \(int\); it must be"),
    ):
        with pytest.raises(error, match=message):
            from_cython(special, "erf", derivative=derivative)


def test_compile_checks_types() -> None:
    f = register(POW, derivative=(POW, POW), name="pow", replace=True)
    f.compile("dd")
    f.compile("ff -> f")
    for types, message in (
        ("d", "pow takes 2 arguments; 1 types were given"),
        ("dd->f", "pow gives d for dd, not f"),
        ("DD", "pow has no loop for .complex128, complex128."),
        ("gg", "types must be NumPy's type characters, such as 'dd->d', not 'gg'"),
    ):
        with pytest.raises(TypeError, match=message):
            f.compile(types)
