"""``check=``: a registered derivative compared with difference quotients, when it is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tmapad._function import ScalarFunction

# The step of a central difference that balances its error (h**2) with rounding (eps / h), relative to max(1,
# |x|).
STEP = float(np.finfo(np.float64).eps ** (1 / 3))
TOLERANCE = 1e-6


def check_derivative(function: ScalarFunction, point: tuple[Any, ...]) -> None:
    """Compare every partial derivative at a point with the difference quotient of the function itself.

    Raises
    ------
    ValueError
        If one differs by more than rounding and the curvature of the function explain.
    """
    if len(point) != function.nin:
        raise ValueError(f"check must be a point with {function.nin} coordinates, not {len(point)}")
    xs = [np.atleast_1d(np.asarray(x, dtype=complex if isinstance(x, complex) else float)) for x in point]
    kernel = function.kernel(tuple(x.dtype for x in xs), None)
    chars = tuple(x.dtype.char for x in xs)
    wanted = tuple(i for i in range(function.nin) if function.differentiable(i, kernel) == "known")
    value = kernel.map(chars, kernel.results).program
    forward = kernel.forward(chars, kernel.results, wanted, save=True)
    ys = [np.empty(1, char) for char in kernel.results]
    partials = [np.empty(1, char) for char in forward.chars]
    forward.program.run((*xs, *ys, *partials), (1,))

    def at(argument: int, shift: float) -> list[Any]:
        moved = [x + shift if i == argument else x for i, x in enumerate(xs)]
        results = [np.empty(1, char) for char in kernel.results]
        value.run((*moved, *results), (1,))
        return [r[0] for r in results]

    for (j, i), partial in zip(kernel.pairs(wanted), partials, strict=True):
        h = STEP * max(1.0, abs(xs[i][0]))
        wide, narrow = ((at(i, s)[j] - at(i, -s)[j]) / (2 * s) for s in (h, h / 2))
        quotient, doubt = (4 * narrow - wide) / 3, abs(narrow - wide)
        scale = max(1.0, abs(quotient))
        if not abs(partial[0] - quotient) <= TOLERANCE * scale + 10 * doubt:
            place = ", ".join(f"{name}={x[0].item()!r}" for name, x in zip(function.parameters, xs, strict=True))
            raise ValueError(
                f"the derivative of {function.name} in {function.parameters[i]} is registered as "
                f"{partial[0].item()!r} at {place}, but differences of the function give {quotient.item()!r}"
            )
