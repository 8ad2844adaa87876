"""Shadows of memory: the tangents of the numbers in it, at the same places."""

from __future__ import annotations

import numpy as np

from tmapad.jit.activity import NOWHERE, REALS
from tmapad.jit.ir import Instruction, is_constant
from tmapad.jit.parse import typed
from tmapad.jit.tangents import Tangents, suffixed
from tmapad.jit.typenames import split

COUNTED = frozenset({"NRT_incref", "NRT_decref", "NRT_Free"})
"""What counts references to memory, or frees it: done with memory is done with its shadows too."""

FILL = "llvm.memset."

MANGLED = "arithmetic on the bits of a number"

_DESCRIPTOR = "{ i64, ptr, ptr, ptr, i64 }"  # of an allocation of Numba's run time: the data is the fourth field
_EMPTY = "tmapad.no_allocation"


def open_window(t: Tangents, address: str, char: str) -> None:
    """Take the address of the shadow of a window's first element; those of the others lie before it."""
    shadow = f"%{t.prefix}.window"
    t.module.function.arguments.append(("i64", shadow))
    for element, lane in enumerate(t.lanes(address)):
        offset = element * np.dtype(char).itemsize
        t.emitter.line(f"{t.name_of_tangent(address, lane)} = sub i64 {shadow}, {offset}")


def on_stack(t: Tangents, one: Instruction) -> None:
    """Take as much of the stack for each shadow, filled with zeros."""
    type_, *rest = split(one.text.split("alloca ", 1)[1])
    if rest and not rest[0].startswith("align"):
        _, count = typed(rest[0])
        if not count.isdigit():
            raise t.refusal("an array of variable size on the stack")
        type_ = f"[{count} x {type_}]"
    for lane in t.lanes(one.name):
        t.define(one, lane, one.text.split(" = ", 1)[1])
        t.emitter.line(f"store {type_} zeroinitializer, ptr {t.name_of_tangent(one.name, lane)}")


def store(t: Tangents, one: Instruction) -> None:
    """Store tangents into the shadows; zeros beside what has none."""
    value, pointer = one.operands
    lanes = t.lanes(value)
    if (lanes or value in t.activity.mangled) and not t.activity.is_known(pointer):
        raise t.refusal("a number written to memory that is not the function's own")
    for lane in t.lanes(pointer):
        if one.types[0] == "ptr" and lane not in lanes and value not in NOWHERE:
            raise t.refusal("the address of memory without derivatives among numbers with derivatives")
        tangent = t.tangent(value, lane, one.types[0])
        t.emitter.line(f"store {one.types[0]} {tangent}, ptr {t.tangent(pointer, lane, 'ptr')}")


def fill_with_zeros(t: Tangents, pointer: str, type_: str, size: str) -> None:
    """Fill memory with zeros."""
    name = f"{FILL}p0.{type_}"
    t.module.declare(name, "void", ["ptr", "i8", type_, "i1"])
    t.emitter.line(f"call void @{name}(ptr {pointer}, i8 0, {type_} {size}, i1 false)")


def allocate(t: Tangents, one: Instruction) -> None:
    """Allocate shadows, filled with zeros. Without memory for one of them there is none at all, and none is kept."""
    if not t.lanes(one.name):
        return
    own = suffixed(one.name, ".own")
    t.emitter.lines[-1] = one.text.replace(one.name, own, 1)
    there = t.emitter.value(f"icmp ne ptr {own}, null")
    size, type_ = one.operands[0], one.types[0]
    allocated = [own]
    for lane in t.lanes(one.name):
        shadow = t.name_of_tangent(one.name, lane)
        t.emitter.line(one.text.replace(one.name, shadow, 1))
        found = t.emitter.value(f"icmp ne ptr {shadow}, null")
        there = t.emitter.op("and", "i1", there, found)
        allocated.append(shadow)
        data = shadow
        if one.callee != "NRT_Allocate":
            t.module.add_global(_EMPTY, f"internal constant {_DESCRIPTOR} zeroinitializer")
            descriptor = t.emitter.select(found, "ptr", shadow, f"@{_EMPTY}")
            place = t.emitter.value(f"getelementptr {_DESCRIPTOR}, ptr {descriptor}, i32 0, i32 3")
            data = t.emitter.value(f"load ptr, ptr {place}")
        fill_with_zeros(t, data, type_, t.emitter.select(found, type_, size, "0"))
    t.emitter.line(f"{one.name} = select i1 {there}, ptr {own}, ptr null")
    free = "NRT_Free" if one.callee == "NRT_Allocate" else "NRT_decref"  # of null they do nothing
    t.module.declare(free, "void", ["ptr"])
    for pointer in allocated:
        t.emitter.line(f"call void @{free}(ptr {t.emitter.select(there, 'ptr', 'null', pointer)})")


def load(t: Tangents, one: Instruction) -> None:
    """Load tangents from the shadows."""
    (pointer,) = one.operands
    check_source(t, pointer)
    if one.type in REALS and t.activity.holds_mangled(pointer):
        raise t.refusal(MANGLED)
    t.repeat(one)


def check_source(t: Tangents, pointer: str) -> None:
    """Refuse to read what may be any memory of the function, where some of that has shadows."""
    if not (is_constant(pointer) or t.activity.is_known(pointer)) and t.activity.has_shadows:
        raise t.refusal("memory of which is not known what it is")


def copy(t: Tangents, one: Instruction) -> None:
    """Copy between shadows; zeros from memory that has none."""
    target, source, size = one.operands[:3]
    check_source(t, source)
    if (t.lanes(source) or t.activity.holds_mangled(source)) and not t.activity.is_known(target):
        raise t.refusal("numbers copied to memory that is not the function's own")
    for lane in t.lanes(target):
        shadow = t.tangent(target, lane, "ptr")
        if t.has(source, lane):
            copy = one.text.replace(target, shadow, 1)
            t.emitter.line(copy.replace(source, t.tangent(source, lane, "ptr"), 1))
        else:
            fill_with_zeros(t, shadow, one.types[2], size)


def forward_count(t: Tangents, one: Instruction) -> None:
    """Count references to the shadows as well."""
    for lane in t.lanes(one.operands[0]):
        t.emitter.line(one.text.replace(one.operands[0], t.tangent(one.operands[0], lane, "ptr")))


def fill(t: Tangents, one: Instruction) -> None:
    """Memory that is filled with bytes is constant."""
    for lane in t.lanes(one.operands[0]):
        fill_with_zeros(t, t.tangent(one.operands[0], lane, "ptr"), one.types[2], one.operands[2])
