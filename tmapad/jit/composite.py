"""The elementary functions that Numba makes more of than one call of C: by what is called in Python.

Each is opaque as a whole, and is defined by what Numba makes of it. `elementary` says how they are named.
"""

import builtins
import cmath
import math
import operator
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tmapad.jit import arity, exact

_SINGLE = str.maketrans("dD", "fF")


def in_single(name: str) -> str:
    """Give the name of the same function in single precision."""
    function, _, types = name.rpartition(":")
    return f"{function}:{types.translate(_SINGLE)}"


# ------------------------------------------------------------------------------------------------ what is called

_REAL: dict[Hashable, str] = {
    operator.mod: "remainder:dd->d",
    operator.floordiv: "floor_divide:dd->d",
    builtins.divmod: "divmod:dd->dd",
    np.remainder: "numpy.remainder:dd->d",
    np.floor_divide: "numpy.floor_divide:dd->d",
    np.divmod: "numpy.divmod:dd->dd",
    np.fmod: "fmod:dd->d",
    np.logaddexp: "logaddexp:dd->d",
    np.logaddexp2: "logaddexp2:dd->d",
    np.spacing: "spacing:d->d",
    np.cbrt: "cbrt:d->d",
    np.sign: "sign:d->d",
    math.frexp: "frexp:d->di",
    math.ldexp: "ldexp:di->d",
    np.ldexp: "ldexp:di->d",
}
_COMPLEX: dict[Hashable, str] = {
    builtins.abs: "absolute:D->d",
    np.absolute: "absolute:D->d",
    operator.pow: "power:DD->D",
    builtins.pow: "power:DD->D",
    np.power: "power:DD->D",
    np.float_power: "power:DD->D",
    cmath.asin: "arcsin:D->D",
    cmath.acos: "arccos:D->D",
    cmath.atan: "arctan:D->D",
    cmath.asinh: "arcsinh:D->D",
    cmath.acosh: "arccosh:D->D",
    cmath.atanh: "arctanh:D->D",
    **{getattr(cmath, name): f"{name}:D->D" for name in ("exp", "log", "log10", "sqrt")},
    **{getattr(cmath, name): f"{name}:D->D" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{getattr(np, name): f"{name}:D->D" for name in ("exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt")},
    **{getattr(np, name): f"{name}:D->D" for name in ("sin", "cos", "tan")},
    **{getattr(np, name): f"{name}:D->D" for name in ("arcsin", "arccos", "arctan", "arcsinh", "arctanh")},
    # Numba's versions of these are other than those of cmath.
    **{getattr(np, name): f"numpy.{name}:D->D" for name in ("log10", "sinh", "cosh", "tanh", "arccosh")},
}
CALLS: dict[Hashable, list[str]] = {
    called: [precise for row in (_REAL, _COMPLEX) if called in row for precise in (row[called], in_single(row[called]))]
    for called in (*_REAL, *_COMPLEX)
}
"""By function or operator, the opaque functions that may be called instead, depending on the types."""

UNKNOWN: dict[Hashable, str] = {
    math.fmod: "fmod:dd->d",
    math.modf: "modf:d->dd",
    np.modf: "modf:d->dd",
    np.frexp: "frexp:d->di",
    np.heaviside: "heaviside:dd->d",
    math.cbrt: "libm.cbrt:d->d",
    math.exp2: "exp2:d->d",
    math.remainder: "math_remainder:dd->d",
    math.ulp: "math_ulp:d->d",
    **({math.fma: "math_fma:ddd->d"} if hasattr(math, "fma") else {}),  # since CPython 3.13
}
"""The opaque functions for what Numba, or an older one, does not know."""

# ------------------------------------------------------------------------------------------------ what is compiled


def _modf(x: float) -> tuple[float, float]:
    whole = math.copysign(np.trunc(x), x)
    return math.copysign(0.0 if math.isinf(x) else x - whole, x), whole


def _heaviside(x: float, at_0: float) -> float:
    if x < 0:
        return 0.0
    if x > 0:
        return 1.0
    return at_0 if x == 0 else x


_PSI_ROOT = (1.4616321449683622, 9.549995429965697e-17)  # in two parts; DLMF 5.4.20 has ten digits of it
_PSI_SHIFT = 10
# B(2n) / (2n), for n = 1, 2, ..., 8.
_PSI_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)


