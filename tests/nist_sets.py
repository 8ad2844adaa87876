"""Nonlinear regression sets of NIST's Statistical Reference Datasets: what their files say, and their models.

The header of a file names the lines of its parts, counted from 1::

    File Format:   ASCII
                   Starting Values   (lines 41 to 45)
                   Certified Values  (lines 41 to 50)
                   Data              (lines 61 to 93)

A parameter has a line ``b1 = start 1, start 2, certified value, its standard deviation``; an observation has ``y x``.
Models are scalar functions, and a Jacobian written by hand goes with each: a column for every parameter.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FOLDER = Path(__file__).parent / "nist"


@dataclass(frozen=True)
class Set:
    """What the file of a set says."""

    name: str
    starts: tuple[Array, Array]
    certified: Array
    deviations: Array  # standard deviations of the parameters
    sum_of_squares: float
    x: Array
    y: Array


def load(name: str) -> Set:
    """Read the file of a set."""
    text = (FOLDER / f"{name}.dat").read_text()
    lines = text.splitlines()

    def part(title: str) -> list[str]:
        first, last = re.findall(rf"^ *{title} *\(lines (\d+) to +(\d+)\)", text, re.MULTILINE)[0]
        return lines[int(first) - 1 : int(last)]

    # The lines of certified values go on to the residual sum of squares and the number of observations.
    parameters = [line.partition("=")[2].split() for line in part("Starting Values")]
    start1, start2, certified, deviations = np.array(parameters, dtype=float).T
    y, x = np.array([line.split() for line in part("Data")], dtype=float).T
    rest = {line.partition(":")[0]: line.partition(":")[2] for line in part("Certified Values") if ":" in line}
    found = Set(name, (start1, start2), certified, deviations, float(rest["Residual Sum of Squares"]), x, y)
    declared = int(re.findall(r"(\d+) Parameters", text)[0])
    if (declared, int(re.findall(r"(\d+) Observations", text)[0])) != (certified.size, x.size):
        raise ValueError(f"{name}.dat does not hold as many parameters and observations as it says")
    return found


# ------------------------------------------------------------------------------------------------- models


def misra1a(x: float, b1: float, b2: float) -> float:
    return b1 * (1.0 - math.exp(-b2 * x))


def misra1a_columns(x: Array, b1: float, b2: float) -> list[Array]:
    return [1 - np.exp(-b2 * x), b1 * x * np.exp(-b2 * x)]


def mgh17(x: float, b1: float, b2: float, b3: float, b4: float, b5: float) -> float:
    return b1 + b2 * math.exp(-x * b4) + b3 * math.exp(-x * b5)


def mgh17_columns(x: Array, b1: float, b2: float, b3: float, b4: float, b5: float) -> list[Array]:
    p, q = np.exp(-x * b4), np.exp(-x * b5)
    return [np.ones_like(x), p, q, -x * b2 * p, -x * b3 * q]


def kirby2(x: float, b1: float, b2: float, b3: float, b4: float, b5: float) -> float:
    return (b1 + b2 * x + b3 * x**2) / (1.0 + b4 * x + b5 * x**2)


def kirby2_columns(x: Array, b1: float, b2: float, b3: float, b4: float, b5: float) -> list[Array]:
    below = 1 + b4 * x + b5 * x**2
    y = (b1 + b2 * x + b3 * x**2) / below
    return [1 / below, x / below, x**2 / below, -y * x / below, -y * x**2 / below]


def thurber(x: float, b1: float, b2: float, b3: float, b4: float, b5: float, b6: float, b7: float) -> float:
    return (b1 + b2 * x + b3 * x**2 + b4 * x**3) / (1.0 + b5 * x + b6 * x**2 + b7 * x**3)


def thurber_columns(
    x: Array, b1: float, b2: float, b3: float, b4: float, b5: float, b6: float, b7: float
) -> list[Array]:
    below = 1 + b5 * x + b6 * x**2 + b7 * x**3
    y = (b1 + b2 * x + b3 * x**2 + b4 * x**3) / below
    return [*(x**k / below for k in range(4)), *(-y * x**k / below for k in (1, 2, 3))]


# By the name of the file: the model, and its Jacobian by hand.
MODELS: dict[str, tuple[Callable[..., float], Callable[..., list[Array]]]] = {
    "Misra1a": (misra1a, misra1a_columns),
    "MGH17": (mgh17, mgh17_columns),
    "Kirby2": (kirby2, kirby2_columns),
    "Thurber": (thurber, thurber_columns),
}
