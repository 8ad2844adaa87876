"""Registered functions called inside compiled Python functions: what was registered is their derivative there, too.

Most derivatives here are wrong on purpose: what comes out then shows where it comes from.
"""

import ctypes
import functools
import math
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import c_library
import numba
import numpy as np
import pytest
import scipy.special
import zoo
from foreign import CALLERS, address_of

from tmapad import NoDerivativeError, NoTangent, from_cython, register, rrule, tmap
from tmapad._derivative import derivative
from tmapad._errors import SignatureError
from tmapad._find import find
from tmapad._protocol import REGISTRY, GivenDerivative
from tmapad.jit import keys, python_function
from tmapad.jit.references import References

X = np.linspace(0.5, 3.0, 11)
WRONG = 100.0


@pytest.fixture(autouse=True)
def _other_tests_are_left_alone() -> Iterator[None]:
    before = dict(REGISTRY._entries)
    yield
    REGISTRY._entries.clear()
    REGISTRY._entries.update(before)
    REGISTRY.changes = object()


def wrong(x: float) -> float:
    return WRONG


def square(x: float) -> float:
    return x * x


def gradient(f: Any, *xs: Any, **keywords: Any) -> Any:
    """What the function's values add up to depends on each of its arguments how."""
    y, back = rrule(tmap, f, *xs, **keywords)
    dxs = back(np.ones_like(y))[2:]
    return dxs[0] if len(dxs) == 1 else dxs


# ------------------------------------------------------------------------------------------------ kinds

ZOO = [entry for entry in (*zoo.FOUND, *zoo.COMPILED, *zoo.PYTHON) if isinstance(find(entry.f).form, GivenDerivative)]
TYPED = [(entry, char) for entry in ZOO for char in entry.chars if char != "e"]
CALLING: dict[int, Callable[[Any], Any]] = {
    1: lambda g: lambda a: 3.0 * g(a),
    2: lambda g: lambda a, b: 3.0 * g(a, b),
    3: lambda g: lambda a, b, c: 3.0 * g(a, b, c),
    6: lambda g: lambda a, b, c, d, e, f: 3.0 * g(a, b, c, d, e, f),
}


@pytest.mark.parametrize(("entry", "char"), TYPED, ids=[f"{entry.name} {char}" for entry, char in TYPED])
def test_inside_it_is_what_it_is_alone(entry: zoo.Entry, char: str) -> None:
    xs = entry.arguments((9,), char)
    f = CALLING[entry.nin](entry.f)
    alone, back = rrule(tmap, entry.f, *xs)
    y, back_inside = rrule(tmap, f, *xs)
    assert y.dtype == alone.dtype
    np.testing.assert_array_equal(y, alone.dtype.type(3) * alone)
    right, found = back(np.full_like(alone, 3))[2:], back_inside(np.ones_like(y))[2:]
    for dx, expected in zip(found, right, strict=True):
        assert dx.dtype == expected.dtype
        np.testing.assert_allclose(dx, expected, rtol=4 * np.finfo(dx.dtype).eps)


class Squarer:
    """Something to call."""

    def __init__(self, power: int = 2) -> None:
        self.power = power

    def __call__(self, x: float) -> float:
        return x**self.power

    def method(self, x: float) -> float:
        return x**self.power


@numba.njit
def compiled(x: float) -> float:
    return x * x


@numba.cfunc("float64(float64)")
def c_compiled(x: float) -> float:
    return x * x


@numba.vectorize
def vectorized(x: float) -> float:
    return x * x


# What is registered, and what its value is.
KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Python": (square, np.square),
    "lambda": (lambda x: x * x, np.square),
    "njit": (compiled, np.square),
    "numba.cfunc": (c_compiled, np.square),
    "numba.vectorize": (vectorized, np.square),
    "object": (Squarer(), np.square),
    "NumPy's ufunc": (np.cbrt, np.cbrt),
    "SciPy's ufunc": (scipy.special.erf, scipy.special.erf),
    "C": (zoo.libm("sin"), lambda x: np.array(list(map(math.sin, x)))),
    **{
        caller.__name__: (caller(address_of("sin"), "double", "double"), lambda x: np.array(list(map(math.sin, x))))
        for caller in CALLERS
    },
}


