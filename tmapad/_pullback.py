"""The forward pass of a gradient, and its pullback."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tmapad._arrays import (
    Argument,
    Array,
    as_cotangent,
    check_output,
    share_memory,
)
from tmapad._call import Call, Frame, Options, as_dtype, run, run_and_write
from tmapad._errors import NoDerivativeError
from tmapad._kernel import Sink
from tmapad._tangents import NO_TANGENT, ZERO_TANGENT, Tangent, unthunk
from tmapad._targets import Input, Target, batches
from tmapad._ufuncs import TableForm

RESIDUALS = ("auto", "save", "recompute")


def forward(
    f: Any, xs: Sequence[Any], wrt: Any, residuals: Any, out: Any, dtype: Any, options: Options
) -> tuple[Any, Pull]:
    """Run the forward pass of a gradient. Returns `y` and what pulls cotangents back."""
    if not isinstance(residuals, str) or residuals not in RESIDUALS:
        raise ValueError(f"residuals must be one of {', '.join(map(repr, RESIDUALS))}, not {residuals!r}")
    call = Call(f, xs, as_dtype(dtype))
    frame = call.frame
    wanted = differentiated(call, wrt)
    reads: tuple[int, ...] = ()
    raises = False
    if frame.kernel.pairs(wanted):
        # Whatever is wrong with the derivative is found here, before anything is computed.
        sinks = tuple(Sink("array", a.cotangent_dtype.char, a.cotangent_dtype.kind != "c") for a in call.arguments)
        dys = tuple(char if j in frame.kernel.active else None for j, char in enumerate(frame.kernel.results))
        planned = frame.kernel.pull(frame.chars, wanted, dys, tuple(sinks[i] for i in wanted))
        reads, raises = planned.reads, planned.program.raises
    outputs = call.outputs(out)
    overwritten = any(share_memory(y, x) for y in outputs for x in frame.arrays)
    save = bool(frame.kernel.pairs(wanted)) and (overwritten or frame.function.saves(residuals))
    chars = tuple(y.dtype.char for y in outputs)
    saved = run_and_write(frame, outputs, frame.kernel.forward(frame.chars, chars, wanted, save=save), options)
    inputs = [Input.of(argument) for argument in call.arguments]
    held = () if save else reads
    pull = Pull(
        frame, held, inputs, call.mapped, call.captures, call.kind, wanted, tuple(saved) if save else None, options
    )
    pull.raises = raises
    return call.results(outputs, out), pull


def differentiated(call: Call, wrt: Any) -> tuple[int, ...]:
    """Return the arguments to differentiate: those that `wrt` names, or all that can be.

    Raises
    ------
    NoDerivativeError
        If the derivative in one of them is neither registered nor known.
    """
    function, kernel = call.frame.function, call.frame.kernel
    mapped = call.mapped
    named = (
        None if wrt is None else [_position(name, call, mapped) for name in (wrt if isinstance(wrt, tuple) else (wrt,))]
    )
    captured = function.captured()
    if captured and named is None and kernel.active:
        raise NoDerivativeError(
            f"{function.name} captured {', '.join(captured)}, and its derivative in captured variables is not known: "
            f"make them arguments and bind them with functools.partial, or leave them out: "
            f"rrule(..., wrt={tuple(range(len(mapped)))})"
        )
    wanted = []
    asked = range(len(call.arguments)) if named is None else sorted(set(named))
    for i in asked:
        argument = call.arguments[i]
        if not argument.differentiable or not (i in call.mapped or (i in call.captures and not _is_integer(argument))):
            continue  # bools, integers that were captured, and defaults: these are constants
        known = function.differentiable(i, kernel)
        if known == "unknown" and named is None and isinstance(kernel.form, TableForm) and _is_integer(argument):
            continue  # the order of a Bessel function, say
        if known == "unknown":
            raise NoDerivativeError(no_derivative(call, i, asked))
        if known == "known":
            wanted.append(i)
    return tuple(wanted)


def _is_integer(argument: Argument) -> bool:
    return argument.type is int or argument.array.dtype.kind in "iu"


def no_derivative(call: Call, argument: int, asked: Sequence[int]) -> str:
    """The message for a derivative that nobody gave."""
    name, parameters, form = call.frame.function.name, call.frame.function.parameters, call.frame.kernel.form
    mapped = call.mapped
    others = tuple(
        call.captures.get(i) or mapped.index(i)
        for i in asked
        if i != argument and (i in mapped or (i in call.captures and not _is_integer(call.arguments[i])))
    )
    less = f", or leave it out: rrule(..., wrt={others!r})" if len(call.arguments) > 1 else ""
    if isinstance(form, TableForm):
        return form.why_not(parameters[argument]) + less
    return (
        f"{name} has no derivative in {parameters[argument]}: register one with "
        f"tmapad.register({name}, derivative=...), where None stands for 'not differentiable'{less}"
    )


def _position(entry: Any, call: Call, mapped: list[int]) -> int:
    """The argument that an entry of `wrt` names: by position among the mapped ones, or by name among the captured."""
    if isinstance(entry, str):
        for index, name in call.captures.items():
            if name == entry:
                return index
        if entry in call.frame.function.captured():
            raise NoDerivativeError(
                f"wrt names {entry!r}, which {call.frame.function.name} captured as a closure: its derivative is not "
                "known; make it an argument and bind it with functools.partial"
            )
        has = ", ".join(map(repr, call.captures.values())) or "nothing"
        raise ValueError(
            f"wrt names {entry!r}; {call.frame.function.name} captured {has} (arguments are named by position)"
        )
    if isinstance(entry, (int, np.integer)) and not isinstance(entry, bool):
        if 0 <= entry < len(mapped):
            return mapped[int(entry)]
        raise ValueError(f"wrt names argument {entry}; there are {len(mapped)}, from 0 to {len(mapped) - 1}")
    raise TypeError(f"wrt must hold positions of arguments and names of captures, not {type(entry).__name__}")


def placeholder(dtype: Any, shape: tuple[int, ...]) -> Array:
    """Return an array of this type and shape that takes no memory: in the place of one that is not read."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class Pull:
    """Cotangents of arguments from the cotangent of the result: what a pullback does when it is called.

    Attributes
    ----------
    frame : Frame
        With placeholders for the arrays that are not needed: only those in `held` are.
    inputs : list of Input
        The function's arguments, captured ones included; `mapped` says which are mapped, and `captures` has the
        names of those captured, by position.
    wanted : tuple of int
        Arguments that get a cotangent.
    residuals : tuple of ndarray or None
        Saved partial derivatives; None if they are computed again from the arrays.
    """

    def __init__(
        self,
        frame: Frame,
        held: Sequence[int],
        inputs: list[Input],
        mapped: list[int],
        captures: dict[int, str],
        kind: str,
        wanted: tuple[int, ...],
        residuals: tuple[Array, ...] | None,
        options: Options,
    ) -> None:
        # Views: the shapes and types of the user's own arrays may be changed in place.
        arrays = (
            a.view(np.ndarray) if i in held else placeholder(a.dtype, a.shape) for i, a in enumerate(frame.arrays)
        )
        self.frame = Frame(frame.function, frame.kernel, frame.shape, tuple(arrays))
        self.inputs, self.mapped, self.captures, self.kind = inputs, mapped, captures, kind
        self.wanted, self.residuals, self.options = wanted, residuals, options
        self.raises = False  # whether a loop may set an exception; a shortcut's arrays need no sums

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are kept only for this."""
        return sum(array.nbytes for array in self.residuals or ())

    def __call__(self, dy: Any, out: Any) -> tuple[Any, ...]:
        dy = unthunk(dy)
        given = self._given(out)
        if dy is NO_TANGENT or dy is ZERO_TANGENT:
            for array in given.values():
                array[...] = 0
            return (
                NO_TANGENT,
                dy if any(i in self.wanted for i in self.captures) else NO_TANGENT,
                *(given.get(i, dy) for i in self.mapped),
            )
        dys = self._cotangents(dy)
        results = self._run(dys, given)
        captured = {name: results[i] for i, name in self.captures.items() if i in results}
        df = Tangent(captured) if captured else NO_TANGENT
        return (NO_TANGENT, df, *(results.get(i, NO_TANGENT) for i in self.mapped))

    def _given(self, out: Any) -> dict[int, Array]:
        """Arrays given as ``out``, by argument: those of the right shape and type."""
        if out is None:
            return {}
        entries = out if isinstance(out, tuple) else (out,)
        if len(entries) != len(self.mapped):
            raise ValueError(
                f"out must have an array or None for each of {len(self.mapped)} arguments, not {len(entries)}"
            )
        given: dict[int, Array] = {}
        for k, (i, array) in enumerate(zip(self.mapped, entries, strict=True)):
            if array is None:
                continue
            name = f"out[{k}]"
            if i not in self.wanted:
                raise ValueError(f"{name} is given, but argument {k} has no cotangent")
            check_output(array, self.inputs[i].shape, name)
            if array.dtype.newbyteorder("=") != self.inputs[i].dtype:
                raise TypeError(f"{name} has dtype {array.dtype}; the cotangent has {self.inputs[i].dtype}")
            if any(share_memory(array, other) for other in given.values()):
                raise ValueError(f"{name} shares memory with another array in out")
            given[i] = array
        return given

    def _cotangents(self, dy: Any) -> dict[int, Array]:
        """Cotangents of the results, by output: those that are not zero, of results that have a gradient."""
        nout = len(self.frame.kernel.results)
        entries = (dy,) if nout == 1 else dy
        if not isinstance(entries, tuple) or len(entries) != nout:
            what = f"{len(entries)} entries" if isinstance(entries, tuple) else type(entries).__name__
            raise ValueError(f"dy must be a tuple with a cotangent for each of {nout} results, not {what}")
        dys = {}
        for j, entry in enumerate(map(unthunk, entries)):
            if entry is NO_TANGENT or entry is ZERO_TANGENT:
                continue
            name = "dy" if nout == 1 else f"dy[{j}]"
            if isinstance(entry, Tangent):
                raise TypeError(f"{name} is a Tangent; y is an array")
            array = as_cotangent(entry, self.frame.shape, np.dtype(self.frame.kernel.results[j]), name)
            if j in self.frame.kernel.active:
                dys[j] = array
        return dys

    def _run(self, dys: dict[int, Array], given: dict[int, Array]) -> dict[int, Any]:
        size = math.prod(self.frame.shape)
        targets = {i: self._target(i, dys, given.get(i), size) for i in self.wanted}
        if size and dys and self.frame.kernel.pairs(self.wanted):
            for batch in batches(targets, size):
                self._run_batch(dys, batch)
        else:
            for target in targets.values():
                target.zero()
        return {i: target.result() for i, target in targets.items()}

    def _run_batch(self, dys: dict[int, Array], targets: dict[int, Target]) -> None:
        kernel, wanted = self.frame.kernel, tuple(targets)
        chars = tuple(dys[j].dtype.char if j in dys else None for j in range(len(kernel.results)))
        sinks = tuple(target.sink for target in targets.values())
        if self.residuals is not None:
            saved = dict(zip(kernel.pairs(self.wanted), self.residuals, strict=True))
            partials = [saved[pair] for pair in kernel.pairs(wanted)]
            planned = kernel.pull_saved(wanted, tuple(array.dtype.char for array in partials), chars, sinks)
            inputs = [*partials, *dys.values()]
        else:
            planned = kernel.pull(self.frame.chars, wanted, chars, sinks)
            inputs = [*self.frame.arrays, *dys.values()]
        outputs = [target.array_for(char) for target, char in zip(targets.values(), planned.chars, strict=True)]
        run(planned, self.frame, inputs, outputs, self.options)
        for target in targets.values():
            target.finish(self.options)

    def _target(self, i: int, dys: dict[int, Array], out: Array | None, size: int) -> Target:
        held = self.frame.arrays
        like = [a for a in (*held[i : i + 1], *dys.values()) if a.shape == self.inputs[i].shape]
        keep = self.raises or self.frame.function.may_complain()
        return Target(self.inputs[i], self.frame.shape, size, like, out, keep_terms=keep)
