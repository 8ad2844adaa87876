"""Scalar functions of every kind that tmapad takes, each with a reference: value and partial derivatives.

References are scalar Python functions in float64 or complex128, from another source than the function itself
where there is one; test_zoo.py holds the derivatives against differences.
"""

import cmath
import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import c_library
import numpy as np
import pytest
import scipy.special
from foreign import address_of, from_capsule, from_ctypes

from tmapad import ScalarFunction, from_cython, register

Array = np.ndarray[Any, Any]
REAL = "efd"


@dataclass(frozen=True)
class Entry:
    name: str
    make: Callable[[], Any]  # registers it
    domain: tuple[tuple[float, float], ...]  # of each argument; of complex ones both parts
    value: Callable[..., Any]  # the reference, for Python numbers
    partials: tuple[Callable[..., Any], ...]
    chars: str = REAL  # types of arrays that it takes
    saves: bool = False  # residuals="auto" keeps partial derivatives

    @property
    def nin(self) -> int:
        return len(self.domain)

    @functools.cached_property
    def f(self) -> Any:
        """The function, registered once."""
        return self.make()

    def arguments(self, shapes: Any, char: str = "", seed: int = 0) -> list[Array]:
        """Arrays of these shapes (one for all, or one for each argument) with elements in the domain."""
        char = char or self.chars[-1]
        rng = np.random.default_rng(seed)
        each = shapes if isinstance(shapes, list) else [shapes] * self.nin
        xs = []
        for (low, high), shape in zip(self.domain, each, strict=True):
            x = rng.uniform(low, high, shape) + (1j * rng.uniform(low, high, shape) if char in "FD" else 0)
            xs.append(np.asarray(x).astype(char))
        return xs


def libm(name: str, number: str = "double", nin: int = 1) -> Any:
    """A function of the C library: from ctypes, or in a capsule where ctypes has no complex numbers."""
    make = from_capsule if "complex" in number else from_ctypes
    return make(address_of(name), number, *[number] * nin)


def damped(a: float, x: float) -> float:
    return a * math.sin(x) * math.exp(-a * x)


def damped_partials(a: float, x: float) -> tuple[float, float]:
    e = math.exp(-a * x)
    return math.sin(x) * e * (1 - a * x), a * e * (math.cos(x) - a * math.sin(x))


def root(x: float) -> float:
    """The cube root, by Newton's method: a loop that runs as long as the element needs it, in any precision."""
    y = x
    for _ in range(30):
        step = (y * y * y - x) / (3 * y * y)
        y -= step
        if abs(step) <= 1e-15 * y:
            break
    return y


def root_and_derivative(x: float) -> tuple[float, float]:
    y = root(x)
    return y, 1 / (3 * y * y)


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def logistic_derivative(y: float, x: float) -> float:
    return y * (1 - y)


def moebius(z: complex) -> complex:
    return (z + 2) / (z - 3j)


def moebius_derivative(z: complex) -> complex:
    return (-2 - 3j) / ((z - 3j) * (z - 3j))


def c_function(name: str, char: str, *parts: str, given_output: bool = False) -> ScalarFunction:
    """A function of c_functions.c with one function for each partial derivative."""
    nin = len(parts)
    partials = tuple(c_library.function(part, char, nin + given_output) for part in parts)
    form = "derivative_from_output" if given_output else "derivative"
    f = libm(name, nin=nin) if given_output else c_library.function(name, char, nin)
    return register(f, name=name, **{form: partials if nin > 1 else partials[0]})


def kepler(m: float, e: float) -> float:
    """Kepler's equation by Newton's method."""
    x = m
    for _ in range(50):
        d = (x - e * math.sin(x) - m) / (1.0 - e * math.cos(x))
        x = x - d
        if abs(d) < 1e-14:
            break
    return x


