"""Functions of Python's `math` that Numba does not have: to be compiled.

Sums and products are taken apart into what a number holds and what rounding loses of it: Knuth's sum of two numbers and
Dekker's product, as in Shewchuk, Adaptive Precision Floating-Point Arithmetic, 1997.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_SPLIT = 134217729.0  # 2**27 + 1: a product with it divides a number into two halves
_INT_MAX = 2**63 - 1
_ROOT_MAX = 3037000499  # of the largest int
_FACTORIALS = tuple(math.factorial(n) for n in range(21))  # 21! is no int of 64 bits
_TINY = 2.2250738585072014e-308  # the smallest normal number


def remainder(x: Any, y: Any) -> Any:
    """The IEEE remainder: x - n y for the integer n closest to x / y, the even one of two."""
    if not (np.isfinite(x) and y == y) or y == 0:
        return math.nan
    if math.isinf(y):
        return x
    rest = math.fmod(abs(x), abs(y))
    beyond = abs(y) - rest
    if rest > beyond:
        rest = -beyond
    elif rest == beyond:
        # Halfway: what is below, a multiple of abs(y), may be an odd one.
        rest -= 2 * math.fmod(0.5 * (abs(x) - rest), abs(y))
    return math.copysign(1, x) * rest


def ulp(x: Any) -> Any:
    """The distance to the next number, away from zero; at the end of the numbers that of those before."""
    size = abs(x)
    if not np.isfinite(size):
        return size
    after = np.spacing(size)
    return size - np.nextafter(size, size - size) if np.isinf(after) else after


def isclose(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    """As `math` and `cmath` have it."""
    if rel_tol < 0 or abs_tol < 0:
        raise ValueError("tolerances must be non-negative")
    if a == b:
        return True
    if np.isinf(a) or np.isinf(b):
        return False
    difference = abs(a - b)
    return difference <= rel_tol * abs(a) or difference <= rel_tol * abs(b) or difference <= abs_tol


def factorial(n: int) -> int:
    """Of what is in the table; Python says what is wrong with others."""
    if n < 0 or n > 20:
        raise OverflowError
    return _FACTORIALS[n]


def comb(n: int, k: int) -> int:
    """How many ways there are to choose k of n."""
    if n < 0 or k < 0:
        raise ValueError
    count = 1
    for i in range(min(k, n - k)):
        # The factor is divided before it is multiplied by: nothing is larger than the result.
        divisor = math.gcd(count, i + 1)
        factor = (n - i) // ((i + 1) // divisor)
        count //= divisor
        if count > _INT_MAX // factor:
            raise OverflowError
        count *= factor
    return count if k <= n else 0


def perm(n: int, k: int) -> int:
    """How many ways there are to choose k of n, in order."""
    if n < 0 or k < 0:
        raise ValueError
    count = 1 if k <= n else 0
    for i in range(k if k <= n else 0):
        if count > _INT_MAX // (n - i):
            raise OverflowError
        count *= n - i
    return count


def assigned(unset: bool) -> bool:
    """Raise what Python raises if a local variable has no value."""
    if unset:
        raise UnboundLocalError
    return True


def integer_power(base: int, exponent: int) -> int:
    """Compute ``base**exponent`` of integers."""
    if exponent < 0:
        raise ValueError("a negative power of an integer is a fraction")
    result = 1
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def isqrt(n: int) -> int:
    """The integer part of the root."""
    if n < 0:
        raise ValueError
    root = min(int(math.sqrt(n)), _ROOT_MAX)
    while root * root > n:
        root -= 1
    while root < _ROOT_MAX and (root + 1) * (root + 1) <= n:
        root += 1
    return root


def lcm(a: int, b: int) -> int:
    """The least common multiple of two."""
    if a == 0 or b == 0:
        return 0
    factor = abs(a // math.gcd(a, b))
    if factor > _INT_MAX // abs(b):
        raise OverflowError
    return factor * abs(b)


# ------------------------------------------------------------------------------------------------ sums and products


def _two_product(a: float, b: float) -> tuple[float, float]:
    """The product, and what rounding loses of it."""
    product = a * b
    c, d = _SPLIT * a, _SPLIT * b
    a_high, b_high = c - (c - a), d - (d - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _two_sum(a: float, b: float) -> tuple[float, float]:
    """The sum, and what rounding loses of it."""
    total = a + b
    c = total - a
    return total, (a - (total - c)) + (b - c)


def norm(*sides: float) -> float:
    """The length of a vector: the squares are added in double the precision, and the root is corrected once."""
    largest, total = 0.0, 0.0
    for side in sides:
        if math.isinf(side):
            return math.inf
        total += 0 * side
        largest = max(largest, abs(side))
    if math.isnan(total):
        return math.nan
    if largest == 0:
        return 0.0
    unit = _TINY if largest < _TINY else 1.0  # smaller numbers than that have no reciprocal
    _, exponent = math.frexp(largest / unit)
    scale = math.ldexp(1.0, -exponent)
    total, lost = 0.0, 0.0
    for side in sides:
        scaled = side / unit * scale
        square, low = _two_product(scaled, scaled)
        total, rest = _two_sum(total, square)
        lost += low + rest
    root = math.sqrt(total + lost)
    square, low = _two_product(root, root)
    return (root + ((total - square) - low + lost) / (2 * root)) / scale * unit


@cache
def exact_sum(count: int) -> Callable[..., Any]:
    """Make the sum of so many numbers, rounded once."""
    given = ", ".join(f"x{i}" for i in range(count))
    lines = [f"def fsum({given}):"]
    lines += [f"total = {' + '.join(f'x{i}' for i in range(count))}", "if not np.isfinite(total): return total"]
    # Partial sums p0, p1, ... that do not overlap, the smallest first: together they are the exact sum.
    lines += ["p0 = x0"]
    for i in range(1, count):
        lines += [f"carried = x{i}", *(f"carried, p{k} = two_sum(carried, p{k})" for k in range(i)), f"p{i} = carried"]
    # From the largest on they are added, until something is lost. What follows decides of two that are as near.
    lines += [f"total, lost, after = p{count - 1}, total - total, total - total"]
    for k in range(count - 2, -1, -1):
        lines += [f"if lost == 0: total, lost = two_sum(total, p{k})", f"elif after == 0: after = p{k}"]
    lines += [
        "if (lost < 0 and after < 0) or (lost > 0 and after > 0):",
        "    twice = lost + lost",
        "    rounded = total + twice",
        "    if rounded - total == twice: total = rounded",
        "return total + 0",
    ]
    names: dict[str, Any] = {"np": np, "two_sum": _two_sum, "__name__": __name__}
    exec("\n    ".join(lines), names)  # noqa: S102
    made: Callable[..., Any] = names["fsum"]
    return made


@cache
def exact_products(count: int) -> Callable[..., Any]:
    """Make the sum of products of the first half of so many numbers with the second half, rounded once."""
    half = count // 2
    lines = [f"def sumprod({', '.join(f'x{i}' for i in range(count))}):"]
    lines += [f"h{i}, l{i} = two_product(x{i}, x{i + half})" for i in range(half)]
    lines += [
        f"total = fsum({', '.join(f'h{i}, l{i}' for i in range(half))})",
        f"return total if np.isfinite(total) else {' + '.join(f'x{i} * x{i + half}' for i in range(half))}",
    ]
    names: dict[str, Any] = {"np": np, "two_product": _two_product, "fsum": exact_sum(count), "__name__": __name__}
    exec("\n    ".join(lines), names)  # noqa: S102
    made: Callable[..., Any] = names["sumprod"]
    return made


OF_MANY: dict[str, Callable[[int], Callable[..., Any]]] = {
    "math_fsum": exact_sum,
    "math_hypot": lambda _: norm,
    "math_sumprod": exact_products,
}
"""By opaque function, what makes the Python function for a number of arguments."""
