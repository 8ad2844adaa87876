"""Where in the user's source an instruction comes from.

LLVM IR does not say. A function that is refused is therefore compiled once more, with a call of a marker before the
instructions of each statement, whose name says where the statement is. No pass moves instructions over these calls.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tmapad.jit.ir import Function

_MARKER = re.compile(r"line\.(\d+)\.([0-9a-f]*)")


class Place(NamedTuple):
    """A line of a file."""

    filename: str
    line: int


def marker(place: Place) -> str:
    """Name the function that is called where the instructions of a line begin."""
    return f"line.{place.line}.{place.filename.encode(errors='surrogateescape').hex()}"


def place_of(callee: str) -> Place | None:
    """Tell the line that a marker stands for; None for all other functions."""
    found = _MARKER.fullmatch(callee)
    return None if found is None else Place(bytes.fromhex(found[2]).decode(errors="surrogateescape"), int(found[1]))


def places(function: Function) -> dict[int, Place]:
    """Tell where instructions come from, by their `id`, as far as there are markers before them."""
    at_end: dict[str, Place] = {}
    for block in function.blocks:
        for one in block.instructions:
            if (place := place_of(one.callee)) is not None:
                at_end[block.name] = place
    before: dict[str, Place] = {}  # what comes before a block, by the shortest way
    added = dict(at_end)
    while added:
        entered: dict[str, Place] = {}
        for block in function.blocks:
            if block.name in added:
                entered |= dict.fromkeys(block.instructions[-1].blocks, added[block.name])
        before = entered | before
        added = {name: place for name, place in entered.items() if name not in at_end}
        at_end |= added
    result = {}
    for block in function.blocks:
        here = before.get(block.name)
        for one in block.instructions:
            here = place_of(one.callee) or here
            if here is not None:
                result[id(one)] = here
    return result
