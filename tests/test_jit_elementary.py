"""Elementary functions inside compiled Python functions: calls of opaque functions, with Numba's bits."""

import builtins
import cmath
import itertools
import math
import operator
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import mpmath
import numba
import numpy as np
import pytest
from run_loop import call, run

from tmapad.jit import composite, elementary, engine, frontend, objects, python_function
from tmapad.jit.loop import loop_code
from tmapad.jit.scalar import OPAQUE, ScalarIR, inlined

F8, C16 = map(np.dtype, ("f8", "c16"))
LONG = np.dtype(np.int64).char

REAL = [
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -1e-310, 1e-300, 1e-17, -1e-8, 1.7976931348623157e308, -1e200),
    *(0.25, 0.5, -0.5, 0.75, 1.0, -1.0, 1.5, 2.0, -2.0, 2.5, 3.0, -3.0, 7.25, -11.5, 100.0, 709.0, -745.0, 1e6, 1e22),
]  # fmt: skip
COMPLEX = np.array([complex(a, b) for a in REAL for b in REAL])
ARGUMENTS: dict[str, list[Any]] = {
    "d": [np.array(REAL)],
    "dd": [np.array(column) for column in zip(*itertools.product(REAL, REAL), strict=True)],
    "di": [np.repeat(REAL, 5), np.tile([0, 1, -3, 2000, -1080], len(REAL))],
    "D": [COMPLEX],
    "DD": [np.repeat(COMPLEX[::7], COMPLEX[::11].size), np.tile(COMPLEX[::11], COMPLEX[::7].size)],
}

# The opaque functions, and what is called in Python: "math np cmath" have it under one or several names.
ROWS = """
    sin:d->d math.sin np.sin
    cos:d->d math.cos np.cos
    tan:d->d math.tan np.tan
    arcsin:d->d math.asin np.arcsin
    arccos:d->d math.acos np.arccos
    arctan:d->d math.atan np.arctan
    sinh:d->d math.sinh np.sinh
    cosh:d->d math.cosh np.cosh
    tanh:d->d math.tanh np.tanh
    arcsinh:d->d math.asinh np.arcsinh
    arccosh:d->d math.acosh np.arccosh
    arctanh:d->d math.atanh np.arctanh
    exp:d->d math.exp np.exp
    exp2:d->d np.exp2
    expm1:d->d math.expm1 np.expm1
    log:d->d math.log np.log
    log2:d->d math.log2 np.log2
    log10:d->d math.log10 np.log10
    log1p:d->d math.log1p np.log1p
    sqrt:d->d math.sqrt np.sqrt
    erf:d->d math.erf
    erfc:d->d math.erfc
    gamma:d->d math.gamma
    gammaln:d->d math.lgamma
    cbrt:d->d np.cbrt
    spacing:d->d np.spacing
    power:dd->d math.pow np.power np.float_power operator.pow operator.ipow builtins.pow
    arctan2:dd->d math.atan2 np.arctan2
    hypot:dd->d math.hypot np.hypot
    nextafter:dd->d math.nextafter np.nextafter
    logaddexp:dd->d np.logaddexp
    logaddexp2:dd->d np.logaddexp2
    fmod:dd->d np.fmod
    remainder:dd->d operator.mod operator.imod
    floor_divide:dd->d operator.floordiv operator.ifloordiv
    divmod:dd->dd builtins.divmod
    numpy.remainder:dd->d np.remainder
    numpy.floor_divide:dd->d np.floor_divide
    numpy.divmod:dd->dd np.divmod
    frexp:d->di math.frexp
    ldexp:di->d math.ldexp np.ldexp
    absolute:D->d builtins.abs np.absolute
    power:DD->D np.power np.float_power operator.pow operator.ipow builtins.pow
    sin:D->D cmath.sin np.sin
    cos:D->D cmath.cos np.cos
    tan:D->D cmath.tan np.tan
    arcsin:D->D cmath.asin np.arcsin
    arccos:D->D cmath.acos np.arccos
    arctan:D->D cmath.atan np.arctan
    sinh:D->D cmath.sinh
    cosh:D->D cmath.cosh
    tanh:D->D cmath.tanh
    arcsinh:D->D cmath.asinh np.arcsinh
    arccosh:D->D cmath.acosh
    arctanh:D->D cmath.atanh np.arctanh
    exp:D->D cmath.exp np.exp
    exp2:D->D np.exp2
    expm1:D->D np.expm1
    log:D->D cmath.log np.log
    log2:D->D np.log2
    log10:D->D cmath.log10
    log1p:D->D np.log1p
    sqrt:D->D cmath.sqrt np.sqrt
    numpy.log10:D->D np.log10
    numpy.sinh:D->D np.sinh
    numpy.cosh:D->D np.cosh
    numpy.tanh:D->D np.tanh
    numpy.arccosh:D->D np.arccosh
"""
MODULES = {"math": math, "cmath": cmath, "np": np, "operator": operator, "builtins": builtins}
CALLED = [(symbol, called) for symbol, *names in map(str.split, ROWS.strip().splitlines()) for called in names]


