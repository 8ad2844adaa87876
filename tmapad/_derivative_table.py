"""The derivatives of NumPy's functions: one row each. `tmapad._derivatives` says how a row is written.

Formulas are chosen so that the result is good to a few units in the last place wherever the derivative is, and neither
overflows nor cancels on the way. tests/test_derivative_table.py holds each row to a bound.
"""

import math

from tmapad._derivatives import Node, Operand, f, rule, where_defined

LN2 = math.log(2.0)


# ------------------------------------------------------------------------------------------------ arithmetic

rule("add", lambda y, a, b: (1.0, 1.0), holomorphic=True)
rule("subtract", lambda y, a, b: (1.0, -1.0), holomorphic=True)
rule("multiply", lambda y, a, b: (b, a), holomorphic=True)
rule("divide", lambda y, a, b: (1 / b, -y / b), holomorphic=True)
rule("positive", lambda y, x: 1.0, holomorphic=True)
rule("negative", lambda y, x: -1.0, holomorphic=True)
rule("reciprocal", lambda y, x: -(y * y), holomorphic=True)
rule("square", lambda y, x: 2 * x, holomorphic=True)
rule("conjugate", lambda y, x: 1.0, holomorphic=True, antiholomorphic=True)
rule("deg2rad radians", lambda y, x: math.pi / 180)
rule("rad2deg degrees", lambda y, x: 180 / math.pi)
# sqrt(-0.0) is -0.0: adding 0.0 makes the derivative +inf there.
rule("sqrt", lambda y, x: 0.5 / (y + 0.0), complex_=lambda y, x: 0.5 / y)
rule("cbrt", lambda y, x: 1 / (3 * (y * y)))


def power(y: Node, a: Node, b: Node) -> tuple[Operand, Operand]:
    """``b a^(b-1)`` and ``a^b log(a)``."""
    p = b - 1
    # What rounding b - 1 lost is made good: it matters where a^(b-1) is far from 1.
    logarithm = f.log(f.absolute(a))
    lost = (b - (p + 1)) * logarithm
    slope = b * f.power(a, p) * (1 + f.select(f.isfinite(lost), lost, 0.0))
    # 0^b is 0 for all b > 0. For a < 0 the function of b lives at integers only.
    flat = f.equal(y, 0) & (a >= 0)
    in_b = f.select(flat, 0.0, where_defined(a >= 0, y * logarithm))
    return f.select(f.equal(b, 0), 0.0, slope), in_b


rule(
    "power float_power",
    power,
    complex_=lambda y, a, b: (
        f.select(f.equal(b, 0), 0.0, b * f.power(a, b - 1)),
        f.select(f.equal(y, 0), 0.0, y * f.log(a)),
    ),
)

# ------------------------------------------------------------------------------------------------ exponentials

rule("exp", lambda y, x: y, holomorphic=True)
rule("exp2", lambda y, x: LN2 * y, holomorphic=True)
rule("expm1", lambda y, x: f.exp(x), holomorphic=True)
# The logarithm of -0.0 is that of 0.0: absolute makes the derivative +inf there.
rule("log", lambda y, x: where_defined(x >= 0, 1 / f.absolute(x)), complex_=lambda y, x: 1 / x)
rule("log2", lambda y, x: where_defined(x >= 0, (1 / LN2) / f.absolute(x)), complex_=lambda y, x: (1 / LN2) / x)
rule(
    "log10",
    lambda y, x: where_defined(x >= 0, (1 / math.log(10.0)) / f.absolute(x)),
    complex_=lambda y, x: (1 / math.log(10.0)) / x,
)
rule("log1p", lambda y, x: where_defined(x >= -1, 1 / (1 + x)), complex_=lambda y, x: 1 / (1 + x))


