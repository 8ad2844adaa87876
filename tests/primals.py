"""The functions of the derivative table by mpmath, to be differenced: a row for each, with where and how closely.

The bound is on the error of every partial derivative, in units in the last place of the exact one; for functions whose
derivative has zeros that SciPy itself does not meet to relative precision, in units of at least `floor`.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import scipy.special

EPS = 2.0**-53


@dataclass(frozen=True)
class Row:
    name: str
    primal: Callable[..., Any]
    points: Sequence[tuple[float, ...]]
    bound: float = 4.0
    floor: float = 0.0
    bits: int = 2800  # of the numbers that are differenced; their distance is 2^-(bits/5)

    @property
    def nin(self) -> int:
        return len(self.points[0])

    def slope(self, at: tuple[float, ...], argument: int, output: int) -> Any:
        """The derivative, by a central difference of the primal."""
        with mp.workprec(self.bits):
            h = mp.mpf(2) ** -(self.bits // 5) * (min(abs(mp.mpf(at[argument])), 1) or 1)
            sides = [self.primal(*(mp.mpf(x) + (k == argument) * s * h for k, x in enumerate(at))) for s in (1, -1)]
            right, left = (side[output] if isinstance(side, tuple) else side for side in sides)
            return (right - left) / (2 * h)


def both(*xs: float) -> list[float]:
    return [s * x for x in xs for s in (1, -1)]


def ones(*lists: list[float]) -> list[tuple[float, ...]]:
    """Points of one argument."""
    return [(x,) for x in itertools.chain(*lists)]


def grid(a: list[float], b: list[float]) -> list[tuple[float, ...]]:
    return list(itertools.product(a, b))


def positive(xs: list[float]) -> list[float]:
    return [x for x in xs if x > 0]


ORDINARY = both(0.001, 0.1, 0.3, 0.5, 0.77, 1.0, 1.3, 2.0, 3.7, 7.0)
LARGE = both(10.0, 33.3, 1e3, 12345.678, 1e8, 1e100, 1e300)
TINY = both(1e-310, 1e-300, 1e-100, 1e-20, 1e-8)
ALL = ORDINARY + LARGE + TINY
UNIT = [x for x in ORDINARY + TINY if abs(x) < 1] + both(1 - EPS, 1 - 1e-10, 0.99)
EXPONENTS = ORDINARY + TINY + both(10.0, 33.3, 100.0, 300.0)
SIDES = both(1e-300, 1e-8, 0.3, 1.0, 2.5, 1e3, 1e300)
GAUSS = ORDINARY + TINY + both(4.0, 5.5, 8.0, 10.3, 20.0, 26.0)
TAILS = [1e-300, 1e-100, 1e-20, 1e-5, 0.001, 0.1, 0.3, 0.5, 0.77, 0.99, 1 - 1e-10]
GAMMA = [1e-100, 1e-8, 0.001, 0.3, 0.77, 1.0, 1.46, 2.0, 7.0, 33.3, 100.0, -0.1, -0.7, -1.5, -3.7, -10.3]
BETA = [1e-8, 0.3, 1.0, 2.5, 10.0, 100.0]
ANGLES = both(0.001, 0.3, 7.0, 30.0, 60.0, 89.0, 91.0, 179.0)
BESSEL = [1e-8, 0.001, 0.5, 1.3, 2.0, 5.0, 10.0, 20.0, 31.9, 32.0, 50.0]
LOGS = both(1e-8, 0.3, 1.0, 20.0, 700.0, 1e5, 1e10)

# ------------------------------------------------------------------------------------------------ functions


def inverse(of: Callable[[Any], Any], guess: float, y: Any) -> Any:
    """Where `of` is y: Newton's method."""
    x = mp.mpf(guess)
    for _ in range(12):
        h = mp.mpf(2) ** (-mp.mp.prec // 3) * abs(x)
        x -= (of(x) - y) * 2 * h / (of(x + h) - of(x - h))
    return x


def ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def ndtri(p: Any) -> Any:
    if p > 0.5:
        return -ndtri(1 - p)
    # At 0.5 the inverse is 0, which Newton's method would take its step from.
    return inverse(ndtr, float(scipy.special.ndtri(float(p))) or -1e-3, p)


def erfcinv(q: Any) -> Any:
    return -erfcinv(2 - q) if q > 1 else inverse(mp.erfc, float(scipy.special.erfcinv(float(q))) or 1e-3, q)


def erfinv(x: Any) -> Any:
    return (
        inverse(mp.erf, float(scipy.special.erfinv(float(x))), x) if abs(x) < 0.5 else mp.sign(x) * erfcinv(1 - abs(x))
    )


def expit(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def log_gamma(x: Any) -> Any:
    return mp.loggamma(x) if x > 0 else mp.log(abs(mp.gamma(x)))


def beta_log(a: Any, b: Any) -> Any:
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def log_sum(a: Any, b: Any) -> Any:
    return max(a, b) + mp.log1p(mp.exp(-abs(a - b)))


def truncated(x: Any) -> Any:
    return mp.floor(x) if x > 0 else mp.ceil(x)


def degrees(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x * mp.pi / 180)


def scaled(bessel: Callable[..., Any], order: int, sign: int) -> Callable[[Any], Any]:
    return lambda x: bessel(order, x) * mp.exp(sign * abs(x))


def odd_root(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


# ------------------------------------------------------------------------------------------------ NumPy's

NUMPY = [
    Row("add", lambda a, b: a + b, grid(SIDES, SIDES), 0),
    Row("subtract", lambda a, b: a - b, grid(SIDES, SIDES), 0),
    Row("multiply", lambda a, b: a * b, grid(SIDES, SIDES), 0.5),
    Row("divide", lambda a, b: a / b, [p for p in grid(SIDES, SIDES) if 1e-290 < abs(p[0] / p[1]) < 1e290], 2),
    Row("positive", lambda x: x, ones(ALL), 0),
    Row("negative", lambda x: -x, ones(ALL), 0),
    Row("reciprocal", lambda x: 1 / x, [x for x in ones(ALL) if 1e-150 < abs(x[0]) < 1e150], 2),
    Row("square", lambda x: x * x, ones(ALL), 0.5),
    Row("deg2rad", lambda x: x * mp.pi / 180, ones(ALL), 0.5),
    Row("radians", lambda x: x * mp.pi / 180, ones(ALL), 0.5),
    Row("rad2deg", lambda x: x * 180 / mp.pi, ones(ALL), 0.5),
    Row("degrees", lambda x: x * 180 / mp.pi, ones(ALL), 0.5),
    Row("conjugate", lambda x: x, ones(ALL), 0),
    Row("sqrt", mp.sqrt, ones(positive(ALL)), 1),
    Row("cbrt", odd_root, ones(ALL)),
    Row(
        "power",
        mp.power,
        [
            (a, b)
            for a, b in grid([1e-300, 1e-8, 0.3, 1.0, 1 + 1e-10, 2.5, 1e100], both(1e-10, 0.1, 0.5, 1.0, 2.5, 100.0))
            if -290 < b * math.log10(a) < 290 and -290 < (b - 1) * math.log10(a) < 290
        ],
    ),
    Row("float_power", mp.power, grid([1e-8, 0.3, 1.0, 2.5], both(0.1, 1.0, 2.5, 10.0))),
    Row("exp", mp.exp, ones(EXPONENTS), 1),
    Row("exp2", lambda x: mp.mpf(2) ** x, ones(EXPONENTS), 2),
    Row("expm1", mp.expm1, ones(EXPONENTS), 1),
    Row("log", mp.log, ones(positive(ALL)), 1),
    Row("log2", lambda x: mp.log(x, 2), ones(positive(ALL)), 1),
    Row("log10", mp.log10, ones(positive(ALL)), 2),
    Row("log1p", lambda x: mp.log(1 + x), ones([x for x in ALL if x > -1], [-1 + EPS, -1 + 1e-10, -0.99]), 2),
    Row("logaddexp", log_sum, grid(LOGS, LOGS), bits=1400),
    Row(
        "logaddexp2",
        lambda a, b: log_sum(a * mp.log(2), b * mp.log(2)) / mp.log(2),
        [p for p in grid(LOGS, LOGS) if max(map(abs, p)) < 1e5],
        bits=1400,
    ),
    Row("sin", mp.sin, ones(ALL), 1),
    Row("cos", mp.cos, ones(ALL), 1),
    Row("tan", mp.tan, ones(ALL, [1.57, 1.5707963267948966])),
    Row("sinh", mp.sinh, ones(EXPONENTS), 2),
    Row("cosh", mp.cosh, ones(EXPONENTS), 2),
    Row("tanh", mp.tanh, ones(EXPONENTS)),
    Row("arcsin", mp.asin, ones(UNIT), 2),
    Row("arccos", mp.acos, ones(UNIT), 2),
    Row("arctan", mp.atan, [x for x in ones(ALL) if abs(x[0]) < 1e150], 2),
    Row("arctan2", mp.atan2, [p for p in grid(SIDES, SIDES) if p[1] > 0 or abs(p[0]) > 1e-290]),
    Row("arcsinh", mp.asinh, ones(ALL), 2),
    Row("arccosh", mp.acosh, ones([1 + 2 * EPS, 1 + 1e-10, 1.01, 1.3, 2.0, 10.0, 1e8, 1e100, 1e300])),
    Row("arctanh", mp.atanh, ones(UNIT), 2),
    Row("absolute", abs, ones(ALL), 0),
    Row("fabs", abs, ones(ALL), 0),
    Row("hypot", mp.hypot, grid([*SIDES, 1.7e308, 1e-310], [*SIDES, 1.7e308, 1e-310]), 2),
    Row("copysign", lambda a, b: abs(a) * mp.sign(b), grid(SIDES, SIDES), 0),
    Row("maximum", max, [p for p in grid(SIDES, SIDES) if p[0] != p[1]], 0),
    Row("minimum", min, [p for p in grid(SIDES, SIDES) if p[0] != p[1]], 0),
    Row("fmax", max, [p for p in grid(SIDES, SIDES) if p[0] != p[1]], 0),
    Row("fmin", min, [p for p in grid(SIDES, SIDES) if p[0] != p[1]], 0),
    Row("sign", mp.sign, ones(ALL), 0),
    Row("floor", mp.floor, ones([0.3, -0.3, 2.5, -7.9]), 0),
    Row("ceil", mp.ceil, ones([0.3, -0.3, 2.5, -7.9]), 0),
    Row("trunc", truncated, ones([0.3, -0.3, 2.5, -7.9]), 0),
    Row("rint", mp.nint, ones([0.3, -0.3, 2.4, -7.9]), 0),
    Row("heaviside", lambda a, b: mp.mpf(a > 0) if a else b, grid([-1.0, 0.5], [0.0, 2.5]), 0),
    Row("floor_divide", lambda a, b: mp.floor(a / b), [(5.3, 2.1), (-5.3, 2.1), (5.3, -2.1)], 0),
    Row("remainder", lambda a, b: a - b * mp.floor(a / b), [(5.3, 2.1), (-5.3, 2.1), (5.3, -2.1), (1e10, 3.3)], 0),
    Row("fmod", lambda a, b: a - b * truncated(a / b), [(5.3, 2.1), (-5.3, 2.1), (5.3, -2.1), (1e10, 3.3)], 0),
    Row("divmod", lambda a, b: (mp.floor(a / b), a - b * mp.floor(a / b)), [(5.3, 2.1), (-5.3, 2.1), (5.3, -2.1)], 0),
    Row("modf", lambda x: (x - truncated(x), truncated(x)), ones([0.3, -0.3, 2.4, -7.9]), 0),
]

# ------------------------------------------------------------------------------------------------ SciPy's

SCIPY = [
    Row("erf", mp.erf, ones(GAUSS), 2),
    Row("erfc", mp.erfc, ones(GAUSS), 2),
    Row("erfi", mp.erfi, ones(GAUSS), 2, bits=1400),
    Row(
        "erfcx",
        lambda x: mp.exp(x * x) * mp.erfc(x),
        ones(ORDINARY, TINY, [-26.0, -10.0, -5.0, 4.9, 5.1, 10.0, 50.0, 1e8, 1e100]),
        32,
    ),
    Row("erfinv", erfinv, ones(positive(UNIT), [-0.3, -0.99]), bits=700),
    Row("erfcinv", erfcinv, ones(TAILS, [1.0, 1.3, 1.9, 1.999, 2 - 1e-10]), bits=700),
    Row("ndtr", ndtr, ones(GAUSS, both(37.0)), 2),
    Row("ndtri", ndtri, ones(TAILS, [0.5001]), 8, bits=700),
    Row("log_ndtr", lambda x: mp.log(ndtr(x)), ones(GAUSS, both(37.0), [-1e3, -1e10, -1e100]), 8),
    Row("gamma", mp.gamma, ones(GAMMA, [170.0]), 16, bits=700),
    Row("rgamma", mp.rgamma, ones(GAMMA), 16, bits=700),
    Row("gammaln", log_gamma, ones(GAMMA, [1e8, 1e100]), 16, bits=1400),
    Row("loggamma", mp.loggamma, ones(positive(GAMMA), [1e8, 1e100]), bits=1400),
    Row("psi", mp.digamma, ones(GAMMA, [1e3, 1e8, -0.999, -1.001]), bits=700),
    Row("beta", lambda a, b: mp.exp(beta_log(a, b)), grid(BETA, BETA), 512, bits=700),  # as SciPy's beta
    Row("betaln", beta_log, grid([*BETA, 1e5, 1e10], [*BETA, 1e5, 1e10]), 8, bits=700),
    Row("expit", expit, ones(EXPONENTS, both(700.0))),
    Row("logit", lambda x: mp.log(x / (1 - x)), ones(positive(UNIT)), 2),
    Row("log_expit", lambda x: mp.log(expit(x)), ones(EXPONENTS, both(700.0))),
    Row("xlogy", lambda a, b: a * mp.log(b), grid(SIDES, positive(SIDES)), 1),
    Row("xlog1py", lambda a, b: a * mp.log(1 + b), grid(SIDES, [*positive(SIDES), -0.3, -1e-8, -1 + 1e-10]), 2),
    Row("entr", lambda x: -x * mp.log(x), ones([1e-300, 1e-8, 0.01, 0.3, 0.36, 0.37, 0.5, 1.0, 2.5, 1e300]), 2),
    Row("rel_entr", lambda a, b: a * mp.log(a / b), grid(positive(SIDES), positive(SIDES)), 8),
    Row(
        "kl_div",
        lambda a, b: a * mp.log(a / b) - a + b,
        [p for p in grid(positive(SIDES), positive(SIDES)) if p[0] != p[1]] + [(1.0, 1 + 1e-8), (2.5, 2.4)],
        2,
        bits=4200,
    ),
    Row("exprel", lambda x: mp.expm1(x) / x, ones(ORDINARY, TINY, both(1.01, 50.0, 300.0), [700.0, -1e3, -1e10])),
    Row("exp10", lambda x: mp.mpf(10) ** x, ones(ORDINARY, TINY, both(33.3, 200.0))),
    Row("cosm1", lambda x: mp.cos(x) - 1, ones(ORDINARY, TINY), 1),
    Row("sindg", degrees(mp.sin), ones(ANGLES), 2),
    Row("cosdg", degrees(mp.cos), ones(ANGLES), 2),
    Row("tandg", degrees(mp.tan), ones(ANGLES)),
    Row("cotdg", degrees(mp.cot), ones(ANGLES)),
    Row("expi", mp.ei, ones(ORDINARY, both(10.0, 50.0)), 2, bits=700),
    Row("exp1", mp.e1, ones(positive(ORDINARY), [10.0, 50.0]), 2, bits=700),
    Row("sici", lambda x: (mp.si(x), mp.ci(abs(x))), ones(ORDINARY, both(33.3)), 2, bits=700),
    Row("shichi", lambda x: (mp.shi(x), mp.chi(abs(x))), ones(ORDINARY, both(33.3)), 2, bits=700),
    Row("round", mp.nint, ones([0.3, -0.3, 2.4, -7.9]), 0),
    Row("j0", lambda x: mp.besselj(0, x), ones(both(*BESSEL)), 64, floor=0.1, bits=700),
    Row("j1", lambda x: mp.besselj(1, x), ones(both(*BESSEL)), 64, floor=0.1, bits=700),
    Row("y0", lambda x: mp.bessely(0, x), ones(BESSEL), 64, floor=0.1, bits=350),
    Row("y1", lambda x: mp.bessely(1, x), ones(BESSEL), 64, floor=0.1, bits=350),
    Row("i0", lambda x: mp.besseli(0, x), ones(both(*BESSEL)), 8, bits=700),
    Row("i1", lambda x: mp.besseli(1, x), ones(both(*BESSEL)), 8, bits=700),
    Row("k0", lambda x: mp.besselk(0, x), ones(BESSEL[::2]), bits=200),
    Row("k1", lambda x: mp.besselk(1, x), ones(BESSEL[::2]), bits=200),
    Row("i0e", scaled(mp.besseli, 0, -1), ones(both(*BESSEL), [1e4]), 128, bits=700),
    Row("i1e", scaled(mp.besseli, 1, -1), ones(both(*BESSEL), [1e4]), 128, bits=700),
    Row("k0e", scaled(mp.besselk, 0, 1), ones(BESSEL[::2]), 64, bits=200),
    Row("k1e", scaled(mp.besselk, 1, 1), ones(BESSEL[::2]), 64, bits=200),
    Row("jv", mp.besselj, grid([0.0, 0.5, 2.3], [0.1, 1.0, 3.7, 10.0]), 512, floor=0.1, bits=700),
    Row("yv", mp.bessely, grid([0.0, 0.5, 2.3], [0.1, 1.0, 3.7, 10.0]), 512, floor=0.1, bits=350),
    Row("iv", mp.besseli, grid([0.0, 0.5, 2.3], [0.1, 1.0, 3.7, 10.0]), 16, bits=700),
    Row("kv", mp.besselk, grid([0.0, 0.5, 2.3], [0.1, 1.0, 3.7, 10.0]), 16, bits=350),
    Row("kn", mp.besselk, grid([0.0, 1.0, 3.0], [0.1, 1.0, 3.7]), 16, bits=350),
    Row("yn", mp.bessely, grid([0.0, 1.0, 3.0], [0.1, 1.0, 3.7]), 64, floor=0.1, bits=350),
]
ROWS = {row.name: row for row in NUMPY + SCIPY}
