"""Keep of every `raise` nothing but the fact.

An element that raises is run again in Python, which makes the exception. So nothing needs to be compiled that
leads to a `raise` and nowhere else: the exception, and the text of its message. Numba could not compile most
of that. What is left is ``raise AssertionError``, the shortest there is.

This is done to the byte code, since Numba gives up on some of it before any of its passes could see it. The
instructions keep their places, so that line numbers, jumps and the table of exception handlers stay right.
"""

import dis
from itertools import pairwise
from operator import is_
from types import CodeType, FunctionType
from typing import NamedTuple

_RAISE = "RAISE_VARARGS"
# What never goes on to the next instruction.
_ENDS = frozenset(
    {_RAISE, "RERAISE", "RETURN_VALUE", "RETURN_CONST"}
    | {"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}
)
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})
_UNIT = 2  # bytes of an instruction
# AssertionError is the first of the common constants of CPython 3.14.
_LOAD = dis.opmap.get("LOAD_ASSERTION_ERROR", dis.opmap.get("LOAD_COMMON_CONSTANT", 0))
_BARE = bytes([_LOAD, 0, dis.opmap[_RAISE], 1])
_NOTHING = bytes([dis.opmap["NOP"], 0])


def with_bare_raises(function: FunctionType) -> FunctionType:
    """Make the function that Numba is given: `function`, raising without saying what."""
    code = bare(function.__code__)
    if code is function.__code__:
        return function
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    return copy


def bare(code: CodeType) -> CodeType:
    """Strip what leads to a `raise` from `code` and from the functions inside it."""
    constants = tuple(bare(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    stripped = bytearray(code.co_code)
    for start, end in _doomed(code):
        if end - start >= len(_BARE):
            stripped[start:end] = _BARE + _NOTHING * ((end - start - len(_BARE)) // _UNIT)
    if bytes(stripped) == code.co_code and all(map(is_, constants, code.co_consts)):
        return code
    return code.replace(co_code=bytes(stripped), co_consts=constants)


class _Block(NamedTuple):
    """Instructions that run one after the other, up to the next one that jumps or is jumped to."""

    start: int
    end: int
    raises: bool
    targets: frozenset[int]


def _doomed(code: CodeType) -> list[tuple[int, int]]:
    """Start and end of every block from which all ways end in a `raise`, but for the first: it prepares."""
    instructions = list(dis.get_instructions(code))
    if not any(instruction.opname == _RAISE for instruction in instructions):
        return []
    handlers = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
    edges = {at for handler in handlers for at in (handler.start, handler.end, handler.target)}
    blocks = _blocks(instructions, len(code.co_code), edges)
    # What is raised under a handler may be caught: the block itself ends there, but not what led to it.
    caught = {block.start for block in blocks if any(one.start <= block.start < one.end for one in handlers)}
    doomed = {block.start for block in blocks if block.raises}
    while more := {
        block.start
        for block in blocks
        if block.start not in doomed | caught and block.targets and block.targets <= doomed - caught
    }:
        doomed |= more
    return [(block.start, block.end) for block in blocks if block.start in doomed - {0}]


def _blocks(instructions: list[dis.Instruction], size: int, starts: set[int]) -> list[_Block]:
    """Split `instructions`: at `starts`, wherever a jump goes to or comes from, and where the function begins."""
    starts = starts | {0, size}
    following = [*(instruction.offset for instruction in instructions[1:]), size]
    targets: dict[int, frozenset[int]] = {}
    for instruction, after in zip(instructions, following, strict=True):
        jumps = {instruction.argval} if instruction.opcode in _JUMPS else set()
        if jumps or instruction.opname in _ENDS or instruction.opname == "RESUME":
            starts |= {after, *jumps}
        onward = set() if instruction.opname in _ENDS else {after}
        targets[after] = frozenset(jumps | onward)
    raising = {
        after for instruction, after in zip(instructions, following, strict=True) if instruction.opname == _RAISE
    }
    bounds = sorted(starts & (targets.keys() | {0}))
    return [_Block(start, end, end in raising, targets[end]) for start, end in pairwise(bounds)]