@pytest.mark.parametrize(("original", "value"), KINDS.values(), ids=KINDS)
def test_by_itself_or_by_what_register_returned(original: Any, value: Any) -> None:
    returned = register(original, derivative=wrong)
    for g in (returned, original):
        np.testing.assert_allclose(tmap(lambda x: g(x) + 0.0, X), value(X), rtol=3e-16)  # noqa: B023
        np.testing.assert_array_equal(gradient(lambda x: 2.0 * g(x), X), np.full(11, 200.0))  # noqa: B023


def test_cython_functions() -> None:
    gamma = from_cython("scipy.special.cython_special", "gamma", derivative=wrong)
    gammaln = from_cython("scipy.special.cython_special", "gammaln", derivative="psi")
    np.testing.assert_array_equal(tmap(lambda x: 2.0 * gamma(x), X), 2 * scipy.special.gamma(X))
    np.testing.assert_array_equal(tmap(lambda x: 2.0 * gamma(x), X + 1j), 2 * scipy.special.gamma(X + 1j))
    np.testing.assert_array_equal(gradient(lambda x: 2.0 * gamma(x), X), np.full(11, 200.0))
    np.testing.assert_array_equal(gradient(lambda x: 2.0 * gammaln(x), X), 2 * scipy.special.psi(X))


def test_a_ufunc_that_nothing_but_its_loop_is_known_of() -> None:
    spence = register(scipy.special.spence, derivative=wrong)
    pair = register(scipy.special.sici, derivative=(wrong, lambda x: 10.0))
    np.testing.assert_array_equal(tmap(lambda x: 2.0 * spence(x), X), 2 * scipy.special.spence(X))
    np.testing.assert_array_equal(tmap(lambda x: 2.0 * pair(x)[1], X), 2 * scipy.special.sici(X)[1])
    np.testing.assert_array_equal(gradient(lambda x: spence(x) + pair(x)[0] + pair(x)[1], X), np.full(11, 210.0))


def test_methods() -> None:
    squarer = Squarer()
    given, derived = register(squarer.method, derivative=wrong), register(squarer.method, replace=True)
    np.testing.assert_array_equal(tmap(lambda x: given(x) + 1.0, X), X * X + 1)
    np.testing.assert_array_equal(gradient(lambda x: 2.0 * given(x), X), np.full(11, 200.0))
    np.testing.assert_array_equal(gradient(lambda x: 2.0 * derived(x), X), 4 * X)


def test_methods_by_what_has_them() -> None:
    squarer, other = Squarer(), Squarer()
    register(squarer.method, derivative=wrong)
    np.testing.assert_array_equal(gradient(squarer.method, X), np.full(11, WRONG))
    np.testing.assert_array_equal(tmap(lambda x: squarer.method(x) + 1.0, X), X * X + 1)
    np.testing.assert_array_equal(gradient(lambda x: squarer.method(x) + other.method(x), X), WRONG + 2 * X)


def test_user_data() -> None:
    factor = ctypes.c_double(2.0)
    f = c_library.function("user_data_times", user_data=True)
    g = register(f, user_data=ctypes.pointer(factor), derivative=wrong, name="times")
    for value in (2.0, 3.0):
        factor.value = value
        np.testing.assert_array_equal(tmap(lambda x: g(x) + 1.0, X), value * X + 1)
    np.testing.assert_array_equal(gradient(lambda x: g(x) * 2.0, X), np.full(11, 200.0))


def test_complex_numbers() -> None:
    z = X + 1j
    python = register(lambda z: z * z, derivative=lambda z: 2 * z)
    c = register(
        c_library.function("cubic", "D", 2),
        derivative=(c_library.function("cubic_z", "D", 2), c_library.function("cubic_w", "D", 2)),
        name="cubic",
    )
    np.testing.assert_allclose(gradient(lambda z: 1j * python(z), z), np.conj(2j * z), rtol=1e-15)
    np.testing.assert_allclose(gradient(lambda z: c(z, z) * 2.0, z), np.conj(6 * z * z), rtol=1e-15)
    np.testing.assert_allclose(gradient(lambda z: abs(python(z)), z), 2 * z, rtol=1e-15)
    # A real argument of a complex function, and a real function of its result.
    np.testing.assert_allclose(gradient(lambda x: c(x, 1j * x).imag, X), np.zeros(11), atol=1e-15)
    np.testing.assert_allclose(gradient(lambda x: c(1j * x, x).imag, X), 3 * X * X, rtol=1e-15)


