"""The derivatives of functions of Python's `math` that NumPy does not have, or has for fewer arguments: one row each.

Their names begin with "math_", so that none is taken for that of a ufunc. Rows of any number of arguments are functions
of ``*xs``.
"""

import functools
from collections.abc import Callable
from typing import Any

from tmapad._derivative_table import remainder, scale_for
from tmapad._derivatives import Node, Operand, f, rule


def hypot(y: Node, *sides: Node) -> tuple[Operand, ...]:
    """The unit vector, 0 at 0."""
    infinite = functools.reduce(lambda a, b: a | b, map(f.isinf, sides))
    c = scale_for(functools.reduce(f.maximum, map(f.absolute, sides)))
    # An infinite side beside finite ones is the longest by all means.
    scaled = [f.select(infinite, f.select(f.isinf(side), f.sign(side), 0 * side), c * side) for side in sides]
    h = functools.reduce(f.hypot, scaled)
    return tuple(f.select(f.equal(h, 0), 0.0, side / h) for side in scaled)


def sumprod(y: Node, *factors: Node) -> tuple[Operand, ...]:
    """The other factors: the first half of the arguments is multiplied by the second."""
    half = len(factors) // 2
    return (*factors[half:], *factors[:half])


def nearest_quotient(y: Node, a: Node, b: Node) -> tuple[Operand, Operand]:
    """1 and minus the quotient, rounded to the nearest integer: in two parts, of which none overflows."""
    return remainder(a, b, f.rint(a / b - y / b))


def ones(y: Node, *xs: Node) -> tuple[Operand, ...]:
    """The derivatives of a sum."""
    return (1.0,) * len(xs)


ROWS: dict[str, Callable[..., Any]] = {
    "math_fma": lambda y, a, b, c: (b, a, 1.0),
    "math_fsum": ones,
    "math_hypot": hypot,
    "math_remainder": nearest_quotient,
    "math_sumprod": sumprod,
    "math_ulp": lambda y, x: 0.0,
}
for name, row in ROWS.items():
    rule(name, row)