def calling(called: str, arity: int) -> Any:
    """A Python function that calls another, or uses an operator."""
    module, name = called.split(".")
    if module == "operator":
        return OPERATORS[name]
    f = getattr(MODULES[module], name)
    return (lambda a: f(a)) if arity == 1 else (lambda a, b: f(a, b))


def _in_place(statement: str) -> Any:
    names: dict[str, Any] = {}
    exec(f"def f(a, b):\n    {statement}\n    return a", names)
    return names["f"]


OPERATORS = {
    "pow": lambda a, b: a**b,
    "mod": lambda a, b: a % b,
    "floordiv": lambda a, b: a // b,
    "ipow": _in_place("a **= b"),
    "imod": _in_place("a %= b"),
    "ifloordiv": _in_place("a //= b"),
}


def types_of(symbol: str) -> tuple[str, str]:
    inputs, _, outputs = symbol.rpartition(":")[2].partition("->")
    return inputs, outputs


def opaque_calls(scalar: Any) -> list[str]:
    return [name.removeprefix(OPAQUE) for name in re.findall(rf'call [^@]*@"({OPAQUE}[^"]*)"', scalar.llvm)]


def assert_same_bits(y: Any, expected: Any) -> None:
    y, expected = np.asarray(y), np.asarray(expected)
    if y.dtype.kind == "c":
        y, expected = y.view(y.real.dtype), expected.view(y.real.dtype)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    valid = ~np.isnan(expected)
    np.testing.assert_array_equal(y[valid].view(f"i{y.itemsize}"), expected[valid].view(f"i{y.itemsize}"))


def values_of(f: Any, arguments: list[Any], chars: str) -> list[Any]:
    """What plain Numba computes: a column for each result, and the elements where it raises."""
    compiled = numba.njit(error_model="numpy")(f)
    columns: list[list[Any]] = [[] for _ in chars]
    for element in zip(*(x.tolist() for x in arguments), strict=True):
        try:
            y = compiled(*element)
        except ZeroDivisionError:
            y = None
        for column, part in zip(columns, y if isinstance(y, tuple) else (y,) * len(chars), strict=True):
            column.append(part)
    return columns


@pytest.mark.parametrize(("symbol", "called"), CALLED, ids=[f"{a} {b}" for a, b in CALLED])
def test_calls(symbol: str, called: str) -> None:
    """A call is one of the opaque function, and has the bits that plain Numba gives it, where that does not raise."""
    inputs, outputs = types_of(symbol)
    f = calling(called, len(inputs))
    kinds = {"d": "d", "D": "D", "i": LONG}
    assert opaque_calls(frontend.scalar_ir(f, [kinds[char] for char in inputs])) == [symbol]
    loop = python_function(f).loop(tuple(np.dtype(kinds[char]) for char in inputs), integer={"b"})
    _, _, ys = call(loop, *ARGUMENTS[inputs])
    for y, column, char in zip(ys, values_of(f, ARGUMENTS[inputs], outputs), outputs, strict=True):
        raised = np.array([one is None for one in column])
        assert raised.sum() < 0.01 * raised.size
        expected = [one for one in column if one is not None]
        if char == "i":
            np.testing.assert_array_equal(y, expected)
        else:
            assert_same_bits(y[~raised], np.array(expected, char))
        # There Python does not raise, and agrees with the value given.
        for element in np.flatnonzero(raised):
            given = [complex(x[element]) for x in ARGUMENTS[inputs]]
            exact = getattr(cmath, SHORT[called.split(".")[1]])(*given)
            np.testing.assert_allclose(complex(y[element]), exact, rtol=1e-15)


