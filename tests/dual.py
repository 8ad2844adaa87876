"""Derivatives of scalar Python functions by dual numbers: what the compiler's derivatives are compared with.

A `Dual` is a number with its derivative with respect to each of some real parameters. `derivatives` runs a
function on them, in plain Python, with `math`, `np`, `cmath`, `float` and `complex` replaced, there and in all the
functions it calls. Nothing of tmapad is used.

Arithmetic is IEEE's, as in compiled code. A complex number has two parameters, so C is R^2 here. What does not depend
on a parameter, by the way that was taken, has None in the place of a derivative, and keeps it whatever is done to it;
one that is computed to be 0 is a number, which an infinite derivative makes NaN. Conventions at kinks: 0 for `abs`, the
first of equals for `max` and `min` (as Python chooses them), none for steps.
"""

import cmath
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CellType, FunctionType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import scipy.special

Number = Any  # float, complex or Dual


Tangent = complex | None


class Dual:
    """A number, and its derivatives with respect to all parameters."""

    __slots__ = ("tangents", "value")
    largest = 0.0  # of all tangents since `derivatives` began: the scale of rounding errors

    def __init__(self, value: complex, tangents: Iterable[Tangent]) -> None:
        self.value = value
        self.tangents = tuple(tangents)
        sizes = (abs(t) for t in self.tangents if t is not None and cmath.isfinite(t))
        Dual.largest = max(Dual.largest, *sizes, 0.0)

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.tangents!r})"

    def __add__(self, other: Number) -> Number:
        return add(self, other)

    def __radd__(self, other: Number) -> Number:
        return add(other, self)

    def __sub__(self, other: Number) -> Number:
        return subtract(self, other)

    def __rsub__(self, other: Number) -> Number:
        return subtract(other, self)

    def __mul__(self, other: Number) -> Number:
        return multiply(self, other)

    def __rmul__(self, other: Number) -> Number:
        return multiply(other, self)

    def __truediv__(self, other: Number) -> Number:
        return divide(self, other)

    def __rtruediv__(self, other: Number) -> Number:
        return divide(other, self)

    def __mod__(self, other: Number) -> Number:
        return remainder(self, other)

    def __rmod__(self, other: Number) -> Number:
        return remainder(other, self)

    def __floordiv__(self, other: Number) -> float:
        return floor_divide(primal(self), primal(other))

    def __rfloordiv__(self, other: Number) -> float:
        return floor_divide(primal(other), primal(self))

    def __divmod__(self, other: Number) -> tuple[float, Number]:
        return self // other, self % other

    def __rdivmod__(self, other: Number) -> tuple[float, Number]:
        return other // self, other % self

    def __pow__(self, other: Number) -> Number:
        return power(self, other)

    def __rpow__(self, other: Number) -> Number:
        return power(other, self)

    def __neg__(self) -> "Dual":
        return Dual(-self.value, self.each(lambda t: -t))

    def __pos__(self) -> "Dual":
        return self

    def __abs__(self) -> Number:
        return absolute(self)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == primal(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: Number) -> bool:
        return self.value < primal(other)

    def __le__(self, other: Number) -> bool:
        return self.value <= primal(other)

    def __gt__(self, other: Number) -> bool:
        return self.value > primal(other)

    def __ge__(self, other: Number) -> bool:
        return self.value >= primal(other)

    def __int__(self) -> int:
        return int(self.value)

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)

    def __float__(self) -> NoReturn:
        raise TypeError("the derivative would be lost: float is to be replaced")

    __complex__ = __float__

    @property
    def real(self) -> "Dual":
        return Dual(self.value.real, self.each(lambda t: t.real))

    @property
    def imag(self) -> "Dual":
        return Dual(self.value.imag, self.each(lambda t: t.imag))

    def conjugate(self) -> "Dual":
        return Dual(self.value.conjugate(), self.each(lambda t: t.conjugate()))

    def each(self, function: Callable[[complex], complex]) -> Iterator[Tangent]:
        """A function of every tangent that there is."""
        return (None if t is None else function(t) for t in self.tangents)


def is_dual(x: Number) -> bool:
    return isinstance(x, Dual)


def primal(x: Number) -> Any:
    """The number without its tangents."""
    return x.value if isinstance(x, Dual) else x


def chain(slopes: Iterable[complex], tangents: Iterable[Tangent]) -> Tangent:
    """The sum of the slopes times the tangents that there are; None if there are none."""
    terms = [slope * t for slope, t in zip(slopes, tangents, strict=True) if t is not None]
    return sum(terms) if terms else None


