"""The derivatives of SciPy's special functions: one row each. `tmapad._derivatives` says how a row is written.

SciPy is not imported: whoever passes one of its ufuncs has done so. Numbers of equations are those of NIST's Digital
Library of Mathematical Functions, https://dlmf.nist.gov.
"""

import math

from tmapad._derivatives import Node, Operand, f, horner, rule, where_defined

SQRT_PI = math.sqrt(math.pi)
SQRT_2PI = math.sqrt(2 * math.pi)


def at_0(x: Node, value: float, elsewhere: Operand) -> Node:
    """The value at 0, and another elsewhere."""
    return f.select(f.equal(x, 0), value, elsewhere)


def at_infinity(x: Node, value: float, elsewhere: Operand) -> Node:
    """The value at both infinities, and another elsewhere."""
    return f.select(f.isinf(x), value, elsewhere)


# ------------------------------------------------------------------------------------------------ error functions


def exp_of_square(x: Node, scale: float) -> Node:
    """``exp(scale x^2)`` for a scale of 1, 0.5, -0.5 or -1. What rounding x^2 lost is made good: exp would feel it."""
    x = f.minimum(f.absolute(x), 40.0)  # beyond, the result is 0 or infinite
    high = f.rint(128 * x) * (1 / 128)  # its square is exact
    low = x - high
    square = x * x
    lost = (high * high - square) + 2 * high * low + low * low
    return f.exp(scale * square) * (1 + scale * lost)


def erfcx(y: Node, x: Node) -> Node:
    """``2 x erfcx(x) - 2/sqrt(pi)``; for large x, where that cancels, by the continued fraction 7.9.2."""
    z = f.maximum(x, 5.0)
    fraction: Operand = 0.0
    for n in range(20, 0, -1):
        fraction = (n / 2) / (z + fraction)
    return f.select(x < 5, 2 * x * y - 2 / SQRT_PI, (-2 / SQRT_PI) * (fraction / (z + fraction)))


def inverse(y: Node, tail: Operand, scale: float, slope: float) -> Node:
    """``slope exp(scale y^2)``, where y is the point beyond which (on both sides) there is the probability `tail`.

    The exponential magnifies the rounding of y. One step of Newton's method towards the tail, which is known better,
    tells what was lost.
    """
    size = f.absolute(y)
    e = exp_of_square(y, scale)
    newton = scale * slope * (f.erfcx(math.sqrt(scale) * size) - tail * e)
    lost = 2 * scale * size * newton
    return slope * e * (1 + f.select(f.isfinite(lost), lost, 0.0))


def log_ndtr(y: Node, x: Node) -> Node:
    """The density over the distribution function."""
    mills = f.erfcx(math.sqrt(0.5) * f.absolute(x))
    density = exp_of_square(x, -0.5)
    return math.sqrt(2 / math.pi) * f.select(x < 0, 1 / mills, density / (2 - mills * density))


rule(
    "erf",
    lambda y, x: (2 / SQRT_PI) * exp_of_square(x, -1.0),
    complex_=lambda y, x: (2 / SQRT_PI) * f.exp(-(x * x)),
)
rule(
    "erfc",
    lambda y, x: (-2 / SQRT_PI) * exp_of_square(x, -1.0),
    complex_=lambda y, x: (-2 / SQRT_PI) * f.exp(-(x * x)),
)
rule(
    "erfi",
    lambda y, x: (2 / SQRT_PI) * exp_of_square(x, 1.0),
    complex_=lambda y, x: (2 / SQRT_PI) * f.exp(x * x),
)
rule("erfcx", erfcx)
rule("erfinv", lambda y, x: inverse(y, 1 - f.absolute(x), 1.0, SQRT_PI / 2))
rule("erfcinv", lambda y, x: -inverse(y, f.select(x < 1, x, 2 - x), 1.0, SQRT_PI / 2))
rule(
    "ndtr",
    lambda y, x: (1 / SQRT_2PI) * exp_of_square(x, -0.5),
    complex_=lambda y, x: (1 / SQRT_2PI) * f.exp(-0.5 * (x * x)),
)
rule("ndtri", lambda y, x: inverse(y, 2 * f.select(x < 0.5, x, 1 - x), 0.5, SQRT_2PI))
rule("log_ndtr", log_ndtr)

