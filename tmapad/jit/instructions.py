"""Functions, blocks and instructions of LLVM IR, as objects.

An instruction is kept as its text; of that, it is known what a transformation must know: the result, the operands
and their types. Names are kept as they are written (``%x``, ``%"a b"``), constants as well (``1.0``, ``poison``), so
that an operand is a string that can go into another instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LOCAL = re.compile(r'%(?:"[^"]*"|[-\w.$]+)')
_INDICES = re.compile(r"((?:, \d+)+)$")
_PLAIN = re.compile(r"[-\w.$]+")


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction.

    Attributes
    ----------
    name : str
        Its result, such as ``%x``; empty if it has none.
    opcode : str
        "fadd", "call", "phi", ...
    type : str
        Of the result, ``"void"`` without one.
    operands : list of str
        Values; of a call its arguments, of a phi the values that come in.
    types : list of str
        Those of the operands.
    text : str
        As it is written, without metadata.
    callee : str
        Of a call: the function's name without ``@`` and quotes; empty for a call through a pointer.
    blocks : list of str
        Names of blocks: of a branch where it goes to, of a phi where each of its values comes from.
    """

    name: str
    opcode: str
    type: str
    operands: list[str]
    types: list[str]
    text: str
    callee: str = ""
    blocks: list[str] = field(default_factory=list)

    @property
    def indices(self) -> tuple[int, ...]:
        """Of insertvalue and extractvalue, which part of the aggregate."""
        found = _INDICES.search(self.text)
        assert found is not None
        return tuple(map(int, found[1].split(",")[1:]))

    def replaced(self, values: Mapping[str, str]) -> None:
        """Put other values in the place of some."""
        if any(operand in values for operand in self.operands):
            self.operands = [values.get(operand, operand) for operand in self.operands]
            start = self.text.index("=") if self.name else 0  # what it defines keeps its name
            self.text = self.text[:start] + _LOCAL.sub(lambda found: values.get(found[0], found[0]), self.text[start:])


@dataclass(eq=False, slots=True)
class Block:
    """A basic block: its name, as in ``%name``, and its instructions."""

    name: str
    instructions: list[Instruction]

    @property
    def phis(self) -> list[Instruction]:
        """Its phis: they come first."""
        return [one for one in self.instructions if one.opcode == "phi"]


@dataclass(eq=False, slots=True)
class Function:
    """The definition of a function.

    Attributes
    ----------
    name : str
        Without ``@`` and quotes.
    result : str
        The type it returns.
    arguments : list of (str, str)
        Type and name of each.
    blocks : list of Block
        The entry first.
    attributes : str
        What is written between the arguments and the body.
    linkage : str
        "internal", or nothing.
    """

    name: str
    result: str
    arguments: list[tuple[str, str]]
    blocks: list[Block]
    attributes: str = ""
    linkage: str = ""

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, block by block."""
        for block in self.blocks:
            yield from block.instructions

    def definitions(self) -> dict[str, Instruction]:
        """The instruction that defines each name."""
        return {one.name: one for one in self.instructions() if one.name}

    def replace(self, values: Mapping[str, str]) -> None:
        """Put other values in the place of some, everywhere."""
        for one in self.instructions():
            one.replaced(values)

    def __str__(self) -> str:
        arguments = ", ".join(f"{type_} {name}" for type_, name in self.arguments)
        head = " ".join(
            part for part in ("define", self.linkage, self.result, f"{symbol(self.name)}({arguments})") if part
        )
        body = [
            line
            for block in self.blocks
            for line in (f"{block.name[1:]}:", *(f"  {one.text}" for one in block.instructions))
        ]
        return "\n".join([f"{head} {self.attributes}{{", *body, "}", ""])


def symbol(name: str) -> str:
    """The name of a function as it is written."""
    return f"@{name}" if _PLAIN.fullmatch(name) else f'@"{name}"'


def local(name: str) -> str:
    """The name of a value as it is written."""
    return f"%{name}" if _PLAIN.fullmatch(name) else f'%"{name}"'


def is_constant(operand: str) -> bool:
    """Whether an operand is a constant, and not the result of an instruction or an argument."""
    return not operand.startswith("%")
