"""Scalar LLVM IR -> a loop over arrays -> object code. Only llvmlite is needed here, not Numba."""

from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tmapad.jit.engine import optimise, target_machine
from tmapad.jit.polls import with_polls
from tmapad.jit.scalar import LOOP, SCALAR, ScalarIR, function_type, inlined, llvm_type, slots

_POINTER = ir.PointerType()
_INTP = ir.IntType(np.dtype(np.intp).itemsize * 8)
_INT = ir.IntType(32)


class LoopCode(NamedTuple):
    """Object code of a loop, and whether it can stop at an element that raises."""

    code: bytes
    can_fail: bool


def loop_code(scalar: ScalarIR) -> LoopCode:
    """Compile the loop that calls `scalar` for one element after the other.

    Its calling convention is ``tmapad_loop`` of ``_abi.h``. It runs in order and stops at the first element
    that raises, so results neither depend on the position of an element nor on its neighbours. Whatever it
    runs for long can be interrupted, see `polls`.
    """
    module = llvm.parse_assembly(str(_loop_module(scalar)))
    module.link_in(llvm.parse_assembly(inlined(scalar.llvm)))
    module.get_function(SCALAR).linkage = "internal"  # and it is to be inlined
    optimise(module, level=3)
    can_fail = _can_fail(module)  # to be interrupted is no failure
    return LoopCode(target_machine().emit_object(with_polls(module, LOOP)), can_fail)


def _loop_module(scalar: ScalarIR) -> Any:
    """IR of the loop, with ``@scalar`` declared."""
    module = ir.Module(LOOP)
    module.triple = target_machine().triple
    module.data_layout = str(target_machine().target_data)
    scalar_function = ir.Function(module, function_type(ir, scalar.in_chars, scalar.out_chars), SCALAR)
    loop = ir.Function(module, ir.FunctionType(_INT, [_POINTER, _INTP, _POINTER, _POINTER, _POINTER]), LOOP)
    arguments, size, steps, _, state = loop.args
    entry, body, stored, failed, done = map(loop.append_basic_block, ("entry", "body", "stored", "failed", "done"))

    builder = ir.IRBuilder(entry)
    chars = scalar.in_chars + scalar.out_chars
    starts = [_element(builder, arguments, number, _POINTER) for number in range(len(chars))]
    strides = [_element(builder, steps, number, _INTP) for number in range(len(chars))]
    builder.cbranch(builder.icmp_signed(">", size, _INTP(0)), body, done)

    builder.position_at_end(body)
    index = builder.phi(_INTP)
    index.add_incoming(_INTP(0), entry)
    places = [
        builder.gep(start, [builder.mul(index, stride)], source_etype=ir.IntType(8))
        for start, stride in zip(starts, strides, strict=True)
    ]
    inputs = [
        _element(builder, place, number, llvm_type(ir, slot))
        for char, place in zip(scalar.in_chars, places, strict=False)
        for number, slot in enumerate(slots(char))
    ]
    result = builder.call(scalar_function, inputs)
    status = builder.extract_value(result, 0)
    builder.cbranch(builder.icmp_unsigned("!=", status, _INT(0)), failed, stored)

    builder.position_at_end(stored)
    field = 0
    for char, place in zip(scalar.out_chars, places[len(scalar.in_chars) :], strict=True):
        for number, slot in enumerate(slots(char)):
            field += 1
            target = _place(builder, place, number, llvm_type(ir, slot))
            builder.store(builder.extract_value(result, field), target)
    following = builder.add(index, _INTP(1))
    index.add_incoming(following, stored)
    branch = builder.cbranch(builder.icmp_signed("<", following, size), body, done)
    branch.set_metadata("llvm.loop", _not_unrolled(module))

    builder.position_at_end(failed)
    builder.store(index, state)  # the first field of tmapad_chunk_state
    builder.ret(_INT(1))
    builder.position_at_end(done)
    builder.ret(_INT(0))
    return module


def _place(builder: Any, array: Any, number: int, element: Any) -> Any:
    return builder.gep(array, [_INTP(number)], source_etype=element) if number else array


def _element(builder: Any, array: Any, number: int, element: Any) -> Any:
    return builder.load(_place(builder, array, number, element), typ=element)


def _not_unrolled(module: Any) -> Any:
    """Loop metadata. One copy of the body computes every element; a loop inside it may well be unrolled."""
    disabled = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    identity = module.add_metadata([disabled])
    identity.operands = (identity, disabled)  # as LLVM wants it: the first operand is the node itself
    return identity


def _can_fail(module: Any) -> bool:
    """Whether the loop has a way to return 1."""
    for block in module.get_function(LOOP).blocks:
        for instruction in block.instructions:
            if instruction.opcode == "ret":
                (value,) = instruction.operands
                if not (value.is_constant and value.get_constant_value() == 0):
                    return True
    return False