# ------------------------------------------------------------------------------------------------ forms


def product(x: float, y: float) -> float:
    return x * y


# How the derivative of the product is given, and what that says its partial derivatives are.
FORMS: dict[str, tuple[dict[str, Any], float, float]] = {
    "a tuple": ({"derivative": (lambda x, y: 100.0, lambda x, y: 10.0)}, 100.0, 10.0),
    "one function": ({"derivative": lambda x, y: (100.0, 10.0)}, 100.0, 10.0),
    "a tuple, from output": (
        {"derivative_from_output": (lambda f, x, y: f / x - y + 100.0, lambda f, x, y: 10.0)}, 100.0, 10.0
    ),
    "one function, from output": (
        {"derivative_from_output": lambda f, x, y: (100.0, 10.0 + f - x * y)}, 100.0, 10.0
    ),
    "with value": ({"value_and_derivative": lambda x, y: (x * y, 100.0, 10.0)}, 100.0, 10.0),
    "none in one": ({"derivative": (None, lambda x, y: 10.0)}, 0.0, 10.0),
    "one not differentiated": ({"derivative": (lambda x, y: 100.0, None), "nondiff": "y"}, 100.0, 0.0),
    "numbers bound": (
        {"derivative": (functools.partial(lambda c, x, y: c, 100.0), functools.partial(lambda x, y, c: c, c=10))},
        100.0,
        10.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("keywords", "dx", "dy"), FORMS.values(), ids=FORMS)
def test_forms(keywords: dict[str, Any], dx: float, dy: float) -> None:
    g = register(lambda x, y: x * y, **keywords)
    y = X + 1.0

    def f(x: float, y: float) -> float:
        return math.sin(g(x, y)) + 2.0 * x

    np.testing.assert_array_equal(tmap(f, X, y), tmap(lambda x, y: math.sin(x * y) + 2.0 * x, X, y))
    found = gradient(f, X, y)
    np.testing.assert_allclose(found[0], np.cos(X * y) * dx + 2, rtol=1e-12)
    np.testing.assert_allclose(found[1], np.cos(X * y) * dy, rtol=1e-12)


def test_several_results() -> None:
    g = register(
        lambda x, y: (x * y, x + y),
        derivative=((lambda x, y: 1000.0, None), lambda x, y: (100.0, 10.0)),
    )

    def f(x: float, y: float) -> float:
        a, b = g(x, y)
        return 2.0 * a + b

    np.testing.assert_array_equal(tmap(f, X, X), 2 * X * X + 2 * X)
    np.testing.assert_array_equal(gradient(f, X, X), [np.full(11, 2100.0), np.full(11, 10.0)])


def test_c_functions_that_write_value_and_derivative() -> None:
    six = register(c_library.function("six", nin=6), value_and_derivative=c_library.writer("six_all", 6, 7), name="six")
    np.testing.assert_allclose(gradient(lambda x: six(x, x, x, x, x, x), X), 2 * X + 3 * X * X, rtol=1e-15)


def test_an_implicit_function_in_a_longer_expression() -> None:
    def solved(m: float, e: float) -> float:
        anomaly = m
        for _ in range(50):
            d = (anomaly - e * math.sin(anomaly) - m) / (1.0 - e * math.cos(anomaly))
            anomaly = anomaly - d
            if abs(d) < 1e-14:
                break
        return anomaly

    kepler = register(
        solved,
        derivative_from_output=(
            lambda y, m, e: 1.0 / (1.0 - e * math.cos(y)),
            lambda y, m, e: math.sin(y) / (1.0 - e * math.cos(y)),
        ),
    )
    m, e = np.linspace(0.1, 6.0, 50), np.linspace(0.0, 0.8, 50)
    found = gradient(lambda m, e: math.sin(kepler(m, e)) * m, m, e)
    y = tmap(kepler, m, e)
    slope = 1 / (1 - e * np.cos(y))
    np.testing.assert_allclose(found[0], np.cos(y) * slope * m + np.sin(y), rtol=1e-12)
    np.testing.assert_allclose(found[1], np.cos(y) * np.sin(y) * slope * m, rtol=1e-12)


def test_a_derivative_of_another_number_of_results() -> None:
    g = register(lambda x, y: x * y, derivative=lambda x, y: (1.0, 2.0, 3.0))
    with pytest.raises(SignatureError, match="the derivative <lambda> of <lambda> returns 3 numbers, not 2"):
        gradient(lambda x: g(x, 2.0), X)


def test_arguments_by_name_and_with_defaults() -> None:
    g = register(lambda x, n=2.0: n * x * x, derivative=(lambda x, n: 100.0 * n, lambda x, n: 10.0))
    for f, value, slope in (
        (lambda x: g(x) * 1.0, 2 * X * X, 200.0),
        (lambda x: g(x, n=3.0) * 1.0, 3 * X * X, 300.0),
        (lambda x: g(n=x, x=3.0) * 1.0, 9 * X, 10.0),
    ):
        np.testing.assert_array_equal(tmap(f, X), value)
        np.testing.assert_array_equal(gradient(f, X), np.full(11, slope))


def test_arguments_that_are_not_differentiated_stay_integers() -> None:
    g = register(lambda x, n: x // n + n // 2, derivative=(lambda x, n: float(n // 2), None), nondiff="n")
    np.testing.assert_array_equal(tmap(lambda x: g(x, 3) * 1.0, X), X // 3 + 1)
    np.testing.assert_array_equal(gradient(lambda x: g(x, 5) * 1.0, X), np.full(11, 2.0))


# ------------------------------------------------------------------------------------------------ where it is called

squared = register(lambda x: x * x, derivative=wrong)


def helper(x: float) -> float:
    return squared(x) + 1.0


@numba.njit
def helper_of_helper(x: float) -> float:
    return 2.0 * helper(x)


def in_a_closure() -> Any:
    g = register(lambda x: x * x, derivative=wrong)
    return lambda x: 2.0 * g(x) + 2.0


def in_a_nested_function(x: float) -> float:
    def inner(y: float) -> float:
        return 2.0 * squared(y) + 2.0

    return inner(x)


def of_a_module() -> Any:
    module = ModuleType("of_a_user")
    module.inner = ModuleType("of_a_user.inner")  # type: ignore[attr-defined]
    module.inner.square = square  # type: ignore[attr-defined]
    register(square, derivative=wrong)
    return lambda x: 2.0 * module.inner.square(x) + 2.0  # type: ignore[attr-defined]


def of_an_object() -> Any:
    settings = SimpleNamespace(square=squared)
    return lambda x: 2.0 * settings.square(x) + 2.0


def in_a_tuple() -> Any:
    functions = (squared, register(lambda x: x + 1.0, derivative=lambda x: 0.0))
    return lambda x: 2.0 * functions[0](x) + 2.0 * functions[1](0.0)


def in_another_registered_function() -> Any:
    middle = register(lambda x: squared(x) + 1.0)
    return lambda x: 2.0 * middle(x)


def in_a_branch() -> Any:
    def f(x: float) -> float:
        y = 0.0
        for k in range(3):
            if k == 1:
                y += squared(x)
            else:
                y += 0.5 * squared(x) + 1.0
        return y

    return f


PLACES: dict[str, Callable[[], Any]] = {
    "a helper": lambda: helper_of_helper,
    "a closure": in_a_closure,
    "a nested function": lambda: in_a_nested_function,
    "a module": of_a_module,
    "an object": of_an_object,
    "a tuple": in_a_tuple,
    "a registered function": in_another_registered_function,
    "a branch": in_a_branch,
}


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
def test_wherever_it_is_called(make: Callable[[], Any]) -> None:
    f = make()
    np.testing.assert_allclose(tmap(f, X), 2 * X * X + 2, rtol=1e-15)
    np.testing.assert_array_equal(gradient(f, X), np.full(11, 200.0))


def test_ufuncs_by_their_packages() -> None:
    erf = scipy.special.erf

    def by_package(x: float) -> float:
        return np.tanh(x) + scipy.special.erf(x)

    before = gradient(by_package, X)
    np.testing.assert_allclose(before, 1 - np.tanh(X) ** 2 + 2 / np.sqrt(np.pi) * np.exp(-X * X), rtol=1e-13)
    register(np.tanh, derivative=wrong)
    np.testing.assert_allclose(gradient(by_package, X), 100 + 2 / np.sqrt(np.pi) * np.exp(-X * X), rtol=1e-13)
    register(erf, derivative=lambda x: 10.0)
    np.testing.assert_array_equal(gradient(by_package, X), np.full(11, 110.0))


def test_functions_that_call_themselves() -> None:
    @register(derivative=wrong)
    def halved(x: float) -> float:
        return x if x < 1.0 else halved(0.5 * x)

    @register(derivative=lambda x: 3.0 * exponential(x))
    def exponential(x: float) -> float:
        return math.exp(3.0 * x)

    np.testing.assert_array_equal(tmap(lambda x: halved(x) + 0.0, X), tmap(halved, X))
    np.testing.assert_array_equal(gradient(lambda x: 2.0 * halved(x), X), np.full(11, 200.0))
    third = derivative(derivative(derivative(lambda x: exponential(x))))
    np.testing.assert_allclose(tmap(third, X), 27 * np.exp(3 * X), rtol=1e-15)


def test_functions_that_call_each_other() -> None:
    a = register(lambda x: x if x < 1.0 else b(x - 1.0), derivative=wrong, name="a")
    b = register(lambda x: a(x), derivative=wrong, name="b")
    with pytest.raises(TypeError, match="calls itself by way of another registered function, which cannot be compiled"):
        tmap(lambda x: a(x), X)


# ------------------------------------------------------------------------------------------------ second derivatives


def test_second_derivatives() -> None:
    cube = register(lambda x: x**3, derivative=lambda x: 3.0 * x * x)
    np.testing.assert_allclose(gradient(derivative(lambda x: cube(x) * x), X), 12 * X * X, rtol=1e-15)
    np.testing.assert_array_equal(tmap(derivative(cube), X), 3 * X * X)
    np.testing.assert_array_equal(tmap(derivative(derivative(cube)), X), 6 * X)


def test_second_derivatives_of_c_functions() -> None:
    cos = register(zoo.libm("cos"), derivative=lambda x: -math.sin(x), name="cos")
    sin = register(zoo.libm("sin"), derivative=cos, name="sin")
    np.testing.assert_allclose(tmap(derivative(derivative(lambda x: sin(2.0 * x))), X), -4 * np.sin(2 * X), rtol=1e-15)
    once = register(zoo.libm("sin"), derivative=zoo.libm("cosh"), name="once")
    np.testing.assert_array_equal(tmap(derivative(lambda x: once(x)), X), list(map(math.cosh, X)))
    with pytest.raises(
        NoDerivativeError, match=r"a call of a ctypes function, which has no derivative: register\(..., der"
    ):
        tmap(derivative(derivative(lambda x: once(x))), X)


def test_a_derivative_inside() -> None:
    slope = derivative(lambda x, a: a * x**3)
    np.testing.assert_array_equal(tmap(lambda x: slope(x, 2.0) + 0.0, X), 6 * X * X)
    np.testing.assert_array_equal(gradient(lambda x: slope(x, 2.0), X), 12 * X)


# ------------------------------------------------------------------------------------------------ what is refused


def test_no_derivative() -> None:
    g = register(zoo.libm("sin"), name="g")
    np.testing.assert_array_equal(tmap(lambda x: 2.0 * g(x), X), 2 * np.array(list(map(math.sin, X))))

    def f(x: float) -> float:
        return 2.0 * g(x)

    message = (
        r"f cannot be differentiated: its result depends on a call of g, which has no derivative: register\(g, deriv"
    )
    with pytest.raises(NoDerivativeError, match=message):
        gradient(f, X)


def test_a_result_that_does_not_depend_on_it() -> None:
    g = register(zoo.libm("sin"), name="g")
    np.testing.assert_array_equal(gradient(lambda x, n: x * g(n), X, 2.0, wrt=0)[0], np.full(11, math.sin(2.0)))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: register(lambda x: x, threadsafe=False, derivative=wrong, name="g"),
            "threadsafe=False, and runs on one thread alone",
        ),
        (
            lambda: from_cython("scipy.special.cython_special", "j1", raises=True),
            "raises=True, and its exceptions would be lost",
        ),
    ],
)
def test_what_compiled_code_may_not_call(make: Callable[[], Any], why: str) -> None:
    g = make()
    with pytest.raises(TypeError, match=f"compiled Python function: it was registered with {why}"):
        tmap(lambda x: g(x), X)


