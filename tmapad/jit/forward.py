"""Forward mode: from a scalar function to one that gives partial derivatives as well.

Each instruction that depends on what the function is differentiated in gets beside it the instructions that compute its
tangents. The function's own instructions stay as they are, so that its value keeps its bits. A function comes out of it
that is like the one that went in, and can be differentiated again.

A call is differentiated by a row of the derivative table, as a whole. What cannot be differentiated is refused, with
the reason: an instruction that is not known here might depend on its operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import llvmlite.binding as llvm

from tmapad._errors import NoDerivativeError
from tmapad.jit.activity import ADDRESSES, REALS
from tmapad.jit.aggregates import constant_part
from tmapad.jit.arithmetic import RULES, join
from tmapad.jit.calls import call
from tmapad.jit.canonical import canonical
from tmapad.jit.elementary import define
from tmapad.jit.emit import Emitter, new_prefix, real
from tmapad.jit.ir import Instruction, Module, is_constant
from tmapad.jit.memory import MANGLED, load, open_window, store
from tmapad.jit.scalar import REGISTERED, SCALAR, ScalarIR, slots
from tmapad.jit.tangents import Tangents
from tmapad.jit.typenames import members

ADDRESS = "q"
"""NumPy's character for an argument that is an address."""

# Instructions that may have numbers with tangents, or addresses of such, as operands, and whose results have none.
_FLAT = frozenset(
    {"fcmp", "icmp", "fptosi", "fptoui", "bitcast", "br", "switch", "ptrtoint"}
    | {"add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "trunc", "zext", "sext"}
    | {"sdiv", "udiv", "srem", "urem", "sitofp", "uitofp"}
)
_FROM_BITS = frozenset({"bitcast", "sitofp", "uitofp"})


class Window(NamedTuple):
    """Some elements of a captured array, one after the other, to be differentiated in.

    Attributes
    ----------
    argument : int
        The one that is the array's address.
    char : str
        NumPy's character for its real numbers: a complex element counts as two.
    width : int
        How many of them.
    """

    argument: int
    char: str
    width: int


def forward(scalar: ScalarIR, wrt: Sequence[int], window: Window | None = None) -> ScalarIR:
    """Differentiate a scalar function.

    Parameters
    ----------
    scalar : ScalarIR
    wrt : sequence of int
        Which of its arguments, each once; these are real or complex numbers.
    window : Window, optional
        Elements of an array. The function that comes out takes one more argument, an address: of zeros, as many as
        the array has numbers, but a 1 in the place of the first element of the window. Before it lie `width` zeros
        more; as many lie behind.

    Returns
    -------
    ScalarIR
        With the results y1, ..., ym, then for each argument the partial derivatives that `terms` lists, then for each
        element of the window those of all real and complex results.

    Raises
    ------
    NoDerivativeError
        A result depends on one of these arguments in a way whose derivative is not known.
    """
    module = Module.read(scalar.llvm, SCALAR)
    written = _Forward(scalar, module, wrt, window)
    written.run()
    parsed = llvm.parse_assembly(str(module))
    define(parsed)
    partials = "".join(char for argument in wrt for _, char in terms(scalar, argument))
    if window is not None:
        partials += "".join(char for char in scalar.out_chars if char in "fdFD") * window.width
    return replace(
        scalar,
        llvm=str(canonical(parsed)),
        in_chars=scalar.in_chars + ("" if window is None else ADDRESS),
        out_chars=scalar.out_chars + partials,
        can_raise=scalar.can_raise or written.t.raised != "",
    )


def derivative(scalar: ScalarIR, argument: int) -> ScalarIR:
    """Differentiate a scalar function in one argument, and leave its value out.

    For a complex result of a complex argument it is the derivative of a holomorphic function.

    Raises
    ------
    NoDerivativeError
        As `forward`, and if no result is a real or complex number.
    """
    with_value = forward(scalar, (argument,))
    kept: list[tuple[int, int]] = []
    number = len(scalar.out_chars)
    for result, _ in terms(scalar, argument):
        if result not in [done for done, _ in kept]:
            kept.append((result, number))
        number += 1
    if not kept:
        raise NoDerivativeError(f"{scalar.name} has no derivative: its results are integers or bools")
    return with_results(with_value, [position for _, position in kept])


def with_results(scalar: ScalarIR, kept: Sequence[int]) -> ScalarIR:
    """Return some of the results only, in this order."""
    module = Module.read(scalar.llvm, SCALAR)
    function = module.function
    (last,) = (block for block in function.blocks if block.instructions[-1].opcode == "ret")
    old = last.instructions.pop().operands[0]
    starts = list(itertools.accumulate((len(slots(char)) for char in scalar.out_chars), initial=1))
    out_chars = "".join(scalar.out_chars[result] for result in kept)
    fields = [0, *(starts[result] + part for result in kept for part in range(len(slots(scalar.out_chars[result]))))]
    types = ["i32", *(slot for char in out_chars for slot in slots(char))]
    lines: list[str] = []
    emitter = Emitter(module, lines, new_prefix(scalar.llvm))
    parts = [emitter.part(function.result, old, field) for field in fields]
    function.result = f"{{ {', '.join(types)} }}"
    returned = "poison"
    for number, (type_, part) in enumerate(zip(types, parts, strict=True)):
        returned = emitter.value(f"insertvalue {function.result} {returned}, {type_} {part}, {number}")
    emitter.line(f"ret {function.result} {returned}")
    last.instructions += [Instruction("", "", "", [], [], line) for line in lines]
    return replace(scalar, llvm=str(canonical(llvm.parse_assembly(str(module)))), out_chars=out_chars)


def terms(scalar: ScalarIR, argument: int) -> list[tuple[int, str]]:
    """List the partial derivatives in an argument: for each the result, by number, and its type.

    A real argument has one for each result that is a real or complex number. With a complex argument z, a real result
    has one, the number d for which ``dy = Re(d dz)``; a complex result has two, for ``dy = a dz + b conj(dz)``.
    """
    is_complex = scalar.in_chars[argument] in "FD"
    return [
        (result, char.upper() if is_complex else char)
        for result, char in enumerate(scalar.out_chars)
        if char in "fdFD"
        for _ in range(2 if is_complex and char in "FD" else 1)
    ]


class _Forward:
    """Writes a function with its tangents.

    Attributes
    ----------
    t : Tangents
    fields : dict
        What is returned, by the number of the field.
    returned : set of str
        The instructions that put it together.
    """

    def __init__(self, scalar: ScalarIR, module: Module, wrt: Sequence[int], window: Window | None) -> None:
        self.scalar, self.function, self.wrt, self.window = scalar, module.function, wrt, window
        names = iter(name for _, name in self.function.arguments)
        self.arguments = [tuple(next(names) for _ in slots(char)) for char in scalar.in_chars]
        seeds = {part: lane for lane, part in enumerate(part for argument in wrt for part in self.arguments[argument])}
        shadowed = {}
        if window is not None:
            shadowed[self.arguments[window.argument][0]] = ((1 << window.width) - 1) << len(seeds)
        self.t = Tangents(scalar, module, seeds, shadowed, len(seeds) + (window.width if window is not None else 0))
        self.fields, self.returned = self._results_returned()
        calls = (one for one in self.function.instructions() if one.callee.startswith(REGISTERED))
        if any(self.t.lanes(one.name) for one in calls):
            self.t.raised = f"%{self.t.prefix}.raised"

    def run(self) -> None:
        """Write the function anew."""
        for block in self.function.blocks:
            lines: list[str] = []
            self.t.emitter.lines = lines
            if block is self.function.blocks[0]:
                self._open()
            phis = block.phis
            lines += [one.text for one in phis]
            for one in phis:
                self.t.now = one
                self.t.note_dependence(one)
                join(self.t, one)
            for one in block.instructions[len(phis) :]:
                if one.opcode == "ret":
                    self._return()
                    continue
                lines.append(one.text)
                self.t.now = one
                self.t.note_dependence(one)
                self._differentiate(one)
            block.instructions = [Instruction("", "", "", [], [], line) for line in lines]

    def _open(self) -> None:
        """Write what comes before everything else."""
        if self.t.raised:
            self.t.emitter.line(f"{self.t.raised} = alloca i32")
            self.t.emitter.line(f"store i32 0, ptr {self.t.raised}")
        if self.window is not None:
            open_window(self.t, self.arguments[self.window.argument][0], self.window.char)

    def _differentiate(self, one: Instruction) -> None:
        """Write what belongs beside an instruction."""
        t = self.t
        if one.opcode == "store":
            store(t, one)
        elif one.opcode == "load":
            load(t, one)
        elif one.opcode == "call":
            call(t, one)
        elif t.lanes(one.name):
            if one.opcode == "bitcast" and one.types[0] in REALS:
                for lane in t.lanes(one.name):
                    tangent = t.tangent(one.operands[0], lane, one.types[0])
                    t.define(one, lane, f"bitcast {one.types[0]} {tangent} to {one.type}")
            elif one.opcode in ADDRESSES and t.activity.is_known(one.name):
                t.repeat(one)
            elif one.opcode in RULES:
                RULES[one.opcode](t, one)
            else:
                raise t.refusal(f"the instruction {one.opcode!r}")
        elif one.opcode in _FROM_BITS and one.type in REALS and self._is_of_bits(one.operands[0]):
            raise t.refusal(MANGLED)
        elif one.opcode == "extractvalue" and one.type.startswith("i"):
            pass  # an integer that a call gives
        elif one.opcode not in _FLAT and one.name not in self.returned and any(map(t.lanes, one.operands)):
            raise t.refusal(f"the instruction {one.opcode!r}")

    def _is_of_bits(self, operand: str) -> bool:
        """Whether an integer is made of the bits of a number with a tangent."""
        return operand in self.t.activity.mangled or bool(self.t.lanes(operand))

    def _results_returned(self) -> tuple[dict[int, str], set[str]]:
        """What is returned, by the number of the field, and the instructions that put it together."""
        (last,) = (one for one in self.function.instructions() if one.opcode == "ret")
        fields: dict[int, str] = {}
        chain = set()
        aggregate = last.operands[0]
        while not is_constant(aggregate):
            chain.add(aggregate)
            inserted = self.t.definitions[aggregate]
            fields.setdefault(inserted.indices[0], inserted.operands[1])
            aggregate = inserted.operands[0]
        for number in range(len(members(last.types[0]))):
            fields.setdefault(number, constant_part(aggregate, last.types[0], (number,)) or "poison")
        return fields, chain

    def _return(self) -> None:
        """Return the partial derivatives as well."""
        types = ["i32", *(slot for char in self.scalar.out_chars for slot in slots(char))]
        results = [(type_, self.fields[number]) for number, type_ in enumerate(types)]
        if self.t.raised:
            raised = self.t.emitter.value(f"load i32, ptr {self.t.raised}")
            results[0] = ("i32", self.t.emitter.op("or", "i32", results[0][1], raised))
        values = iter(results[1:])
        outputs = [(char, [next(values) for _ in slots(char)]) for char in self.scalar.out_chars]
        lane = 0
        for argument in self.wrt:
            for char, parts in outputs:
                if char not in "fdFD":
                    continue
                pushed = [(type_, self.t.tangent(value, lane, type_)) for type_, value in parts]
                if self.scalar.in_chars[argument] in "FD":
                    sideways = [(type_, self.t.tangent(value, lane + 1, type_)) for type_, value in parts]
                    pushed = self._complex_partials(pushed, sideways)
                results += pushed
            lane += len(slots(self.scalar.in_chars[argument]))
        for behind in range(lane, self.t.count):
            for char, parts in outputs:
                if char in "fdFD":
                    results += [(type_, self.t.tangent(value, behind, type_)) for type_, value in parts]
        self.function.result = f"{{ {', '.join(type_ for type_, _ in results)} }}"
        returned = "poison"
        for number, (type_, value) in enumerate(results):
            returned = self.t.emitter.value(f"insertvalue {self.function.result} {returned}, {type_} {value}, {number}")
        self.t.emitter.line(f"ret {self.function.result} {returned}")

    def _complex_partials(
        self, along: Sequence[tuple[str, str]], across: Sequence[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        """Partial derivatives in z, as `terms` lists them, from those in its real part and in its imaginary part."""
        type_ = along[0][0]

        def op(opcode: str, *operands: str) -> str:
            return self.t.emitter.op(opcode, type_, *operands)

        if len(along) == 1:
            return [*along, (type_, op("fneg", across[0][1]))]
        (_, u), (_, v) = along
        (_, s), (_, t) = across
        half = real(0.5, type_)
        twice = [op("fadd", u, t), op("fsub", v, s), op("fsub", u, t), op("fadd", v, s)]
        return [(type_, op("fmul", half, part)) for part in twice]
