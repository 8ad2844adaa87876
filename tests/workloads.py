"""Plain Python functions of the kinds that people map, with loops and branches, none of them with a derivative.

Each is to be differentiated as it stands, by tmapad and by others: `retold` runs the same code with another `math`,
on numbers of another kind.
"""

import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# ------------------------------------------------------------------------------------- iterations that converge


def kepler(M: float, e: float) -> float:
    E = M
    for _ in range(50):
        d = (E - e * math.sin(E) - M) / (1.0 - e * math.cos(E))
        E = E - d
        if abs(d) < 1e-14:
            break
    return E


def lambert_w(x: float) -> float:
    """Where w exp(w) is x, by Halley's method."""
    w = math.log1p(x)
    for _ in range(30):
        e = math.exp(w)
        f = w * e - x
        step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0))
        w -= step
        if abs(step) <= 1e-15 * abs(w):
            return w
    return w


def normal_cdf(x: float) -> float:
    return 0.5 * (1.0 + math.erf(x / 1.4142135623730951))


def black_scholes(S: float, K: float, T: float, r: float, sigma: float) -> float:
    """Price of a call option."""
    spread = sigma * math.sqrt(T)
    d1 = (math.log(S / K) + (r + 0.5 * sigma * sigma) * T) / spread
    return S * normal_cdf(d1) - K * math.exp(-r * T) * normal_cdf(d1 - spread)


def implied_volatility(premium: float, K: float) -> float:
    """The volatility at which a call on a share of 1, a year ahead, costs its intrinsic value and this premium."""
    price = max(1.0 - K, 0.0) + premium
    sigma = 1.0
    step = 1.0
    while abs(step) > 1e-12:
        d1 = -math.log(K) / sigma + 0.5 * sigma
        vega = math.exp(-0.5 * d1 * d1) / 2.5066282746310002
        step = (black_scholes(1.0, K, 1.0, 0.0, sigma) - price) / vega
        sigma -= step
    return sigma


def bisection(a: float) -> float:
    """Where x^3 + x is a: halving an interval finds it, and a step of Newton's method knows how it moves with a."""
    low, high = min(a, 0.0), max(a, 0.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle * middle * middle + middle > a:
            high = middle
        else:
            low = middle
    return low - (low * low * low + low - a) / (3.0 * low * low + 1.0)


def elliptic_k(m: float) -> float:
    """The complete elliptic integral, by the arithmetic-geometric mean."""
    a, b = 1.0, math.sqrt(1.0 - m)
    while abs(a - b) > 1e-15 * a:
        a, b = 0.5 * (a + b), math.sqrt(a * b)
    return 0.5 * math.pi / a


def root(x: float) -> float:
    """The cube root, by Newton's method."""
    y = x
    while abs(y * y * y - x) > 1e-15 * x:
        y -= (y * y * y - x) / (3 * y * y)
    return y


# ------------------------------------------------------------------------------ iterations, sums, recurrences


def escape(x: float, y: float) -> float:
    """The potential outside of the Mandelbrot set."""
    u = v = 0.0
    scale = 1.0
    for _ in range(40):
        u, v = u * u - v * v + x, 2.0 * u * v + y
        scale *= 0.5
        if u * u + v * v > 1e6:
            return scale * math.log(u * u + v * v)
    return 0.0


def logistic_map(r: float, x: float) -> float:
    for _ in range(12):
        x = r * x * (1.0 - x)
    return x


def continued_fraction(x: float) -> float:
    """tanh x = x / (1 + x^2 / (3 + x^2 / (5 + ...)))."""
    below = 41.0
    for odd in range(39, 0, -2):
        below = odd + x * x / below
    return x / below


def series(x: float) -> float:
    """The Bessel function J0, with as many terms as it takes."""
    total = term = 1.0
    k = 0
    while abs(term) > 1e-18 * abs(total):
        k += 1
        term *= -x * x / (4.0 * k * k)
        total += term
    return total


def horner(x: float, a: float, b: float, c: float) -> float:
    y = 0.0
    for coefficient in (a, b, c, a * b, 1.0):
        y = y * x + coefficient
    return y


def power(x: float) -> float:
    """x^13 by squaring."""
    n, y = 13, 1.0
    while n:
        if n % 2 == 1:
            y *= x
        x *= x
        n //= 2
    return y


def swing(angle: float, speed: float) -> tuple[float, float]:
    return speed, -9.81 * math.sin(angle)


def pendulum(angle: float, speed: float, h: float) -> float:
    """The angle after 8 steps of Runge and Kutta's method."""
    for _ in range(8):
        a1, b1 = swing(angle, speed)
        a2, b2 = swing(angle + 0.5 * h * a1, speed + 0.5 * h * b1)
        a3, b3 = swing(angle + 0.5 * h * a2, speed + 0.5 * h * b2)
        a4, b4 = swing(angle + h * a3, speed + h * b3)
        angle += h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4)
        speed += h / 6.0 * (b1 + 2.0 * b2 + 2.0 * b3 + b4)
    return angle


