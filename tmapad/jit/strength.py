"""Which numbers of a function are float32 when some of its arguments are, by the rule of NumPy 2 (NEP 50).

A number that comes from a float32 is strong: it is float32. Literals, integers and what is computed from these alone
are weak, as Python's own floats are: float64 among themselves, and rounded to float32 where they meet a strong number.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from tmapad.jit.ir import Function, Instruction, is_constant

DOUBLE, FLOAT = "double", "float"

_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "freeze"})
_JOINS = frozenset({"phi", "select"})
_CONVERSIONS = frozenset({"fptosi", "fptoui", "fptrunc", "fpext"})
_KNOWN = _ARITHMETIC | _JOINS | _CONVERSIONS | {"call", "fcmp", "ret", "insertvalue", "extractvalue"}
_LARGEST = 2.0**128 - 2.0**103  # from here on, rounding to float32 gives an infinity
# Up to here, less than what is lost when 1 is rounded: a tolerance that a loop in float32 might never meet.
_SMALLEST = 2.0**-24


class Strength:
    """The strong values of a function.

    Parameters
    ----------
    function : Function
        In canonical form.
    arguments : iterable of str
        Names of the arguments that are to be float32.

    Attributes
    ----------
    strong : set of str
        Names of values of type ``double``, and of structs of these, that are to be float32. A struct that is returned
        is among them.
    """

    def __init__(self, function: Function, arguments: Iterable[str]) -> None:
        self.strong = set(arguments)
        self._instructions = list(function.instructions())
        while sum(map(self._update, self._instructions)):  # all of them, and not only up to the first
            pass

    def is_strong(self, operand: str, type_: str) -> bool:
        """Whether a value is float32."""
        return type_ == FLOAT or operand in self.strong

    def uses_strong(self, one: Instruction) -> bool:
        """Whether an operand is float32."""
        return any(self.is_strong(*each) for each in zip(one.operands, one.types, strict=True))

    def is_possible(self) -> bool:
        """Whether float32 can take the place of float64 for the strong values, and means the same.

        It does not where a number is in memory: arrays of float64 are, and lists.
        """
        return all(map(self._is_possible, self._instructions))

    def _update(self, one: Instruction) -> bool:
        """Take account of one instruction; whether that told anything new."""
        before = len(self.strong)
        if is_struct(one.type) or one.opcode == "ret":
            self._update_struct(one)
        elif self._is_result_strong(one):
            self.strong.add(one.name)
        return len(self.strong) > before

    def _update_struct(self, one: Instruction) -> None:
        """A struct is strong, with all that it is made from and made into, if one of its numbers is."""
        structs = [operand for operand, type_ in zip(one.operands, one.types, strict=True) if is_struct(type_)]
        if one.opcode == "ret" or one.name in self.strong or self.uses_strong(one):
            self.strong |= {name for name in (one.name, *structs) if name and not is_constant(name)}

    def _is_result_strong(self, one: Instruction) -> bool:
        if one.type != DOUBLE:
            return False
        if one.opcode == "extractvalue":
            return one.operands[0] in self.strong
        return one.opcode == "fpext" or (one.opcode in _ARITHMETIC | _JOINS | {"call"} and self.uses_strong(one))

    def _is_possible(self, one: Instruction) -> bool:
        operands = list(zip(one.operands, one.types, strict=True))
        if any(operand in self.strong and DOUBLE not in type_ for operand, type_ in operands):
            return False  # an instruction whose types are not known
        types = [one.type, *one.types]
        if not any(DOUBLE in type_ for type_ in types):
            return True
        if one.opcode in ("load", "store") or any("<" in type_ for type_ in types):
            return False
        if one.name not in self.strong and not self.uses_strong(one):
            return True
        if one.opcode == "call" and "ptr" in one.types:
            return False
        return one.opcode in _KNOWN and all(
            type_ != DOUBLE or not is_constant(operand) or _has_single(operand) for operand, type_ in operands
        )


def is_struct(type_: str) -> bool:
    """Whether a type is one of structs or arrays of numbers."""
    return type_[0] in "{[" and DOUBLE in type_


def value_of(constant: str) -> float | None:
    """The value of a real constant as LLVM writes it; None if it has none that is known, such as ``poison``."""
    if constant.startswith("0x"):
        return float(struct.unpack("d", struct.pack("Q", int(constant, 16)))[0])
    return None if constant in ("poison", "undef") else float(constant)


def _has_single(constant: str) -> bool:
    """Whether a constant means the same in float32."""
    value = value_of(constant)
    return value is None or value == 0 or not math.isfinite(value) or _SMALLEST < abs(value) < _LARGEST