def logistic_of_difference(a: Node, b: Node, exponential: str, scale: float) -> tuple[Operand, Operand]:
    """``e^a / (e^a + e^b)`` and ``e^b / (e^a + e^b)``; or with powers of 2."""
    d = f.select(f.equal(a, b), 0.0, a - b)
    # What rounding the difference lost (Knuth's two-sum): e^d would feel it for large d.
    t = d - a
    lost = f.copysign(scale, d) * ((a - (d - t)) - (b + t))
    e = getattr(f, exponential)(-f.absolute(d)) * (1 - f.select(f.isfinite(lost), lost, 0.0))
    large, small = 1 / (1 + e), e / (1 + e)
    return f.select(d >= 0, large, small), f.select(d >= 0, small, large)


rule("logaddexp", lambda y, a, b: logistic_of_difference(a, b, "exp", 1.0))
rule("logaddexp2", lambda y, a, b: logistic_of_difference(a, b, "exp2", LN2))

# ------------------------------------------------------------------------------------------------ circles, hyperbolas

rule("sin", lambda y, x: f.cos(x), holomorphic=True)
rule("cos", lambda y, x: -f.sin(x), holomorphic=True)
rule("sinh", lambda y, x: f.cosh(x), holomorphic=True)
rule("cosh", lambda y, x: f.sinh(x), holomorphic=True)


def inverse_square(c: Node, beyond: Node) -> Node:
    """``1 / c^2`` of a complex number; where c overflows, what it tends to."""
    r = 1 / c
    return f.select(f.isfinite(c), r * r, beyond)


def tanh(y: Node, x: Node) -> Node:
    """``1 / cosh(x)^2``."""
    t = f.exp(-2 * f.absolute(x))
    return 4 * t / ((1 + t) * (1 + t))


rule("tan", lambda y, x: 1 + y * y, complex_=lambda y, x: inverse_square(f.cos(x), 1 + y * y))
rule("tanh", tanh, complex_=lambda y, x: inverse_square(f.cosh(x), 1 - y * y))

rule(
    "arcsin",
    lambda y, x: 1 / f.sqrt((1 - x) * (1 + x)),
    complex_=lambda y, x: 1 / (f.sqrt(1 - x) * f.sqrt(1 + x)),
)
rule(
    "arccos",
    lambda y, x: -1 / f.sqrt((1 - x) * (1 + x)),
    complex_=lambda y, x: -1 / (f.sqrt(1 - x) * f.sqrt(1 + x)),
)
rule("arctan", lambda y, x: 1 / (1 + x * x), complex_=lambda y, x: (1 / (x - 1j)) * (1 / (x + 1j)))
rule(
    "arcsinh",
    lambda y, x: 1 / f.hypot(1.0, x),
    complex_=lambda y, x: 1 / (f.sqrt(1 - 1j * x) * f.sqrt(1 + 1j * x)),
)
rule("arccosh", lambda y, x: 1 / (f.sqrt(x - 1) * f.sqrt(x + 1)), holomorphic=True)
rule(
    "arctanh",
    lambda y, x: where_defined(f.absolute(x) <= 1, 1 / ((1 - x) * (1 + x))),
    complex_=lambda y, x: 1 / ((1 - x) * (1 + x)),
)


def arctan2(y: Node, a: Node, b: Node) -> tuple[Operand, Operand]:
    """``b / (a^2 + b^2)`` and ``-a / (a^2 + b^2)``."""
    h = f.hypot(a, b)
    far = f.isinf(h) & f.equal(a, a) & f.equal(b, b)  # hypot(inf, nan) is inf
    return f.select(far, 0.0, b / h / h), f.select(far, 0.0, -a / h / h)


rule("arctan2", arctan2)

# ------------------------------------------------------------------------------------------------ distances and kinks


def scale_for(size: Node) -> Node:
    """A power of 2 that takes numbers of this size to where the sum of their squares keeps its digits."""
    return f.select(size > 1, 0.25, 2.0**60)


def hypot(y: Node, a: Node, b: Node) -> tuple[Operand, Operand]:
    """``a / hypot(a, b)`` and ``b / hypot(a, b)``: the unit vector, 0 at 0."""
    infinite = f.isinf(a) | f.isinf(b)
    c = scale_for(f.maximum(f.absolute(a), f.absolute(b)))
    # An infinite side beside a finite one is the longer by all means.
    a, b = (f.select(infinite, f.select(f.isinf(side), f.sign(side), 0 * side), c * side) for side in (a, b))
    h = f.hypot(a, b)
    return tuple(f.select(f.equal(h, 0), 0.0, side / h) for side in (a, b))  # type: ignore[return-value]


