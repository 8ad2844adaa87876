"""Python's `math` in functions whose derivative is automatic: every name of it, against Python and dual numbers."""

import cmath
import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from against_dual import assert_close, assert_derivatives

from tmapad import rrule, tmap

X = np.array([0.3, 1.7, 2.5, 0.75, 3.9, 1.2])
Y = np.array([1.2, 0.7, 0.4, 3.1, 0.9, 2.2])
inf, nan = math.inf, math.nan

# By name of what `math` has: functions of x and y.
ROWS: dict[str, list[Callable[[float, float], Any]]] = {
    "acos": [lambda x, y: math.acos(x / 4) * y],
    "acosh": [lambda x, y: math.acosh(x + 1) * y],
    "asin": [lambda x, y: math.asin(x / 4) * y],
    "asinh": [lambda x, y: math.asinh(x) * y],
    "atan": [lambda x, y: math.atan(x) * y],
    "atan2": [lambda x, y: math.atan2(x, y)],
    "atanh": [lambda x, y: math.atanh(x / 4) * y],
    "cbrt": [lambda x, y: math.cbrt(x) * y, lambda x, y: math.cbrt(-x)],
    "ceil": [lambda x, y: math.ceil(x) * y, lambda x, y: math.ceil(x) // 2 + x],
    "comb": [lambda x, y: math.comb(int(4 * x), 3) * y, lambda x, y: math.comb(3, int(x) + 2) + x],
    "copysign": [lambda x, y: math.copysign(x, y - 1)],
    "cos": [lambda x, y: math.cos(x) * y],
    "cosh": [lambda x, y: math.cosh(x) * y],
    "degrees": [lambda x, y: math.degrees(x) * y],
    "dist": [
        lambda x, y: math.dist((x, y), (y, 2.0)),
        lambda x, y: math.dist((x,), (y,)) * x,
        lambda x, y: math.dist((x, 1, y), (3, y, x)),
        lambda x, y: math.dist((), ()) + x,
    ],
    "e": [lambda x, y: math.e * x],
    "erf": [lambda x, y: math.erf(x) * y],
    "erfc": [lambda x, y: math.erfc(x) * y],
    "exp": [lambda x, y: math.exp(x) * y],
    "exp2": [lambda x, y: math.exp2(x) * y],
    "expm1": [lambda x, y: math.expm1(x) * y],
    "fabs": [lambda x, y: math.fabs(x - 1) * y],
    "factorial": [lambda x, y: math.factorial(int(5 * x)) * y],
    "floor": [lambda x, y: math.floor(x) * y, lambda x, y: math.floor(x) // 2 + x],
    "fmod": [lambda x, y: math.fmod(x, y), lambda x, y: math.fmod(-x, y)],
    "frexp": [lambda x, y: math.frexp(x), lambda x, y: math.frexp(x)[1] * y],
    "fsum": [
        lambda x, y: math.fsum((x, y, x * y)),
        lambda x, y: math.fsum((x, 1e20, y, 3, -1e20)),
        lambda x, y: math.fsum(()) + x,
        lambda x, y: math.fsum((x,)),
    ],
    "gamma": [lambda x, y: math.gamma(x) * y],
    "gcd": [lambda x, y: math.gcd(12, int(4 * x)) * y, lambda x, y: math.gcd(60, int(4 * x), 4) * y],
    "hypot": [
        lambda x, y: math.hypot() + x,
        lambda x, y: math.hypot(x - 1) * y,
        lambda x, y: math.hypot(x, y),
        lambda x, y: math.hypot(x, y, 2),
        lambda x, y: math.hypot(x, y, x * y, 0.1, y),
    ],
    "inf": [lambda x, y: x if x < math.inf else y],
    "isclose": [
        lambda x, y: math.isclose(x, y) * x + y,
        lambda x, y: y if math.isclose(x, y, rel_tol=0.6) else x,
        lambda x, y: x * math.isclose(x, y, abs_tol=1, rel_tol=0.0) + y * math.isclose(2, 2),
    ],
    "isfinite": [lambda x, y: x if math.isfinite(y) else y],
    "isinf": [lambda x, y: x if math.isinf(y) else y],
    "isnan": [lambda x, y: x if math.isnan(y) else y],
    "isqrt": [lambda x, y: math.isqrt(int(9 * x)) * y],
    "lcm": [
        lambda x, y: math.lcm(6, int(4 * x)) * y,
        lambda x, y: math.lcm(4, -6, int(x)) * y + math.lcm() + math.lcm(-3) + math.gcd() + math.gcd(-3),
    ],
    "ldexp": [lambda x, y: math.ldexp(x, 3) * y, lambda x, y: math.ldexp(x, int(y))],
    "lgamma": [lambda x, y: math.lgamma(x) * y],
    "log": [lambda x, y: math.log(x) * y, lambda x, y: math.log(x, y + 2)],
    "log10": [lambda x, y: math.log10(x) * y],
    "log1p": [lambda x, y: math.log1p(x) * y],
    "log2": [lambda x, y: math.log2(x) * y],
    "modf": [lambda x, y: math.modf(x), lambda x, y: math.modf(-x)[0] * y],
    "nan": [lambda x, y: y if math.isnan(math.nan) else x],
    "nextafter": [lambda x, y: math.nextafter(x, y) * y],
    "perm": [lambda x, y: math.perm(int(4 * x), 2) * y, lambda x, y: math.perm(int(x) + 1) * y],
    "pi": [lambda x, y: math.pi * x],
    "pow": [lambda x, y: math.pow(x, y)],
    "prod": [
        lambda x, y: math.prod((x, y, 3, x)),
        lambda x, y: math.prod((x, y), start=2) + math.prod((2, 3)),
        lambda x, y: math.prod((), start=x),
    ],
    "radians": [lambda x, y: math.radians(x) * y],
    "remainder": [
        lambda x, y: math.remainder(x, y),
        lambda x, y: math.remainder(-7 * x, y / 3),
        lambda x, y: math.remainder(2 * int(3 * x) + 1, 2.0) * y,  # halfway
    ],
    "sin": [lambda x, y: math.sin(x) * y],
    "sinh": [lambda x, y: math.sinh(x) * y],
    "sqrt": [lambda x, y: math.sqrt(x) * y],
    "sumprod": [
        lambda x, y: math.sumprod((x, y), (y, 2.0)),  # type: ignore[attr-defined, unused-ignore]
        lambda x, y: math.sumprod((x, 1e20, y), (3, 1, x)) - 1e20,  # type: ignore[attr-defined, unused-ignore]
        lambda x, y: math.sumprod((1, 2), (3, 4)) * x + y,  # type: ignore[attr-defined, unused-ignore]
    ],
    "fma": [lambda x, y: math.fma(x, y, 1.0), lambda x, y: math.fma(x, 2, y)],  # type: ignore[attr-defined, unused-ignore]
    "tan": [lambda x, y: math.tan(x) * y],
    "tanh": [lambda x, y: math.tanh(x) * y],
    "tau": [lambda x, y: math.tau * x],
    "trunc": [lambda x, y: math.trunc(-x) * y, lambda x, y: math.trunc(x) // 2 + x],
    "ulp": [lambda x, y: math.ulp(x) * 1e16 * y],
}
HERE = {name for name in dir(math) if not name.startswith("_")}


def test_every_name_has_a_row() -> None:
    """Which later versions of CPython add is seen when they are tested."""
    assert ROWS.keys() >= HERE
    assert ROWS.keys() - HERE <= {"sumprod", "fma"}  # since 3.12 and 3.13


@pytest.mark.parametrize(
    "f", [pytest.param(f, id=f"{name}{i}") for name in sorted(HERE) for i, f in enumerate(ROWS.get(name, []))]
)
def test_every_name(f: Callable[[float, float], Any]) -> None:
    y = tmap(f, X, Y)
    expected = [f(*at) for at in zip(X.tolist(), Y.tolist(), strict=True)]
    columns = zip(*(one if isinstance(one, tuple) else (one,) for one in expected), strict=True)
    for got, column in zip(y if isinstance(y, tuple) else (y,), columns, strict=True):
        assert got.dtype.kind == np.asarray(column).dtype.kind
        assert_close(got, np.array(column), 1e-300, 1e-13)
    assert_derivatives(f, X, Y)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: math.remainder(x, y),
        lambda x, y: math.fsum((x, y, x)) + math.hypot(x, y, x) + math.dist((x, y), (y, 1.0)),
        lambda x, y: math.prod((x, y, 2)) * math.isclose(x, 1.7, rel_tol=1e-6),
    ],
)
def test_single_precision(f: Callable[[float, float], float]) -> None:
    x, y = X.astype("f"), Y.astype("f")
    value, back = rrule(tmap, f, x, y)
    exact, exact_back = rrule(tmap, f, X, Y)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, exact, rtol=1e-5)
    for got, wanted in zip(back(np.ones_like(x))[2:], exact_back(np.ones_like(X))[2:], strict=True):
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_ulp_of_single_precision() -> None:
    x = np.array([1.0, -3.4028235e38, 0.0, 1e-40, inf, -inf, nan], "f")
    expected = [2.0**-23, 2.0**104, 2.0**-149, 2.0**-149, inf, inf, nan]
    np.testing.assert_array_equal(tmap(lambda x: math.ulp(x), x), np.array(expected, "f"))