def test_float32_does_not_hold_float64() -> None:
    entry = next(entry for entry in zoo.COMPILED if entry.name == "C float32")
    f = CALLING[2](entry.f)
    assert tmap(f, X.astype("f"), X.astype("f")).dtype == np.float32
    with pytest.raises(
        TypeError, match="calls square_times with float64, but its numbers are float32, and arguments are"
    ):
        tmap(f, X, X)
    g = entry.f
    y = tmap(lambda x: g(np.float32(x), np.float32(2.0)) + 0.0, X)
    np.testing.assert_array_equal(y, 4 * X.astype("f"))


def test_a_ufunc_that_may_raise() -> None:
    @numba.vectorize
    def small(x: float) -> float:
        if x > 2.0:
            raise ValueError("too large")
        return x

    register(small, derivative=wrong)
    with pytest.raises(TypeError, match="small cannot be called from a compiled Python function: it may raise for"):
        tmap(lambda x: small(x), X)


# ------------------------------------------------------------------------------------------------ captures


def made(k: Any) -> tuple[Any, Any, Callable[[Any], None]]:
    g = register(lambda x: k * x, derivative=lambda x: 10.0 * k)

    def rebind(value: Any) -> None:
        nonlocal k
        k = value

    return g, lambda x: g(x) * 2.0, rebind


