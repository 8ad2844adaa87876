"""The forms in which a derivative is given, each as a way to add partial derivatives to a program.

A form gets the slots of the arguments, in the types that the function's own loop takes, and returns one slot
for each partial derivative asked for. What happens to it afterwards, the product with a cotangent and the
sums, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tmapad._bound import Bound
from tmapad._core import Loop
from tmapad._errors import SignatureError
from tmapad._plan import Builder, Partial, Slot, Source
from tmapad._protocol import Given, GivenDerivative, Implementation, Known

# Partials by (output, argument).
Partials = dict[tuple[int, int], Partial]
# For an implementation, the loop for arguments of these types.
FindLoop = Callable[[Implementation, tuple[Any, ...]], Loop]


class Form(Protocol):
    """How partial derivatives are found."""

    @property
    def saves(self) -> bool:
        """Whether ``residuals="auto"`` keeps the partials of the forward pass."""

    @property
    def gives_value(self) -> bool:
        """Whether the function's value comes with the derivative."""

    @property
    def parts(self) -> Iterable[Implementation]:
        """What it calls."""

    def known(self, output: int, argument: int) -> Known:
        """Whether there is a partial, none by the user's word ("none"), or none that is known."""

    def terms(self, output: int, argument: int) -> tuple[bool, ...]:
        """For each term of this partial whether ``dx = d * conj(dy)``; otherwise it is ``conj(d) * dy``."""

    def emit(self, call: Emission, wanted: Sequence[tuple[int, int]]) -> Partials:
        """Add the steps that compute the partials wanted."""


@dataclass
class Emission:
    """What a form works with: a program in the making, the slots of arguments and, if asked for, of the value.

    `captured` has the slots of what Python functions captured, by their ids.
    """

    builder: Builder
    value: Implementation
    value_loop: Loop
    find_loop: FindLoop
    xs: Sequence[Slot]
    captured: Mapping[int, Sequence[Slot]] = field(default_factory=dict)
    _ys: list[Slot] | None = None

    @property
    def ys(self) -> list[Slot]:
        """The function's value, computed once, if at all."""
        if self._ys is None:
            arguments = [*self.xs, *self._captured_by(self.value)]
            source = Source(self.value, takes_output=False)
            self._ys = self.builder.call(self.value_loop, arguments, source, value=self.value_loop)
        return self._ys

    def give_value(self, ys: list[Slot]) -> None:
        """Take the value from elsewhere."""
        self._ys = ys

    def run(
        self,
        part: Implementation,
        arguments: Sequence[Slot],
        *,
        takes_output: bool = False,
        gives_value: bool = False,
        shadow: Slot | None = None,
    ) -> list[Slot]:
        """Call a registered function on slots, converted to the types that it takes.

        If it gives the value, that comes first among its outputs.
        """
        loop = self.find_loop(part, tuple(np.dtype(slot.char) for slot in arguments))
        free = iter(arguments)
        bound = part.values if isinstance(part, Bound) else {}
        slots = [
            self.builder.constant(bound[i], char) if i in bound else self.builder.cast(next(free), char)
            for i, char in enumerate(loop.in_chars[: len(arguments) + len(bound)])
        ]
        last = () if shadow is None else (shadow,)
        arguments = [*slots, *self._captured_by(part), *last]
        value = self._alone(loop, arguments) if gives_value else None
        return self.builder.call(loop, arguments, Source(part, takes_output), value=value)

    def _alone(self, loop: Loop, arguments: Sequence[Slot]) -> Loop:
        """What gives the value for the first of the arguments of a loop that gives more: the function, if it can."""
        own = [*self.xs, *self._captured_by(self.value)]
        return self.value_loop if list(arguments[: len(own)]) == own else loop

    def _captured_by(self, part: Implementation) -> Sequence[Slot]:
        inner = part.inner if isinstance(part, Bound) else part
        return self.captured.get(id(getattr(inner, "function", inner)), ())