def _psi(x: float) -> float:
    """The digamma function: by its root (DLMF 5.5.2 and 5.11.2, as differences), or by reflection (5.5.4)."""
    if x <= 0.0:
        if x == 0.0:
            return -math.copysign(math.inf, x)
        if x == np.floor(x):
            return math.nan
        z = 1.0 - x
    else:
        z = x
    if z > 1e16:
        y = math.log(z)
    else:
        # A sum of terms of one sign, so that it is good near the root too.
        distance = (z - _PSI_ROOT[0]) - _PSI_ROOT[1]
        near, far = _PSI_ROOT[0] + _PSI_SHIFT, z + _PSI_SHIFT
        u, v = 1.0 / (near * near), 1.0 / (far * far)
        terms, power, series = 1.0, 1.0, 0.0
        for coefficient in _PSI_SERIES:
            series += coefficient * terms
            power *= v
            terms = terms * u + power
        y = math.log1p(distance / near) + distance / near / far * (0.5 + (near + far) / near / far * series)
        for k in range(_PSI_SHIFT - 1, -1, -1):
            y += distance / ((_PSI_ROOT[0] + k) * (z + k))
    return y if z == x else y - math.pi / math.tan(math.pi * (x - np.rint(x)))


def _except_at(f: Any, real: float, imag: float, tiny: float, near: Any = None) -> Callable[[complex], complex]:
    """A function that behaves like a square root close to a branch point, where `near` is better if it is given.

    There Numba divides by a root that underflows to 0, and raises: where one part is the smallest of all numbers.
    At 4 times the distance from the branch point, what is small is 2 times as large.
    """
    near = f if near is None else near
    factors = (4.0 if real == tiny else 1.0), (4.0 if imag == tiny else 1.0)
    small = math.sqrt(tiny) * 16

    def f_anywhere(z: complex) -> complex:
        if abs(z.real) != real or abs(z.imag) != imag:
            return f(z)  # type: ignore[no-any-return]
        y = near(complex(factors[0] * z.real, factors[1] * z.imag))
        return complex(0.5 * y.real if abs(y.real) < small else y.real, 0.5 * y.imag if abs(y.imag) < small else y.imag)

    return f_anywhere


def _compiled() -> dict[str, Callable[..., Any]]:
    """The functions to compile: those that are called, but where Numba does not know them, or they raise."""
    found: dict[str, Any] = {name: called for called, names in reversed(CALLS.items()) for name in names}
    found |= dict.fromkeys(("modf:d->dd", "modf:f->ff"), _modf)
    found |= dict.fromkeys(("heaviside:dd->d", "heaviside:ff->f"), _heaviside)
    found |= dict.fromkeys(("math_remainder:dd->d", "math_remainder:ff->f"), exact.remainder)
    found |= {"math_ulp:d->d": exact.ulp, "math_ulp:f->f": exact.ulp}
    for types, tiny in (("D->D", 5e-324), ("F->F", 2.0**-149)):
        for name in ("arcsin", "arccos", "arccosh"):
            found[f"{name}:{types}"] = _except_at(found[f"{name}:{types}"], 1.0, tiny, tiny)
        found[f"numpy.arccosh:{types}"] = _except_at(np.arccosh, 1.0, tiny, tiny, near=cmath.acosh)
        found[f"arcsinh:{types}"] = _except_at(found[f"arcsinh:{types}"], tiny, 1.0, tiny)
        found[f"sqrt:{types}"] = _except_at(found[f"sqrt:{types}"], 0.0, tiny, tiny)
    return found


# For the derivative of the gamma function, which is Python's, where there is no SciPy.
FALLBACKS: dict[str, Any] = {"psi:d->d": _psi, "psi:f->f": _psi}
"""By opaque function, the Python function whose compiled form defines it if SciPy, whose it is, is not there."""

COMPILED = _compiled()
"""By opaque function, the Python function whose compiled form defines it."""


def _of_name(name: str) -> Any:
    """The Python function behind an opaque function; None if there is none."""
    function, _, types = name.partition(":")
    if (of_many := exact.OF_MANY.get(function)) is not None:
        return of_many(len(types.partition("->")[0]))
    return COMPILED.get(name)


def is_compiled(name: str) -> bool:
    """Whether an opaque function is defined by what Numba makes of a Python function."""
    return _of_name(name) is not None


def calling(name: str) -> Any:
    """Make a Python function, to be compiled, that calls what is behind an opaque function.

    Numba compiles no operator and no built-in function alone, but what calls it.
    """
    return arity.calling(_of_name(name) or FALLBACKS[name], len(name.rpartition(":")[2].partition("->")[0]))


def log_to_base(x: Any, base: Any) -> Any:
    """Give the logarithm as `math.log` does when called with two arguments."""
    return math.log(x) / math.log(base)


def complex_log_to_base(x: Any, base: Any) -> Any:
    """Give the logarithm as `cmath.log` does when called with two arguments."""
    return cmath.log(x) / cmath.log(base)


OF_TWO: dict[Hashable, Any] = {math.log: log_to_base, cmath.log: complex_log_to_base}
"""The Python functions for what is called with two arguments although the table has it with one."""
