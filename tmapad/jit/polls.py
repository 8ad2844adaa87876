"""Loops that can be interrupted: code that calls `poll` of ``_abi.h`` now and then, wherever it may run for long.

This is done to the code of a loop over elements when it is optimised, and knows nothing of how it came about. What
runs for long, or for ever, turns round a loop again and again: each turn takes as much from an allowance as it has
instructions, and where the allowance is used up, `poll` is called, and there is a new one. It is kept from one loop
to the next and from element to element, so that the shortest of loops get their poll. Loops that cannot turn often
enough to matter take nothing; those around them pay for them.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tmapad.jit.engine import optimise
from tmapad.jit.flow import Cycle, cycles, turns
from tmapad.jit.ir import Block, Function, Instruction, Module
from tmapad.jit.scalar import OPAQUE

# In instructions: those of half a millisecond, or of a few if they are slow ones.
ALLOWANCE = 1 << 20
# An elementary function, of libm.
_ELEMENTARY = 64
# What may take a nanosecond or a second: it is polled as often as loops round C functions are.
_UNKNOWN = ALLOWANCE // 128
# The longest strip of elements, LONG_STRIP in the core.
_MOST_ELEMENTS = 8192

_CHEAP = re.compile(
    r"llvm\.(?!(?:a?(?:sin|cos|tan)h?|sincos|exp\d*|log\d*|pow|powi|ldexp|mem\w+)\.)"  # all but those that libm does
)
_DEFINED = re.compile(r'^define[^@\n]*@("[^"]*"|[-\w.$]+)\(', re.MULTILINE)
_LOCAL = re.compile(r'%(?:"[^"]*"|[-\w.$]+)')
_POLL_OFFSET = 2 * np.dtype(np.intp).itemsize  # in tmapad_chunk_state
_INTP = f"i{8 * np.dtype(np.intp).itemsize}"
_PREFIX = "tmapad.poll."  # no Python variable has such a name
_LEFT = f"%{_PREFIX}left"
_GAVE_UP = f"%{_PREFIX}gave_up"


def with_polls(module: Any, name: str) -> Any:
    """Give a module in which the function `name`, a loop as ``_abi.h`` has it, can be interrupted.

    It then returns 1, with the index 0. What it has allocated for local arrays is lost.
    """
    _name_all(module)
    read = Module.read(str(module), name)
    function = read.function
    counted = _counted(read)
    if not counted:
        return module
    by_name = {block.name: block for block in function.blocks}
    state = function.arguments[4][1]
    for cycle, price in counted:
        for latch in cycle.latches:
            _poll_between(function, by_name[latch], by_name[cycle.header], price, state)
    entry = function.blocks[0].instructions
    entry[:0] = [_instruction(f"{_LEFT} = alloca i32"), _instruction(f"store i32 {ALLOWANCE}, ptr {_LEFT}")]
    function.blocks.append(_block(_GAVE_UP, [f"store {_INTP} 0, ptr {state}", "ret i32 1"]))
    function.result = "i32"  # without what was known of the value
    polled = llvm.parse_assembly(str(read))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    optimise(polled, level=3, passes=passes)
    return polled


def _name_all(module: Any) -> None:
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_namer_pass()
    optimise(module, level=0, passes=passes)


def _counted(module: Module) -> list[tuple[Cycle, int]]:
    """The loops whose turns are to be counted, each with what a turn takes from the allowance."""
    function = module.function
    defined = {name.strip('"') for name in _DEFINED.findall(module.rest)}
    prices = {
        block.name: sum(_price(instruction, defined) for instruction in block.instructions) for block in function.blocks
    }
    elements = {function.arguments[1][1]: _MOST_ELEMENTS}
    counted = []
    for cycle in cycles(function):  # inner ones first
        price = sum(prices[block] for block in cycle.blocks)
        count = turns(cycle, function, elements)
        if count is not None and count * price <= ALLOWANCE:
            prices.update(dict.fromkeys(cycle.blocks, 0))
            prices[cycle.header] = count * price
        else:
            counted.append((cycle, min(price, ALLOWANCE)))
    return counted


def _price(instruction: Instruction, defined: set[str]) -> int:
    if instruction.opcode != "call" or _CHEAP.match(instruction.callee):
        return 1
    known = instruction.callee and instruction.callee not in defined and not instruction.callee.startswith(OPAQUE)
    return _ELEMENTARY if known else _UNKNOWN


def _poll_between(function: Function, latch: Block, header: Block, price: int, state: str) -> None:
    """Count, and poll if it is time for that, on the edge from one block to another."""
    start = f"{_PREFIX}{len(function.blocks)}"
    count, due, on = (f"%{start}.{part}" for part in ("count", "due", "on"))
    branch = latch.instructions[-1]
    branch.text = _LOCAL.sub(lambda found: count if found[0] == header.name else found[0], branch.text)
    for phi in header.phis:
        incoming = dict(zip(phi.blocks, phi.operands, strict=True))  # a switch may come to one block by several ways
        incoming[on] = incoming.pop(latch.name)
        phi.blocks, phi.operands = list(incoming), list(incoming.values())
        pairs = ", ".join(f"[ {value}, {block} ]" for block, value in incoming.items())
        phi.text = f"{phi.name} = phi {phi.type} {pairs}"
    function.blocks += [
        _block(count, [
            f"%{start}.before = load i32, ptr {_LEFT}",
            f"%{start}.left = sub i32 %{start}.before, {price}",
            f"store i32 %{start}.left, ptr {_LEFT}",
            f"%{start}.over = icmp slt i32 %{start}.left, 0",
            f"br i1 %{start}.over, label {due}, label {on}",
        ]),
        _block(due, [
            f"store i32 {ALLOWANCE}, ptr {_LEFT}",
            f"%{start}.place = getelementptr i8, ptr {state}, i64 {_POLL_OFFSET}",
            f"%{start}.poll = load ptr, ptr %{start}.place",
            f"%{start}.answer = call i32 %{start}.poll(ptr {state}) cold",
            f"%{start}.stops = icmp ne i32 %{start}.answer, 0",
            f"br i1 %{start}.stops, label {_GAVE_UP}, label {on}",
        ]),
        _block(on, [f"br label {header.name}"]),
    ]  # fmt: skip


def _block(name: str, lines: list[str]) -> Block:
    return Block(name, [_instruction(line) for line in lines])


def _instruction(text: str) -> Instruction:
    """An instruction that is only to be written."""
    return Instruction("", "", "void", [], [], text)
