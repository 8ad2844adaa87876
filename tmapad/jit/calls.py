"""Tangents of calls: by rows of the derivative table, and by derivatives that were registered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from tmapad import _derivatives
from tmapad._protocol import GivenDerivative
from tmapad.jit.activity import ALLOCATORS, COPIES, REALS, intrinsic, is_flat
from tmapad.jit.captures import symbols
from tmapad.jit.chain import Call, Number, numbers
from tmapad.jit.emit import real
from tmapad.jit.ir import Instruction, local
from tmapad.jit.memory import COUNTED, FILL, allocate, copy, fill, forward_count
from tmapad.jit.registered import called, captured_by
from tmapad.jit.rows import Row, Value, multiply
from tmapad.jit.scalar import OPAQUE, REGISTERED, slots
from tmapad.jit.tangents import Tangents

# LLVM's functions of real numbers that are not opaque, by their names in the table of derivatives.
_INTRINSICS = {
    "fabs": "fabs",
    "copysign": "copysign",
    "minnum": "fmin",
    "maxnum": "fmax",
    "minimum": "minimum",
    "maximum": "maximum",
    "sqrt": "sqrt",
}


def call(t: Tangents, one: Instruction) -> None:
    """Write what belongs beside a call."""
    callee = one.callee
    if callee in ALLOCATORS:
        allocate(t, one)
    elif callee in COUNTED:
        forward_count(t, one)
    elif callee.startswith(FILL):
        fill(t, one)
    elif callee.startswith(COPIES):
        copy(t, one)
    elif callee.startswith(REGISTERED):
        if t.lanes(one.name):
            _registered(t, one)
    elif any(t.lanes(operand) for operand, type_ in zip(one.operands, one.types, strict=True) if type_ not in REALS):
        raise t.refusal(_in_words(callee))
    elif t.lanes(one.name):
        _elementary(t, one)
    elif any(map(t.lanes, one.operands)) and not is_flat(one):
        raise t.refusal(_in_words(callee))


def _elementary(t: Tangents, one: Instruction) -> None:
    base = intrinsic(one.callee)
    if base in ("fma", "fmuladd"):
        a, b, c = one.operands
        t.combine(one, [(a, b), (b, a), (c, None)])
    elif base == "powi":
        _integer_power(t, one)
    else:
        name, types = _row_of(one.callee)
        if not name:
            raise t.refusal(_in_words(one.callee))
        by_row(t, one, name, types)


def _integer_power(t: Tangents, one: Instruction) -> None:
    """The derivative n x^(n-1), and 0 for n = 0."""
    x, n = one.operands
    less = t.emitter.value(f"sub {one.types[1]} {n}, 1")
    power = t.emitter.call(one.callee, one.type, one.types, [x, less])
    factor = t.emitter.value(f"sitofp {one.types[1]} {n} to {one.type}")
    slope = t.emitter.op("fmul", one.type, factor, power)
    is_zero = t.emitter.value(f"icmp eq {one.types[1]} {n}, 0")
    slope = t.emitter.select(is_zero, one.type, real(0.0, one.type), slope)
    t.combine(one, [(x, slope)])


def by_row(t: Tangents, one: Instruction, name: str, types: str) -> None:
    """Differentiate a call by a row of the derivative table."""
    found = _derivatives.derivative(name, types)
    if found is None:
        raise t.refusal(f"{name}, which is not in the table of derivatives")
    type_ = next(type_ for type_ in one.types if type_ in REALS)
    inputs, _, outputs = types.partition("->")
    operands = iter(one.operands)
    xs = [Value(char, tuple(next(operands) for _ in slots(char))) for char in inputs]
    ys = _results(t, one, outputs)
    row = Row(t.emitter, found, xs, ys, type_)
    for lane in t.lanes(one.name):
        for output, y in enumerate(ys):
            if y.char not in "dD":
                continue
            tangent = _pushed(t, row, name, output, y, xs, lane, type_)
            for part, value in zip(y.parts, tangent, strict=True):
                t.emitter.line(f"{t.name_of_tangent(part, lane)} = fadd {type_} {value}, {real(-0.0, type_)}")


def _results(t: Tangents, one: Instruction, outputs: str) -> list[Value]:
    """The results of a call, by their names: those of parts are made, and known to `_extract`."""
    if outputs == "d":
        return [Value("d", (one.name,))]
    ys, number = [], 0
    for char in outputs:
        parts = []
        for _ in slots(char):
            name = t.name_of_part(one.name, number)
            t.emitter.line(f"{name} = extractvalue {one.type} {one.name}, {number}")
            parts.append(name)
            number += 1
        ys.append(Value(char, tuple(parts)))
    return ys


def _pushed(
    t: Tangents, row: Row, name: str, output: int, y: Value, xs: Sequence[Value], lane: int, type_: str
) -> list[str]:
    """The tangent of an output: the sum of products with its partial derivatives, see `tmapad._derivatives`."""
    total: list[str] = []
    for argument, x in enumerate(xs):
        if not any(t.has(part, lane) for part in x.parts):
            continue
        slope = row.partial(output, argument)
        if slope is None:
            raise t.refusal(f"{name}, whose derivative in argument {argument + 1} is not known")
        tangent = Value(x.char, tuple(t.tangent(part, lane, type_) for part in x.parts))
        if slope.char == "d" and tangent.char == "d":
            product = Value("d", (t.scaled(slope.parts[0], x.parts[0], lane, type_),))
        else:
            if row.antiholomorphic and tangent.char == "D":
                tangent = Value("D", (tangent.parts[0], row.op("fneg", tangent.parts[1])))
            product = t.kept(x.parts, lane, multiply(row, slope, tangent), type_)
        parts = [*product.parts, real(0.0, type_)][: len(y.parts)]
        total = [row.op("fadd", p, q) for p, q in zip(total, parts, strict=True)] if total else parts
    return total


def _registered(t: Tangents, one: Instruction) -> None:
    """Differentiate a call by what was registered."""
    call = called(one.callee)
    assert call is not None
    given = call.callee.given
    count = sum(len(slots(char)) for char in call.inputs)
    for operand, path in zip(one.operands[count:], captured_by(call), strict=True):
        if t.lanes(operand):
            raise t.refusal(f"{path!r}, which {given.name} captured: its registered derivative is one in its arguments")
    if call.callee.part or not isinstance(given.form, GivenDerivative):
        name = call.callee.implementation.name
        register = f"register({name if name.isidentifier() else '...'}, derivative=...)"
        raise t.refusal(f"a call of {name}, which has no derivative: {register}")
    xs = numbers(call.inputs, one.operands)
    ys = _numbers_returned(t, one, call.outputs, first=int(call.raises))
    captured = {
        capture.place: [local(symbol) for symbol, _ in symbols(number, capture.type)]
        for number, capture in reversed(list(enumerate(t.scalar.captures)))
    }
    chain = Call(t.emitter, given, xs, ys, captured, partial(_note_status, t))
    for lane in t.lanes(one.name):
        tangents = {
            argument: Number(x.char, tuple(t.tangent(part, lane, x.real) for part in x.parts))
            for argument, x in enumerate(xs)
            if any(t.has(part, lane) for part in x.parts)
        }
        for output, y in enumerate(ys):
            if y.char not in "fdFD":
                continue
            for part, value in zip(y.parts, chain.pushed(output, tangents), strict=True):
                name = t.name_of_tangent(part, lane)
                t.emitter.line(f"{name} = fadd {y.real} {value}, {real(-0.0, y.real)}")


def _numbers_returned(t: Tangents, one: Instruction, outputs: str, first: int) -> list[Number]:
    """The results of a call, from field `first` on: see `_results`."""
    if not one.type.startswith("{"):
        return numbers(outputs, [one.name])
    names = [t.name_of_part(one.name, number) for number in range(first, one.type.count(",") + 1)]
    for number, name in enumerate(names, first):
        t.emitter.line(f"{name} = extractvalue {one.type} {one.name}, {number}")
    return numbers(outputs, names)


def _note_status(t: Tangents, status: str) -> None:
    """Remember that a registered derivative raised."""
    before = t.emitter.value(f"load i32, ptr {t.raised}")
    t.emitter.line(f"store i32 {t.emitter.op('or', 'i32', before, status)}, ptr {t.raised}")


def _row_of(callee: str) -> tuple[str, str]:
    """Name and types, as the table of derivatives has them, of a function; empty for others."""
    if callee.startswith(OPAQUE):
        name, _, types = callee.removeprefix(OPAQUE).partition(":")
        return name.rpartition(".")[2], types.replace("f", "d").replace("F", "D")
    name = _INTRINSICS.get(intrinsic(callee), "")
    return name, "dd->d" if name not in ("fabs", "sqrt") else "d->d"


def _in_words(callee: str) -> str:
    """What a call is that has no derivative."""
    if not callee:
        return "a call of a C function that no derivative is registered for: register(..., derivative=...)"
    if (name := _last_name(callee)) is not None:
        return f"{name}, which calls itself: write it as a loop"
    return f"a call of {callee}, whose derivative is not known"


def _last_name(mangled: str) -> str | None:
    """The Python function that Numba gave this name to: all but those that call themselves were inlined."""
    name, rest = None, mangled.removeprefix("_ZN")
    while rest != mangled and (length := re.match(r"\d+", rest)):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name
