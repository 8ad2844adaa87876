"""Tangents of arithmetic, conversions and choices: one rule for each instruction."""

from __future__ import annotations

from collections.abc import Callable

from tmapad.jit.calls import by_row
from tmapad.jit.emit import real
from tmapad.jit.ir import Instruction
from tmapad.jit.memory import on_stack
from tmapad.jit.tangents import Tangents


def join(t: Tangents, one: Instruction) -> None:
    """Write the tangents of a phi: they are phis."""
    for lane in t.lanes(one.name):
        incoming = ", ".join(
            f"[ {t.tangent(operand, lane, one.type)}, {block} ]"
            for operand, block in zip(one.operands, one.blocks, strict=True)
        )
        t.define(one, lane, f"phi {one.type} {incoming}")


def _select(t: Tangents, one: Instruction) -> None:
    condition, a, b = one.operands
    for lane in t.lanes(one.name):
        p, q = t.tangent(a, lane, one.type), t.tangent(b, lane, one.type)
        t.define(one, lane, f"select i1 {condition}, {one.type} {p}, {one.type} {q}")


def _freeze(t: Tangents, one: Instruction) -> None:
    for lane in t.lanes(one.name):
        t.define(one, lane, f"freeze {one.type} {t.tangent(one.operands[0], lane, one.type)}")


def _convert(t: Tangents, one: Instruction) -> None:
    (operand,), (source,) = one.operands, one.types
    for lane in t.lanes(one.name):
        t.define(one, lane, f"{one.opcode} {source} {t.tangent(operand, lane, source)} to {one.type}")


def _extract(t: Tangents, one: Instruction) -> None:
    if t.definitions[one.operands[0]].opcode != "call":
        t.repeat(one)
        return
    (number,) = one.indices
    for lane in t.lanes(one.name):
        part = t.name_of_tangent(t.name_of_part(one.operands[0], number), lane)
        t.define(one, lane, f"fadd {one.type} {part}, {real(-0.0, one.type)}")


def _add(t: Tangents, one: Instruction) -> None:
    t.combine(one, [(operand, None) for operand in one.operands])


def _subtract(t: Tangents, one: Instruction) -> None:
    a, b = one.operands
    t.combine(one, [(a, None), (b, "-")])


def _negate(t: Tangents, one: Instruction) -> None:
    t.combine(one, [(one.operands[0], "-")])


def _multiply(t: Tangents, one: Instruction) -> None:
    a, b = one.operands
    t.combine(one, [(a, b), (b, a)])


def _divide(t: Tangents, one: Instruction) -> None:
    """(a' - y b') / b."""
    a, b = one.operands
    for lane in t.lanes(one.name):
        numerator = t.tangent(a, lane, one.type)
        if t.has(b, lane):
            product = t.scaled(one.name, b, lane, one.type)
            if t.has(a, lane):
                numerator = t.emitter.op("fsub", one.type, numerator, product)
            else:
                numerator = t.emitter.op("fneg", one.type, product)
        quotient = t.emitter.op("fdiv", one.type, numerator, b)
        depends, zero = t.depends(one.name, lane), real(0.0, one.type)
        t.define(one, lane, f"select i1 {depends}, {one.type} {quotient}, {one.type} {zero}")


def _remainder(t: Tangents, one: Instruction) -> None:
    by_row(t, one, "fmod", "dd->d")


RULES: dict[str, Callable[[Tangents, Instruction], None]] = {
    "alloca": on_stack,
    "extractvalue": _extract,
    "fadd": _add,
    "fdiv": _divide,
    "fmul": _multiply,
    "fneg": _negate,
    "fpext": _convert,
    "fptrunc": _convert,
    "freeze": _freeze,
    "frem": _remainder,
    "fsub": _subtract,
    "select": _select,
}
