"""Write instructions: the text of what computes something from values, for a function in the making."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

from tmapad.jit.ir import Module, symbol

_SUFFIX = {"double": "f64", "float": "f32"}


class Emitter:
    """Appends instructions to a list of lines; each result gets a new name.

    Parameters
    ----------
    module : Module
        Where functions that are called are declared.
    lines : list of str
        Where instructions go. May be replaced by another list, to go on in another block.
    prefix : str
        What new names begin with: no other name in the function may.
    """

    def __init__(self, module: Module, lines: list[str], prefix: str = "t") -> None:
        self.module = module
        self.lines = lines
        self._prefix = prefix
        self._count = 0

    def line(self, text: str) -> None:
        """Write an instruction without result."""
        self.lines.append(text)

    def value(self, text: str) -> str:
        """Write an instruction; return the name of its result."""
        self._count += 1
        name = f"%{self._prefix}.{self._count}"
        self.lines.append(f"{name} = {text}")
        return name

    def op(self, opcode: str, type_: str, *operands: str) -> str:
        """Write an arithmetic instruction on operands of one type."""
        return self.value(f"{opcode} {type_} {', '.join(operands)}")

    def compare(self, predicate: str, type_: str, a: str, b: str) -> str:
        """Compare two real numbers."""
        return self.value(f"fcmp {predicate} {type_} {a}, {b}")

    def select(self, condition: str, type_: str, a: str, b: str) -> str:
        """Choose between two values."""
        return self.value(f"select i1 {condition}, {type_} {a}, {type_} {b}")

    def intrinsic(self, name: str, type_: str, *operands: str) -> str:
        """Call one of LLVM's functions of real numbers, such as "sqrt"."""
        return self.call(f"llvm.{name}.{_SUFFIX[type_]}", type_, [type_] * len(operands), operands)

    def call(self, name: str, result: str, types: Sequence[str], operands: Sequence[str]) -> str:
        """Call a function, which is declared if it is not there."""
        self.module.declare(name, result, types)
        given = ", ".join(f"{type_} {operand}" for type_, operand in zip(types, operands, strict=True))
        return self.value(f"call {result} {symbol(name)}({given})")

    def part(self, type_: str, aggregate: str, index: int) -> str:
        """Take a part out of a struct."""
        return self.value(f"extractvalue {type_} {aggregate}, {index}")


def real(value: float, type_: str = "double") -> str:
    """A real constant, exactly: as the bits of a double, also for a float."""
    if type_ == "float":
        value = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def new_prefix(text: str) -> str:
    """What no name in a module contains."""
    return next(prefix for number in itertools.count(1) if f"{(prefix := f'.ad{number}')}." not in text)