# ------------------------------------------------------------------------------------------- formulas, branches


def planck(wavelength: float, T: float) -> float:
    """Spectral radiance of a black body, in W/m^3/sr."""
    return 1.1910429723971884e-16 / wavelength**5 / math.expm1(0.014387768775039337 / (wavelength * T))


KNOTS = (0.0, 0.5, 0.75, 1.5, 2.25, 4.0)
VALUES = (1.0, 0.25, -1.0, 2.0, 2.5, 0.0)


def table(x: float) -> float:
    """Between points of a table, found by binary search, a parabola that has a bend at each of them."""
    low, high = 0, 5
    while high - low > 1:
        middle = (low + high) // 2
        if KNOTS[middle] <= x:
            low = middle
        else:
            high = middle
    t = (x - KNOTS[low]) / (KNOTS[high] - KNOTS[low])
    return VALUES[low] * (1.0 - t) + VALUES[high] * t + t * (1.0 - t) * x


def haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    s, t = math.sin(0.5 * (lat2 - lat1)), math.sin(0.5 * (lon2 - lon1))
    return 2.0 * math.asin(math.sqrt(s * s + math.cos(lat1) * math.cos(lat2) * t * t))


def bearing(lat: float, lon: float) -> float:
    return math.atan2(math.sin(lon), math.tan(lat) - 0.3 * math.cos(lon))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def sawtooth(x: float, period: float) -> float:
    """A wave with a side that is cut off: where nothing depends on x any more."""
    return min(x % period, 0.8 * period) ** 2 - abs(x)