SHORT = {"sqrt": "sqrt", **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "sinh", "cosh")}}
SHORT |= {short: short for short in SHORT.values()}


@pytest.mark.parametrize("symbol", sorted({symbol for symbol, _ in CALLED}))
def test_single_precision(symbol: str) -> None:
    """The definition for float32 is what Numba makes of the same call."""
    inputs, _ = types_of(symbol)
    called = next(called for each, called in CALLED if each == symbol)
    single = composite.in_single(symbol)
    assert elementary.is_defined(OPAQUE + single)
    module = llvm.parse_assembly(elementary.definition(OPAQUE + single))
    assert module.get_function(OPAQUE + single).linkage is llvm.Linkage.internal
    f = calling(called, len(inputs))
    kinds = [char if char != "i" else LONG for char in types_of(single)[0]]
    scalar = frontend.scalar_ir(f, kinds)
    assert opaque_calls(scalar) in ([single], [symbol])  # Numba has math.hypot, and a few, in double precision only


PURE_PARTS = {"noinline", "nounwind", "willreturn", "memory(none)"}


@pytest.mark.parametrize("symbol", sorted({symbol for symbol, _ in CALLED}))
def test_definitions(symbol: str) -> None:
    """A module with one internal function, which is never inlined, has no effects and is in registers."""
    text = elementary.definition(OPAQUE + symbol)
    module = llvm.parse_assembly(text)
    module.verify()
    (defined,) = (function for function in module.functions if not function.is_declaration)
    assert defined.name == OPAQUE + symbol
    assert defined.linkage is llvm.Linkage.internal
    (header,) = (line for line in text.splitlines() if line.startswith("define"))
    (group,) = re.findall(r"#\d+", header) or [""]
    attributes = re.findall(rf"attributes {group} = {{ (.*) }}", text)[0] if group else header
    assert set(attributes.split()) >= PURE_PARTS
    assert elementary.definition(OPAQUE + symbol) is text


def test_no_such_function() -> None:
    for symbol in ("tmapad.no_such_function:d->d", "tmapad.capture:0", "sin"):
        assert not elementary.is_defined(symbol)
        with pytest.raises(KeyError, match=symbol):
            elementary.definition(symbol)


