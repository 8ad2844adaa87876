"""Python as it may be written in a function whose derivative is automatic: a function for each thing, and refusals."""

import cmath
import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from against_dual import assert_close, assert_derivatives
from dual import derivatives

from tmapad import NoDerivativeError, rrule, tmap

# Ordinary points, and some where comparisons with the functions' constants are between equals.
X = np.concatenate([np.linspace(-2.6, 2.9, 23), [0.0, 0.5, 1.0, -1.0]])
Y = np.random.default_rng(0).uniform(-2, 2, X.shape)
COEFFICIENTS = (1.0, -0.5, 0.25, 3.0)
RATE, COUNT = 0.7, 4


# ---------------------------------------------------------------------------------------------------- control flow


def for_range(x: float) -> float:
    total = 0.0
    for i in range(5):
        total += x / (i + 1)
    for i in range(6, 0, -2):
        total = total * 0.5 + i * x
    return total


def for_over_a_tuple(x: float) -> float:
    total = x - x
    for c in COEFFICIENTS:
        total = total * x + c
    return total


def for_enumerate_and_zip(x: float, y: float) -> float:
    total = 0.0
    for i, c in enumerate(COEFFICIENTS):
        total += c * x**i
    for a, b in zip((x, y, 1.0), (y, y, x)):  # noqa: B905 - Numba knows no strict=
        total += a * b
    return total


def while_loop(x: float) -> float:
    while abs(x) > 0.3:
        x = 0.5 * x + 0.01
    return x * x


def breaks(x: float) -> float:
    total = 1.0
    for i in range(20):
        total *= 0.5 * x
        if abs(total) < 1e-2 or i > 7:
            break
        total += x
    return total


def continues(x: float) -> float:
    total = 0.0
    for i in range(10):
        if i % 3 == 1:
            continue
        if x * i > 4.0:
            continue
        total += math.sin(x * i)
    return total


def for_else(x: float) -> float:
    for i in range(4):
        if x < i * 0.5:
            found = x * i
            break
    else:
        found = x * x * x
    while found > 2.0:
        found -= 0.7 * x
        if x > 2.5:
            break
    else:
        found *= x
    return found


def nested_loops(x: float, y: float) -> float:
    total = 0.0
    for i in range(4):
        term = x
        for j in range(i):
            if total > 3.0 * j:
                break
            term = term * y - math.cos(term) * j
            k = 0
            while k < 3:
                k += 1
                if k == i:
                    continue
                total += 0.1 * term
        total += term / (1.0 + abs(term))
    return total


def if_elif_else(x: float) -> float:
    if x < -1.0:
        y = x * x
    elif x < 0.0:
        y = math.sin(x)
    elif x == 0.5:
        y = 4.0 * x
    else:
        y = math.exp(-x)
    return y * x


def early_returns(x: float, y: float) -> float:
    if x < 0:
        return y
    for i in range(5):
        if x * i > y:
            return x * i - y
        if y > 1.5:
            return y * y
    return x * y


def conditional_expressions(x: float) -> float:
    return (x if x > 0 else -2.0 * x) * (1.0 if x < 1.0 else (x if x < 2.0 else x * x))


def chained_comparison(x: float, y: float) -> float:
    if -1.0 < x <= 1.0 < y + 2.0:
        return x * y
    return x if not 0.0 <= y < 1.0 else y


def logic(x: float, y: float) -> float:
    either = x > 0.5 or y > 0.5
    both = x > 0.5 and not y < 0.0
    total = x * y if either else y
    if both != either:
        total += x
    return total * (2.0 if both else 3.0) + either * x


def logic_of_numbers(x: float, y: float) -> float:
    return (x or 2.0 * y) + (y and x)


# --------------------------------------------------------------------------------------------------------- variables


def from_zero(x: float) -> float:
    total, last, untouched = 0.0, 0.0, 0.0
    for _ in range(3):
        last, total = total, total * x + math.cos(x)
    return total + last + untouched


def augmented_assignment(x: float, y: float) -> float:
    total = x
    total += y
    total -= 0.3
    total *= x
    total /= 2.0 + y * y
    total **= 2
    total %= 1.7
    total //= 0.1
    total += 0.5 * x
    return total


def integers(x: float) -> float:
    n = int(abs(x) * 4.0)
    bits = (n & 1) + (n >> 1) * 2 + (n << 1) + (n | 2) + (n ^ 3)
    half = n // 2 + n % 3 - (-n) // 2
    return x * bits + half * x * x + n / 3 + x * (2**n)