def kepler_by_series(m: float, e: float) -> float:
    """Kepler's equation by Bessel's series."""
    n = np.arange(1.0, 60.0)
    return m + float(np.sum(2 / n * scipy.special.jv(n, n * e) * np.sin(n * m)))


def rational(x: float, y: float) -> float:
    if x < y:
        return (x * x - y) / (1.0 + y * y)
    z = x
    x, y = y * z, x - 2.0 * y
    return x * y


def rational_partials(x: float, y: float) -> tuple[float, float]:
    if x < y:
        d = 1 + y * y
        return 2 * x / d, (y * y - 2 * x * x * y - 1) / (d * d)
    return 2 * x * y - 2 * y * y, x * x - 4 * x * y


def spiral(z: complex, w: complex) -> complex:
    total = 0j
    for k in range(4):
        total = total * z + cmath.exp(w) * k
    return total


WIDE = (-3.0, 3.0)
POSITIVE = (0.2, 3.0)

# What anybody has: the C library, SciPy, NumPy.
FOUND = (
    Entry(
        "libm sin",
        lambda: register(libm("sin"), derivative=libm("cos"), name="sin"),
        (WIDE,),
        math.sin,
        (math.cos,),
    ),
    Entry(
        "libm sinf",
        lambda: register(libm("sinf", "float"), derivative=libm("cosf", "float"), name="sinf"),
        (WIDE,),
        math.sin,
        (math.cos,),
        "ef",
    ),
    Entry(
        "libm csinh",
        lambda: register(libm("csinh", "double complex"), derivative=libm("ccosh", "double complex")),
        (WIDE,),
        cmath.sinh,
        (cmath.cosh,),
        "FD",
    ),
    Entry(
        "libm csinf",
        lambda: register(libm("csinf", "float complex"), derivative=libm("ccosf", "float complex")),
        (WIDE,),
        cmath.sin,
        (cmath.cos,),
        "F",
    ),
    Entry(
        "cython_special loggamma",
        lambda: from_cython("scipy.special.cython_special", "loggamma", derivative="psi"),
        (POSITIVE,),
        scipy.special.loggamma,
        (scipy.special.psi,),
        "efdFD",
    ),
    Entry("numpy exp", lambda: np.exp, (WIDE,), cmath.exp, (cmath.exp,), "efdFD"),
    Entry(
        "numpy multiply",
        lambda: np.multiply,
        (WIDE, WIDE),
        lambda a, b: a * b,
        (lambda a, b: b, lambda a, b: a),
        "efdFD",
    ),
    Entry(
        "numpy arctan2",
        lambda: np.arctan2,
        (POSITIVE, WIDE),
        math.atan2,
        (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)),
    ),
    Entry(
        "scipy erf",
        lambda: scipy.special.erf,
        (WIDE,),
        math.erf,
        (lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),),
        "fd",
    ),
)

# What needs a C compiler.
COMPILED = (
    Entry(
        "C hypot, derivative from output",
        lambda: c_function("hypot", "d", "hypot_x", "hypot_y", given_output=True),
        (POSITIVE, WIDE),
        math.hypot,
        (lambda a, b: a / math.hypot(a, b), lambda a, b: b / math.hypot(a, b)),
    ),
    Entry(
        "C product of three",
        lambda: c_function("product", "d", "product_x", "product_y", "product_z"),
        (WIDE, WIDE, WIDE),
        lambda x, y, z: x * y * z,
        (lambda x, y, z: y * z, lambda x, y, z: x * z, lambda x, y, z: x * y),
    ),
    Entry(
        "C of six, value and derivative",
        lambda: register(
            c_library.function("six", nin=6),
            value_and_derivative=c_library.writer("six_all", 6, 7),
            name="six",
        ),
        (WIDE, WIDE, WIDE, WIDE, WIDE, POSITIVE),
        lambda a, b, c, d, e, f: a * b + c * c * d + e / f,
        (
            lambda a, b, c, d, e, f: b,
            lambda a, b, c, d, e, f: a,
            lambda a, b, c, d, e, f: 2 * c * d,
            lambda a, b, c, d, e, f: c * c,
            lambda a, b, c, d, e, f: 1 / f,
            lambda a, b, c, d, e, f: -e / (f * f),
        ),
        saves=True,
    ),
    Entry(
        "C float32",
        lambda: c_function("square_times", "f", "square_times_a", "square_times_x"),
        (WIDE, WIDE),
        lambda a, x: a * x * x,
        (lambda a, x: x * x, lambda a, x: 2 * a * x),
        "ef",
    ),
    Entry(
        "C complex128",
        lambda: c_function("cubic", "D", "cubic_z", "cubic_w"),
        (WIDE, WIDE),
        lambda z, w: z * w * w,
        (lambda z, w: w * w, lambda z, w: 2 * z * w),
        "FD",
    ),
    Entry(
        "C complex64",
        lambda: c_function("square_c64", "F", "twice_c64"),
        (WIDE,),
        lambda z: z * z,
        (lambda z: 2 * z,),
        "F",
    ),
)

