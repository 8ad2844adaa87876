"""Functions that Numba does not know, or not for numbers, written in Python: which, by the types of their arguments.

A `Form` stands for a function while another one that calls it is compiled. It is a Python function itself, of the same
parameters, called with Numba's types: it gives the Python function to compile for these, None if Numba's own will do,
or raises TypingError with what is wrong.
"""

# ruff: noqa: ARG001 - the parameters of a form are those of a function

import builtins
import cmath
import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.core import errors, types

from tmapad.jit import exact
from tmapad.jit.opaque import opaque_function
from tmapad.jit.scalar import OPAQUE

Form = Callable[..., Any]

PRODUCTS = "products of arrays are made by SciPy's BLAS, which Numba asks Python for: write the sums as loops"

_NAMES = {
    "np": np,
    "math": math,
    "factorial": exact.factorial,
    "perm": exact.perm,
    "lcm": exact.lcm,
    "__name__": __name__,
}


@cache
def _made(parameters: str, expression: str, *names: tuple[str, Any]) -> Any:
    """Make a Python function of an expression; the same one for the same text, so that it is compiled once."""
    namespace = {**_NAMES, **dict(names)}
    exec(f"def made({parameters}):\n    return {expression}", namespace)  # noqa: S102
    return namespace["made"]


# ------------------------------------------------------------------------------------------------ by types


def _plain(given: Any) -> Any:
    """A type, without what is known of the value; that of a default, if it is one."""
    if isinstance(given, types.Omitted):
        return types.unliteral(types.none if given.value is None else types.literal(given.value))
    return types.unliteral(given) if isinstance(given, types.Type) else given


def _is_number(given: Any) -> bool:
    return isinstance(_plain(given), types.Number | types.Boolean)


def _is_integer(given: Any) -> bool:
    return isinstance(_plain(given), types.Integer | types.Boolean)


def _is_real(given: Any) -> bool:
    return _is_integer(given) or isinstance(_plain(given), types.Float)


def _is_none(given: Any) -> bool:
    return given is None or _plain(given) == types.none


def _refuse(name: str, wanted: str, *given: Any) -> errors.TypingError:
    shown = " and ".join(str(_plain(one)) for one in given)
    return errors.TypingError(f"{name} takes {wanted} in a function that is mapped, not {shown}")


def _numbers(name: str, given: Any) -> Sequence[Any]:
    """The types of what is in a tuple of real numbers."""
    if not isinstance(given, types.BaseTuple) or not all(map(_is_real, given)):
        raise _refuse(name, "a tuple of real numbers", given)
    return tuple(given)


def _parts(name: str, count: int) -> list[str]:
    return [f"{name}[{number}]" for number in range(count)]


def _opaque(function: str, count: int) -> tuple[str, Any]:
    return "call", opaque_function(f"{OPAQUE}{function}:{'d' * count}->d")


def _of_all(called: str, empty: str, arguments: Sequence[str]) -> str:
    """An expression that calls a function of two with the first and the second, then with that and the third, ..."""
    expression = arguments[0] if arguments else empty
    for one in arguments[1:]:
        expression = f"{called}({expression}, {one})"
    return expression


def _fsum(seq: Any, /) -> Any:
    count = len(_numbers("math.fsum", seq))
    return _made("seq", f"call({', '.join(_parts('seq', count))})" if count else "0.0", _opaque("math_fsum", count))


def _sum(iterable: Any, /, start: Any = 0) -> Any:
    # Numba's own loop over a tuple of different types reads integers where floats may be.
    if not isinstance(iterable, types.BaseTuple) or not all(map(_is_number, iterable)):
        return None
    return _made("iterable, start=0", " + ".join(["start", *_parts("iterable", len(iterable))]))


def _prod(iterable: Any, /, *, start: Any = 1) -> Any:
    _numbers("math.prod", iterable)
    return _made("iterable, *, start=1", " * ".join(["start", *_parts("iterable", len(iterable))]))


