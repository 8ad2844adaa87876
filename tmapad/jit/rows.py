"""Rows of the derivative table as instructions: the partial derivatives of one call of an elementary function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tmapad._derivatives import Derivative, Node
from tmapad.jit.elementary import declaration, is_defined
from tmapad.jit.emit import Emitter, real
from tmapad.jit.scalar import OPAQUE, slots

_ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_COMPARISONS = {
    "less": "olt",
    "less_equal": "ole",
    "greater": "ogt",
    "greater_equal": "oge",
    "equal": "oeq",
    "not_equal": "une",
}
_LOGIC = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_INTRINSICS = {
    "absolute": "fabs",
    "fabs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "copysign": "copysign",
}
_INFINITY = real(math.inf)


class Value(NamedTuple):
    """What a node is in a function: a bool ("?"), a real ("d") or a complex number ("D", real and imaginary part)."""

    char: str
    parts: tuple[str, ...]


class Row:
    """The partial derivatives of one call, computed where they are asked for, each once.

    Parameters
    ----------
    emitter : Emitter
    derivative : Derivative
        The row.
    xs : sequence of Value
        The arguments of the call.
    ys : sequence of Value
        Its outputs.
    type_ : str
        "double" or "float".
    """

    def __init__(
        self, emitter: Emitter, derivative: Derivative, xs: Sequence[Value], ys: Sequence[Value], type_: str
    ) -> None:
        self._emitter, self._derivative, self._xs, self._ys, self._type = emitter, derivative, xs, ys, type_
        self._values: dict[Node, Value] = {}

    @property
    def antiholomorphic(self) -> bool:
        """Whether the function is one of the conjugate of its argument."""
        return self._derivative.antiholomorphic

    def partial(self, output: int, argument: int) -> Value | None:
        """The partial derivative of an output in an argument; None if it is not known."""
        node = self._derivative.partials[output][argument]
        return None if node is None else self._value(node)

    def _value(self, node: Node) -> Value:
        if node not in self._values:
            self._values[node] = self._emit(node)
        return self._values[node]

    def _emit(self, node: Node) -> Value:
        if node.op == "constant":
            return self._constant(node.value)
        if node.op in ("x", "y"):
            return (self._xs if node.op == "x" else self._ys)[int(node.value.real)]
        values = [self._value(operand) for operand in node.operands]
        if node.op == "select":
            condition, *others = values
            a, b = self._promoted(others)
            pairs = zip(a.parts, b.parts, strict=True)
            chosen = (self._emitter.select(condition.parts[0], self._type, p, q) for p, q in pairs)
            return Value(a.char, tuple(chosen))
        if node.op in _LOGIC:
            return Value("?", (self._emitter.op(_LOGIC[node.op], "i1", *(value.parts[0] for value in values)),))
        is_complex = any(value.char == "D" for value in values)
        special = (_COMPLEX if is_complex else _REAL).get(node.op)
        if special is not None:
            return special(self, *values)
        if not is_complex:
            operands = [value.parts[0] for value in values]
            if node.op in _ARITHMETIC:
                return self._real(self._emitter.op(_ARITHMETIC[node.op], self._type, *operands))
            if node.op in _COMPARISONS:
                return Value("?", (self._emitter.compare(_COMPARISONS[node.op], self._type, *operands),))
            if node.op in _INTRINSICS:
                return self._real(self._emitter.intrinsic(_INTRINSICS[node.op], self._type, *operands))
        return self._opaque(node.op, values)

    def _constant(self, value: Any) -> Value:
        if isinstance(value, complex):
            return Value("D", (real(value.real, self._type), real(value.imag, self._type)))
        return self._real(real(float(value), self._type))

    def _real(self, operand: str) -> Value:
        return Value("d", (operand,))

    def _promoted(self, values: Sequence[Value]) -> list[Value]:
        """All real, or all complex."""
        if not any(value.char == "D" for value in values):
            return list(values)
        return [value if value.char == "D" else Value("D", (value.parts[0], real(0.0))) for value in values]

    def _opaque(self, name: str, values: Sequence[Value]) -> Value:
        """Call an elementary function that is no instruction: as it is, or of complex numbers only."""
        out = "D" if any(value.char == "D" for value in values) and name != "absolute" else "d"
        called = self._symbol(name, values, out)
        if not is_defined(called):
            values = self._promoted(values)
            called = self._symbol(name, values, out)
        self._emitter.module.add(called, declaration(called))
        operands = [part for value in values for part in value.parts]
        result = self._type if out == "d" else f"{{ {self._type}, {self._type} }}"
        types = [self._type if value.char in "dD" else slots(value.char)[0] for value in values for _ in value.parts]
        value = self._emitter.call(called, result, types, operands)
        if out == "d":
            return self._real(value)
        return Value("D", tuple(self._emitter.part(result, value, part) for part in range(2)))

    def _symbol(self, name: str, values: Sequence[Value], out: str) -> str:
        types = f"{''.join(value.char for value in values)}->{out}"
        return f"{OPAQUE}{name}:{types if self._type == 'double' else types.replace('d', 'f').replace('D', 'F')}"

    def op(self, opcode: str, *operands: str) -> str:
        """An arithmetic instruction on real numbers."""
        return self._emitter.op(opcode, self._type, *operands)

    def test(self, predicate: str, a: str, b: str) -> str:
        """A comparison of real numbers."""
        return self._emitter.compare(predicate, self._type, a, b)

    def size(self, operand: str) -> str:
        """The absolute value of a real number."""
        return self._emitter.intrinsic("fabs", self._type, operand)

    def both(self, opcode: str, a: str, b: str) -> str:
        """A logical instruction."""
        return self._emitter.op(opcode, "i1", a, b)

    def choose(self, condition: str, a: str, b: str) -> Value:
        """One of two real numbers."""
        return self._real(self._emitter.select(condition, self._type, a, b))


# ------------------------------------------------------------------------------------------------ real numbers


def _sign(row: Row, x: Value) -> Value:
    (a,) = x.parts
    zero = real(0.0)
    minus = row.choose(row.test("olt", a, zero), real(-1.0), row.choose(row.test("oeq", a, zero), zero, a).parts[0])
    return row.choose(row.test("ogt", a, zero), real(1.0), minus.parts[0])


def _first(predicate: str, nan_of: int) -> Callable[[Row, Value, Value], Value]:
    """The argument that comes first by a comparison, with what is done about NaNs."""

    def chosen(row: Row, x: Value, z: Value) -> Value:
        a, b = x.parts[0], z.parts[0]
        nan = (a, b)[nan_of]
        return row.choose(row.both("or", row.test(predicate, a, b), row.test("uno", nan, nan)), a, b)

    return chosen


def _each(combine: Callable[[Row, str], str]) -> Callable[[Row, Value], Value]:
    return lambda row, x: Value("?", (combine(row, x.parts[0]),))


def _is_finite(row: Row, a: str) -> str:
    return row.test("olt", row.size(a), _INFINITY)


def _is_infinite(row: Row, a: str) -> str:
    return row.test("oeq", row.size(a), _INFINITY)


_REAL: dict[str, Callable[..., Value]] = {
    "negative": lambda row, x: Value("d", (row.op("fneg", *x.parts),)),
    "conjugate": lambda row, x: x,
    "square": lambda row, x: Value("d", (row.op("fmul", x.parts[0], x.parts[0]),)),
    "sign": _sign,
    "maximum": _first("oge", 0),
    "minimum": _first("ole", 0),
    "fmax": _first("oge", 1),
    "fmin": _first("ole", 1),
    "isfinite": _each(_is_finite),
    "isinf": _each(_is_infinite),
    "isnan": _each(lambda row, a: row.test("uno", a, a)),
}

# ------------------------------------------------------------------------------------------------ complex numbers


def _componentwise(opcode: str) -> Callable[[Row, Value, Value], Value]:
    def combined(row: Row, x: Value, z: Value) -> Value:
        a, b = row._promoted([x, z])
        return Value("D", tuple(row.op(opcode, p, q) for p, q in zip(a.parts, b.parts, strict=True)))

    return combined


def multiply(row: Row, x: Value, z: Value) -> Value:
    """The product of two numbers of which one at least is complex."""
    if x.char != "D":
        x, z = z, x
    a, b = x.parts
    if z.char != "D":
        return Value("D", (row.op("fmul", a, z.parts[0]), row.op("fmul", b, z.parts[0])))
    c, d = z.parts
    return Value(
        "D",
        (
            row.op("fsub", row.op("fmul", a, c), row.op("fmul", b, d)),
            row.op("fadd", row.op("fmul", a, d), row.op("fmul", b, c)),
        ),
    )


def _quotient(row: Row, x: Value, z: Value) -> Value:
    """Divide as `tmapad.jit.division.quotient` does, by R. L. Smith's algorithm."""
    numerator, divisor = row._promoted([x, z])
    (a, b), (c, d) = numerator.parts, divisor.parts
    wide = row.test("oge", row.size(c), row.size(d))

    def larger_first(p: str, q: str) -> list[str]:
        return [row.choose(wide, p, q).parts[0], row.choose(wide, q, p).parts[0]]

    (large, small), (first, second) = larger_first(c, d), larger_first(a, b)
    zero = real(0.0)
    ratio = row.choose(row.test("oeq", large, zero), zero, row.op("fdiv", small, large)).parts[0]
    total = row.op("fadd", large, row.op("fmul", small, ratio))
    real_part = row.op("fdiv", row.op("fadd", first, row.op("fmul", second, ratio)), total)
    imaginary = row.op("fdiv", row.op("fsub", second, row.op("fmul", first, ratio)), total)
    return Value("D", (real_part, row.choose(wide, imaginary, row.op("fneg", imaginary)).parts[0]))


def _complex_equal(row: Row, x: Value, z: Value) -> Value:
    a, b = row._promoted([x, z])
    same = [row.test("oeq", p, q) for p, q in zip(a.parts, b.parts, strict=True)]
    return Value("?", (row.both("and", *same),))


_COMPLEX: dict[str, Callable[..., Value]] = {
    "add": _componentwise("fadd"),
    "subtract": _componentwise("fsub"),
    "multiply": multiply,
    "divide": _quotient,
    "negative": lambda row, x: Value("D", tuple(row.op("fneg", part) for part in x.parts)),
    "conjugate": lambda row, x: Value("D", (x.parts[0], row.op("fneg", x.parts[1]))),
    "equal": _complex_equal,
    "isfinite": lambda row, x: Value("?", (row.both("and", *(_is_finite(row, part) for part in x.parts)),)),
    "isinf": lambda row, x: Value("?", (row.both("or", *(_is_infinite(row, part) for part in x.parts)),)),
    "isnan": lambda row, x: Value("?", (row.both("or", *(row.test("uno", part, part) for part in x.parts)),)),
}