def booleans(x: float) -> float:
    positive = x > 0.0
    flips = False
    for i in range(4):
        flips = not flips
        if flips and positive:
            x = x * 0.5 + i
    return x * positive + flips


def rebound_argument(x: float, y: float) -> float:
    x = x * y
    y = x - y
    x, y = y, x
    return x / (2.0 + y * y)


def tuples(x: float, y: float) -> float:
    pair = (x, y * y)
    a, b = pair
    a, b, c = b, a, pair[0] * pair[1]
    nested = (pair, (c, 2.0))
    (d, e), f = nested
    return a * b + nested[0][1] * d - e * f[0] + len(pair) * f[-1] * x


def tuple_in_a_loop(x: float, y: float) -> float:
    state = (x, y)
    for _ in range(4):
        state = (state[1] * 0.5, state[0] - math.sin(state[1]))
    return state[0] * state[1]


def tuple_indexed_by_data(x: float, y: float) -> float:
    three = (x, x * y, 2.0 - y)
    return three[int(abs(x)) % 3] * three[int(abs(y))]


def text(x: float) -> float:
    kind = "large" if x > 1.0 else "small"
    return x * x if kind == "large" else 3.0 * x


# ------------------------------------------------------------------------------------------------------------ arrays


def local_array(x: float) -> float:
    powers = np.empty(5)
    powers[0] = 1.0
    for i in range(1, 5):
        powers[i] = powers[i - 1] * x
    total = 0.0
    for one in powers:
        total += one
    return total * powers[-1]


def array_indexed_by_data(x: float, y: float) -> float:
    counts = np.zeros(3)
    for i in range(6):
        counts[int(abs(x) * i) % 3] += x * y
        counts[i % 2] *= 1.5
    return counts[int(abs(y))] + counts.sum() * counts[1]


def array_of_other_sizes(x: float) -> float:
    n = 2 + int(abs(x))
    a = np.ones(n)
    for i in range(len(a)):
        a[i] = x / (i + 1)
    for i in range(a.size - 1, 0, -1):
        a[i - 1] -= a[i] * a[i]
    return a[0] * a.shape[0]


def array_of_complex_numbers(x: float, y: float) -> float:
    z = np.zeros(2, np.complex128)
    z[0] = complex(x, y)
    for _ in range(3):
        z[1] += z[0] * z[0]
        z[0] = 0.3 * z[1].conjugate() + x
    return abs(z[1]) + z[0].imag


def array_of_two_axes(x: float, y: float) -> float:
    matrix = np.zeros((2, 2))
    matrix[0, 0] = matrix[1, 1] = x
    matrix[0, 1], matrix[1, 0] = y, -y
    for _ in range(3):
        for i in range(2):
            for j in range(2):
                matrix[i, j] = 0.3 * matrix[j, i] + math.sin(matrix[i, 1 - j])
    return matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0]


def fills(a: Any, x: float) -> None:
    for i in range(a.size):
        a[i] += x * i


def powers_of(x: float) -> Any:
    a = np.full(3, x)
    a[1] *= x
    return a


def arrays_handed_on(x: float, y: float) -> float:
    first = powers_of(x)
    same, other = first, first.copy()
    fills(same, y)
    other[0], other[2] = other[2], other[0] * y
    return first[1] * other[2] - first[2]


# --------------------------------------------------------------------------------------------------------- functions


def plain_helper(x: float, scale: float = 2.0) -> float:
    return scale * math.sin(x) * RATE


@numba.njit(fastmath=True)
def decorated_helper(x: float) -> float:
    return math.exp(-x * x) * x


@numba.njit
def decorated_around_a_plain_one(x: float) -> float:
    return plain_helper(x) * decorated_helper(x)


def helper_of_several(x: float, shift: float = 0.5) -> tuple[float, float]:
    if x > shift:
        return x, decorated_helper(x)
    return x * x, x - shift


def calls_helpers(x: float, y: float) -> float:
    a, b = helper_of_several(x)
    c, d = helper_of_several(y, shift=0.1)
    return plain_helper(a, c) + plain_helper(scale=b, x=d) + helper_of_several(shift=y, x=x)[1]