# What needs Numba.
PYTHON = (
    Entry(
        "Python, a pair of derivatives",
        lambda: register(damped, derivative=damped_partials),
        (POSITIVE, WIDE),
        damped,
        (lambda a, x: damped_partials(a, x)[0], lambda a, x: damped_partials(a, x)[1]),
    ),
    Entry(
        "Python, value and derivative",
        lambda: register(root, value_and_derivative=root_and_derivative),
        (POSITIVE,),
        math.cbrt,
        (lambda x: 1 / (3 * math.cbrt(x) ** 2),),
        saves=True,
    ),
    Entry(
        "Python, derivative from output",
        lambda: register(logistic, derivative_from_output=logistic_derivative),
        (WIDE,),
        scipy.special.expit,
        (lambda x: scipy.special.expit(x) * scipy.special.expit(-x),),
    ),
    Entry(
        "Python, complex",
        lambda: register(moebius, derivative=moebius_derivative),
        (WIDE,),
        moebius,
        (moebius_derivative,),
        "FD",
    ),
    Entry(
        "Python, automatic, a loop",
        lambda: register(kepler),
        (WIDE, (0.05, 0.4)),
        kepler_by_series,
        (
            lambda m, e: 1 / (1 - e * math.cos(kepler_by_series(m, e))),
            lambda m, e: (x := kepler_by_series(m, e), math.sin(x) / (1 - e * math.cos(x)))[1],
        ),
        saves=True,
    ),
    Entry(
        "Python, automatic, branches",
        lambda: register(rational),
        (WIDE, WIDE),
        lambda x, y: (x * x - y) / (1 + y * y) if x < y else y * x * (x - 2 * y),
        (lambda x, y: rational_partials(x, y)[0], lambda x, y: rational_partials(x, y)[1]),
    ),
    Entry(
        "Python, automatic, complex",
        lambda: register(spiral),
        ((-1.0, 1.0), (-1.0, 1.0)),
        lambda z, w: (z * z + 2 * z + 3) * cmath.exp(w),
        (lambda z, w: (2 * z + 2) * cmath.exp(w), lambda z, w: (z * z + 2 * z + 3) * cmath.exp(w)),
        "FD",
        saves=True,
    ),
)

ENTRIES = (*FOUND, *COMPILED, *PYTHON)


def parameters(entries: Iterable[Entry] = ENTRIES) -> list[Any]:
    """Entries for ``pytest.mark.parametrize("entry", ...)``."""
    return [pytest.param(e, id=e.name, marks=[pytest.mark.compiler] * (e in COMPILED)) for e in entries]


def by_name(name: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.name == name)


def parameter_names(entry: Entry) -> tuple[str, ...]:
    """By which `functools.partial` and `df` call its arguments."""
    return entry.f.parameters if isinstance(entry.f, ScalarFunction) else ("x1", "x2")
