"""float32 in compiled Python functions: the same bits as the function run with NumPy's float32 scalars (NEP 50)."""

import random
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from run_loop import call

from tmapad import rrule, tmap
from tmapad.jit import PythonFunction, frontend, python_function
from tmapad.jit.captures import as_inputs
from tmapad.jit.forward import forward
from tmapad.jit.scalar import ScalarIR
from tmapad.jit.single import single

F2, F4, F8, C8 = map(np.dtype, ("f2", "f4", "f8", "c8"))
LONG = np.dtype(np.int64).char
RATE = 0.1

X = np.concatenate([np.linspace(-4, 4, 301), [0.1, 0.7, 0.3, -0.0, 1e-30, 3e7, -3e7]]).astype("f4")
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38], "f4")
Z = (np.linspace(-2, 2, 60) + 1j * np.linspace(3, -1, 60) ** 3).astype("c8")


def helper(x: Any) -> Any:
    return x * RATE + 0.7


def horner(x: Any) -> Any:
    y = 0.0
    for i in range(6):
        y = y * x + 0.1 / (i + 1)
    return y


def harmonic(x: Any) -> Any:
    """What does not depend on x is computed in float64, as Python's floats are."""
    total = 0.0
    for i in range(1, 50):
        total += 1.0 / i
    return total * x


def bisection(x: Any) -> Any:
    """low and high stay Python's floats: in float32 they would never be so close."""
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return low


def logistic(x: Any) -> Any:
    for _ in range(20):
        x = 3.7 * x * (1 - x)
        if x > 1e9 or x < -1e9:
            break
    return x


def babylonian(x: Any) -> Any:
    a = abs(x) + 0.1
    y = a
    n = 0
    while abs(y * y - a) > 1e-6 * a and n < 40:
        y = 0.5 * (y + a / y)
        n += 1
    return y


def branches(x: Any) -> Any:
    if x == 0.1:
        return 1.0
    if 0.3 <= x < 0.7 or x != x:
        return x * 0.1
    return -x if x < 0.1 else x / 3


def tuples(x: Any) -> Any:
    t = (x, 0.3 * x, 0.1)
    total = 0.0
    for i in range(3):
        total += t[i] * (i + 1) / 3
    return total + t[0] * t[2]


def several(x: Any) -> Any:
    return x * 0.1, x > 0.1, int(x * 0.1 if abs(x) < 1e9 else 7.7), 0.1


def nested(x: Any) -> Any:
    a, n = 0.7, 0.1

    def inner(y: Any) -> Any:
        return a * n * y + x

    return inner(helper(x))


# Functions whose values have the bits of the function in Python.
EXACT: list[Callable[[Any], Any]] = [
    lambda x: 2.0 * x,
    lambda x: x * 0.1 - 0.7 + 1 / (x + 0.3),
    lambda x: 0.1,
    lambda x: (x + 1) * (x - 1) / 3,
    lambda x: -x if x > 0.1 else abs(x) * 0.1,
    lambda x: x * (0.1 * 3.0 / 7.0),
    lambda x: int(x * 10 if abs(x) < 1e9 else 0.1) / 3 * x,
    lambda x: x % 0.3 + x // 0.7,
    lambda x: divmod(x, 0.7)[1],
    lambda x: min(x, 0.1) + max(x, 0.7),
    lambda x: x**2 * 0.1,
    lambda x: round(x, 2) if abs(x) < 1e9 else 0.1,
    lambda x: np.float32(0.1) * x + np.float32(x),
    lambda x: np.sqrt(np.abs(x)) + np.floor(x) * 0.1 + np.copysign(0.1, x),
    lambda x: x == 0.1,
    horner,
    harmonic,
    bisection,
    logistic,
    babylonian,
    branches,
    tuples,
    several,
    helper,
    nested,
]
# Functions that call elementary functions, and by how many units in the last place values may differ from NumPy's.
CLOSE: list[tuple[Callable[[Any], Any], int]] = [
    (lambda x: np.sin(x) * 0.1, 2),
    (lambda x: np.exp(-0.1 * x * x), 2),
    (lambda x: np.log1p(abs(x)) + np.arctan2(x, 0.3) + np.hypot(x, 0.1), 3),
    (lambda x: (abs(x) + 0.1) ** 0.7, 2),
    (lambda x: (0.3 * abs(x) + 0.1) ** 3, 2),
    (lambda x: np.cbrt(x) + np.tanh(x) + np.expm1(0.1 * x), 3),
]
COMPLEX: list[tuple[Callable[[Any], Any], int]] = [
    (lambda z: z * (1 + 2j), 0),
    (lambda z: 0.1 * z - 0.1j, 0),
    (lambda z: z * z * 0.1 + z.conjugate(), 0),
    (lambda z: z.real * 0.1 + z.imag, 0),
    (lambda z: abs(z) * 0.1, 1),
    (lambda z: z / (z + (2 - 1j)), 2),
    (lambda z: np.exp(z * 0.1) * np.sqrt(z), 4),
]