def nested_functions(x: float, y: float) -> float:
    def inner(z: float) -> float:
        def innermost(w: float) -> float:
            return w * z + RATE

        return innermost(z * z)

    times = lambda z, n=3: z * n  # noqa: E731
    return inner(x) * times(y) + (lambda z: z * z)(x)


def keyword_only_helper(x: float, *, k: float, shift: float = 0.25) -> float:
    return x * k + shift


def variadic_helper(x: float, *rest: float, k: float = 1.0) -> float:
    total = x * k
    for one in rest:
        total += one * one
    return total * len(rest)


def calls_with_keywords(x: float, y: float) -> tuple[float, ...]:
    return (
        keyword_only_helper(x, k=y),
        keyword_only_helper(shift=y, k=2.0, x=x),
        keyword_only_helper(y, shift=x * y, k=x),
        variadic_helper(x, y, x),
        variadic_helper(x, y, k=y) * helper_of_several(*(x, y))[0],
    )


class Line:
    """With a method that takes arguments in every way."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def at(self, x: float, scale: float = 2.0, *, shift: float) -> float:
        return self.slope * x * scale + shift


LINE = Line(2)  # an int, which is no capture


def calls_a_method_with_keywords(x: float, y: float) -> float:
    return LINE.at(x, shift=y) + LINE.at(y, 3.0, shift=x) * LINE.at(shift=x, x=y)


def nonlocal_variable(x: float, y: float) -> float:
    total = x

    def add(z: float, times: float = y) -> float:
        nonlocal total
        total = total + z * times
        return total

    return add(y) * add(x) + total


def assignment_expressions(x: float, y: float) -> float:
    if (z := x * y) > 0.5:
        return z * x
    total = z if (w := z + 1.0) > y else w
    while (total := total * 0.5 + x) > 1.0 and (n := total) < 100.0:
        x -= n * 0.25
    return total * (v := y) + v


def matches_numbers(x: float, y: float) -> float:
    assert x > -100.0, "which is never printed"
    match int(x):
        case 0:
            return x * y
        case 1 | 2:
            x = x + y
        case _:
            return y
    return x * x


def truth(x: float, y: float) -> tuple[float, ...]:
    return (
        x if any((x > 1.0, y > 0.0)) else y,
        x if all((x, y, 1)) else y,
        any(()) * x + all(()) * y,
        float(x > y) * x + float(bool(x)) * y,
        bool(int(x)) * y + int(x > 1.0) * x + int(y) * x,
    )


def default_argument(x: float, y: float = 1.5) -> float:
    return x**2 * y


def keyword_only(x: float, *, power: float, scale: float = 3.0) -> float:
    return scale * abs(x) ** power


def from_a_module(x: float) -> float:
    return x * math.pi + COUNT * math.e * x


FROM_TEXT = "lambda x: math.sin(x) * x"

# ---------------------------------------------------------------------------------------------------------- builtins


def builtins(x: float, y: float) -> tuple[float, ...]:
    quotient, rest = divmod(x, 0.7)
    return (
        abs(x) * y,
        min(x, y) + max(x, y, 0.3) * x,
        min((x, y, 1.0)) * 2.0,
        pow(abs(x), y) + pow(x, 3) + pow(2.0, y),
        quotient * y + rest,
        round(x) * y + float(round(y)) * x,
        float(int(x)) * x + int(y) * y,
        sum((x, y, x * y)) + sum((x, 2, x * y, True), y),
        float(3) * x + float(x),
    )


def powers(x: float, y: float) -> tuple[float, ...]:
    n = int(y)
    of_integers = 0.0
    for k in range(4):
        of_integers += x * (k + 1) ** 3 - 3**k * y + pow(2, k) + (k - 2) ** (k + 1)
    return (
        x**2, x**3, x**-2 + x**-1, abs(x) ** 0.5, abs(x) ** -1.5, 2.0**x, abs(x) ** y, x**COUNT, abs(x) ** n,
        of_integers,
    )  # fmt: skip


def remainders(x: float, y: float) -> tuple[float, ...]:
    return (x % 0.7, 5.3 % y, x % y, x // 0.4 + x, np.fmod(x, y), np.mod(x, 1.1) * y, np.remainder(y, 0.3), x % -0.7)


def from_math(x: float) -> tuple[float, ...]:
    u = math.tanh(x)
    return (
        math.sin(x), math.cos(x), math.tan(x), math.asin(u), math.acos(u), math.atan(x), math.sinh(x), math.cosh(x),
        math.tanh(x), math.asinh(x), math.acosh(2.0 + u), math.atanh(u), math.exp(x), math.expm1(x),
        math.log(2.0 + u), math.log2(2.0 + u), math.log10(2.0 + u), math.log1p(u), math.sqrt(2.0 + u), math.fabs(x),
    )  # fmt: skip


def more_from_math(x: float, y: float) -> tuple[float, ...]:
    return (
        math.erf(x), math.erfc(x), math.gamma(abs(x) + 0.5), math.lgamma(abs(x) + 0.5), math.atan2(x, y),
        math.hypot(x, y), math.copysign(x, y), math.pow(abs(x) + 0.1, y), math.degrees(x), math.radians(x),
        math.ldexp(x, 3), math.floor(x) * y, math.ceil(x) * y, math.trunc(x) * y,
        x if math.isnan(y) or math.isinf(y) else 2.0 * x, y if math.isfinite(x) else x,
    )  # fmt: skip


def from_numpy(x: float, y: float) -> tuple[float, ...]:
    return (
        np.sin(x), np.arctan(x), np.exp(x), np.sqrt(abs(x)), np.log(2.5 + np.tanh(x)), np.abs(x), np.absolute(y),
        np.square(x), np.sign(x) * y, np.floor(x) + np.ceil(y) + x, np.maximum(x, y), np.minimum(x, y),
        np.where(x > y, x * x, y) + x, np.power(abs(x), y), np.hypot(x, y), np.arctan2(x, y), np.copysign(x, y),
        np.negative(x), np.multiply(x, y), np.float64(x) * y,
    )  # fmt: skip


def from_cmath(x: float, y: float) -> tuple[float, ...]:
    z = complex(x, y)
    w = cmath.exp(z) * 1j + z * z - cmath.sqrt(z + 4.0) / (z + 3.0)
    return w.real, w.imag, abs(w), cmath.phase(w), cmath.sin(z).real, (w.conjugate() * z).imag


ONE = [
    for_range, for_over_a_tuple, while_loop, breaks, continues, for_else, if_elif_else, conditional_expressions,
    from_zero, text, integers, booleans, local_array, array_of_other_sizes, default_argument, from_a_module, from_math,
    lambda x: x * x * x - 2 * x, eval(FROM_TEXT), decorated_helper,
]  # fmt: skip
TWO = [
    for_enumerate_and_zip, nested_loops, early_returns, chained_comparison, logic, logic_of_numbers,
    augmented_assignment, rebound_argument, tuples, tuple_in_a_loop, tuple_indexed_by_data,
    array_indexed_by_data, array_of_two_axes, array_of_complex_numbers, arrays_handed_on,
    calls_helpers, nested_functions, default_argument, builtins, powers, remainders, more_from_math, from_numpy,
    from_cmath, calls_with_keywords, calls_a_method_with_keywords,
    nonlocal_variable, assignment_expressions, truth, matches_numbers,
]  # fmt: skip


def name(f: Any) -> Any:
    return getattr(f, "__name__", None)


def in_python(f: Callable[..., Any], *xs: Any) -> list[np.ndarray]:
    returned = [f(*at) for at in zip(*(x.tolist() for x in xs), strict=True)]
    return [np.array(column) for column in zip(*(y if isinstance(y, tuple) else (y,) for y in returned), strict=True)]


@pytest.mark.parametrize(("f", "xs"), [*((f, (X,)) for f in ONE), *((f, (X, Y)) for f in TWO)], ids=name)
def test_language(f: Callable[..., Any], xs: tuple[np.ndarray, ...]) -> None:
    if f in (powers, from_math, more_from_math):  # Python raises where these have poles
        xs = tuple(np.where(x == 0, 0.25, x) for x in xs)
    y = tmap(f, *xs)
    for got, value in zip(y if isinstance(y, tuple) else (y,), in_python(f, *xs), strict=True):
        assert_close(got, value, 1e-3, 1e-13)
    assert_derivatives(f, *xs)


def test_keyword_only_through_partial() -> None:
    f = functools.partial(keyword_only, power=1.5)
    _, back = rrule(tmap, f, X)
    _, df, dx = back(np.ones_like(X))
    each = [derivatives(lambda x, p: keyword_only(x, power=p), x, 1.5)[1][0] for x in X.tolist()]
    assert_close(dx, np.array(each)[:, 0], 1.0, 1e-12)
    assert_close(df.power, np.array(each)[:, 1].sum(), 10.0, 1e-12)


def test_decorated_functions_call_plain_ones() -> None:
    """Which Numba's own compilation refuses, and so Python cannot run."""
    assert_derivatives(decorated_around_a_plain_one, X)
    assert_derivatives(lambda x, y: decorated_around_a_plain_one(x) * y, X, Y)