def test_what_a_registered_function_captured() -> None:
    """It has no gradient, which is not left out silently; but the value now is what counts."""
    _, f, rebind = made(3.0)
    for value in (3.0, 5.0):
        rebind(value)
        np.testing.assert_array_equal(tmap(f, X), value * X * 2)
        np.testing.assert_array_equal(gradient(f, X, wrt=0), np.full(11, 20 * value))
    with pytest.raises(NoDerivativeError, match="depends on 'k', which <lambda> captured: its registered deriv"):
        gradient(f, X)


def test_a_captured_array() -> None:
    table = np.arange(4.0)
    g = register(lambda x: table[1] * x, derivative=lambda x: table[2] * 100.0)

    def f(x: float) -> float:
        return g(x) * 2.0

    np.testing.assert_array_equal(tmap(f, X), 2 * X)
    np.testing.assert_array_equal(gradient(f, X, wrt=0), np.full(11, 400.0))
    with pytest.raises(NoDerivativeError, match="depends on 'table', which <lambda> captured"):
        gradient(f, X)


def test_a_captured_number_is_as_weak_as_alone() -> None:
    x = X.astype(np.float32)
    for k in (0.1, np.float32(0.1), np.float64(0.1), 0.1 + 1j):
        g, f, _ = made(k)
        alone = tmap(g, x)
        assert tmap(f, x).dtype == alone.dtype
        np.testing.assert_array_equal(tmap(f, x), alone * alone.dtype.type(2))