# ------------------------------------------------------------------------------------------------ exactness

EDGES = [
    0.0,
    -0.0,
    inf,
    -inf,
    nan,
    5e-324,
    -1e-310,
    1e-300,
    0.5,
    -1.0,
    1.5,
    2.0,
    -2.5,
    3.0,
    1e22,
    -1.7976931348623157e308,
]


def python_or_nan(f: Callable[..., float], *xs: float) -> float:
    """What Python gives; NaN where it raises, as IEEE has it."""
    try:
        return f(*xs)
    except (ValueError, OverflowError):
        return nan


def assert_same(y: Any, expected: Any) -> None:
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y) & ~np.isnan(y), np.signbit(expected) & ~np.isnan(expected))


@pytest.mark.parametrize("f", [lambda x, y: math.remainder(x, y), lambda x, y: math.ulp(x) + 0 * math.isclose(x, y)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_edges(f: Callable[[float, float], float]) -> None:
    a, b = map(np.array, zip(*itertools.product(EDGES, EDGES), strict=True))
    expected = [python_or_nan(f, *at) for at in zip(a.tolist(), b.tolist(), strict=True)]
    assert_same(tmap(f, a, b), np.array(expected))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_isclose_at_the_edges() -> None:
    a, b = map(np.array, zip(*itertools.product(EDGES, EDGES), strict=True))
    for f in (
        lambda x, y: math.isclose(x, y),
        lambda x, y: math.isclose(x, y, rel_tol=0.5, abs_tol=1e-310),
        lambda x, y: cmath.isclose(complex(x, y), complex(y, x), rel_tol=0.5),
        lambda x, y: cmath.isclose(x, complex(y, x)),
    ):
        expected = [f(*at) for at in zip(a.tolist(), b.tolist(), strict=True)]
        y = tmap(f, a, b)
        assert y.dtype == bool
        np.testing.assert_array_equal(y, expected)


def drawn(seed: int, count: int, columns: int) -> list[np.ndarray]:
    """Numbers of any size and sign, of which many nearly cancel."""
    rng = np.random.default_rng(seed)
    xs = [rng.normal(size=count) * 2.0 ** rng.integers(-60, 60, count) for _ in range(columns)]
    xs[-1] = np.where(rng.random(count) < 0.5, -sum(xs[:-1]), xs[-1])
    return xs


SUMS = [
    lambda a, b: math.fsum((a, b)),
    lambda a, b, c: math.fsum((a, b, c)),
    lambda a, b, c, d, e: math.fsum((a, b, c, d, e)),
    lambda a, b, c, d, e, f, g, h: math.fsum((a, b, c, d, e, f, g, h)),
]


@pytest.mark.parametrize("f", SUMS)
def test_fsum_has_the_bits_of_python(f: Callable[..., float]) -> None:
    xs = drawn(1, 2000, f.__code__.co_argcount)
    expected = [f(*at) for at in zip(*(x.tolist() for x in xs), strict=True)]
    assert_same(tmap(f, *xs), np.array(expected))


def test_fsum_halfway() -> None:
    """Of two numbers that are as near the even one, unless something smaller decides; and zeros."""
    rows = [(1.0, 2.0**-53, s * 2.0**-120) for s in (0, 1, -1)] + [
        (1 + 2.0**-52, 2.0**-53, s * 2.0**-120) for s in (0, 1, -1)
    ]
    rows += [(1e16, 1.0, 1e-16), (-0.0, -0.0, -0.0), (1e308, 1e308, -1e308), (inf, 1.0, 2.0), (nan, 1.0, inf)]
    xs = [np.array(column) for column in zip(*rows, strict=True)]
    f = SUMS[1]
    expected = [f(*at) for at in rows[:8]] + [inf, inf, nan]  # where Python raises OverflowError: inf
    with np.errstate(all="ignore"):
        assert_same(tmap(f, *xs), np.array(expected))


@pytest.mark.skipif(not hasattr(math, "sumprod"), reason="CPython before 3.12 has no math.sumprod")
def test_sumprod_is_rounded_once() -> None:
    xs = drawn(2, 500, 6)
    f = lambda a, b, c, d, e, f: math.sumprod((a, b, c), (d, e, f))  # type: ignore[attr-defined, unused-ignore] # noqa: E731
    exact = [
        float(sum(Fraction(at[k]) * Fraction(at[k + 3]) for k in range(3)))
        for at in zip(*(x.tolist() for x in xs), strict=True)
    ]
    np.testing.assert_array_equal(tmap(f, *xs), exact)


@pytest.mark.parametrize("scale", [1.0, 1e280, 1e-300, 2.0**-1070])
def test_hypot_is_as_good_as_pythons(scale: float) -> None:
    xs = [x * scale for x in drawn(3, 1000, 4)]
    f = lambda a, b, c, d: math.hypot(a, b, c, d)  # noqa: E731
    expected = np.array([f(*at) for at in zip(*(x.tolist() for x in xs), strict=True)])
    assert (np.abs(tmap(f, *xs) - expected) <= np.spacing(expected)).all()


def test_hypot_at_the_edges() -> None:
    rows = [
        (inf, nan, 1.0),
        (nan, 1.0, -inf),
        (nan, 0.0, 1.0),
        (0.0, -0.0, 0.0),
        (5e-324, 0.0, 5e-324),
        (1e308, 1e308, 1e308),
    ]
    f = lambda a, b, c: math.hypot(a, b, c)  # noqa: E731
    xs = [np.array(column) for column in zip(*rows, strict=True)]
    np.testing.assert_array_equal(tmap(f, *xs), [f(*row) for row in rows])
    _, back = rrule(tmap, f, *(x[3:] for x in xs))
    da, db, dc = back(np.ones(3))[2:]
    np.testing.assert_array_equal(da[0], 0.0)  # at a kink
    np.testing.assert_allclose([da[1:], dc[1:]], [[0.5**0.5, 3**-0.5]] * 2, rtol=1e-15)
    np.testing.assert_allclose(db[1:], [0.0, 3**-0.5], rtol=1e-15)


# ------------------------------------------------------------------------------------------------ integers

ONES = np.arange(21)


def test_integers() -> None:
    for f in (
        lambda n: math.factorial(int(n)),
        lambda n: math.comb(60, int(n)),
        lambda n: math.perm(20, int(n)),
        lambda n: math.isqrt(int(n) ** 3),
        lambda n: math.isqrt(2**63 - 1 - int(n)),
        lambda n: math.lcm(int(n), 12, int(n) + 1),
    ):
        y = tmap(f, ONES)
        assert y.dtype == np.int64
        np.testing.assert_array_equal(y, [f(n) for n in range(21)])


@pytest.mark.parametrize(
    ("f", "n", "error", "message"),
    [
        (lambda n: math.factorial(int(n)), -1, ValueError, "not defined for negative values"),
        (lambda n: math.comb(int(n), 2), -1, ValueError, "non-negative"),
        (lambda n: math.perm(int(n), 2), -1, ValueError, "non-negative"),
        (lambda n: math.isqrt(int(n)), -1, ValueError, "nonnegative"),
        (lambda n: math.isclose(n, 1.0, rel_tol=-1.0), 2, ValueError, "tolerances must be non-negative"),
        # What is no int of 64 bits is an error, and no other number.
        (lambda n: math.factorial(int(n)), 21, RuntimeError, "failed when compiled, but not in Python"),
        (lambda n: math.comb(int(n), 35), 70, RuntimeError, "failed when compiled, but not in Python"),
        (lambda n: math.perm(int(n), 20), 21, RuntimeError, "failed when compiled, but not in Python"),
        (lambda n: n * 10 ** (int(n) - 3), 1, RuntimeError, "failed when compiled, but not in Python.*fractions"),
        (lambda n: n * pow(int(n), -2), 3, RuntimeError, "failed when compiled, but not in Python"),
        (lambda n: n * np.power(2, -int(n)), 3, ValueError, "Integers to negative integer powers are not allowed"),
        (
            lambda n: math.lcm(int(n), int(n) - 1, int(n) - 2),
            2**40,
            RuntimeError,
            "failed when compiled, but not in Python",
        ),
    ],
)
def test_integers_that_are_errors(f: Any, n: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tmap(f, np.array([n]))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: math.fsum(x), "math.fsum takes a tuple of real numbers in a function that is mapped, not float64"),
        (lambda x: math.fsum([x, x]), "math.fsum takes a tuple of real numbers in a function that is mapped, not list"),
        (
            lambda x: math.fsum((x, 1j)),
            "math.fsum takes a tuple of real numbers in a function that is mapped, not Tuple",
        ),
        (lambda x: math.prod(x), "math.prod takes a tuple of real numbers in a function that is mapped, not float64"),
        (lambda x: math.dist((x,), (x, 1)), "both points must have the same number of dimensions"),
        (lambda x: math.dist((x,)), r"dist\(\) got other arguments than it takes: missing a required argument: 'q'"),
        (lambda x: math.hypot(x, x, 1j), "math.hypot takes real numbers in a function that is mapped, not float64 and"),
        (lambda x: math.factorial(x), "math.factorial takes integers in a function that is mapped, not float64"),
        (lambda x: math.comb(5, x), "math.comb takes integers in a function that is mapped, not int64 and float64"),
        (lambda x: math.perm(x), "math.perm takes integers in a function that is mapped, not float64"),
        (lambda x: math.gcd(4, x), "math.gcd takes integers in a function that is mapped, not int64 and float64"),
        (lambda x: math.isclose(x, 1.0, 0.5), r"isclose\(\) got other arguments than it takes: too many positional"),
        (lambda x: math.isclose(x, 1.0, tol=0.5), r"isclose\(\) got other arguments than it takes: got an unexpected"),
    ],
)
def test_refused(f: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"^cannot compile <lambda>: {message}.* \(line \d+: `") as info:
        tmap(f, X)
    assert "\n" not in str(info.value)