# ------------------------------------------------------------------------------------------------ gamma functions

# Bernoulli's numbers B2, B4, ..., B16, as fractions.
BERNOULLI = ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
SHIFT = 10  # from which on their series is exact in double precision


def trigamma(x: Node) -> Node:
    """The derivative of the digamma function: recurrence 5.15.5, series 5.15.8, reflection 5.15.6."""
    z = f.select(x < 0, 1 - x, x)
    t = 1 / (z + float(SHIFT))
    total = t * (1 + t * (0.5 + t * horner(t * t, [a / b for a, b in BERNOULLI])))
    for k in reversed(range(SHIFT)):
        total = 1 / ((z + float(k)) * (z + float(k))) + total
    reflected = math.pi / f.sin(math.pi * (x - f.rint(x)))
    return f.select(x < 0, reflected * reflected - total, total)


def digamma_difference(a: Node, b: Node, total: Node) -> Node:
    """``digamma(a + b) - digamma(a)``, given the sum: for positive a and b a sum of positive terms (5.5.2, 5.11.2)."""
    near, far = a + float(SHIFT), total + float(SHIFT)
    u, v = 1 / (near * near), 1 / (far * far)
    # u^n - v^n is u - v times a sum of products, which grows by one term with each n.
    terms: Operand = 1.0
    power: Operand = 1.0
    series: Operand = 0.0
    for n, (numerator, denominator) in enumerate(BERNOULLI, start=1):
        series = series + numerator / (2 * n * denominator) * terms
        power = power * v
        terms = terms * u + power
    sum_ = f.log1p(b / near) + b / near / far * (0.5 + (near + far) / near / far * series)
    for k in reversed(range(SHIFT)):
        sum_ = sum_ + b / ((a + float(k)) * (total + float(k)))
    return f.select((a > 0) & (b > 0), sum_, f.psi(total) - f.psi(a))


def betaln(a: Node, b: Node) -> tuple[Node, Node]:
    """``digamma(a) - digamma(a + b)`` and the same for b."""
    total = a + b
    return -digamma_difference(a, b, total), -digamma_difference(b, a, total)


def rgamma(y: Node, x: Node) -> Node:
    """``-digamma(x) / gamma(x)``; at the poles of both, -n, it is (-1)^n n!."""
    at_poles = (1 - 2 * f.fmod(-x, 2.0)) * f.gamma(1 - x)
    return f.select(f.equal(y, 0) & (x <= 0), at_poles, -y * f.psi(x))


rule("gamma", lambda y, x: y * f.psi(x), holomorphic=True)
rule("rgamma", rgamma, complex_=lambda y, x: -y * f.psi(x))
rule("gammaln", lambda y, x: f.psi(x))
rule("loggamma", lambda y, x: where_defined(x >= 0, f.psi(f.absolute(x))), complex_=lambda y, x: f.psi(x))
rule("psi", lambda y, x: trigamma(x))
rule("beta", lambda y, a, b: tuple(y * d for d in betaln(a, b)))
rule("betaln", lambda y, a, b: betaln(a, b))

# ------------------------------------------------------------------------------------------------ logistic, entropy


def expit(y: Node, x: Node) -> Node:
    """``expit(x) expit(-x)``."""
    e = f.exp(-f.absolute(x))
    return e / ((1 + e) * (1 + e))