def made(f: Any) -> PythonFunction:
    result = python_function(f)
    assert result is not None
    return result


def values(p: PythonFunction, *xs: Any, **options: Any) -> list[Any]:
    """What its loop for these arguments gives, an array for each result."""
    loop = p.loop(tuple(x.dtype for x in xs), **options)
    captured = [array for capture, value in p.captured() for array in as_inputs(value, capture.type)[0]]
    with np.errstate(all="ignore"):
        stopped, _, outputs = call(loop, *xs, *captured)
    assert stopped == 0
    return outputs


def in_python(f: Callable[..., Any], *xs: Any) -> list[Any]:
    """The same of the function itself, for NumPy's scalars."""
    with np.errstate(all="ignore"):
        results = [f(*at) for at in zip(*xs, strict=True)]
    return [np.array(column) for column in (zip(*results, strict=True) if isinstance(results[0], tuple) else [results])]


def ulps(y: Any, expected: Any) -> Any:
    """Differences in units in the last place of the larger part of a number; 0 also where both are NaN."""
    expected = expected.astype(y.dtype)
    size = np.maximum(abs(expected.real), abs(expected.imag)).astype("f4")
    with np.errstate(all="ignore"):
        difference = abs(y.astype("D") - expected.astype("D")) / np.spacing(size)
    return np.where((y == expected) | ((y != y) & (expected != expected)), 0, difference)


def of(scalar: ScalarIR) -> str:
    """The text of the function itself."""
    return scalar.llvm[scalar.llvm.index("@scalar(") :].split("\n}")[0]


@pytest.mark.parametrize("f", EXACT)
def test_values_have_the_bits_of_python(f: Callable[[Any], Any]) -> None:
    for x in (X, SPECIAL):
        for y, expected in zip(values(made(f), x), in_python(f, x), strict=True):
            assert y.dtype.char == ("f" if expected.dtype.kind == "f" else expected.dtype.char)
            np.testing.assert_array_equal(y, expected.astype(y.dtype))
            np.testing.assert_array_equal(np.signbit(y), np.signbit(expected)) if y.dtype == F4 else None


@pytest.mark.parametrize(("f", "bound"), CLOSE)
def test_elementary_functions(f: Callable[[Any], Any], bound: int) -> None:
    for x in (X, SPECIAL):
        (y,), (expected,) = values(made(f), x), in_python(f, x)
        assert y.dtype == expected.dtype == F4
        assert ulps(y, expected).max() <= bound


@pytest.mark.parametrize(("f", "bound"), COMPLEX)
def test_complex_functions(f: Callable[[Any], Any], bound: int) -> None:
    (y,), (expected,) = values(made(f), Z), in_python(f, Z)
    assert y.dtype == expected.dtype
    assert y.dtype.char in "fF"
    assert ulps(y, expected).max() <= bound


def test_several_arguments() -> None:
    def f(x: Any, n: Any, z: Any, w: Any) -> Any:
        return x * 0.1 + n / 3 + z * w, 0.1 * w

    n = np.arange(X.size)
    z, w = X[::-1].astype("F") * (0.3 + 0.1j), X * 0.7
    p = made(f)
    assert p.loop((F4, n.dtype, C8, F4), integer={"n"}).types == f"f{LONG}Ff->Ff"
    got = values(p, X, n, z.astype(C8), w, integer={"n"})
    expected = in_python(f, X, n.tolist(), z.astype(C8), w)
    for y, e in zip(got, expected, strict=True):
        np.testing.assert_array_equal(y, e)