def _length(arguments: Sequence[str]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """An expression for the length of a vector, and what it needs."""
    if len(arguments) < 2:
        return f"math.fabs({arguments[0]})" if arguments else "0.0", ()
    return f"call({', '.join(arguments)})", (_opaque("math_hypot", len(arguments)),)


def _hypot(*coordinates: Any) -> Any:
    if len(coordinates) == 2:
        return None
    if not all(map(_is_real, coordinates)):
        raise _refuse("math.hypot", "real numbers", *coordinates)
    names = [f"x{number}" for number in range(len(coordinates))]
    expression, needed = _length(names)
    return _made(", ".join(names), expression, *needed)


def _dist(p: Any, q: Any, /) -> Any:
    count = len(_numbers("math.dist", p))
    if count != len(_numbers("math.dist", q)):
        raise errors.TypingError("both points must have the same number of dimensions")
    pairs = zip(_parts("p", count), _parts("q", count), strict=True)
    expression, needed = _length([f"float({a} - {b})" for a, b in pairs])
    return _made("p, q", expression, *needed)


def _sumprod(p: Any, q: Any, /) -> Any:
    count = len(_numbers("math.sumprod", p))
    if count != len(_numbers("math.sumprod", q)):
        raise errors.TypingError("Inputs are not the same length")
    both = _parts("p", count) + _parts("q", count)
    if all(map(_is_integer, (*p, *q))):
        products = [f"{a} * {b}" for a, b in zip(both[:count], both[count:], strict=True)]
        return _made("p, q", " + ".join(["0", *products]))
    return _made("p, q", f"call({', '.join(both)})", _opaque("math_sumprod", 2 * count))


def _of_integers(name: str, function: Any) -> Form:
    def form(*integers: Any) -> Any:
        if not all(map(_is_integer, integers)):
            raise _refuse(name, "integers", *integers)
        return function(*integers)

    return form


def _perm(n: Any, k: Any = None, /) -> Any:
    if not _is_integer(n) or not (_is_none(k) or _is_integer(k)):
        raise _refuse("math.perm", "integers", n, k)
    return _made("n, k=None", "factorial(n)" if _is_none(k) else "perm(n, k)")


def _gcd(*integers: Any) -> Any:
    if len(integers) == 2:
        return None
    names = [f"x{number}" for number in range(len(integers))]
    arguments = [f"abs({name})" for name in names] if len(names) == 1 else names
    return _made(", ".join(names), _of_all("math.gcd", "0", arguments))


def _lcm(*integers: Any) -> Any:
    names = [f"x{number}" for number in range(len(integers))]
    return _made(", ".join(names), _of_all("lcm", "1", [f"abs({name})" for name in names]))


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    return exact.isclose


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **bounds: Any) -> Any:
    lower, upper = bounds.get("min", a_min), bounds.get("max", a_max)
    if not all(_is_number(one) or _is_none(one) for one in (a, lower, upper)):
        return None
    if not _is_none(out) or bounds.keys() - {"min", "max"}:
        raise errors.TypingError("np.clip of a number takes two bounds and nothing else")
    names = [name if name in bounds else f"a_{name}" for name in ("min", "max")]
    expression = "a"
    if not _is_none(lower):
        expression = f"np.maximum({expression}, {names[0]})"
    if not _is_none(upper):
        expression = f"np.minimum({expression}, {names[1]})"
    return _made(f"a, {', '.join(f'{name}=None' for name in (*names, 'out'))}", expression)


def _where(condition: Any, /, *values: Any) -> Any:
    if len(values) != 2 or not all(map(_is_number, (condition, *values))):
        return None
    return _made("condition, x, y", "x if condition else y")


def _fix(x: Any, out: Any = None) -> Any:
    if not _is_real(x) or not _is_none(out):
        raise _refuse("np.fix", "a real number", x)
    return _made("x, out=None", "np.trunc(x)")


def _product(a: Any, b: Any, **options: Any) -> Any:
    if options or not _is_number(a) or not _is_number(b):
        raise errors.TypingError(PRODUCTS)
    return _made("a, b", "a * b")


def _product_of_arrays(*_: Any, **options: Any) -> Any:
    raise errors.TypingError(PRODUCTS)


def _float(x: Any = 0.0, /) -> Any:
    return _made("x", "1.0 if x else 0.0") if isinstance(_plain(x), types.Boolean) else None


def _str(x: Any = "", /) -> Any:
    if isinstance(_plain(x), types.Float | types.Complex):
        raise errors.TypingError("there is no text of a float in compiled code: Numba's is another than Python's")


def _truth(name: str, joined: str, empty: str) -> Form:
    def form(iterable: Any, /) -> Any:
        if not isinstance(iterable, types.BaseTuple) or not all(map(_is_number, iterable)):
            raise _refuse(name, "a tuple of numbers", iterable)
        terms = [f"bool({part})" for part in _parts("iterable", len(iterable))]
        return _made("iterable", joined.join(terms) or empty)

    return form


FORMS: dict[Hashable, Form] = {
    math.fsum: _fsum,
    math.prod: _prod,
    math.hypot: _hypot,
    math.dist: _dist,
    math.isclose: _isclose,
    cmath.isclose: _isclose,
    math.factorial: _of_integers("math.factorial", lambda n: exact.factorial),
    math.comb: _of_integers("math.comb", lambda n, k: exact.comb),
    math.isqrt: _of_integers("math.isqrt", lambda n: exact.isqrt),
    math.perm: _perm,
    math.gcd: _of_integers("math.gcd", _gcd),
    math.lcm: _of_integers("math.lcm", _lcm),
    np.clip: _clip,
    np.where: _where,
    np.fix: _fix,
    np.dot: _product,
    np.vdot: _product_of_arrays,
    np.matmul: _product_of_arrays,
    np.convolve: _product_of_arrays,
    np.correlate: _product_of_arrays,
    builtins.repr: _str,
    builtins.sum: _sum,
    builtins.any: _truth("any", " or ", "False"),
    builtins.all: _truth("all", " and ", "True"),
}
"""By function, what gives the Python function to compile."""
if hasattr(math, "sumprod"):  # since CPython 3.12
    FORMS[math.sumprod] = _sumprod

CLASSES: dict[Hashable, Form] = {float: _float, str: _str}
"""The same of classes that are called: otherwise they stand for types."""

_BY_ID = {id(value): form for value, form in (FORMS | CLASSES).items()}  # not all that is called has a hash


def form_of(value: Any, *, is_called: bool) -> Form | None:
    """What gives the Python function to compile for a function, or for a class if it is called."""
    if isinstance(value, type):
        return _BY_ID.get(id(value)) if is_called else None
    return _BY_ID.get(id(value))
