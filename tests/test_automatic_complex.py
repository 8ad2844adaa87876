"""Automatic derivatives of complex functions: holomorphic ones by the complex rule, others with C as R^2."""

import cmath
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from against_dual import assert_derivatives

from tmapad import rrule, tmap

rng = np.random.default_rng(0)
X, Y = rng.uniform(0.2, 2, 30), rng.uniform(-2, 2, 30)
Z = rng.uniform(-2, 2, 30) + 1j * rng.uniform(0.1, 2, 30)  # away from branch cuts
W = rng.uniform(0.1, 2, 30) - 1j * rng.uniform(0.1, 2, 30)


def mandelbrot(c: complex) -> complex:
    z = 0j
    for _ in range(20):
        if abs(z) > 2.0:
            break
        z = z * z + 0.3 * c
    return z


def newton(z: complex) -> complex:
    """A cube root of 1."""
    for _ in range(30):
        step = (z * z * z - 1.0) / (3.0 * z * z)
        z -= step
        if abs(step) < 1e-15:
            break
    return z


def branches(z: complex) -> complex:
    if z.real > 0:
        return z * z
    if abs(z) > 1.0:
        return z.conjugate() * 2.0
    return complex(z.imag, z.real * z.real)


def from_real(x: float, y: float) -> complex:
    z = complex(x, y)
    total = 0j
    for i in range(3):
        total += z**i / (1.0 + i * x)
    return total


def to_real(z: complex) -> float:
    return abs(z) * z.real - z.imag * math.sin(z.real)


def helper(z: complex, x: float = 2.0) -> complex:
    return cmath.exp(1j * z * x)


def several(z: complex, x: float) -> tuple[complex, float, complex]:
    return helper(z), x * abs(z), helper(z, x) + x


HOLOMORPHIC: list[Callable[..., Any]] = [
    lambda z: z * z,
    lambda z: z**3,
    lambda z: z**-2,
    lambda z: z**2.5,
    lambda z: 2.0**z,
    lambda z: 1 / z,
    lambda z: (z + 2) / (z - 3j),
    lambda z: -z + 2j * z - z / 2.0 + 0.5,
    lambda z: cmath.exp(z),
    lambda z: cmath.sin(z) + cmath.cos(z) * z,
    lambda z: cmath.tan(z),
    lambda z: cmath.sinh(z) * cmath.cosh(z),
    lambda z: cmath.tanh(z),
    lambda z: cmath.sqrt(z),
    lambda z: cmath.log(z),
    lambda z: np.exp(z) + np.sin(z) + np.sqrt(z) + np.log(z),
    newton,
]
OTHERS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda z: abs(z), (Z,)),
    (lambda z: abs(z) ** 2, (Z,)),
    (lambda z: z.real, (Z,)),
    (lambda z: z.imag, (Z,)),
    (lambda z: z.conjugate(), (Z,)),
    (lambda z: z * z.conjugate(), (Z,)),
    (lambda z: np.conj(z) * np.real(z) + np.imag(z), (Z,)),
    (lambda z: cmath.phase(z), (Z,)),
    (lambda z: z.real if z.imag > 1.0 else z.imag * z.real, (Z,)),
    (branches, (Z,)),
    (mandelbrot, (Z,)),
    (to_real, (Z,)),
    (lambda z, w: z * w.conjugate() / (1.0 + abs(w)), (Z, W)),
    (lambda z, w: z**w, (Z, W)),
    (lambda x, y: complex(x, y), (X, Y)),
    (lambda x: complex(x), (X,)),
    (lambda x: 1j * x, (X,)),
    (lambda x: cmath.sqrt(complex(-x)), (X,)),
    (lambda x: abs(cmath.exp(1j * x) + x), (X,)),
    (from_real, (X, Y)),
    (lambda x, z: x * z, (X, Z)),
    (lambda x, z: z**x + x / z, (X, Z)),
    (lambda x, z: (x * z).real + x, (X, Z)),
    (several, (Z, X)),
]


@pytest.mark.parametrize("f", HOLOMORPHIC)
def test_holomorphic(f: Callable[..., Any]) -> None:
    for z in (Z, W):
        assert_derivatives(f, z)


@pytest.mark.parametrize(("f", "xs"), OTHERS)
def test_others(f: Callable[..., Any], xs: tuple[Any, ...]) -> None:
    for residuals in ("save", "recompute"):
        assert_derivatives(f, *xs, residuals=residuals)


def test_conventions_by_hand() -> None:
    """``conj(f'(z)) dy`` of a holomorphic function; a real argument gets the real part."""
    table: list[tuple[Callable[..., Any], complex, complex, complex]] = [
        (lambda z: z * z, 1 + 1j, 1.0, 2 - 2j),
        (lambda z: z * z, 1 + 1j, 1j, 2 + 2j),
        (lambda z: z.conjugate(), 1 + 1j, 3 + 4j, 3 - 4j),
        (lambda z: z.real, 1 + 1j, 2.0, 2 + 0j),
        (lambda z: z.imag, 1 + 1j, 2.0, 2j),
        (lambda z: abs(z), 3 + 4j, 5.0, 3 + 4j),
        (lambda z: abs(z), 0j, 5.0, 0j),
        (lambda x: x * (1 + 2j), 1.0, 3 + 4j, 11.0),
    ]
    for f, z, dy, expected in table:
        _, back = rrule(tmap, f, np.array([z]))
        dx = back(np.array([dy]))[2]
        np.testing.assert_allclose(dx, [expected], rtol=1e-15)
        assert np.iscomplexobj(dx) == isinstance(z, complex)


def test_captured_complex_and_real() -> None:
    a, w = 1.5, 0.5 - 2j
    captured = {"a": a, "w": w}
    assert_derivatives(lambda z: a * z * w + w.conjugate() * a, Z, captured=captured)
    assert_derivatives(lambda x: x * w + a, X, captured=captured)
    assert_derivatives(lambda x: abs(w - x) ** a, X, captured=captured)


def test_partial_argument() -> None:
    _, back = rrule(tmap, functools.partial(lambda z, x: z * x * x, x=3.0), Z)
    _, df, dz = back(np.ones(30, "D"))
    assert df.x == pytest.approx((6 * Z.conj()).sum().real)
    np.testing.assert_array_equal(dz, np.full(30, 9.0 + 0j))


def test_complex64_stays_complex64() -> None:
    z = Z.astype("F")
    y, back = rrule(tmap, lambda z: 2.0 * z * z + abs(z), z)
    dz = back(np.ones_like(y))[2]
    assert (y.dtype, dz.dtype) == (np.complex64, np.complex64)
    np.testing.assert_allclose(dz, 4 * Z.conj() + Z / abs(Z), rtol=1e-5)