def log_ratio(a: Node, b: Node) -> Node:
    """``log(a / b)``, good near 1 too, and where the quotient overflows."""
    q = a / b
    near = (q > 0.5) & (q < 2)
    ordinary = (q > 1e-30) & (q < 1e30)
    return f.select(near, f.log1p((a - b) / b), f.select(ordinary, f.log(q), f.log(a) - f.log(b)))


def for_probabilities(a: Node, b: Node, *partials: Node) -> tuple[Node, ...]:
    """Partials of what is defined for a and b from 0 on."""
    return tuple(where_defined((a >= 0) & (b >= 0), partial) for partial in partials)


def entr(y: Node, x: Node) -> Node:
    """``-1 - log(x)``, good near 1/e too, where it is 0."""
    # 1/e in two parts, of which the first is exact in float32: so is its difference from x.
    near = f.log1p(((x - 0.3678794503211975) + 9.14975518817010123e-09) * math.e)
    return -f.select((x > 0.25) & (x < 0.5), near, 1 + f.log(x))


def exprel(y: Node, x: Node) -> Node:
    """``(e^x - exprel(x)) / x``, and its Taylor series near 0."""
    z = f.maximum(f.minimum(x, 1.0), -1.0)
    series = horner(z, [(n + 1) / math.factorial(n + 2) for n in range(19)])
    left, right = (f.exp(x) - y) / x, y * (1 - 1 / x) + 1 / x
    return f.select(f.absolute(x) < 1, series, f.select(x < 0, left, right))


rule("expit", expit)
rule("logit", lambda y, x: where_defined((x >= 0) & (x <= 1), 1 / (f.absolute(x) * (1 - x))))
rule("log_expit", lambda y, x: f.expit(-x))
rule(
    "xlogy",
    lambda y, a, b: (f.log(b), f.select(f.equal(a, 0), 0.0, where_defined(b >= 0, a / f.absolute(b)))),
    complex_=lambda y, a, b: (f.log(b), f.select(f.equal(a, 0), 0.0, a / b)),
)
rule(
    "xlog1py",
    lambda y, a, b: (f.log1p(b), f.select(f.equal(a, 0), 0.0, where_defined(b >= -1, a / (1 + b)))),
    # NumPy's complex log1p loses digits near 0; SciPy's, which xlog1py uses, does not.
    complex_=lambda y, a, b: (f.xlog1py(1.0, b), f.select(f.equal(a, 0), 0.0, a / (1 + b))),
)
rule("entr", entr)
rule("rel_entr", lambda y, a, b: for_probabilities(a, b, log_ratio(a, b) + 1, -a / f.absolute(b)))
rule(
    "kl_div",
    lambda y, a, b: for_probabilities(a, b, log_ratio(a, b), f.select(f.isinf(b), 1.0, (b - a) / f.absolute(b))),
)
rule("exprel", exprel)
rule("exp10", lambda y, x: math.log(10.0) * y)

# ------------------------------------------------------------------------------------------------ circles, integrals

DEGREE = math.pi / 180
LARGE = 1e30  # where exp and its kin are 0 or infinite already, so that a quotient by more is that by this


rule("cosm1", lambda y, x: -f.sin(x))
rule("sindg", lambda y, x: DEGREE * f.cosdg(x))
rule("cosdg", lambda y, x: -DEGREE * f.sindg(x))
rule("tandg", lambda y, x: DEGREE / (f.cosdg(x) * f.cosdg(x)))
rule("cotdg", lambda y, x: -DEGREE / (f.sindg(x) * f.sindg(x)))
rule("expi", lambda y, x: f.exp(x) / f.minimum(x, LARGE), complex_=lambda y, x: f.exp(x) / x)
rule("exp1", lambda y, x: where_defined(x >= 0, -f.exp(-x) / f.absolute(x)), complex_=lambda y, x: -f.exp(-x) / x)
rule(
    "sici",
    lambda ys, x: (at_infinity(x, 0.0, at_0(x, 1.0, f.sin(x) / x)), at_infinity(x, 0.0, f.cos(x) / x)),
    complex_=lambda ys, x: (at_0(x, 1.0, f.sin(x) / x), f.cos(x) / x),
)
rule(
    "shichi",
    lambda ys, x: (
        at_0(x, 1.0, f.sinh(f.absolute(x)) / f.minimum(f.absolute(x), LARGE)),
        f.cosh(x) / f.maximum(f.minimum(x, LARGE), -LARGE),
    ),
    complex_=lambda ys, x: (at_0(x, 1.0, f.sinh(x) / x), f.cosh(x) / x),
)
rule("round", lambda y, x: 0.0)

