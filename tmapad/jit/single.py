"""From a scalar function of float64 to the same function of float32.

Numba types ``2.0 * x`` of a float32 as float64; NumPy, and the contract, say float32. So functions are compiled for
float64, and then float32 takes its place in the IR: for the numbers that come from arguments in float32. Literals and
what is computed from these alone are rounded where they meet such a number. That is what the function does in Python
when it is called with ``np.float32`` under NumPy 2, but for two things: functions of `math`, ``float(x)`` and
``complex(x)`` of a float32 stay in float32 here, and so do products with a bool or an integer of NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np

from tmapad.jit import elementary, registered
from tmapad.jit.canonical import canonical
from tmapad.jit.captures import Capture
from tmapad.jit.composite import in_single
from tmapad.jit.emit import Emitter, new_prefix, real
from tmapad.jit.ir import Instruction, Module, is_constant, symbol
from tmapad.jit.scalar import OPAQUE, REGISTERED, SCALAR, ScalarIR, slots
from tmapad.jit.strength import DOUBLE, FLOAT, Strength, is_struct, value_of
from tmapad.jit.typenames import members

_REAL = re.compile(rf"{FLOAT} ([-+.\w]+)")  # in a constant struct
_SINGLE = str.maketrans("dD", "fF")


def single(scalar: ScalarIR, in_chars: str) -> ScalarIR | None:
    """Compute in float32 instead of float64.

    Parameters
    ----------
    scalar : ScalarIR
    in_chars : str
        NumPy's characters for the types of the arguments, without captures: those of `scalar`, where "f" or "F" may
        stand for "d" or "D". What stays "d" or "D" is weak, like a Python float.

    Returns
    -------
    ScalarIR or None
        With results of float32 and complex64 instead of float64 and complex128; captures are what they were. None if
        the function must be computed in float64: it captures a ``np.float64`` or has an array of them, looks at the
        bits of a number, or has a literal that means nothing in float32.
    """
    if any(map(_is_double, scalar.captures)):
        return None
    in_chars += scalar.in_chars[len(in_chars) :]
    module = Module.read(scalar.llvm, SCALAR)
    arguments = iter(module.function.arguments)
    narrowed = [
        name
        for old, new in zip(scalar.in_chars, in_chars, strict=True)
        for _, name in [next(arguments) for _ in slots(old)]
        if new != old
    ]
    strength = Strength(module.function, narrowed)
    if not strength.is_possible():
        return None
    _Single(module, strength).run()
    parsed = llvm.parse_assembly(str(module))
    elementary.define(parsed)
    return replace(
        scalar, llvm=str(canonical(parsed)), in_chars=in_chars, out_chars=scalar.out_chars.translate(_SINGLE)
    )


class _Single:
    """Rewrites a function."""

    def __init__(self, module: Module, strength: Strength) -> None:
        self._module, self._function, self._strength = module, module.function, strength
        self._prefix = new_prefix(str(module))
        self._emitter = Emitter(module, [], self._prefix)
        self._rounded: set[str] = set()  # weak numbers that meet a strong one
        instructions = list(self._function.instructions())
        self._narrow_names = strength.strong | {one.name for one in instructions if one.type == FLOAT}
        self._narrow_names |= {name for type_, name in self._function.arguments if type_ == FLOAT}
        # Conversions that become none, and what they convert.
        self._same = {
            one.name: one.operands[0]
            for one in instructions
            if one.opcode == "fpext" or (one.opcode == "fptrunc" and one.operands[0] in strength.strong)
        }

    def run(self) -> None:
        """Rewrite all of it, each weak number with its rounding behind it if that is asked for anywhere."""
        function, strong = self._function, self._strength.strong
        rewritten = [[(one, self._rewritten(one)) for one in block.instructions] for block in function.blocks]
        lines = [self._rounding(name) for type_, name in function.arguments if name in self._rounded]
        for block, parts in zip(function.blocks, rewritten, strict=True):
            after_phis: list[str] = []
            for one, texts in parts:
                if one.opcode != "phi":
                    lines += after_phis
                    after_phis = []
                lines += texts
                if one.name in self._rounded:
                    (after_phis if one.opcode == "phi" else lines).append(self._rounding(one.name, one))
            block.instructions = [Instruction("", "", "", [], [], line) for line in lines]
            lines = []
        function.arguments = [(FLOAT if name in strong else type_, name) for type_, name in function.arguments]
        function.result = _in_single(function.result)

    @staticmethod
    def _rounding(name: str, source: Instruction | None = None) -> str:
        """Round a weak number."""
        if source is not None and source.opcode in ("sitofp", "uitofp"):
            return f"{_suffixed(name)} = {source.opcode} {source.types[0]} {source.operands[0]} to {FLOAT}"
        return f"{_suffixed(name)} = fptrunc {DOUBLE} {name} to {FLOAT}"

    def _rewritten(self, one: Instruction) -> list[str]:
        lines: list[str] = []
        self._emitter.lines = lines
        if one.name in self._same:
            return lines
        is_strong = one.name in self._strength.strong or self._strength.uses_strong(one)
        if is_strong and any(DOUBLE in type_ for type_ in (one.type, *one.types)):
            _RULES.get(one.opcode, _Single._compute)(self, one)
        else:
            one.replaced({operand: self._resolved(operand) for operand in one.operands})
            lines.append(one.text)
        return lines

    # ------------------------------------------------------------------------------------------------ operands

    def _resolved(self, operand: str) -> str:
        while operand in self._same:
            operand = self._same[operand]
        return operand

    def _narrow(self, operand: str) -> str:
        """A real number in float32."""
        operand = self._resolved(operand)
        if is_constant(operand):
            return _constant(operand)
        if operand in self._narrow_names:
            return operand
        self._rounded.add(operand)
        return _suffixed(operand)

    def _typed(self, operand: str, type_: str) -> str:
        """An operand with its type, as it is written."""
        if type_ == DOUBLE:
            return f"{FLOAT} {self._narrow(operand)}"
        if is_struct(type_) and is_constant(operand):
            operand = _REAL.sub(lambda found: f"{FLOAT} {_constant(found[1])}", _in_single(operand))
        return f"{_in_single(type_)} {self._resolved(operand)}"

    # ------------------------------------------------------------------------------------------------ instructions

    def _compute(self, one: Instruction) -> None:
        """Arithmetic and comparisons: the same on float32."""
        before, _ = one.text[len(one.name) :].split(f" {DOUBLE} ", 1)
        self._emitter.line(f"{one.name}{before} {FLOAT} {', '.join(map(self._narrow, one.operands))}")

    def _convert(self, one: Instruction) -> None:
        self._emitter.line(f"{one.name} = {one.opcode} {FLOAT} {self._narrow(one.operands[0])} to {one.type}")

    def _phi(self, one: Instruction) -> None:
        values = (self._typed(operand, one.type).removeprefix(_in_single(one.type)) for operand in one.operands)
        incoming = ", ".join(f"[{value}, {block} ]" for value, block in zip(values, one.blocks, strict=True))
        self._emitter.line(f"{one.name} = phi {_in_single(one.type)} {incoming}")

    def _select(self, one: Instruction) -> None:
        self._emitter.line(f"{one.name} = select {', '.join(map(self._typed, one.operands, one.types))}")

    def _part(self, one: Instruction) -> None:
        """Put a part into a struct, or take it out."""
        indices = ", ".join(map(str, one.indices))
        operands = ", ".join(map(self._typed, one.operands, one.types))
        self._emitter.line(f"{one.name} = {one.opcode} {operands}, {indices}")

    def _return(self, one: Instruction) -> None:
        self._emitter.line(f"ret {self._typed(one.operands[0], one.types[0])}")

    def _in_double(self, one: Instruction) -> None:
        """Do it in float64, and round the result."""
        given = {}
        for operand, type_ in zip(one.operands, one.types, strict=True):
            if type_ == DOUBLE:
                narrow = self._resolved(operand)
                is_narrow = narrow in self._narrow_names
                given[operand] = self._emitter.value(f"fpext {FLOAT} {narrow} to {DOUBLE}") if is_narrow else narrow
        one.replaced(given)
        if DOUBLE not in one.type:
            self._emitter.line(one.text)
            return
        wide = self._emitter.value(one.text[len(one.name) :].removeprefix(" = "))
        if one.type == DOUBLE:
            self._emitter.line(f"{one.name} = fptrunc {DOUBLE} {wide} to {FLOAT}")
            return
        struct, type_, parts = "poison", _in_single(one.type), members(one.type)
        for number, member in enumerate(parts):
            part = self._emitter.part(one.type, wide, number)
            if member == DOUBLE:
                part = self._emitter.value(f"fptrunc {DOUBLE} {part} to {FLOAT}")
            inserted = f"insertvalue {type_} {struct}, {_in_single(member)} {part}, {number}"
            if number == len(parts) - 1:
                self._emitter.line(f"{one.name} = {inserted}")
            else:
                struct = self._emitter.value(inserted)

    def _call(self, one: Instruction) -> None:
        callee = _callee_in_single(one.callee)
        if callee is None:
            self._in_double(one)
            return
        result = _in_single(one.type)
        captured = registered.captured_slots(callee)  # weak, and rounded where it is used
        count = len(one.types) - len(captured)
        self._module.declare(callee, result, [*map(_in_single, one.types[:count]), *captured])
        given = [self._typed(*each) for each in zip(one.operands[:count], one.types, strict=False)]
        given += [f"{type_} {self._resolved(each)}" for type_, each in zip(captured, one.operands[count:], strict=True)]
        operands = ", ".join(given)
        self._emitter.line(f"{one.name} = call {result} {symbol(callee)}({operands})")


_RULES: dict[str, Callable[[_Single, Instruction], None]] = {
    "call": _Single._call,
    "extractvalue": _Single._part,
    "fptosi": _Single._convert,
    "fptoui": _Single._convert,
    "insertvalue": _Single._part,
    "phi": _Single._phi,
    "ret": _Single._return,
    "select": _Single._select,
}


def _is_double(capture: Capture) -> bool:
    """Whether a captured number is one of NumPy's, in float64: no weak one. Arrays are seen where they are read."""
    given = capture.type.given
    return capture.type.ndim is None and isinstance(given, np.dtype) and given.char in "dD"


def _callee_in_single(callee: str) -> str | None:
    """The function that does the same in float32; None if there is none."""
    if callee.startswith("llvm."):
        return callee.replace(".f64", ".f32")
    if callee.startswith(OPAQUE):
        name = registered.in_single(callee) if callee.startswith(REGISTERED) else in_single(callee)
        return name if elementary.is_defined(name) else None
    return None


def _constant(operand: str) -> str:
    """A real constant in float32."""
    value = value_of(operand)
    return operand if value is None else real(value, FLOAT)


def _in_single(type_: str) -> str:
    return type_.replace(DOUBLE, FLOAT)


def _suffixed(name: str) -> str:
    return f'{name[:-1]}.single"' if name.endswith('"') else f"{name}.single"