# ------------------------------------------------------------------------------------------------ what is current


def test_registered_again() -> None:
    def f(x: float) -> float:
        return square(x)

    np.testing.assert_array_equal(gradient(f, X), 2 * X)
    for value in (100.0, 10.0):
        register(square, derivative=lambda x: value, replace=True)  # noqa: B023
        np.testing.assert_array_equal(gradient(f, X), np.full(11, value))


def test_what_its_parts_read_is_rebound() -> None:
    names: dict[str, Any] = {"register": register, "n": 2}
    text = """
def inner(x):
    return x * n

g = register(lambda x: inner(x), derivative=lambda x: 100.0 * n)

def f(x):
    return g(x) * 1.0
"""
    exec(text, names)
    f = names["f"]
    for n in (2, 3):
        names["n"] = n
        np.testing.assert_array_equal(tmap(f, X), n * X)
        np.testing.assert_array_equal(gradient(f, X), np.full(11, 100.0 * n))
    names["inner"] = lambda x: x + 1.0
    np.testing.assert_array_equal(tmap(f, X), X + 1)
    names["g"] = register(lambda x: 5.0 * x, derivative=lambda x: 77.0)
    np.testing.assert_array_equal(tmap(f, X), 5 * X)
    np.testing.assert_array_equal(gradient(f, X), np.full(11, 77.0))