class Separate(GivenDerivative):
    """``derivative=`` and ``derivative_from_output=``: a function for each partial, or one that returns them all.

    `rows` has for each output either a list with a function or None for each argument, or one function for
    all.
    """

    saves = False
    gives_value = False

    def __init__(self, rows: Sequence[Sequence[Implementation | None] | Implementation], *, from_output: bool) -> None:
        self._rows = rows
        self.takes_output = from_output

    @property
    def parts(self) -> Iterable[Implementation]:
        """All functions."""
        for row in self._rows:
            yield from ((part for part in row if part is not None) if isinstance(row, (list, tuple)) else (row,))  # type: ignore[misc]

    def known(self, output: int, argument: int) -> Known:
        """Whether there is a function in the place of this partial, or None."""
        if output >= len(self._rows):
            return "unknown"
        row = self._rows[output]
        return "none" if isinstance(row, (list, tuple)) and row[argument] is None else "known"

    def given(self, output: int, argument: int, nin: int, nout: int) -> Given:  # noqa: ARG002 - the interface
        """A function of its own, or one result of the one for all arguments."""
        row = self._rows[output]
        if isinstance(row, (list, tuple)):
            return Given(row[argument], 0, 1)
        return Given(row, argument, nin)  # type: ignore[arg-type]

    def terms(self, output: int, argument: int) -> tuple[bool, ...]:  # noqa: ARG002 - the interface of a form
        """A registered derivative is of a holomorphic function."""
        return (False,)

    def check_outputs(self, name: str, nout: int) -> None:
        """Refuse a number of rows that is not the number of outputs."""
        if len(self._rows) != nout:
            raise SignatureError(
                f"{name} has {nout} outputs, and derivatives are registered for {len(self._rows)}: "
                "give a tuple with an entry for each output"
            )

    def emit(self, call: Emission, wanted: Sequence[tuple[int, int]]) -> Partials:
        """One step for each function that is needed."""
        partials: Partials = {}
        joint: dict[int, list[Slot]] = {}
        for output, argument in wanted:
            arguments = [*(call.ys if self.takes_output else ()), *call.xs]
            row = self._rows[output]
            if isinstance(row, (list, tuple)):
                part = row[argument]
                assert part is not None
                slots = call.run(part, arguments, takes_output=self.takes_output)
                if len(slots) != 1:
                    raise SignatureError(
                        f"the derivative {part.name} of {call.value.name} returns {len(slots)} numbers, not one"
                    )
                partials[output, argument] = ((slots[0], False),)
                continue
            if output not in joint:
                joint[output] = call.run(row, arguments, takes_output=self.takes_output)  # type: ignore[arg-type]
                if len(joint[output]) != call.value.nin:
                    raise SignatureError(
                        f"the derivative {row.name} of {call.value.name} returns {len(joint[output])} numbers, "  # type: ignore[union-attr]
                        f"not one for each of {call.value.nin} arguments"
                    )
            partials[output, argument] = ((joint[output][argument], False),)
        return partials


class Together(GivenDerivative):
    """``value_and_derivative=``: one function that returns the outputs, then their partials."""

    saves = True
    gives_value = True

    def __init__(self, part: Implementation) -> None:
        self._part = part

    @property
    def parts(self) -> Iterable[Implementation]:
        """The function."""
        return (self._part,)

    def known(self, output: int, argument: int) -> Known:  # noqa: ARG002 - the interface of a form
        """All partials are there."""
        return "known"

    def given(self, output: int, argument: int, nin: int, nout: int) -> Given:
        """One of its results: the outputs come first."""
        return Given(self._part, nout + output * nin + argument, nout * (1 + nin))

    def terms(self, output: int, argument: int) -> tuple[bool, ...]:  # noqa: ARG002 - the interface of a form
        """A registered derivative is of a holomorphic function."""
        return (False,)

    def check_outputs(self, name: str, nout: int) -> None:
        """Refuse a number of results that does not fit; known only if the function is native or was compiled."""
        nin = self._part.nin
        if self._part.nout is not None and self._part.nout != nout * (1 + nin):
            raise SignatureError(
                f"value_and_derivative {self._part.name} of {name} gives {self._part.nout} numbers, "
                f"not {nout * (1 + nin)}: {nout} value{'s' * (nout > 1)} and {nout} x {nin} partial derivatives"
            )

    def emit(self, call: Emission, wanted: Sequence[tuple[int, int]]) -> Partials:
        """One step that gives everything."""
        nin, nout = call.value.nin, call.value_loop.nout
        results = call.run(self._part, call.xs, gives_value=True)
        self.check_outputs(call.value.name, nout)
        call.give_value(results[:nout])
        return {(j, i): ((results[nout + j * nin + i], False),) for j, i in wanted}