@pytest.mark.skipif(not hasattr(math, "sumprod"), reason="CPython before 3.12 has no math.sumprod")
def test_sumprod_refused() -> None:
    with pytest.raises(TypeError, match=r"cannot compile <lambda>: Inputs are not the same length \(line"):
        tmap(lambda x: math.sumprod((x,), (x, 1.0)), X)  # type: ignore[attr-defined, unused-ignore]


def test_users_of_numba_see_nothing_of_this() -> None:
    """What is added here holds where tmapad compiles, and not in the user's own functions."""
    import numba

    assert tmap(lambda x: math.fsum((x, 1.0)), X).tolist() == [math.fsum((x, 1.0)) for x in X.tolist()]
    with pytest.raises(numba.TypingError, match=re.escape("Unknown attribute 'fsum'")):
        numba.njit(lambda x: math.fsum((x, 1.0)))(1.0)


# ------------------------------------------------------------------------------------------------ cmath

# By name of what `cmath` has: functions of x and y.
COMPLEX: dict[str, Callable[[float, float], Any]] = {
    **{
        name: eval(f"lambda x, y: (cmath.{name}(complex(x, y)).real, cmath.{name}(complex(y, -x)).imag)")
        for name in dir(cmath)
        if name in dir(math) and not hasattr(cmath, f"{name}j") and callable(getattr(cmath, name))
    },
    "isclose": lambda x, y: x if cmath.isclose(complex(x, y), complex(y, x), rel_tol=0.5) else y,
    "isfinite": lambda x, y: x if cmath.isfinite(complex(x, y)) else y,
    "isinf": lambda x, y: x if cmath.isinf(complex(x, y)) else y,
    "isnan": lambda x, y: x if cmath.isnan(complex(x, y)) else y,
    "phase": lambda x, y: cmath.phase(complex(x, y)) * x,
    "polar": lambda x, y: cmath.polar(complex(x, y)),
    "rect": lambda x, y: cmath.rect(x, y).imag * x,
    "e": lambda x, y: cmath.e * x,
    "pi": lambda x, y: cmath.pi * x,
    "tau": lambda x, y: cmath.tau * x,
    "inf": lambda x, y: x if x < cmath.inf else y,
    "nan": lambda x, y: x if math.isnan(cmath.nan) else y,
    "infj": lambda x, y: x if cmath.isinf(cmath.infj) else y,
    "nanj": lambda x, y: x if cmath.isnan(cmath.nanj) else y,
}


def test_every_name_of_cmath_has_a_row() -> None:
    assert COMPLEX.keys() == {name for name in dir(cmath) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(COMPLEX))
def test_every_name_of_cmath(name: str) -> None:
    f = COMPLEX[name]
    y = tmap(f, X, Y)
    expected = [f(*at) for at in zip(X.tolist(), Y.tolist(), strict=True)]
    columns = zip(*(one if isinstance(one, tuple) else (one,) for one in expected), strict=True)
    for got, column in zip(y if isinstance(y, tuple) else (y,), columns, strict=True):
        assert_close(got, np.array(column), 1e-300, 1e-13)
    assert_derivatives(f, X, Y)