# ------------------------------------------------------------------------------------------------ elementary functions

_OTHER_NAMES = {"gamma": scipy.special.gamma, "lgamma": scipy.special.gammaln}


def ieee(name: str) -> Callable[..., Any]:
    """The function of this name in `math` or `cmath`; where they raise, what NumPy gives."""

    def value(*xs: Any) -> Any:
        try:
            return getattr(cmath if any(isinstance(x, complex) for x in xs) else math, name)(*xs)
        except (ValueError, OverflowError, ZeroDivisionError):
            with np.errstate(all="ignore"):
                return (_OTHER_NAMES.get(name) or getattr(np, name))(*xs).item()

    return value


def quotient(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return a / b if b else np.divide(a, b).item()


def floor_divide(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return a // b if b else np.floor_divide(a, b).item()


def modulo(a: Any, b: Any) -> Any:
    return a % b if b else math.nan


def raised(a: Any, b: Any) -> Any:
    if isinstance(a, complex) or isinstance(b, complex):
        return a**b if a or b else 1.0 + 0j
    return ieee("pow")(float(a), float(b))


def slope_of_base(y: Any, a: Any, b: Any) -> Any:
    return b * raised(a, b - 1) if b else 0.0


def slope_of_exponent(y: Any, a: Any, b: Any) -> Any:
    if isinstance(y, complex):
        return y * cmath.log(a) if y else 0.0
    if y == 0 and a >= 0:
        return 0.0
    return y * ieee("log")(a) if a >= 0 else math.nan


def function(value: Callable[..., Any], *slopes: Callable[..., Any] | None) -> Callable[..., Any]:
    """A function of numbers and duals, from one of numbers and its derivative in each argument: ``slope(y, *xs)``.

    None for an argument by which the function is constant between steps.
    """

    def apply(*xs: Number) -> Number:
        values = [primal(x) for x in xs]
        y = value(*values)
        active = [(slope(y, *values), x.tangents) for x, slope in zip(xs, slopes, strict=True) if slope and is_dual(x)]
        if not active:
            return y
        at, tangents = zip(*active, strict=True)
        return Dual(y, (chain(at, each) for each in zip(*tangents, strict=True)))

    return apply


add = function(lambda a, b: a + b, lambda y, a, b: 1.0, lambda y, a, b: 1.0)
subtract = function(lambda a, b: a - b, lambda y, a, b: 1.0, lambda y, a, b: -1.0)
multiply = function(lambda a, b: a * b, lambda y, a, b: b, lambda y, a, b: a)
divide = function(quotient, lambda y, a, b: quotient(1.0, b), lambda y, a, b: quotient(-y, b))
remainder = function(modulo, lambda y, a, b: 1.0, lambda y, a, b: -floor_divide(a, b))
power = function(raised, slope_of_base, slope_of_exponent)


def of_many(value: Callable[..., Any], slopes: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """The same of any number of arguments: ``slopes(y, *xs)`` gives the derivatives in all of them."""
    return lambda *xs: function(value, *(lambda y, *at, k=k: slopes(y, *at)[k] for k in range(len(xs))))(*xs)


def absolute(x: Number) -> Number:
    if not isinstance(x, Dual):
        return abs(x)
    size = abs(x.value)
    unit = x.value.conjugate() / size if size else 0.0
    return Dual(size, x.each(lambda t: (unit * t).real))


def sign(x: Any) -> float:
    return float(np.sign(x))


def step(value: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose derivative is 0, or whose result is not a float."""
    return lambda *xs, **options: value(*map(primal, xs), **{name: primal(x) for name, x in options.items()})


def slope_of_logarithm(scale: float, shift: float = 0.0) -> Callable[..., Any]:
    """``1 / (scale (x + shift))``, of real numbers only where there is a logarithm."""
    return lambda y, x: quotient(1.0, scale * (x + shift)) if y == y else math.nan


def logarithm(x: Number, base: Number | None = None) -> Number:
    natural = function(ieee("log"), slope_of_logarithm(1.0))
    return natural(x) if base is None else natural(x) / natural(base)


_sqrt, _exp, _cosh = ieee("sqrt"), ieee("exp"), ieee("cosh")

# By their names in `math` and `cmath`.
ELEMENTARY: dict[str, Callable[..., Any]] = {
    name: function(ieee(name), *slopes)
    for name, slopes in {
        "sin": [lambda y, x: ieee("cos")(x)],
        "cos": [lambda y, x: -ieee("sin")(x)],
        "tan": [lambda y, x: 1.0 + y * y],
        "asin": [lambda y, x: quotient(1.0, _sqrt(1.0 - x) * _sqrt(1.0 + x))],
        "acos": [lambda y, x: quotient(-1.0, _sqrt(1.0 - x) * _sqrt(1.0 + x))],
        "atan": [lambda y, x: quotient(1.0, 1.0 + x * x)],
        "sinh": [lambda y, x: _cosh(x)],
        "cosh": [lambda y, x: ieee("sinh")(x)],
        "tanh": [lambda y, x: (1.0 / _cosh(x)) ** 2],
        "asinh": [lambda y, x: 1.0 / _sqrt(1.0 + x * x)],
        "acosh": [lambda y, x: quotient(1.0, _sqrt(x - 1.0) * _sqrt(x + 1.0))],
        "atanh": [lambda y, x: quotient(1.0, (1.0 - x) * (1.0 + x))],
        "exp": [lambda y, x: y],
        "exp2": [lambda y, x: math.log(2.0) * y],
        "expm1": [lambda y, x: _exp(x)],
        "log2": [slope_of_logarithm(math.log(2.0))],
        "log10": [slope_of_logarithm(math.log(10.0))],
        "log1p": [slope_of_logarithm(1.0, 1.0)],
        "sqrt": [lambda y, x: quotient(0.5, abs(y) if isinstance(y, float) else y)],
        "cbrt": [lambda y, x: quotient(1.0, 3.0 * y * y)],
        "erf": [lambda y, x: 2.0 / math.sqrt(math.pi) * _exp(-x * x)],
        "erfc": [lambda y, x: -2.0 / math.sqrt(math.pi) * _exp(-x * x)],
        "gamma": [lambda y, x: y * scipy.special.psi(x)],
        "lgamma": [lambda y, x: float(scipy.special.psi(x))],
        "degrees": [lambda y, x: 180.0 / math.pi],
        "radians": [lambda y, x: math.pi / 180.0],
        "fabs": [lambda y, x: sign(x)],
        "atan2": [lambda y, a, b: b / (a * a + b * b), lambda y, a, b: -a / (a * a + b * b)],
        "hypot": [lambda y, a, b: a / y if y else 0.0, lambda y, a, b: b / y if y else 0.0],
        "copysign": [lambda y, a, b: sign(a) * math.copysign(1.0, b), None],
        "fmod": [lambda y, a, b: 1.0, lambda y, a, b: -float(round((a - y) / b))],
        "ldexp": [lambda y, a, n: math.ldexp(1.0, n), None],
    }.items()
} | {"log": logarithm, "pow": power}  # fmt: skip

_TESTS = {name: step(getattr(math, name)) for name in ("isnan", "isinf", "isfinite")}


class LocalArray:
    """As much of an array as compiled functions use of one: elements by index, length, shape and sum."""

    def __init__(self, shape: int | tuple[int, ...], fill: Any = 0.0) -> None:
        self.shape = (shape,) if isinstance(shape, int) else shape
        self._all = dict.fromkeys(np.ndindex(self.shape), fill)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Number:
        return self._all[self._checked(index)]

    def __setitem__(self, index: Any, value: Number) -> None:
        self._all[self._checked(index)] = value

    def __iter__(self) -> Iterator[Number]:
        return iter(self._all.values())

    def sum(self) -> Number:
        return sum(self)

    def copy(self) -> "LocalArray":
        other = LocalArray(self.shape)
        other._all = dict(self._all)
        return other

    @property
    def size(self) -> int:
        return len(self._all)

    def _checked(self, index: Any) -> tuple[int, ...]:
        indices = index if isinstance(index, tuple) else (index,)
        if any(not -n <= i < n for i, n in zip(indices, self.shape, strict=True)):
            raise IndexError("index is out of bounds")
        return tuple(i % n for i, n in zip(indices, self.shape, strict=True))


def array(values: Sequence[Number]) -> LocalArray:
    result = LocalArray(len(values))
    for i, value in enumerate(values):
        result[i] = value
    return result


def as_float(x: Number) -> Number:
    return x if isinstance(x, Dual) and isinstance(x.value, float) else float(x)


def as_complex(real: Number, imag: Number = 0.0) -> Number:
    return real + 1j * imag if isinstance(real, Dual) or isinstance(imag, Dual) else complex(real, imag)


def clipped(x: Number, low: Number = None, high: Number = None, **bounds: Number) -> Number:
    low, high = bounds.get("min", bounds.get("a_min", low)), bounds.get("max", bounds.get("a_max", high))
    x = x if low is None else max(x, low)
    return x if high is None else min(x, high)


def cardinal_sine(x: Number) -> Number:
    return ELEMENTARY["sin"](x * math.pi) / (x * math.pi) if x else 0 * x + 1.0


MATH = SimpleNamespace(
    **vars(math) | ELEMENTARY | _TESTS,
)
MATH.floor, MATH.ceil, MATH.trunc = (step(getattr(math, name)) for name in ("floor", "ceil", "trunc"))
MATH.frexp = lambda x: (x / 2.0 ** math.frexp(primal(x))[1], math.frexp(primal(x))[1])
MATH.hypot = of_many(math.hypot, lambda y, *xs: [x / y if y else 0.0 for x in xs])
MATH.dist = lambda p, q: MATH.hypot(*(a - b for a, b in zip(p, q, strict=True)))
MATH.fsum = lambda xs: of_many(lambda *xs: math.fsum(xs), lambda y, *xs: [1.0] * len(xs))(*xs)
MATH.prod = lambda xs, *, start=1: functools.reduce(multiply, xs, start)
MATH.sumprod = lambda p, q: sum(a * b for a, b in zip(p, q, strict=True))
MATH.fma = lambda a, b, c: a * b + c
MATH.remainder = function(
    math.remainder, lambda y, a, b: 1.0, lambda y, a, b: -float(round((a - y) / b)) if math.isfinite(b) else 0.0
)
for _name in ("ulp", "isclose"):
    setattr(MATH, _name, step(getattr(math, _name)))
MATH.nextafter = function(math.nextafter, lambda y, a, b: 1.0, None)
MATH.modf = lambda x: (x - math.trunc(primal(x)), float(math.trunc(primal(x))))

NP = SimpleNamespace(
    **{name: getattr(np, name) for name in ("pi", "e", "inf", "nan", "int64", "bool_")},
    **{getattr(np, name).__name__: f for name, f in ELEMENTARY.items() if hasattr(np, name)},
    **_TESTS,
    **{name: step(getattr(np, name)) for name in ("floor", "ceil", "trunc", "rint", "sign", "floor_divide", "signbit")},
    abs=absolute,
    absolute=absolute,
    add=add,
    subtract=subtract,
    multiply=multiply,
    divide=divide,
    negative=lambda x: -x,
    remainder=remainder,
    mod=remainder,
    square=lambda x: x * x,
    reciprocal=lambda x: 1.0 / x,
    maximum=max,
    minimum=min,
    fmax=max,
    fmin=min,
    float64=as_float,
    where=lambda condition, a, b: a if condition else b,
    zeros=lambda shape, dtype=float: LocalArray(shape, dtype(0)),
    complex128=complex,
    empty=lambda shape: LocalArray(shape, math.nan),
    ones=lambda shape: LocalArray(shape, 1.0),
    full=LocalArray,
    array=array,
    clip=clipped,
    sinc=cardinal_sine,
    nan_to_num=lambda x: x if math.isfinite(primal(x)) else float(np.nan_to_num(primal(x))),
    angle=lambda z: _argument(z),
    dot=multiply,
    **{name: step(getattr(np, name)) for name in ("fix", "round", "around", "isclose")},
    real=lambda z: z.real,
    imag=lambda z: z.imag,
    conj=lambda z: z.conjugate(),
    conjugate=lambda z: z.conjugate(),
)


def _argument(z: Number) -> Number:
    return ELEMENTARY["atan2"](z.imag, z.real)


def _complex(name: str) -> Callable[[Number], Number]:
    return lambda z: ELEMENTARY[name](z if isinstance(primal(z), complex) else as_complex(z))


CMATH = SimpleNamespace(
    **vars(cmath)
    | {name: _complex(name) for name in vars(cmath) if name in ELEMENTARY}
    | {"phase": _argument, "polar": lambda z: (abs(z), _argument(z))}
    | {"rect": lambda r, phi: as_complex(r * MATH.cos(phi), r * MATH.sin(phi))}
    | {name: step(getattr(cmath, name)) for name in ("isnan", "isinf", "isfinite", "isclose")}
)

_MODULES = {id(math): MATH, id(np): NP, id(cmath): CMATH}
_FUNCTIONS = {
    id(getattr(module, name)): getattr(namespace, name)
    for module, namespace in ((math, MATH), (cmath, CMATH), (np, NP))
    for name in vars(namespace)
    if callable(getattr(module, name, None))
}
_BUILTINS = {"float": as_float, "complex": as_complex}

# ------------------------------------------------------------------------------------------------ whole functions


def replaced(value: Any, seeds: dict[str, Any], path: str = "") -> Any:
    """What a function is to find in place of a value; for a function one that finds all that replaced.

    Parameters
    ----------
    seeds : dict
        What captured variables are to be, by path: ``"a"``, ``"helper.a"``.
    path : str
        Before the names of what this function captured.
    """
    value = getattr(value, "py_func", value)
    if not isinstance(value, FunctionType) or (value.__module__ or "").startswith("numpy"):
        return _MODULES.get(id(value), _FUNCTIONS.get(id(value), value))
    code, names = value.__code__, dict(_BUILTINS)

    def found(name: str, old: Any) -> Any:
        if path + name in seeds:
            return seeds[path + name]
        return old if old is value else replaced(old, seeds, f"{path}{name}.")

    names |= {name: found(name, value.__globals__[name]) for name in _names(code) if name in value.__globals__}
    cells = tuple(
        CellType(found(name, cell.cell_contents))
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True)
    )
    result = FunctionType(code, names, value.__name__, value.__defaults__, cells)
    result.__kwdefaults__ = value.__kwdefaults__
    return result


def _names(code: Any) -> set[str]:
    """The globals (and attributes) that a function and the functions in it name."""
    inner = (constant for constant in code.co_consts if isinstance(constant, type(code)))
    return set(code.co_names).union(*map(_names, inner))


def seeded(values: Sequence[Any]) -> list[Any]:
    """Numbers and arrays as duals: each real number is a parameter, each complex one two; the rest stays."""
    units = [unit for value in values for unit in _units(value)]
    count, used = len(units), 0
    result = []
    for value in values:
        flat = []
        for one in np.ravel(value).tolist() if _units(value) else ():
            width = len(_units(one))
            flat.append(Dual(one, (units[k] if used <= k < used + width else None for k in range(count))))
            used += width
        result.append(value if not flat else array(flat) if isinstance(value, np.ndarray) else flat[0])
    return result


def _units(value: Any) -> list[complex]:
    kind = np.asarray(value).dtype.kind if isinstance(value, float | complex | np.ndarray) else ""
    return ([1.0] if kind == "f" else [1.0, 1j] if kind == "c" else []) * np.size(value)


def derivatives(
    f: Callable[..., Any], *xs: Any, captured: dict[str, Any] | None = None
) -> tuple[tuple[Any, ...], list[list[complex]]]:
    """Run a function on duals.

    Parameters
    ----------
    f : function
        Plain, or decorated with Numba.
    *xs : number
        Floats and complex numbers are differentiated, integers and bools not.
    captured : dict, optional
        Of what it captured, that which is to be differentiated, by path.

    Returns
    -------
    ys : tuple of number
        What it returned.
    jacobian : list of lists
        For each of them the derivative with respect to each real parameter: of the arguments, then of what was
        captured, two for each complex number.
    """
    captured = captured or {}
    seeds = seeded([*xs, *captured.values()])
    Dual.largest = 0.0
    run = replaced(f, dict(zip(captured, seeds[len(xs) :], strict=True)))
    returned = run(*seeds[: len(xs)])
    ys = returned if isinstance(returned, tuple) else (returned,)
    count = sum(len(_units(value)) for value in (*xs, *captured.values()))
    rows = (y.tangents if isinstance(y, Dual) else [None] * count for y in ys)
    return tuple(map(primal, ys)), [[0.0 if t is None else t for t in row] for row in rows]


def pulled(
    f: Callable[..., Any], xs: Sequence[Any], dys: Sequence[complex], captured: dict[str, Any] | None = None
) -> tuple[tuple[Any, ...], list[Any]]:
    """``(ys, cotangents)`` at one point: of each argument and each captured number, C as R^2.

    The cotangent of an integer is 0, that of an array an array.
    """
    ys, jacobian = derivatives(f, *xs, captured=captured)
    columns = iter([
        sum((complex(d).conjugate() * dy).real for d, dy in zip(column, dys, strict=True) if dy)
        for column in zip(*jacobian, strict=True)
    ])  # fmt: skip
    cotangents: list[Any] = []
    for value in (*xs, *(captured or {}).values()):
        each = [next(columns) for _ in _units(value)]
        if np.iscomplexobj(value):
            each = [complex(a, b) for a, b in zip(each[::2], each[1::2], strict=True)]
        cotangents.append(np.array(each).reshape(np.shape(value)) if np.ndim(value) else each[0] if each else 0.0)
    return ys, cotangents
