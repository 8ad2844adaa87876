"""Programs for the core, made step by step: slots with types, casts between them, and what a pullback adds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tmapad import _core
from tmapad._core import Loop, Program
from tmapad._protocol import Implementation

# Roles of slots that are arrays given to the program.
ARRAYS = ("input", "output", "block_sum")


@dataclass(eq=False, slots=True)
class Slot:
    """An argument of loops: its type, and what it is in the program."""

    char: str
    role: str = "scratch"
    position: int = 0  # among the arrays of the program
    value: Any = None

    @property
    def complex(self) -> bool:
        """Whether it holds complex numbers."""
        return self.char in "FD"


class Source(NamedTuple):
    """What a step was made from."""

    implementation: Implementation
    takes_output: bool  # before the arguments


# What the flags of a step stand for: see `Program`.
Report = tuple[str | None, Loop | None, int]
NO_REPORT: Report = (None, None, 0)


class Builder:
    """Makes a program: call by call, in the order in which the core will run them.

    Arrays are given to the finished program in the order in which `input`, `store` and `block_sum` named
    them. If it has the name of a function, the floating-point errors of that function's value are reported.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._casts: str | None = None
        self._reports: list[Report] = []
        self._slots: list[Slot] = []
        self._steps: list[tuple[Loop, list[Slot]]] = []
        self._sources: list[Source | None] = []
        self._arrays = 0

    def input(self, char: str) -> Slot:
        """Return a slot for an array of this type that is read."""
        return self._array(Slot(char, "input"))

    def _array(self, slot: Slot) -> Slot:
        slot.position = self._arrays
        self._arrays += 1
        if slot not in self._slots:
            self._slots.append(slot)
        return slot

    def constant(self, value: Any, char: str) -> Slot:
        """Return a slot that holds one value for all elements."""
        slot = Slot(char, "constant", value=np.array(value, dtype=char))
        self._slots.append(slot)
        return slot

    @contextlib.contextmanager
    def reporting(self, kind: str) -> Iterator[None]:
        """Report the errors of casts made here as "flags" or "results" of the function, or as those of a "cast"."""
        self._casts = kind
        try:
            yield
        finally:
            self._casts = None

    def call(
        self,
        loop: Loop,
        arguments: Sequence[Slot],
        source: Source | None = None,
        *,
        value: Loop | None = None,
    ) -> list[Slot]:
        """Run a loop on slots of its types; return its outputs. `source` is what the loop was made from.

        If its first outputs are the function's value, `value` is a loop that gives just that for the first of the
        arguments.
        """
        if "".join(slot.char for slot in arguments) != loop.in_chars:
            raise TypeError(f"{loop!r} was given {''.join(slot.char for slot in arguments)}")
        outputs = [Slot(char) for char in loop.out_chars]
        self._slots += outputs
        self._steps.append((loop, [*arguments, *outputs]))
        self._sources.append(source)
        self._reports.append(self._report(loop, value) if self._name is not None else NO_REPORT)
        return outputs

    def _report(self, loop: Loop, value: Loop | None) -> Report:
        if value is None:
            return (self._casts, loop, 1) if self._casts is not None else NO_REPORT
        return "results" if loop.speculates or loop is not value else "flags", value, value.nout

    def builtin(self, name: str, *arguments: Slot, to: str) -> Slot:
        """Run one of the core's own loops."""
        types = "".join(slot.char for slot in arguments) + "->" + to
        loop = _core.builtin_loop(name, types)
        if loop is None:
            raise TypeError(f"there is no loop {name} for {types}")
        return self.call(loop, arguments)[0]

    def cast(self, slot: Slot, char: str) -> Slot:
        """Return the slot, or one with its elements in another type."""
        return slot if slot.char == char else self.builtin("cast", slot, to=char)

    def store(self, slot: Slot, char: str) -> None:
        """Write a slot's elements to an array of this type, the next one of the program's."""
        slot = self.cast(slot, char)
        if slot.role != "scratch":
            slot = self.builtin("cast", slot, to=char)  # its elements must be written elsewhere: a copy
        slot.role = "output"
        self._array(slot)

    def block_sum(self, slot: Slot) -> None:
        """Write the sums of a slot's blocks to an array, the next one of the program's."""
        total = self.builtin("sum_block", slot, to="D" if slot.complex else "d")
        total.role = "block_sum"
        self._array(total)

    def program(self, *, serial: bool = False) -> tuple[Program, tuple[Source | None, ...], tuple[int, ...]]:
        """Return the program, what each of its steps was made from, and which of its inputs it reads.

        The others are no arrays of the program.
        """
        used = {id(slot) for _, arguments in self._steps for slot in arguments}
        inputs = [slot for slot in self._slots if slot.role == "input"]
        reads = tuple(k for k, slot in enumerate(inputs) if id(slot) in used)
        slots = [slot for slot in self._slots if id(slot) in used]
        order = sorted(slots, key=lambda slot: (slot.role not in ARRAYS, slot.position))
        number = {id(slot): k for k, slot in enumerate(order)}
        described = [(slot.role, np.dtype(slot.char).itemsize, slot.value) for slot in order]
        steps = [(loop, tuple(number[id(slot)] for slot in arguments)) for loop, arguments in self._steps]
        program = Program(described, steps, serial=serial, name=self._name or "", reports=self._reports)
        return program, tuple(self._sources), reads


# A partial derivative: slots, and for each whether the function is antiholomorphic in that argument. There are two for
# a complex function of a complex argument that need not be either: it is a sum of one that is and one that is not.
Term = tuple[Slot, bool]
Partial = tuple[Term, ...]


def add(builder: Builder, a: Slot, b: Slot) -> Slot:
    """Add the step a + b, in the wider type of the two."""
    char = np.promote_types(a.char, b.char).char
    return builder.builtin("add", builder.cast(a, char), builder.cast(b, char), to=char)


def pull(builder: Builder, partial: Partial, dy: Slot, *, real: bool) -> Slot:
    """Add the steps of the cotangent of an argument."""
    first, *others = (_pull_term(builder, term, dy, real=real) for term in partial)
    for term in others:
        first = add(builder, first, term)
    return first


def _pull_term(builder: Builder, term: Term, dy: Slot, *, real: bool) -> Slot:
    """Add the step dx = conj(d) * dy (its real part for a real x), in the wider precision of the two."""
    d, antiholomorphic = term
    real_char = "d" if d.char in "dD" or dy.char in "dD" else "f"
    complex_char = real_char.upper()
    d = builder.cast(d, complex_char if d.complex or dy.complex else real_char)
    dy = builder.cast(dy, complex_char if dy.complex else real_char)
    result = complex_char if d.complex and not real else real_char
    return builder.builtin("pull_conjugate" if antiholomorphic else "pull", d, dy, to=result)
