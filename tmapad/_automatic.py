"""The derivative of a Python function that nobody wrote one for: found by the compiler, as a `Form`."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from tmapad._core import Loop
from tmapad._forms import Emission, Partials
from tmapad._plan import Slot
from tmapad._protocol import ArgType, Implementation, Known
from tmapad.jit import PythonFunction

NUMBERS = "fdFD"
AT_ONCE = 8
"""In how many arguments one step differentiates at most: what the tangents of more need does not stay in registers."""


class WithPartials:
    """An `Implementation`: a Python function whose loop gives partial derivatives after the results.

    Attributes
    ----------
    function : PythonFunction
    wrt : tuple of int
        The arguments it is differentiated in.
    window : tuple, optional
        The elements of a captured array: see `tmapad.jit.forward.Window`.
    """

    nout = None

    def __init__(
        self, function: PythonFunction, wrt: tuple[int, ...], window: tuple[int, str, int] | None = None
    ) -> None:
        self.function, self.wrt, self.window = function, wrt, window
        self.name = function.name
        self.nin = function.nin
        self.parameters = function.parameters
        self.python: Callable[..., Any] | None = function.python

    def loop(self, inputs: tuple[ArgType, ...], *, integer: Set[str] = frozenset()) -> Loop:
        """Return the loop for arguments of these types: see `PythonFunction.loop`."""
        return self.function.loop(inputs, integer=integer, wrt=self.wrt, window=self.window)


class Automatic:
    """The derivative of a Python function, by forward mode on its code.

    Parameters
    ----------
    function : PythonFunction
    types : str, optional
        Of the loop of its value.
    """

    gives_value = True
    parts: tuple[Implementation, ...] = ()

    def __init__(self, function: PythonFunction, types: str = "->") -> None:
        self._function = function
        self._inputs, _, self._outputs = types.partition("->")
        self._with_partials: dict[Any, WithPartials] = {}

    def for_types(self, types: str) -> Automatic:
        """Return the derivative for a loop of these types."""
        return Automatic(self._function, types)

    @property
    def saves(self) -> bool:
        """Whether it takes long to compute again: if there is a loop, or code that cannot be seen."""
        return self._function.takes_long

    def known(self, output: int, argument: int) -> Known:
        """A number has a derivative in a number; what does not is refused when it is compiled."""
        numbers = self._inputs[argument] in NUMBERS and self._outputs[output] in NUMBERS
        return "known" if numbers else "none"

    def terms(self, output: int, argument: int) -> tuple[bool, ...]:
        """A complex function of a complex number has a holomorphic part and an antiholomorphic one."""
        both = self._inputs[argument] in "FD" and self._outputs[output] in "FD"
        return (False, True) if both else (False,)

    def emit_window(self, call: Emission, position: int, char: str, width: int, shadow: Slot) -> Partials:
        """One step that gives the partials in elements of a captured array, as if these were the arguments."""
        key = position, char, width
        part = self._with_partials.setdefault(key, WithPartials(self._function, (), key))
        results = iter(call.run(part, call.xs, shadow=shadow))
        call.give_value([next(results) for _ in self._outputs])
        return {
            (output, element): ((next(results), False),)
            for element in range(width)
            for output, result in enumerate(self._outputs)
            if result in NUMBERS
        }

    def emit(self, call: Emission, wanted: Sequence[tuple[int, int]]) -> Partials:
        """One step that gives the value and all partials; several, if there are many."""
        arguments = sorted({argument for _, argument in wanted})
        partials: Partials = {}
        for first in range(0, len(arguments), AT_ONCE):
            partials.update(self._emit(call, tuple(arguments[first : first + AT_ONCE])))
        return {pair: partials[pair] for pair in wanted}

    def _emit(self, call: Emission, wrt: tuple[int, ...]) -> Partials:
        part = self._with_partials.setdefault(wrt, WithPartials(self._function, wrt))
        results = iter(call.run(part, call.xs, gives_value=True))
        call.give_value([next(results) for _ in self._outputs])
        partials: Partials = {}
        for argument in wrt:
            for output, char in enumerate(self._outputs):
                if char in NUMBERS:
                    terms = self.terms(output, argument)
                    partials[output, argument] = tuple((next(results), antiholomorphic) for antiholomorphic in terms)
        return partials