MIXED = [
    (lambda x: math.sin(2) + math.sqrt(True) + x, ["sin:d->d", "sqrt:d->d"]),
    (lambda x: x % 3 + 7 // x + 2**x + x**0.5, ["remainder:dd->d", "floor_divide:dd->d", "power:dd->d", "power:dd->d"]),
    (lambda x: np.arctan2(1, x) + np.logaddexp(x, 0), ["arctan2:dd->d", "logaddexp:dd->d"]),
    (lambda x: abs(x * 1j) + abs((1j**x).real), ["absolute:D->d", "power:DD->D"]),
    (lambda x: abs(x) + np.abs(x) + x * x + max(x, 1.0) + min(x, 0.5, 2.0), []),
    (lambda x: x + 7 % 3 + abs(-3) + 2**3, []),
    (lambda x: math.floor(x) + math.ceil(x) + round(x) + np.floor(x) + np.trunc(x) + np.rint(x) + int(x), []),
    (lambda x: math.copysign(x, -1.0) + math.degrees(x) + np.deg2rad(x), []),
    (lambda x: np.sign(x), ["sign:d->d"]),
    (lambda x: np.maximum(x, 1.0) + np.minimum(x, 1.0) + np.fmax(x, 1) + np.fmin(x, 1.0), []),
    (lambda x: np.exp(np.array([x, 1.0])).sum(), ["exp:d->d"]),
    (lambda x: np.sinc(x) + np.hypot(x, 3), ["sin:d->d", "hypot:dd->d"]),
]


@pytest.mark.parametrize(("f", "calls"), MIXED)
def test_mixed_types(f: Any, calls: list[str]) -> None:
    """Integers become floats and floats complex numbers; what is transparent stays so; NumPy's own code is seen."""
    assert opaque_calls(frontend.scalar_ir(f, "d")) == calls
    x = np.array([0.3, 1.0, 2.75, 11.0])
    expected = np.array([numba.njit(error_model="numpy")(f)(a) for a in x])
    assert_same_bits(run(python_function(f).loop((F8,)), x), expected)


UNKNOWN_TO_NUMBA: list[tuple[Any, str]] = [
    (lambda x: math.fmod(x, 0.7), "fmod:dd->d"),
    (lambda x: math.modf(x), "modf:d->dd"),
    (lambda x: np.modf(x), "modf:d->dd"),
    (lambda x: np.frexp(x), "frexp:d->di"),
    (lambda x: np.heaviside(x, 0.25), "heaviside:dd->d"),
    (lambda x: math.cbrt(x), "libm.cbrt:d->d"),
    (lambda x: math.exp2(x / 2e305), "exp2:d->d"),
]


@pytest.mark.parametrize(("f", "symbol"), UNKNOWN_TO_NUMBA)
def test_what_numba_does_not_know(f: Any, symbol: str) -> None:
    assert opaque_calls(frontend.scalar_ir(f, "d")) == [symbol]
    x = np.array([one for one in REAL if math.isfinite(one)])
    ys = run(python_function(f).loop((F8,)), x)
    expected = np.array([f(float(one)) for one in x]).T
    np.testing.assert_allclose(ys, expected, rtol=2.3e-16, atol=0)
    np.testing.assert_array_equal(np.signbit(ys), np.signbit(expected))


def test_infinities_and_nans_of_what_numba_does_not_know() -> None:
    loop = python_function(lambda x: (*math.modf(x), np.heaviside(x, 0.5), math.cbrt(x))).loop((F8,))
    x = [-math.inf, math.inf, math.nan]
    expected = [[-0.0, 0.0, math.nan], [-math.inf, math.inf, math.nan], [0.0, 1.0, math.nan], x]
    np.testing.assert_array_equal(run(loop, x), expected)
    np.testing.assert_array_equal(np.signbit(run(loop, x)[0]), [True, False, False])


def test_logarithms_to_a_base() -> None:
    x = np.array([0.3, 1.0, 2.75, 11.0])
    f = lambda x: math.log(x, 3) + math.log(x)  # noqa: E731
    assert opaque_calls(frontend.scalar_ir(f, "d")) == ["log:d->d"] * 3
    assert_same_bits(run(python_function(f).loop((F8,)), x), np.array([f(a) for a in x.tolist()]))
    g = lambda x: cmath.log(x, 1 + 1j)  # noqa: E731
    assert opaque_calls(frontend.scalar_ir(g, "D")) == ["log:D->D"] * 2
    np.testing.assert_allclose(run(python_function(g).loop((C16,)), x * 1j), [g(a * 1j) for a in x], rtol=1e-15)


def test_calls_without_a_use_vanish() -> None:
    def unused(x: float) -> float:
        math.sin(x)
        x % 3.0
        np.logaddexp(x, 1.0)
        return x

    scalar = frontend.scalar_ir(unused, "d")
    assert opaque_calls(scalar) == []
    assert OPAQUE not in scalar.llvm


def test_nothing_is_left_to_call_in_a_loop() -> None:
    """What is opaque until the derivative is taken is inlined then: the loop calls what it always has."""
    scalar = frontend.scalar_ir(lambda x: math.exp(x) + x % 3.0 + math.gamma(x) + np.logaddexp(x, 1.0), "d")
    assert " alwaysinline " in inlined(scalar.llvm)
    code = loop_code(scalar).code
    assert not [symbol for symbol in objects.undefined_symbols(code) if symbol.startswith(OPAQUE)]


def test_a_symbol_without_definition_is_refused() -> None:
    """Even where it has an address: Numba was given one, so that it compiles what it must."""
    symbol = f'double @"{OPAQUE}strange:d->d"'
    text = (
        f"declare {symbol}(double)\n"
        "define {i32, double} @scalar(double %x) {\n"
        f"  %y = call {symbol}(double %x)\n"
        "  %r = insertvalue {i32, double} {i32 0, double 0.0}, double %y, 1\n"
        "  ret {i32, double} %r\n"
        "}\n"
    )
    llvm.add_symbol(f"{OPAQUE}strange:d->d", llvm.address_of_symbol("numba_gamma"))
    code = loop_code(ScalarIR("f", text, "d", "d", False)).code
    with pytest.raises(RuntimeError, match=f"the machine code of f calls {OPAQUE}strange:d->d, which this process"):
        engine.Engine(code, "f")


def test_helpers() -> None:
    """Functions that are called by others, by themselves, and handed to others: with opaque calls in them."""

    def remainder(x: float, y: float) -> float:
        return x % y + math.sin(x)

    def applied(f: Callable[[float, float], float], x: float) -> float:
        return f(x, 0.7)

    def factorial(x: float) -> float:
        return 1.0 if x < 1 else x % 7 * factorial(x - 1)

    x = np.linspace(0.5, 5.0, 7)
    for f in (lambda x: remainder(x, 0.7), lambda x: applied(remainder, x), factorial):
        np.testing.assert_allclose(run(python_function(f).loop((F8,)), x), [f(a) for a in x], rtol=1e-15)


def test_divisions_raise_by_pythons_rule() -> None:
    for f in (lambda x: 1.0 % x, lambda x: 1.0 // x, lambda x: divmod(1.0, x)[1]):
        loop = python_function(f, division="python").loop((F8,))
        stopped, index, _ = call(loop, [0.5, 2.0, 0.0, 1.0])
        assert (stopped, index) == (1, 2)
        assert python_function(f).loop((F8,)).can_fail is False


def test_digamma_without_scipy() -> None:
    """The derivative of Python's own gamma function needs nothing that is not there."""
    loop = python_function(composite.FALLBACKS["psi:d->d"]).loop((F8,))
    root = composite._PSI_ROOT[0]
    x = [1e-300, 1e-9, 0.3, 1.0, 1.4, root, root + 1e-9, 1.5, 3.0, 9.5, 123.4, 1e9, 1e17, 1e300, -0.3, -1.5, -7.25]
    with mpmath.workdps(40):
        expected = [float(mpmath.digamma(one)) for one in x]
    np.testing.assert_allclose(run(loop, x), expected, rtol=2e-15)
    special = {0.0: -math.inf, -1.0: math.nan, -20.0: math.nan, math.inf: math.inf, -math.inf: math.nan}
    np.testing.assert_array_equal(run(loop, list(special)), list(special.values()))
    np.testing.assert_array_equal(run(loop, [-0.0, math.nan]), [math.inf, math.nan])


WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = sys.modules["scipy.special"] = None
import math
import numpy as np
from tmapad import rrule, tmap
y, back = rrule(tmap, lambda x: math.gamma(x) + math.lgamma(x), np.array([0.5, 2.5]))
print(*back(np.ones(2))[2])
"""


def test_the_gamma_function_is_differentiated_without_scipy() -> None:
    run_ = subprocess.run([sys.executable, "-c", WITHOUT_SCIPY], capture_output=True, text=True, check=True)
    expected = [float((mpmath.gamma(x) + 1) * mpmath.digamma(x)) for x in (0.5, 2.5)]
    np.testing.assert_allclose([float(word) for word in run_.stdout.split()], expected, rtol=1e-14)