def absolute(y: Node, x: Node) -> Node:
    """``conj(x) / abs(x)`` of a complex number, 0 at 0."""
    z = scale_for(y) * f.conjugate(x)
    return f.select(f.equal(y, 0), 0.0, z / f.absolute(z))


def first_or_second(first: Node) -> tuple[Operand, Operand]:
    """1 for the argument that is taken, 0 for the other."""
    return f.select(first, 1.0, 0.0), f.select(first, 0.0, 1.0)


rule("absolute", lambda y, x: f.sign(x), complex_=absolute)
rule("fabs", lambda y, x: f.sign(x))
rule("hypot", hypot)
rule("copysign", lambda y, a, b: (f.sign(a) * f.copysign(1.0, b), 0.0))
rule("maximum", lambda y, a, b: first_or_second((a >= b) | f.isnan(a)), holomorphic=True)
rule("minimum", lambda y, a, b: first_or_second((a <= b) | f.isnan(a)), holomorphic=True)
rule("fmax", lambda y, a, b: first_or_second((a >= b) | f.isnan(b)), holomorphic=True)
rule("fmin", lambda y, a, b: first_or_second((a <= b) | f.isnan(b)), holomorphic=True)

# ------------------------------------------------------------------------------------------------ steps and remainders

rule("sign", lambda y, x: 0.0)
rule("floor ceil trunc", lambda y, x: 0.0)
rule("rint", lambda y, x: 0.0, holomorphic=True)
rule("spacing", lambda y, x: 0.0)
rule("nextafter", lambda y, a, b: (1.0, 0.0))
rule("heaviside", lambda y, a, b: (0.0, f.select(f.equal(a, 0), 1.0, 0.0)))
rule("floor_divide", lambda y, a, b: (0.0, 0.0))


def remainder(a: Node, b: Node, quotient: Node) -> tuple[Node, Node]:
    """1 and minus the quotient, where there is a remainder."""
    defined = f.isfinite(a) & f.not_equal(b, 0)
    return where_defined(defined, 1.0), where_defined(defined, -quotient)


def truncated_quotient(a: Node, b: Node) -> Node:
    """The quotient of ``fmod``, rounded towards 0."""
    return f.sign(a) * f.sign(b) * f.floor_divide(f.absolute(a), f.absolute(b))


rule("remainder", lambda y, a, b: remainder(a, b, f.floor_divide(a, b)))
rule("fmod", lambda y, a, b: remainder(a, b, truncated_quotient(a, b)))
rule("divmod", lambda ys, a, b: ((0.0, 0.0), remainder(a, b, ys[0])))
rule("modf", lambda ys, x: (1.0, 0.0))
# The mantissa is x divided by a power of 2, so that the quotient is exact.
rule("frexp", lambda ys, x: (f.select(f.equal(x, 0), 1.0, ys[0] / x), 0.0))
rule("ldexp", lambda y, x, n: (f.ldexp(1.0, n), None))

# ------------------------------------------------------------------------------------------------ none

INTEGER = "it is a function of integers"
LOGICAL = "its result is true or false"
CORE = "it works on vectors, not on elements"

# NumPy's other functions, and why they have no derivative.
WITHOUT = {
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert"), INTEGER),
    **dict.fromkeys(("left_shift", "right_shift", "gcd", "lcm"), INTEGER),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), LOGICAL),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not", "signbit"), LOGICAL),
    **dict.fromkeys(("isfinite", "isinf", "isnan", "isnat"), LOGICAL),
    **dict.fromkeys(("matmul", "vecdot", "matvec", "vecmat"), CORE),
}
# Functions that have a row for real types only although they take complex numbers.
NOT_HOLOMORPHIC = {"sign": "x / abs(x) has no complex derivative"}