def test_functions_made_by_exec() -> None:
    namespace: dict[str, Any] = {"math": math}
    exec("def helper(x):\n    return x * x\ndef f(x):\n    return math.sin(helper(x))", namespace)
    assert_derivatives(namespace["f"], X)


SINGLE = [for_range, if_elif_else, from_zero, plain_helper, local_array, lambda x: 2.0 * x + 0.1, while_loop, from_math]


@pytest.mark.parametrize("f", SINGLE, ids=name)
def test_single_precision_stays_single(f: Callable[..., Any]) -> None:
    """Through literals and local variables; values and gradients are those of float64 to its precision."""
    x = X.astype("f")
    y, back = rrule(tmap, f, x)
    ys = y if isinstance(y, tuple) else (y,)
    assert {one.dtype.char for one in ys} == {"f"}
    dys = tuple(np.ones_like(one) for one in ys)
    dx = back(dys if isinstance(y, tuple) else dys[0])[2]
    assert dx.dtype == np.float32
    each = [derivatives(f, at) for at in x.tolist()]
    for j, got in enumerate(ys):
        np.testing.assert_allclose(got, [values[j] for values, _ in each], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, [sum(row[0] for row in rows) for _, rows in each], rtol=1e-4, atol=1e-5)


def test_single_precision_with_a_captured_float() -> None:
    a = 0.1
    y, back = rrule(tmap, lambda x: a * x + a, X.astype("f"))
    _, df, dx = back(np.ones(X.shape, "f"))
    assert (y.dtype, dx.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(dx, 0.1, rtol=1e-6)
    np.testing.assert_allclose(df.a, (X.astype("f") + 1.0).sum(), rtol=1e-6)


# ---------------------------------------------------------------------------------------------------------- refusals


def keeps_a_list(x: float) -> float:
    kept = [x]
    kept.append(2.0 * x)
    return kept[0] * kept[1]


def keeps_a_dictionary(x: float) -> float:
    kept = {1: x}
    return kept[1]


def recursive(x: float) -> float:
    return x if x < 1.0 else 0.5 * recursive(x - 1.0) * x


# What can be compiled, but not differentiated, and the reason.
REFUSED: list[tuple[Callable[..., Any], str]] = [
    (keeps_a_list, "a list: use an array in its place, such as np.zeros(n)"),
    (keeps_a_dictionary, "a dictionary"),
    (recursive, "recursive, which calls itself: write it as a loop"),
]


@pytest.mark.parametrize(("f", "reason"), REFUSED, ids=name)
def test_refused(f: Callable[..., Any], reason: str) -> None:
    assert len(tmap(f, X)) == len(X)
    with pytest.raises(NoDerivativeError, match=re.escape(reason)) as info:
        rrule(tmap, f, X)
    message = str(info.value)
    assert message.startswith(f"{f.__name__} cannot be differentiated: ")
    assert "\n" not in message
    assert len(message) < 300


def adds_text(x: float) -> float:
    y = x * 2
    return y + "a"  # type: ignore[operator]


def has_no_such_attribute(x: float) -> float:
    y = 2.0 * x
    return y.size  # type: ignore[attr-defined, no-any-return]


# What cannot be compiled: the line that is quoted, and words of the reason.
NOT_COMPILED: list[tuple[Callable[..., Any], str, str]] = [
    (adds_text, 'return y + "a"', "No implementation of function add"),
    (has_no_such_attribute, "return y.size", "Unknown attribute 'size' of type float64"),
]


@pytest.mark.parametrize(("f", "line", "reason"), NOT_COMPILED, ids=name)
def test_not_compiled(f: Callable[..., Any], line: str, reason: str) -> None:
    """One error of one line, which quotes the user's; whether for the value or the derivative."""
    for call in (lambda: tmap(f, X), lambda: rrule(tmap, f, X)):
        with pytest.raises(TypeError, match=re.escape(reason)) as info:
            call()
        assert re.search(rf"^cannot compile {f.__name__}: .*\(line \d+: `{re.escape(line)}", str(info.value))
        assert "\n" not in str(info.value)
