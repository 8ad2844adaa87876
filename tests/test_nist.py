"""Certified values of NIST's nonlinear regression sets, reproduced with SciPy's solvers and tmapad's Jacobians.

Digits are counted as NIST does, by the log relative error. A solver that compares sums of squares cannot tell
parameters apart where the sum is flat to rounding: it stops somewhere within 7 to 9 digits, whoever wrote the Jacobian,
and where exactly depends on the last bit of it. Gauss-Newton steps compare nothing, and go on to where the Jacobian
is orthogonal to the residuals. So two Jacobians are compared after some of these, where 0.3 of a digit means something.
"""

from collections.abc import Callable
from typing import Any

import nist_sets
import numpy as np
import pytest
from nist_sets import Array
from scipy.optimize import curve_fit, least_squares

from tmapad import partials, rrule, tmap

SETS = pytest.mark.parametrize("name", nist_sets.MODELS)
STARTS = pytest.mark.parametrize("start", [0, 1], ids=["from start 1", "from start 2"])
CERTIFIED = 11  # digits
Jacobian = Callable[..., Array]

# `lm` reaches 7 digits from all starts, also from the far one of MGH17, which takes it 600 steps.
TIGHT: dict[str, Any] = {"method": "lm", "ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}


def digits(found: Array, certified: Array) -> float:
    """The log relative error of the worst parameter."""
    errors = np.abs(found - certified) / np.abs(certified)
    return float(-np.log10(np.maximum(errors.max(), 10.0**-CERTIFIED)))


def by_hand(name: str) -> Jacobian:
    columns = nist_sets.MODELS[name][1]
    return lambda x, *b: np.stack(columns(x, *b), axis=1)


def automatic(name: str) -> Jacobian:
    model = nist_sets.MODELS[name][0]

    def jacobian(x: Array, *b: float) -> Array:
        _, (_, *columns) = partials(model, x, *b, wrt=tuple(range(1, 1 + len(b))))
        return np.stack(columns, axis=1)

    return jacobian


# On its way from the far start of MGH17 a solver tries parameters at which exponentials overflow.
OVERFLOWS = np.errstate(over="ignore", invalid="ignore")


@OVERFLOWS
def by_curve_fit(name: str, jacobian: Jacobian, start: int) -> tuple[Array, Array]:
    """Parameters and their standard deviations."""
    data, model = nist_sets.load(name), nist_sets.MODELS[name][0]
    found, covariance = curve_fit(
        lambda x, *b: tmap(model, x, *b), data.x, data.y, data.starts[start], jac=jacobian, maxfev=5000, **TIGHT
    )
    return found, np.sqrt(np.diag(covariance))


@OVERFLOWS
def by_least_squares(name: str, jacobian: Jacobian, start: int) -> tuple[Array, Array]:
    data, model = nist_sets.load(name), nist_sets.MODELS[name][0]
    result = least_squares(
        lambda b: tmap(model, data.x, *b) - data.y,
        data.starts[start],
        jac=lambda b: jacobian(data.x, *b),
        x_scale="jac",
        max_nfev=5000,
        **TIGHT,
    )
    assert result.success
    covariance = np.linalg.inv(result.jac.T @ result.jac) * (2 * result.cost / (data.y.size - result.x.size))
    return result.x, np.sqrt(np.diag(covariance))


SOLVERS = pytest.mark.parametrize("solve", [by_curve_fit, by_least_squares])


def improved(name: str, jacobian: Jacobian, b: Array) -> Array:
    """Parameters after steps of Gauss and Newton, as many as bring no more."""
    data, model = nist_sets.load(name), nist_sets.MODELS[name][0]
    for _ in range(20):
        rows = jacobian(data.x, *b)
        scale = np.linalg.norm(rows, axis=0)
        b = b - np.linalg.lstsq(rows / scale, tmap(model, data.x, *b) - data.y)[0] / scale
    return b


@SETS
@STARTS
@SOLVERS
def test_certified_values(name: str, start: int, solve: Callable[..., tuple[Array, Array]]) -> None:
    data = nist_sets.load(name)
    found, deviations = solve(name, automatic(name), start)
    assert digits(found, data.certified) >= 7
    assert digits(deviations, data.deviations) >= 6  # derived quantities lose some
    residuals = tmap(nist_sets.MODELS[name][0], data.x, *found) - data.y
    assert np.sum(residuals**2) == pytest.approx(data.sum_of_squares, rel=1e-10)


@SETS
@STARTS
@SOLVERS
def test_digits_are_those_of_a_jacobian_by_hand(
    name: str, start: int, solve: Callable[..., tuple[Array, Array]]
) -> None:
    certified = nist_sets.load(name).certified
    reached = []
    for jacobian in (automatic(name), by_hand(name)):
        found, _ = solve(name, jacobian, start)
        assert digits(found, certified) >= 7
        reached.append(digits(improved(name, jacobian, found), certified))
    assert min(reached) > 10
    assert abs(reached[0] - reached[1]) < 0.3


@SETS
def test_differences_have_fewer_digits(name: str) -> None:
    """The comparison can fail: with SciPy's differences for a Jacobian it does."""
    data, model = nist_sets.load(name), nist_sets.MODELS[name][0]

    def differences(x: Array, *b: float) -> Array:
        y, steps = tmap(model, x, *b), 1e-8 * np.diag(b)
        return np.stack([(tmap(model, x, *(b + step)) - y) / step.sum() for step in steps], axis=1)

    reached = [digits(improved(name, jac, data.certified), data.certified) for jac in (differences, by_hand(name))]
    assert reached[0] < reached[1] - 0.3


@SETS
def test_jacobians(name: str) -> None:
    """At the certified values and at both starts, to rounding: a denominator that cancels amplifies it."""
    data = nist_sets.load(name)
    for b in (*data.starts, data.certified):
        expected = by_hand(name)(data.x, *b)
        error = np.abs(automatic(name)(data.x, *b) - expected).max(axis=0)
        assert np.all(error <= 1e-12 * np.abs(expected).max(axis=0))


def test_captured_parameters() -> None:
    """The same Jacobian where the parameters are captured variables instead of arguments."""
    data = nist_sets.load("Kirby2")
    b1, b2, b3, b4, b5 = data.certified.tolist()

    def model(x: float) -> float:
        return (b1 + b2 * x + b3 * x**2) / (1.0 + b4 * x + b5 * x**2)

    names = ("b1", "b2", "b3", "b4", "b5")
    _, (_, captured) = partials(model, data.x, wrt=names)
    expected = automatic("Kirby2")(data.x, *data.certified)
    np.testing.assert_allclose(np.stack([captured[name] for name in names], axis=1), expected, rtol=1e-14)
    # The gradient of the sum of squares is 0 where it is least, up to what rounding the parameters costs.
    y, back = rrule(tmap, model, data.x)
    _, df, _ = back(2 * (y - data.y))
    slopes = np.array([df[name] for name in names]) * data.deviations
    assert np.abs(slopes).max() < 1e-6 * data.sum_of_squares


def test_the_worst_parameter_counts() -> None:
    assert digits(np.array([1.0, 2.002, 3.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(3)
    assert digits(np.ones(2), np.ones(2)) == CERTIFIED


@SETS
def test_the_files_are_read_whole(name: str) -> None:
    data = nist_sets.load(name)
    assert data.certified.shape == data.deviations.shape == data.starts[0].shape == data.starts[1].shape
    residuals = tmap(nist_sets.MODELS[name][0], data.x, *data.certified) - data.y
    assert np.sum(residuals**2) == pytest.approx(data.sum_of_squares, rel=1e-9)