def beta_log(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def damped(a: float, x: float) -> float:
    return a * math.sin(x) * math.exp(-a * x)


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def amplification(w: float, zeta: float) -> float:
    """Of an oscillator that is driven: complex on the way, real at both ends."""
    return abs(1.0 / (1.0 - w * w + 2j * zeta * w))


def moebius(z: complex) -> complex:
    return (z + 2) / (z - 3j)


def julia(z: complex, c: complex) -> complex:
    for _ in range(4):
        z = z * z + c
    return z


def distance(z: complex) -> float:
    """A real function of a complex number."""
    return abs(z * z + 0.3) + (z * z).real * z.imag


# -------------------------------------------------------------------------------------------------- the table

# A reference: from the value and the arguments, in numbers of any precision, with a module like math; one number for
# each argument.
Formula = Callable[..., tuple[Any, ...]]


def kepler_formula(E: Any, M: Any, e: Any, math: Any) -> tuple[Any, ...]:
    slope = 1 - e * math.cos(E)
    return 1 / slope, math.sin(E) / slope


def lambert_formula(w: Any, x: Any, math: Any) -> tuple[Any, ...]:
    return (1 / (math.exp(w) * (1 + w)),)


def volatility_formula(sigma: Any, premium: Any, K: Any, math: Any) -> tuple[Any, ...]:
    d1 = -math.log(K) / sigma + sigma / 2
    vega = math.exp(-d1 * d1 / 2) / math.sqrt(2 * math.pi)
    exercised = (1 + math.erf((d1 - sigma) / math.sqrt(2))) / 2  # minus the slope of the price in K
    return 1 / vega, (exercised - (1 if K < 1 else 0)) / vega


def bisection_formula(x: Any, a: Any, math: Any) -> tuple[Any, ...]:
    return (1 / (3 * x * x + 1),)


def root_formula(y: Any, x: Any, math: Any) -> tuple[Any, ...]:
    return (1 / (3 * y * y),)


def fraction_formula(y: Any, x: Any, math: Any) -> tuple[Any, ...]:
    return (1 - y * y,)


@dataclass(frozen=True)
class Workload:
    """A function, where it is defined, and how closely its derivatives must be met.

    `bound` is on the error of a partial derivative, in units of 2^-53 of the derivative, or of its median over the
    domain where that is larger.
    """

    f: Callable[..., Any]
    domain: tuple[tuple[float, float], ...]
    bound: float
    formula: Formula | None = None
    complex: bool = False

    @property
    def name(self) -> str:
        return self.f.__name__


UNIT = (0.05, 0.95)
WIDE = (-3.0, 3.0)
POSITIVE = (0.2, 3.0)

# Large bounds: `root` stops when its value is right, and the derivative is a step behind; `escape` and `logistic_map`
# are chaotic, and amplify what is rounded.
WORKLOADS = (
    Workload(kepler, ((-3.0, 3.0), (0.0, 0.7)), 10, kepler_formula),
    Workload(lambert_w, ((0.05, 20.0),), 10, lambert_formula),
    Workload(implied_volatility, ((0.05, 0.3), (0.8, 1.2)), 30, volatility_formula),
    Workload(bisection, (WIDE,), 10, bisection_formula),
    Workload(elliptic_k, (UNIT,), 15),
    Workload(root, (POSITIVE,), 2000, root_formula),
    Workload(escape, ((-2.0, 0.6), (-1.2, 1.2)), 2000),
    Workload(logistic_map, ((2.0, 3.9), UNIT), 8000),
    Workload(continued_fraction, (WIDE,), 50, fraction_formula),
    Workload(series, (WIDE,), 20),
    Workload(horner, (WIDE,) * 4, 10),
    Workload(power, (POSITIVE,), 15),
    Workload(pendulum, ((-2.0, 2.0), (-1.0, 1.0), (0.02, 0.1)), 25),
    Workload(planck, ((2e-7, 3e-6), (1000.0, 6000.0)), 50),
    Workload(black_scholes, ((0.5, 2.0), (0.5, 2.0), (0.1, 2.0), (0.0, 0.1), (0.1, 0.6)), 80),
    Workload(table, ((0.0, 4.0),), 12),
    Workload(haversine, ((-1.5, 1.5), WIDE, (-1.5, 1.5), WIDE), 300),
    Workload(bearing, ((-1.5, 1.5), WIDE), 40),
    Workload(softplus, (WIDE,), 6),
    Workload(sawtooth, (WIDE, POSITIVE), 4),
    Workload(beta_log, (POSITIVE, POSITIVE), 15),
    Workload(damped, (POSITIVE, WIDE), 20),
    Workload(logistic, (WIDE,), 8),
    Workload(amplification, (POSITIVE, UNIT), 80),
    Workload(moebius, (WIDE,), 10, complex=True),
    Workload(julia, ((-0.8, 0.8), (-0.8, 0.8)), 40, complex=True),
    Workload(distance, (WIDE,), 10, complex=True),
)


def retold(f: Callable[..., Any], math: Any) -> Callable[..., Any]:
    """The same code with another module in the place of `math`, also in the functions of this module that it calls."""
    names = {"math": math, "KNOTS": KNOTS, "VALUES": VALUES}
    for name in f.__code__.co_names:
        if isinstance(globals().get(name), types.FunctionType):
            names[name] = retold(globals()[name], math)
    return types.FunctionType(f.__code__, names)
