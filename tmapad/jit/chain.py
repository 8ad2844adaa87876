"""The chain rule for calls of registered functions: their partial derivatives are what was registered.

The functions that give these are called after the function itself, with the types that it was called with. What comes
of compiled Python functions is inlined, and can be differentiated again; native code has a second derivative if its
derivative was registered with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tmapad._errors import SignatureError
from tmapad._protocol import REGISTRY, Given, GivenDerivative, Registered
from tmapad.jit.captures import Place
from tmapad.jit.emit import Emitter, real
from tmapad.jit.given import with_parts
from tmapad.jit.registered import Callee, Code, code_for
from tmapad.jit.scalar import slots

_UNSIGNED = frozenset("?BHILQ")


class Number(NamedTuple):
    """A number in a function: NumPy's character for its type, and its parts."""

    char: str
    parts: tuple[str, ...]

    @property
    def real(self) -> str:
        """The type of its parts in LLVM."""
        return slots(self.char)[0]


class Call:
    """One call of a registered function with a derivative.

    Parameters
    ----------
    emitter : Emitter
    given : Registered
    xs, ys : sequence of Number
        Arguments and results.
    captured : mapping
        By the places of captures, the values of `Capture.chars`.
    note_status : callable
        Is told of the status of each call that may raise.
    """

    def __init__(
        self,
        emitter: Emitter,
        given: Registered,
        xs: Sequence[Number],
        ys: Sequence[Number],
        captured: Mapping[Place, Sequence[str]],
        note_status: Callable[[str], None],
    ) -> None:
        self._emitter, self._given, self._xs, self._ys = emitter, given, xs, ys
        self._captured, self._note_status = captured, note_status
        assert isinstance(given.form, GivenDerivative)
        self._form = given.form
        self._results: dict[int, list[Number]] = {}

    def is_known(self, output: int, argument: int) -> bool:
        """Whether there is a partial derivative; None was registered for others, or nothing."""
        return argument not in self._given.nondiff and self._form.known(output, argument) == "known"

    def pushed(self, output: int, tangents: Mapping[int, Number]) -> tuple[str, ...]:
        """The tangent of an output: the sum of products with its partial derivatives.

        Parameters
        ----------
        output : int
        tangents : mapping
            Those of the arguments that have any.
        """
        y = self._ys[output]
        totals: Sequence[str] = ()
        for argument, tangent in tangents.items():
            if self.is_known(output, argument):
                product = self._product(self._partial(output, argument), tangent, y)
                sums = [self._op(y, "fadd", p, q) for p, q in zip(totals, product, strict=False)]
                totals = sums or product
        return tuple(totals) or (real(0.0, y.real),) * len(y.parts)

    def _partial(self, output: int, argument: int) -> Number:
        found = self._form.given(output, argument, len(self._xs), len(self._ys))
        if id(found.part) not in self._results:
            self._results[id(found.part)] = self._run(found)
        results = self._results[id(found.part)]
        if len(results) != found.total:
            raise SignatureError(
                f"the derivative {found.part.name} of {self._given.name} returns {len(results)} numbers, "
                f"not {found.total}"
            )
        return results[found.place]

    def _run(self, found: Given) -> list[Number]:
        """Call one of the functions that give partial derivatives."""
        owner = REGISTRY.owner(found.part)
        if owner is not None and isinstance(owner.form, GivenDerivative):
            callee = Callee(owner)
        else:
            parts = with_parts(self._given)
            callee = Callee(self._given, next(i for i, part in enumerate(parts) if i and part is found.part))
        arguments = [*(self._ys if self._form.takes_output else ()), *self._xs]
        code = code_for(callee, [np.dtype(one.char) for one in arguments])
        operands = [
            part for one, char in zip(arguments, code.inputs, strict=True) for part in self._converted(one, char).parts
        ]
        operands += [part for capture in code.captures for part in self._captured[capture.place.read_by(self._given)]]
        types = [slot for char in code.inputs + code.captured for slot in slots(char)]
        value = self._emitter.call(code.symbol, code.result, types, operands)
        return self._numbers(code, value)

    def _numbers(self, code: Code, value: str) -> list[Number]:
        parts = [value]
        if code.result.startswith("{"):
            parts = [self._emitter.part(code.result, value, i) for i in range(code.result.count(",") + 1)]
        if code.raises:
            self._note_status(parts.pop(0))
        return list(numbers(code.outputs, parts))

    # ------------------------------------------------------------------------------------------------ arithmetic

    def _op(self, like: Number, opcode: str, *operands: str) -> str:
        return self._emitter.op(opcode, like.real, *operands)

    def _product(self, partial: Number, tangent: Number, y: Number) -> list[str]:
        """A product in the type of `y`: 0 where the tangent is, also if the derivative is infinite or NaN."""
        precision = "f" if y.real == "float" else "d"
        factors = [
            self._converted(one, precision.upper() if len(one.parts) == 2 else precision).parts
            for one in (partial, tangent)
        ]
        a, b = factors if len(factors[0]) >= len(factors[1]) else factors[::-1]
        if len(a) == 1:
            parts = [self._op(y, "fmul", a[0], b[0])]
        elif len(b) == 1:
            parts = [self._op(y, "fmul", part, b[0]) for part in a]
        else:
            parts = [
                self._op(y, "fsub", self._op(y, "fmul", a[0], b[0]), self._op(y, "fmul", a[1], b[1])),
                self._op(y, "fadd", self._op(y, "fmul", a[0], b[1]), self._op(y, "fmul", a[1], b[0])),
            ]
        zero = real(0.0, y.real)
        tests = [self._emitter.compare("oeq", y.real, part, zero) for part in factors[1]]
        is_zero = tests[0] if len(tests) == 1 else self._emitter.op("and", "i1", *tests)
        parts = [self._emitter.select(is_zero, y.real, zero, part) for part in parts]
        return [*parts, zero][: len(y.parts)]

    def _converted(self, one: Number, char: str) -> Number:
        """The same number in another type, which holds it."""
        to = slots(char)[0]
        parts = [self._converted_part(part, one, to) for part in one.parts]
        return Number(char, tuple([*parts, real(0.0, to)][: len(slots(char))] if char in "fdFD" else parts))

    def _converted_part(self, part: str, one: Number, to: str) -> str:
        if one.real == to:
            return part
        if to.startswith("i"):
            extended = "zext" if one.char in _UNSIGNED else "sext"
            opcode = "trunc" if int(to[1:]) < int(one.real[1:]) else extended
        elif one.real.startswith("i"):
            opcode = "uitofp" if one.char in _UNSIGNED else "sitofp"
        else:
            opcode = "fpext" if to == "double" else "fptrunc"
        return self._emitter.value(f"{opcode} {one.real} {part} to {to}")


def numbers(chars: str, parts: Iterable[str]) -> list[Number]:
    """Put numbers of these types together."""
    given = iter(parts)
    return [Number(char, tuple(next(given) for _ in slots(char))) for char in chars]
