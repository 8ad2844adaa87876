"""Derivatives of plain Python functions, compared with what others make of the same code.

With HIPS autograd, which differentiates it in reverse, and with mpmath: by differences of the function in 60 digits, or
by the formula of the implicit function theorem at the solution.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import workloads
from workloads import WORKLOADS, Workload

from tmapad import partials, rrule, tmap

Array = np.ndarray[Any, Any]
UNIT = 2.0**-53
POINTS = 60

ALL = pytest.mark.parametrize("work", [pytest.param(work, id=work.name) for work in WORKLOADS])
REAL = pytest.mark.parametrize("work", [pytest.param(work, id=work.name) for work in WORKLOADS if not work.complex])
FORMULAS = pytest.mark.parametrize("work", [pytest.param(work, id=work.name) for work in WORKLOADS if work.formula])


def arguments(work: Workload, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    xs = [rng.uniform(low, high, POINTS) for low, high in work.domain]
    return [x + 1j * rng.uniform(*at, POINTS) for x, at in zip(xs, work.domain, strict=True)] if work.complex else xs


def check(found: Array, expected: Array, bound: float) -> None:
    """Within a bound in units of the last place of the exact derivative, or of its median where that is larger."""
    scale = np.maximum(np.abs(expected), np.median(np.abs(expected))) * UNIT
    errors = np.abs(found - expected) / scale
    assert errors.max() <= bound


# ------------------------------------------------------------------------------------------------- mpmath

ALIKE = ("cos", "exp", "expm1", "log", "log1p", "sin", "sqrt", "tan")  # named as in math by both
MP = types.SimpleNamespace(
    **{name: getattr(mpmath, name) for name in ALIKE},
    asin=mpmath.asin,
    atan2=mpmath.atan2,
    erf=mpmath.erf,
    lgamma=mpmath.loggamma,
    pi=mpmath.pi,
)


@functools.cache
def by_differences(work: Workload) -> tuple[Array, ...]:
    """Of the function in 60 digits: of a complex argument, in both directions."""
    f = workloads.retold(work.f, MP)
    h = mpmath.mpf(10) ** -25

    def slope(point: tuple[Any, ...], k: int, direction: Any) -> Any:
        sides = [f(*(x + s * h * direction * (i == k) for i, x in enumerate(point))) for s in (1, -1)]
        return (sides[0] - sides[1]) / (2 * h)

    columns: list[list[Any]] = [[] for _ in work.domain]
    with mpmath.workdps(60):
        for point in zip(*arguments(work), strict=True):
            exact = tuple(mpmath.mpmathify(x.item()) for x in point)
            for k, column in enumerate(columns):
                d = slope(exact, k, 1)
                if work.complex:
                    across = slope(exact, k, mpmath.mpc(0, 1))
                    # dy = Re(d dz) of a real result; of a holomorphic function both directions say the same.
                    d = mpmath.mpc(d, -across) if isinstance(d, mpmath.mpf) else (d + across / mpmath.mpc(0, 1)) / 2
                column.append(complex(d) if work.complex else float(d))
    return tuple(map(np.array, columns))


@ALL
def test_against_differences_in_many_digits(work: Workload) -> None:
    xs = arguments(work)
    _, derivatives = partials(work.f, *xs)
    for found, expected in zip(derivatives, by_differences(work), strict=True):
        check(found, expected, work.bound)


@FORMULAS
def test_against_the_implicit_function_theorem(work: Workload) -> None:
    """At the solution that the function finds."""
    xs = arguments(work)
    y, derivatives = partials(work.f, *xs)
    expected = []
    with mpmath.workdps(40):
        for point in zip(y, *xs, strict=True):
            assert work.formula is not None
            expected.append([float(d) for d in work.formula(*map(mpmath.mpf, point), math=MP)])
    for found, column in zip(derivatives, np.transpose(expected), strict=True):
        check(found, column, work.bound)


# ----------------------------------------------------------------------------------------------- autograd


@functools.cache
def autograd_math() -> Any:
    numpy = pytest.importorskip("autograd.numpy", reason="needs autograd")
    special = pytest.importorskip("autograd.scipy.special")
    return types.SimpleNamespace(
        **{name: getattr(numpy, name) for name in ALIKE},
        asin=numpy.arcsin,
        atan2=numpy.arctan2,
        erf=special.erf,
        lgamma=special.gammaln,
        pi=np.pi,
    )


def gradient_by_autograd(work: Workload) -> Callable[..., Any]:
    import autograd

    f = workloads.retold(work.f, autograd_math())
    return autograd.grad(f, tuple(range(len(work.domain))))


@pytest.mark.filterwarnings("ignore:Output seems independent of input")  # in the middle of the Mandelbrot set
@REAL
def test_against_autograd(work: Workload) -> None:
    """Reverse mode has other roundings: twice the bound."""
    xs = arguments(work)
    y, back = rrule(tmap, work.f, *xs)
    cotangents = back(np.ones_like(y))[2:]
    assert type(autograd_math()) is types.SimpleNamespace
    gradient = gradient_by_autograd(work)
    expected = np.transpose([np.stack(gradient(*point)) for point in zip(*xs, strict=True)])
    for found, column in zip(cotangents, expected, strict=True):
        check(found, column, 2 * work.bound)


def test_all_were_compared_with_something_of_another_kind() -> None:
    assert len(WORKLOADS) == len({work.name for work in WORKLOADS})
    assert {work.complex for work in WORKLOADS} == {True, False}