# ---- random expressions


class Random:
    """Random expressions in x, which is float32, and in what is not: literals and an integer."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def weak(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.3:
            return self._random.choice(["0.1", "k", "0.7", "(k + 1)", "3", "float(k)", "1.3"])
        a, b = self.weak(depth - 1), self.weak(depth - 1)
        return self._random.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / (0.3 + abs({b})))"])

    def strong(self, depth: int) -> str:
        if depth == 0:
            return self._random.choice(["x", "y"])
        a = self.strong(depth - 1)
        b = (self.strong if self._random.random() < 0.5 else self.weak)(depth - 1)
        if self._random.random() < 0.5 and b not in "xy":
            a, b = b, a
        return self._random.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / (0.3 + abs({b})))", f"-abs({a} * {b})",
                f"(y * {a} if {a} < {b} else x - {b})", f"({a} % (0.7 + abs({b})))", f"min(1.5 * x, max(y, {a} + {b}))",
            ]
        )  # fmt: skip

    def function(self) -> FunctionType:
        lines = ["def f(x):", "    y = x * 0.3", "    total = 0.1", "    for k in range(3):"]
        lines += [f"        y = ({self.strong(3)}) * 0.1 + x", f"        total += {self.weak(3)}"]
        lines += [f"    return {self.strong(2)}, total * y, {self.strong(3)}"]
        namespace: dict[str, Any] = {}
        exec("\n".join(lines), namespace)
        result: FunctionType = namespace["f"]
        return result


@pytest.mark.parametrize("seed", range(15))
def test_random_functions_have_the_bits_of_python(seed: int) -> None:
    f = Random(seed).function()
    for y, expected in zip(values(made(f), X[::7]), in_python(f, X[::7]), strict=True):
        assert expected.dtype == F4
        np.testing.assert_array_equal(y, expected)


# ---- the IR


@pytest.mark.parametrize("f", [lambda x: 2.0 * x + 0.1, logistic, babylonian, branches, *(f for f, _ in CLOSE)])
def test_no_float64_is_left(f: Any) -> None:
    scalar = single(frontend.scalar_ir(f, "d"), "f")
    assert scalar is not None
    assert (scalar.in_chars, scalar.out_chars) == ("f", "f")
    assert "float" in of(scalar)
    assert "double" not in of(scalar)
    assert "double" not in of(forward(scalar, (0,)))


def test_what_does_not_depend_on_a_float32_stays_float64() -> None:
    f: Any = harmonic
    scalar = single(frontend.scalar_ir(f, "d"), "f")
    assert scalar is not None
    assert re.search("fadd double", of(scalar))
    assert re.search("fptrunc double .* to float", of(scalar))
    assert "fmul double" not in of(scalar)


def test_an_argument_may_stay_float64() -> None:
    """Like a Python float: it is rounded where it meets a float32."""

    def f(x: Any, a: Any) -> Any:
        return a * a * x

    function: Any = f
    scalar = single(frontend.scalar_ir(function, "dd"), "fd")
    assert scalar is not None
    assert scalar.in_chars == "fd"
    assert re.search("fmul double", of(scalar))
    assert re.search("fmul float", of(scalar))


def scalar_of(body: str, rest: str = "") -> ScalarIR:
    """A function of x that returns %y, written by hand."""
    returned = """
  %s = insertvalue { i32, double } { i32 0, double undef }, double %y, 1
  ret { i32, double } %s