# ------------------------------------------------------------------------------------------------ Bessel functions

FAR = 32.0  # from which on the series below is exact in double precision


def scaled(order: int, sign: int, x: Node, near: Node) -> Node:
    """The derivative of ``exp(-x) I(x)`` or ``exp(x) K(x)``: `near`, but where that cancels, that of 10.40.1, 10.40.2.

    The series is ``c x^(-1/2) (1 + a1 s/x + a2 (s/x)^2 + ...)``; the sign s is -1 for I and 1 for K.
    """
    coefficients, numerator, denominator = [], 1, 1  # of a1, a2, ...: exact, and divided at the end
    for k in range(19):
        coefficients.append(numerator * (2 * k + 1) * sign**k / (2 * denominator))
        numerator *= 4 * order**2 - (2 * k + 1) ** 2
        denominator *= 8 * (k + 1)
    t = 1 / f.maximum(f.absolute(x), FAR)
    c = math.sqrt(math.pi / 2) if sign > 0 else 1 / SQRT_2PI
    far = -c * t * f.sqrt(t) * horner(t, coefficients)
    # The derivative of I0, an even function, is odd; K is for positive x only.
    far = far * f.sign(x) if sign < 0 and order == 0 else far
    return f.select(f.absolute(x) < FAR, near, f.select(x < 0, math.nan, far) if sign > 0 else far)


def between_orders(name: str, sign: int) -> None:
    """Half the difference (10.6.1) or sum (10.29.1) of the neighbouring orders; none is known in the order."""
    b = getattr(f, name)
    outer = -0.5 if name.startswith("k") else 0.5

    def slope(y: Node, v: Node, x: Node) -> tuple[None, Node]:
        below, above = b(v - 1, x), b(v + 1, x)
        return None, outer * (below + above if sign > 0 else below - above)

    rule(name, slope, holomorphic=True)


rule("j0", lambda y, x: -f.j1(x))
rule("j1", lambda y, x: at_0(x, 0.5, f.j0(x) - y / x))
rule("y0", lambda y, x: -f.y1(x))
rule("y1", lambda y, x: at_0(x, math.inf, f.y0(x) - y / x))
rule("i0", lambda y, x: f.i1(x))
# Beyond where I0 and I1 overflow, so does the derivative.
rule("i1", lambda y, x: at_0(x, 0.5, f.select(f.isinf(y), f.absolute(y), f.i0(x) - y / x)))
rule("k0", lambda y, x: -f.k1(x))
rule("k1", lambda y, x: -(f.k0(x) + y / f.absolute(x)))
rule("i0e", lambda y, x: scaled(0, -1, x, f.i1e(x) - f.sign(x) * y))
rule("i1e", lambda y, x: scaled(1, -1, x, at_0(x, 0.5, f.i0e(x) - f.sign(x) * y - y / x)))
rule("k0e", lambda y, x: scaled(0, 1, x, at_0(x, -math.inf, y - f.k1e(x))))
rule("k1e", lambda y, x: scaled(1, 1, x, at_0(x, -math.inf, y - f.k0e(x) - y / x)))
for _name in ("jv", "yv", "yn", "hankel1", "hankel2"):
    between_orders(_name, -1)
for _name in ("iv", "kv", "kn"):
    between_orders(_name, 1)
