"""A function for one combination of argument types: its loop, its results' types, and the programs made of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tmapad._automatic import Automatic
from tmapad._core import Loop, Program
from tmapad._forms import Emission, FindLoop, Form
from tmapad._plan import Builder, Partial, Slot, Source, add, pull
from tmapad._protocol import Implementation

FLOATS = frozenset("efdFD")
NARROW = {"half": {"f": "e", "d": "e", "D": "F"}, "single": {"d": "f", "D": "F"}, "double": {}}


class Sink(NamedTuple):
    """Where a cotangent goes: an array of its own type, one of the products to be summed, or sums of blocks."""

    where: str  # "array", "products" or "blocks"
    char: str  # of the cotangent
    real: bool  # its argument is real


@dataclass(frozen=True)
class Planned:
    """A program, and for each of its steps what it was made from."""

    program: Program
    sources: tuple[Source | None, ...]
    reads: tuple[int, ...]  # which of the arrays offered it takes
    chars: tuple[str, ...] = ()  # of the arrays it writes, where the caller cannot know them


class Kernel:
    """What a `ScalarFunction` does for one combination of types.

    Attributes
    ----------
    loop : Loop
        The function's value.
    results : tuple of str
        Type characters of the results as they are given back.
    nin : int
        How many arguments it is called with. Those of its loop that come after them are captured.
    active : tuple of int
        Outputs that have a gradient: those that are real or complex numbers.
    """

    def __init__(
        self,
        value: Implementation,
        form: Form | None,
        loop: Loop,
        results: tuple[str, ...],
        find_loop: FindLoop,
        *,
        name: str,
        captured: Sequence[tuple[int, str]] = (),
        serial: bool,
    ) -> None:
        # What the arrays that come after the arguments are: types of what Python functions captured, by their ids.
        self._captured = captured
        self.nin = len(loop.in_chars) - len(dict(captured).get(id(value), ""))
        self.value, self.form, self.loop, self.results = value, form, loop, results
        self._name = name
        self.active = tuple(j for j, char in enumerate(results) if char in FLOATS)
        self._find_loop = find_loop
        self._loops: dict[Hashable, Loop] = {}
        self._serial = serial
        self._programs: dict[Hashable, Planned] = {}

    def _planned(self, key: Hashable, make: Callable[[Builder], Sequence[str]], *, reports: bool = False) -> Planned:
        found = self._programs.get(key)
        if found is None:
            builder = Builder(self._name if reports else None)
            chars = tuple(make(builder))
            found = self._programs[key] = Planned(*builder.program(serial=self._serial), chars)
        return found

    def made(self, program: Program) -> Planned | None:
        """Return what is known of a program of this kernel's."""
        return next((planned for planned in list(self._programs.values()) if planned.program is program), None)

    def map(self, arrays: tuple[str, ...], outputs: tuple[str, ...]) -> Planned:
        """The value loop: arrays of these types in, results in these types out."""

        def make(builder: Builder) -> Sequence[str]:
            self._store(builder, self._start(builder, arrays).ys, outputs)
            return ()

        return self._planned(("map", arrays, outputs), make, reports=True)

    def forward(
        self, arrays: tuple[str, ...], outputs: tuple[str, ...], wanted: tuple[int, ...], *, save: bool
    ) -> Planned:
        """The forward pass of a gradient: results and, to be saved, partials (in the order of `pairs`)."""

        def make(builder: Builder) -> Sequence[str]:
            call = self._start(builder, arrays)
            partials = self._partials(call, wanted) if save or (self.form is not None and self.form.gives_value) else {}
            self._store(builder, call.ys, outputs)
            if not save:
                return ()
            slots = [slot for pair in self.pairs(wanted) for slot, _ in partials[pair]]
            for slot in slots:
                builder.store(slot, slot.char)
            return [slot.char for slot in slots]

        return self._planned(("forward", arrays, outputs, wanted, save), make, reports=True)

    def pull_saved(
        self,
        wanted: tuple[int, ...],
        partials: tuple[str, ...],
        dys: tuple[str | None, ...],
        sinks: tuple[Sink, ...],
    ) -> Planned:
        """The backward pass from saved partials: partials and cotangents in, cotangents out."""

        def make(builder: Builder) -> Sequence[str]:
            chars = iter(partials)
            slots = {
                pair: tuple((builder.input(next(chars)), antiholomorphic) for antiholomorphic in self._terms(*pair))
                for pair in self.pairs(wanted)
            }
            return self._pull(builder, slots, wanted, dys, sinks)

        return self._planned(("saved", wanted, partials, dys, sinks), make)

    def pull(
        self,
        arrays: tuple[str, ...],
        wanted: tuple[int, ...],
        dys: tuple[str | None, ...],
        sinks: tuple[Sink, ...],
    ) -> Planned:
        """The backward pass from the inputs."""

        def make(builder: Builder) -> Sequence[str]:
            call = self._start(builder, arrays)
            return self._pull(builder, self._partials(call, wanted), wanted, dys, sinks)

        return self._planned(("pull", arrays, wanted, dys, sinks), make)

    def pull_window(
        self,
        arrays: tuple[str, ...],
        position: int,
        char: str,
        dys: tuple[str | None, ...],
        sinks: tuple[Sink, ...],
    ) -> Planned:
        """The backward pass to elements of a captured array, one for each sink; its numbers have the type `char`.

        After the arrays it reads the address of a shadow: see `tmapad.jit.forward`.
        """

        def make(builder: Builder) -> Sequence[str]:
            assert isinstance(self.form, Automatic)
            call = self._start(builder, arrays)
            partials = self.form.emit_window(call, position, char, len(sinks), builder.input("q"))
            return self._pull(builder, partials, tuple(range(len(sinks))), dys, sinks)

        return self._planned(("window", arrays, position, char, dys, sinks), make)

    def _store(self, builder: Builder, ys: Sequence[Slot], outputs: tuple[str, ...]) -> None:
        """Write results, rounded to their own type first, to arrays of any type."""
        # To round a result is part of computing it, for NumPy as well.
        with builder.reporting("results" if self.loop.speculates else "flags"):
            for y, result, char in zip(ys, self.results, outputs, strict=True):
                builder.store(builder.cast(y, result), char)

    def pairs(self, wanted: tuple[int, ...]) -> list[tuple[int, int]]:
        """(output, argument) of the partials that these arguments need, in the order in which they are saved."""
        return [
            (j, i) for i in wanted for j in self.active if self.form is not None and self.form.known(j, i) == "known"
        ]

    def terms(self, wanted: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """(output, argument, term) of the parts of these partials, in the order in which they are saved."""
        return [(j, i, term) for j, i in self.pairs(wanted) for term in range(len(self._terms(j, i)))]

    def _terms(self, output: int, argument: int) -> tuple[bool, ...]:
        assert self.form is not None
        return self.form.terms(output, argument)

    def _start(self, builder: Builder, arrays: tuple[str, ...]) -> Emission:
        inputs = [builder.input(char) for char in arrays]
        with builder.reporting("cast"):
            xs = [builder.cast(slot, char) for slot, char in zip(inputs[: self.nin], self.loop.in_chars, strict=False)]
        rest = iter(inputs[self.nin :])
        captured = {part: [next(rest) for _ in chars] for part, chars in self._captured}
        return Emission(builder, self.value, self.loop, self._part_loop, xs, captured)

    def _part_loop(self, part: Implementation, types: tuple[Any, ...]) -> Loop:
        """Find a loop once, as long as the kernel lives."""
        key = (id(part), types)  # parts live as long as the form
        if key not in self._loops:
            self._loops[key] = self._find_loop(part, types)
        return self._loops[key]

    def _partials(self, call: Emission, wanted: tuple[int, ...]) -> dict[tuple[int, int], Partial]:
        """Partials, in the precision of their output: the types in which they are saved."""
        assert self.form is not None
        partials = self.form.emit(call, self.pairs(wanted))
        result = {}
        for (j, i), terms in partials.items():
            real = "d" if self.loop.out_chars[j] in "dD" else "f"
            if self.loop.in_chars[i] not in "FD" and self.loop.out_chars[j] not in "FD" and terms[0][0].complex:
                raise TypeError(f"{self.value.name}: a real function of a real argument has a complex derivative")
            result[j, i] = tuple(
                (call.builder.cast(slot, real.upper() if slot.complex else real), antiholomorphic)
                for slot, antiholomorphic in terms
            )
        return result

    def _pull(
        self,
        builder: Builder,
        partials: dict[tuple[int, int], Partial],
        wanted: tuple[int, ...],
        given: tuple[str | None, ...],
        sinks: tuple[Sink, ...],
    ) -> Sequence[str]:
        dys: dict[int, Slot] = {}
        for j, char in enumerate(given):
            if char is not None:
                # To the type of y first, as the contract says, then to that of the computation.
                dys[j] = builder.cast(builder.cast(builder.input(char), self.results[j]), self.loop.out_chars[j])
        chars = []
        for i, sink in zip(wanted, sinks, strict=True):
            total: Slot | None = None
            for j, dy in dys.items():
                if (j, i) in partials:
                    term = pull(builder, partials[j, i], dy, real=sink.real)
                    total = term if total is None else add(builder, total, term)
            if total is None:
                total = builder.constant(0, "d" if sink.real else "D")
            if sink.where == "array":
                builder.store(total, sink.char)
            elif sink.where == "products":
                builder.store(total, total.char)
            else:
                builder.block_sum(total)
            chars.append(total.char)
        return chars


def result_chars(loop: Loop, precision: str) -> tuple[str, ...]:
    """The types of results: the loop's, in the precision that the arguments had."""
    return tuple(NARROW[precision].get(char, char) for char in loop.out_chars)


def precision_of(dtype: np.dtype[Any]) -> str:
    """The name of a type's precision."""
    return {"e": "half", "f": "single", "F": "single"}.get(dtype.char, "double")
