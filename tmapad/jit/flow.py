"""The control flow of a function: its loops, and how often they turn."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tmapad.jit.ir import Function, Instruction

MOST_TURNS = 1024

_COMPARISON = re.compile(r"= icmp (?:samesign )?(s|u)?(\w+) i(\d+) ")
_HOLDS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(eq=False, slots=True)
class Cycle:
    """A loop: blocks that can be run again and again.

    Attributes
    ----------
    header : str
        The block that the back edges lead to.
    latches : list of str
        The blocks that they come from.
    blocks : set of str
        All blocks, the header and the latches among them.
    entries : int
        How many of the blocks can be reached from outside: 1, unless control flow is irreducible.
    """

    header: str
    latches: list[str]
    blocks: set[str]
    entries: int


def cycles(function: Function) -> list[Cycle]:
    """Find the loops of a function, inner ones before those around them.

    Whatever runs for ever passes a back edge of one of them for ever, also where control flow is irreducible.
    """
    following = {block.name: list(dict.fromkeys(block.instructions[-1].blocks)) for block in function.blocks}
    before = _reversed(following)
    latches: dict[str, list[str]] = {}
    for latch, header in _back_edges(function.blocks[0].name, following):
        latches.setdefault(header, []).append(latch)
    found = []
    for header, ends in latches.items():
        blocks = _reached(ends, before, [header]) & _reached([header], following)
        entries = [block for block in blocks if not blocks.issuperset(before[block])]
        found.append(Cycle(header, ends, blocks, len(entries)))
    return sorted(found, key=lambda cycle: len(cycle.blocks))


def turns(cycle: Cycle, function: Function, bounds: Mapping[str, int]) -> int | None:
    """Say how often a loop turns at most, where that is easy to see.

    It is of loops that count in constant steps from one constant to another, up to `MOST_TURNS` of them, and of
    those that count up to one of the values for which `bounds` says how large they are at most. None of others.
    """
    if cycle.entries != 1 or len(cycle.latches) != 1:
        return None
    blocks = {block.name: block for block in function.blocks}
    values = function.definitions()
    # Each turn passes through these two.
    ends = [blocks[name].instructions[-1] for name in (cycle.header, cycle.latches[0])]
    counters = {phi.name: phi for phi in blocks[cycle.header].phis}
    known = [_turns_until(end, cycle, counters, values, bounds) for end in ends]
    return min((count for count in known if count is not None), default=None)


def _back_edges(entry: str, following: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Give the edges that lead back to a block on the way from the entry, as a depth-first search goes."""
    way, seen = {entry}, {entry}
    pending = [(entry, iter(following[entry]))]
    while pending:
        block, ahead = pending[-1]
        for one in ahead:
            if one in way:
                yield block, one
            elif one not in seen:
                seen.add(one)
                way.add(one)
                pending.append((one, iter(following[one])))
                break
        else:
            way.remove(block)
            pending.pop()


def _reversed(following: Mapping[str, list[str]]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {block: [] for block in following}
    for block, ahead in following.items():
        for one in ahead:
            before[one].append(block)
    return before


def _reached(start: list[str], edges: Mapping[str, list[str]], ends: Collection[str] = ()) -> set[str]:
    """All blocks that can be reached from some, without going on from those in `ends`."""
    found, pending = {*start, *ends}, [block for block in start if block not in ends]
    while pending:
        for one in edges[pending.pop()]:
            if one not in found:
                found.add(one)
                pending.append(one)
    return found


def _turns_until(
    branch: Instruction,
    cycle: Cycle,
    counters: Mapping[str, Instruction],
    values: Mapping[str, Instruction],
    bounds: Mapping[str, int],
) -> int | None:
    """How often a loop turns until a branch leaves it, if each turn comes to that branch."""
    if branch.opcode != "br" or len(branch.blocks) != 2 or cycle.blocks.issuperset(branch.blocks):
        return None
    condition = values.get(branch.operands[0])
    if condition is None or (comparison := _COMPARISON.search(condition.text)) is None:
        return None
    counted, last = condition.operands
    if last in bounds:
        return bounds[last]
    name, ahead = _sum(counted, values)
    if name not in counters or not _is_integer(last):
        return None
    counter = counters[name]
    start, then = sorted(zip(counter.operands, counter.blocks, strict=True), key=lambda pair: pair[1] in cycle.blocks)
    again, step = _sum(then[0], values)
    if again != name or not _is_integer(start[0]):
        return None
    signed, holds, bits = comparison[1] == "s", _HOLDS[comparison[2]], int(comparison[3])
    goes_on = branch.blocks[0] in cycle.blocks
    for turn in range(MOST_TURNS):
        value = int(start[0]) + turn * step + ahead
        if holds(_wrapped(value, bits, signed), _wrapped(int(last), bits, signed)) is not goes_on:
            return turn + 1
    return None


def _sum(value: str, values: Mapping[str, Instruction]) -> tuple[str, int]:
    """What a value is the sum of: another value and a constant."""
    source = values.get(value)
    if source is not None and source.opcode == "add" and _is_integer(source.operands[1]):
        return source.operands[0], int(source.operands[1])
    return value, 0


def _is_integer(operand: str) -> bool:
    return operand.removeprefix("-").isdigit()


def _wrapped(value: int, bits: int, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value