"""
    text = f"{rest}\ndefine {{ i32, double }} @scalar(double %x) {{\nentry:\n  {body}{returned}}}\n"
    return ScalarIR("f", text, "d", "d", False)


# What a function has in it, and what remains of it in float32.
BY_HAND = [
    # An unknown function is called with float64.
    (
        "%y = call double @unknown(double %x, double 0.1)",
        "declare double @unknown(double, double)",
        r"%.* = fpext float %x to double\n.*call double @unknown\(double %\.ad1\.1, double 1.0+e-01\)\n.*%y = fptrunc",
    ),
    (
        '%y = call double @"tmapad.registered.1:d->d"(double %x)',
        'declare double @"tmapad.registered.1:d->d"(double)',
        r"= fptrunc double %\.ad1\.\d to float",
    ),
    (
        "%r = call { double, i64 } @unknown(double %x)\n  %y = extractvalue { double, i64 } %r, 0",
        "declare { double, i64 } @unknown(double)",
        r"fptrunc double .* to float",
    ),
    (
        "%i = call i32 @unknown(double %x)\n  %y = sitofp i32 %i to double",
        "declare i32 @unknown(double)",
        r"call i32 @unknown\(double %\.ad1\.1\)\n.*sitofp i32 %i to float",
    ),
    # Conversions that become none, also of a constant.
    (
        "%t = fptrunc double %x to float\n  %w = fpext float %t to double\n  %y = fadd double %w, 0.1",
        "",
        r"fadd float %x,",
    ),
    ("%w = fpext float 0.5 to double\n  %y = fmul double %w, %x", "", r"fmul float 5.0+e-01, %x"),
    ("%i = fptoui double %x to i64\n  %y = uitofp i64 %i to double", "", r"uitofp i64 %i to float"),
    # One of LLVM's functions.
    (
        "%y = call double @llvm.fma.f64(double %x, double %x, double 0.1)",
        "declare double @llvm.fma.f64(double, double, double)",
        r"call float @llvm.fma.f32\(float %x, float %x, float 0x3FB99999A0000000\)",
    ),
]


@pytest.mark.parametrize(("body", "rest", "expected"), BY_HAND)
def test_instructions(body: str, rest: str, expected: str) -> None:
    scalar = single(scalar_of(body, rest), "f")
    assert scalar is not None
    assert re.search(expected, of(scalar)), of(scalar)


IMPOSSIBLE = [
    ("%i = bitcast double %x to i64\n  %y = sitofp i64 %i to double", ""),
    ("%p = alloca double\n  store double %x, ptr %p\n  %y = load double, ptr %p", ""),
    (
        "%p = alloca i32\n  %y = call double @unknown(double %x, ptr %p)",
        "declare double @unknown(double, ptr)",
    ),
    (
        "%v = insertelement <2 x double> undef, double %x, i32 0\n  %y = extractelement <2 x double> %v, i32 0",
        "",
    ),
    ("%y = fmul double %x, 1.0e-50", ""),
    ("%y = fsub double 0x4800000000000000, %x", ""),
]


@pytest.mark.parametrize(("body", "rest"), IMPOSSIBLE)
def test_what_is_impossible(body: str, rest: str) -> None:
    assert single(scalar_of(body, rest), "f") is None


# ---- what is computed in float64


ARRAY = np.array([0.1, 0.7])
WEAK, STRONG = 0.1, np.float64(0.1)


def array(x: Any) -> Any:
    t = np.zeros(3)
    t[1] = x * 0.1
    return t.sum()


def from_array(x: Any) -> Any:
    return x * ARRAY[1]


def from_global(x: Any) -> Any:
    return x * STRONG * 0.7


def to_float64(x: Any) -> Any:
    return np.float64(x) * 0.1 * 0.7


IN_DOUBLE: list[Callable[[Any], Any]] = [
    array,
    from_array,
    from_global,
    to_float64,
    lambda x: helper(to_float64(x)),
    lambda x: x + 1e-50,
    lambda x: x if abs(x) < 1e-14 else x * 0.1,
    lambda x: min(x, 1e300) * 0.1,
    lambda x: np.complex128(x) * 0.1,
]


@pytest.mark.parametrize("f", IN_DOUBLE)
def test_float64_where_it_is_asked_for_or_needed(f: Callable[[Any], Any]) -> None:
    p = made(f)
    loop = p.loop((F4,))
    assert (loop.in_chars[0], loop.out_chars.lower()) == ("d", "d")
    x = X.astype(F8)
    np.testing.assert_array_equal(values(p, X), values(p, x))
    np.testing.assert_array_equal(values(p, X)[0], [f(at) for at in x])


def test_arrays_of_float32() -> None:
    def f(x: Any) -> Any:
        t = np.zeros(2, np.float32)
        t[0] = x * 0.1
        return t[0] + t[1] + single_array[1] * x

    single_array = np.array([0.1, 0.7], "f4")
    p = made(f)
    assert p.loop((F4,)).out_chars == "f"
    np.testing.assert_array_equal(values(p, X), in_python(f, X))


# ---- types of arguments


@pytest.mark.parametrize(
    ("inputs", "types"),
    [
        ((F4, F4), "ff"),
        ((F2, F4), "ff"),
        ((F2, F2), "ff"),
        ((F4, C8), "fF"),
        ((F4, float), "ff"),
        ((F4, complex), "fF"),
        ((int, F4), "ff"),
        ((F4, F8), "dd"),
        ((F4, np.dtype("c16")), "dD"),
        ((F4, np.dtype("i2")), "dd"),
        ((F4, np.dtype("?")), "dd"),
        ((float, float), "dd"),
        ((float, complex), "dD"),
    ],
)
def test_types(inputs: tuple[Any, ...], types: str) -> None:
    assert made(lambda a, b: a * b * 0.1).loop(inputs).in_chars == types


# ---- derivatives

SMOOTH = [horner, harmonic, bisection, babylonian, tuples, nested, *(f for f, _ in CLOSE)]


@pytest.mark.parametrize("f", SMOOTH)
def test_derivative(f: Callable[[Any], Any]) -> None:
    x = X[abs(X) < 10]
    y, derivative = values(made(f), x, wrt=(0,))
    assert derivative.dtype == F4
    np.testing.assert_array_equal(y, values(made(f), x)[0])
    exact = values(made(f), x.astype(F8), wrt=(0,))[1]
    np.testing.assert_allclose(derivative, exact, rtol=3e-5, atol=1e-6)


def test_complex_derivative() -> None:
    p = made(lambda z: np.exp(z * 0.1) * z)
    y, *partials = values(p, Z, wrt=(0,))
    np.testing.assert_array_equal(y, values(p, Z)[0])
    for partial, exact in zip(partials, values(p, Z.astype("D"), wrt=(0,))[1:], strict=True):
        assert partial.dtype == C8
        np.testing.assert_allclose(partial, exact, rtol=1e-5, atol=1e-6)


def capturing(a: Any, c: Any, w: Any) -> Callable[[Any], Any]:
    return lambda x: np.sin(a * a * x) * c + w[1] * x


def gradient(f: Any, x: Any) -> tuple[Any, Any, Any]:
    y, back = rrule(tmap, f, x)
    _, df, dx = back(np.ones_like(y))
    return y, df, dx


def test_gradient_in_what_was_captured() -> None:
    x, w = X[abs(X) < 4], np.array([0.1, 0.7], "f4")
    y, df, dx = gradient(capturing(0.1, np.float32(0.3), w), x)
    wide, wide_df, wide_dx = gradient(capturing(0.1, np.float64(np.float32(0.3)), w.astype("d")), x.astype("d"))
    assert (y.dtype, dx.dtype, df.c.dtype, df.w.dtype) == (F4, F4, F4, F4)
    assert df.a.dtype == F8
    np.testing.assert_array_equal(y, in_python(capturing(0.1, np.float32(0.3), w), x)[0])
    np.testing.assert_allclose(y, wide, rtol=1e-6)
    np.testing.assert_allclose(dx, wide_dx, rtol=1e-6)
    for name in ("a", "c", "w"):
        np.testing.assert_allclose(df[name], wide_df[name], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("char", "efF")
def test_types_are_kept(char: str) -> None:
    x = np.array([0.5, 1.5, -3], char)
    y, _, dx = gradient(lambda x: 0.5 * x * x + 1, x)
    assert y.dtype == dx.dtype == x.dtype
    np.testing.assert_array_equal(y, 0.5 * x * x + 1)
    np.testing.assert_array_equal(dx, x)
