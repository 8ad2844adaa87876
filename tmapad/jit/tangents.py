"""The tangents of a function's values: what they are called, and how new ones are written beside its instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tmapad._errors import NoDerivativeError
from tmapad.jit.activity import NOWHERE, REALS, Activity
from tmapad.jit.captures import addresses
from tmapad.jit.emit import Emitter, new_prefix, real
from tmapad.jit.errors import source_line
from tmapad.jit.ir import Instruction, Module, is_constant, local
from tmapad.jit.lines import places
from tmapad.jit.rows import Value
from tmapad.jit.scalar import ScalarIR

# What Numba calls for containers that are not arrays.
_CONTAINERS = {
    "list": re.compile(r"NRT_MemInfo_(new_)?varsize"),
    "dictionary": re.compile(r"numba_dict_"),
}


class Tangents:
    """The tangents of a function's values, on lanes: one lane for each partial derivative.

    Parameters
    ----------
    scalar : ScalarIR
        The function.
    module : Module
        The same, read.
    seeds : mapping
        For real arguments, by name, the lane on which they are perturbed.
    shadowed : mapping
        For arguments that are addresses the lanes, as bits, on which there are shadows of the memory there.
    count : int
        The number of lanes.

    Attributes
    ----------
    emitter : Emitter
        Writes instructions where the function is being written.
    activity : Activity
    definitions : dict
        The function's instructions, by their results.
    raised : str
        The address of the status of registered derivatives, if any is called.
    now : Instruction or None
        The one beside which instructions are written.
    """

    def __init__(
        self, scalar: ScalarIR, module: Module, seeds: Mapping[str, int], shadowed: Mapping[str, int], count: int
    ) -> None:
        self.scalar, self.module, self.seeds, self.count = scalar, module, seeds, count
        perturbed = {name: 1 << lane for name, lane in seeds.items()}
        known = {local(symbol) for symbol in addresses(scalar.captures)} | set(shadowed)
        self.activity = Activity(module.function, {**perturbed, **shadowed}, known)
        self.definitions = module.function.definitions()
        self.prefix = new_prefix(scalar.llvm)
        self.emitter = Emitter(module, [], self.prefix)
        self.raised = ""
        self.now: Instruction | None = None
        self._places = places(module.function)
        calls = [one.callee for one in module.function.instructions()]
        self._container = next((name for name, found in _CONTAINERS.items() if any(map(found.match, calls))), "")

    def lanes(self, operand: str) -> list[int]:
        """The lanes on which a value has a tangent."""
        bits = self._bits(operand)
        return [lane for lane in range(self.count) if bits >> lane & 1] if bits else []

    def has(self, operand: str, lane: int) -> bool:
        """Whether a value has a tangent on a lane."""
        return bool(self._bits(operand) >> lane & 1)

    def _bits(self, operand: str) -> int:
        return 0 if is_constant(operand) else self.activity.lanes.get(operand, 0)

    def tangent(self, operand: str, lane: int, type_: str = "double") -> str:
        """The tangent of a value on a lane, zero where it has none; of an address that of the shadow."""
        if self.has(operand, lane):
            return real(1.0, type_) if operand in self.seeds and type_ in REALS else self.name_of_tangent(operand, lane)
        if type_ == "ptr":
            if operand not in NOWHERE:
                raise self.refusal("an address that may be of memory with and without derivatives")
            return operand
        return real(0.0, type_) if type_ in REALS else "0"

    def name_of_tangent(self, operand: str, lane: int) -> str:
        """The name of a tangent: that of the value, and the lane."""
        return suffixed(operand, f"{self.prefix}.{lane}")

    def name_of_part(self, operand: str, number: int) -> str:
        """The name of a part of what a call returned."""
        return suffixed(operand, f"{self.prefix}.p{number}")

    def depends(self, operand: str, lane: int) -> str:
        """Whether a value depends on anything on a lane, by the way that was taken: a condition, constant mostly."""
        if not self.has(operand, lane):
            return "false"
        return suffixed(operand, f"{self.prefix}.{lane}.on") if self.uncertain(operand, lane) else "true"

    def uncertain(self, operand: str, lane: int) -> bool:
        """Whether `depends` is known only when the function runs."""
        return bool(self.activity.uncertain.get(operand, 0) >> lane & 1)

    def note_dependence(self, one: Instruction) -> None:
        """Compute `depends` of a result where it is not known."""
        for lane in self.lanes(one.name):
            if not self.uncertain(one.name, lane):
                continue
            given = [self.depends(operand, lane) for operand in one.operands if not is_constant(operand)]
            name = self.depends(one.name, lane)
            if one.opcode == "phi":
                incoming = zip((self.depends(operand, lane) for operand in one.operands), one.blocks, strict=True)
                self.emitter.line(f"{name} = phi i1 {', '.join(f'[ {value}, {block} ]' for value, block in incoming)}")
            elif one.opcode == "select":
                a, b = (self.depends(operand, lane) for operand in one.operands[1:])
                self.emitter.line(f"{name} = select i1 {one.operands[0]}, i1 {a}, i1 {b}")
            else:
                first, *others = dict.fromkeys(value for value in given if value != "false")
                for other in others:
                    first = self.emitter.op("or", "i1", first, other)
                self.emitter.line(f"{name} = or i1 {first}, false")

    def define(self, one: Instruction, lane: int, text: str) -> None:
        """Write the tangent of a result."""
        self.emitter.line(f"{self.name_of_tangent(one.name, lane)} = {text}")

    def scaled(self, factor: str, operand: str, lane: int, type_: str) -> str:
        """The product of a factor and a tangent: 0, also if the factor is infinite or NaN, where nothing depends."""
        product = self.emitter.op("fmul", type_, factor, self.tangent(operand, lane, type_))
        if not self.uncertain(operand, lane):
            return product
        return self.emitter.select(self.depends(operand, lane), type_, product, real(0.0, type_))

    def kept(self, operands: Sequence[str], lane: int, product: Value, type_: str) -> Value:
        """A product with the tangent of a complex number: 0 where nothing depends, see `scaled`."""
        if not all(not self.has(operand, lane) or self.uncertain(operand, lane) for operand in operands):
            return product
        depends, *others = (self.depends(operand, lane) for operand in operands)
        for other in others:
            depends = self.emitter.op("or", "i1", depends, other)
        zero = real(0.0, type_)
        return product._replace(parts=tuple(self.emitter.select(depends, type_, part, zero) for part in product.parts))

    def combine(self, one: Instruction, terms: Sequence[tuple[str, str | None]]) -> None:
        """Sum, on each lane, of the tangents of operands, each times a factor: 1 without one, or "-" for -1."""
        for lane in self.lanes(one.name):
            total = None
            for operand, factor in terms:
                if self.has(operand, lane):
                    if factor is None or factor == "-":
                        term = self.tangent(operand, lane, one.type)
                        term = term if factor is None else self.emitter.op("fneg", one.type, term)
                    else:
                        term = self.scaled(factor, operand, lane, one.type)
                    total = term if total is None else self.emitter.op("fadd", one.type, total, term)
            assert total is not None
            # A name of its own for what may be the name of another: x + (-0.0) is x, whatever x is.
            self.define(one, lane, f"fadd {one.type} {total}, {real(-0.0, one.type)}")

    def repeat(self, one: Instruction) -> None:
        """Do the same with the shadows: numbers in an address, such as an index, stay as they are."""
        is_number = [not self.activity.is_known(operand) for operand in one.operands]
        for lane in self.lanes(one.name):
            shadows = {
                operand: self.tangent(operand, lane, "ptr")
                for operand, is_number in zip(one.operands, is_number, strict=True)
                if not is_number
            }
            copy = Instruction(one.name, one.opcode, one.type, list(one.operands), list(one.types), one.text)
            copy.replaced(shadows)
            self.define(one, lane, copy.text.split(" = ", 1)[1])

    def refusal(self, what: str) -> NoDerivativeError:
        """The error for what has no derivative."""
        if self._container:
            what = f"a {self._container}: use an array in its place, such as np.zeros(n)"
        where = source_line(*self._places.get(id(self.now), ("", None)))
        return NoDerivativeError(f"{self.scalar.name} cannot be differentiated: its result depends on {what}{where}")


def suffixed(name: str, suffix: str) -> str:
    """A name made of another one."""
    return f'{name[:-1]}{suffix}"' if name.endswith('"') else name + suffix
