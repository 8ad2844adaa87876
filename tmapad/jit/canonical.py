"""The canonical form of scalar IR: all in one function, in registers, and nothing changed on account of its value."""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm

from tmapad.jit.activity import REALS
from tmapad.jit.aggregates import take_apart
from tmapad.jit.emit import new_prefix
from tmapad.jit.engine import optimise
from tmapad.jit.ir import Block, Module
from tmapad.jit.parse import instruction
from tmapad.jit.scalar import SCALAR


def canonical(module: Any) -> Any:
    """Inline all calls that may be, take structs apart and put memory into registers; return the module of that.

    No instruction is replaced by another because of what is known of a value. ``if x == 1.0: return x * x`` stays
    what it is: to return 1 there would be right, but its derivative would not.
    """
    to_registers(module)
    taken_apart = Module.read(str(module), SCALAR)
    take_apart(taken_apart.function)
    # A pointer that was part of a struct kept what it points to in memory.
    again = llvm.parse_assembly(str(taken_apart))
    to_registers(again)
    return again


def to_registers(module: Any) -> None:
    """Inline calls and promote memory to registers, in place."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()
    passes.add_dead_store_elimination_pass()
    passes.add_sroa_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    passes.add_unify_function_exit_nodes_pass()
    passes.add_instruction_namer_pass()
    passes.add_global_dead_code_eliminate_pass()
    optimise(module, level=1, passes=passes)


def to_be_inlined(llvm_text: str) -> str:
    """Write branches in place of choices between real numbers, in what is canonical and to be inlined somewhere.

    LLVM's inliner replaces ``select x == 1.0, 1.0, x`` by ``x``, but leaves branches alone.
    """
    module = Module.read(llvm_text, SCALAR)
    prefix = new_prefix(llvm_text)
    last: dict[str, str] = {}  # the block in which what was one block ends
    blocks: list[Block] = []
    for block in module.function.blocks:
        part = Block(block.name, [])
        blocks.append(part)
        for one in block.instructions:
            if one.opcode != "select" or one.type not in REALS:
                part.instructions.append(one)
                continue
            condition, a, b = one.operands
            then, otherwise, after = (f"%{prefix}.{len(blocks)}.{name}" for name in ("then", "else", "after"))
            part.instructions.append(instruction(f"br i1 {condition}, label {then}, label {otherwise}"))
            joined = f"{one.name} = phi {one.type} [ {a}, {then} ], [ {b}, {otherwise} ]"
            part = Block(after, [instruction(joined)])
            blocks += [Block(name, [instruction(f"br label {after}")]) for name in (then, otherwise)] + [part]
        last[block.name] = part.name
    for block in blocks:
        for one in block.phis:
            incoming = zip(one.operands, (last.get(name, name) for name in one.blocks), strict=True)
            one.text = f"{one.name} = phi {one.type} {', '.join(f'[ {value}, {name} ]' for value, name in incoming)}"
    module.function.blocks = blocks
    return str(module)