@pytest.mark.parametrize("original", [square, np.cbrt, zoo.libm("sin")], ids=["Python", "ufunc", "C"])
def test_nothing_is_cached_for_other_processes(original: Any) -> None:
    """A kernel has what was registered in it, and symbols of this process."""
    register(original, derivative=wrong)
    for f in (lambda x: original(x), lambda x: np.cbrt(x) + square(x)):
        registered_inside = bool(References(f).registered)
        assert registered_inside == (keys.key(References(f)) is None)
    assert keys.key(References(lambda x: original(x))) is None


def test_residuals() -> None:
    """Native code takes nobody knows how long; a Python function is looked into."""
    cheap, native = register(lambda x: x * x, derivative=wrong), register(zoo.libm("sin"), derivative=wrong)
    for g, saved in ((cheap, False), (native, True)):
        f = python_function(lambda x: g(x) + 1.0)  # noqa: B023
        assert f is not None
        f.loop((np.dtype("d"),))
        assert f.takes_long is saved


# ------------------------------------------------------------------------------------------------ errors


def test_exceptions_are_raised_as_they_are() -> None:
    @register(derivative=wrong)
    def small(x: float) -> float:
        if x > 2.0:
            raise ValueError("too large")
        return x

    def f(x: float) -> float:
        return 2.0 * small(x)

    for run in (tmap, lambda f, x: rrule(tmap, f, x)):
        with pytest.raises(ValueError, match="too large") as error:
            run(f, X)
        assert any("in f, at element 7 with arguments (2.25)" in note for note in error.value.__notes__)
    np.testing.assert_array_equal(gradient(f, X[:5]), np.full(5, 200.0))


def test_exceptions_of_a_derivative() -> None:
    def slope(x: float) -> float:
        if x > 2.0:
            raise ValueError("too steep")
        return WRONG

    g = register(lambda x: x * x, derivative=slope)

    def f(x: float) -> float:
        return 2.0 * g(x)

    np.testing.assert_array_equal(tmap(f, X), 2 * X * X)
    np.testing.assert_array_equal(gradient(f, X[:5]), np.full(5, 200.0))
    with pytest.raises(ValueError, match="too steep") as error:
        gradient(f, X)
    assert any("in f, at element 7 with arguments (2.25)" in note for note in error.value.__notes__)


def test_division_is_as_registered() -> None:
    ieee = register(lambda x: 1.0 / x, derivative=wrong)
    python = register(lambda x: 1.0 / x, derivative=wrong, division="python")
    x = np.array([1.0, 0.0])
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(tmap(lambda x: ieee(x) + 1.0, x), [2, np.inf])
    with pytest.raises(ZeroDivisionError):
        tmap(lambda x: python(x) + 1.0, x)


def test_an_infinite_derivative_times_zero() -> None:
    g = register(lambda x: math.sqrt(x), derivative=lambda x: np.inf)
    np.testing.assert_array_equal(gradient(lambda x: g(0.0 * x) + x, X), np.full(11, 1.0))
    np.testing.assert_array_equal(gradient(lambda x: 0.0 * g(x) + x, X), np.full(11, np.nan))


def test_not_differentiable_alone_and_inside() -> None:
    g = register(lambda x: x * x, derivative=(None,))
    assert rrule(tmap, g, X)[1](X)[2] is NoTangent()
    np.testing.assert_array_equal(gradient(lambda x: g(x) + x, X), np.ones(11))
