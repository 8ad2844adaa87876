"""``check=``: a registered derivative compared with difference quotients, when it is registered."""

from __future__ import annotations

from typing import Any

import numpy as np

from tmapad._call import Options, map_elements
from tmapad._function import ScalarFunction
from tmapad._pullback import forward
from tmapad._tangents import ZERO_TANGENT, AbstractZero

ONE_THREAD = Options(1, "dynamic", None)


def check_derivative(function: ScalarFunction, point: Any) -> None:
    """Compare every partial derivative at a point with the difference quotient of the function itself.

    The step of the central differences balances their error with rounding; two of them are extrapolated
    (Richardson), and how much they differ is what may be explained by the curvature of the function.

    Raises
    ------
    ValueError
        If one differs by more than rounding and curvature explain.
    """
    xs = point if isinstance(point, tuple) else (point,)
    for x in xs:
        if isinstance(x, bool) or not isinstance(x, (int, float, complex)):
            raise TypeError(f"check must be a number or a tuple of numbers, not {point!r:.60}")
    xs = tuple(complex(x) if isinstance(x, complex) else float(x) for x in xs)
    y, pull = forward(function, xs, None, "auto", None, None, ONE_THREAD)
    ys = y if isinstance(y, tuple) else (y,)
    for j, value in enumerate(ys):
        dy = tuple(np.ones_like(value) if k == j else ZERO_TANGENT for k in range(len(ys)))
        cotangents = pull(dy if len(ys) > 1 else dy[0], None)[2:]
        for i, cotangent in enumerate(cotangents):
            if not isinstance(cotangent, AbstractZero) and value.dtype.kind in "fc":
                _compare(function, xs, i, j, np.conj(cotangent))


def _compare(function: ScalarFunction, xs: tuple[Any, ...], argument: int, output: int, partial: Any) -> None:
    eps = float(np.finfo(partial.dtype).eps)
    step = eps ** (1 / 3) * max(1.0, abs(xs[argument]))

    def at(shift: float) -> Any:
        moved = tuple(x + shift if i == argument else x for i, x in enumerate(xs))
        y = map_elements(function, moved, None, None, ONE_THREAD)[0]
        return complex(y[output] if isinstance(y, tuple) else y)

    wide, narrow = ((at(h) - at(-h)) / (2 * h) for h in (step, step / 2))
    quotient, doubt = (4 * narrow - wide) / 3, abs(narrow - wide)
    if isinstance(partial.item(), float):
        quotient = quotient.real
    if not abs(partial - quotient) <= 100 * eps ** (2 / 3) * max(1.0, abs(quotient)) + 10 * doubt:
        place = ", ".join(f"{name}={x!r}" for name, x in zip(function.parameters, xs, strict=False))
        raise ValueError(
            f"the derivative of {function.name} in {function.parameters[argument]} is registered as "
            f"{partial.item()!r} at {place}, but differences of the function give {quotient!r}"
        )
