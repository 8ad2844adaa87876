"""The forward pass of a gradient, and its pullback."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tmapad._arrays import (
    Argument,
    Array,
    as_cotangent,
    check_output,
    share_memory,
)
from tmapad._automatic import Automatic
from tmapad._call import Call, Frame, Options, as_dtype, follow, run, run_and_write, tangent_of_captures
from tmapad._core import Program
from tmapad._errors import NoDerivativeError
from tmapad._failure import raise_failure
from tmapad._kernel import Sink
from tmapad._tangents import NO_TANGENT, ZERO_TANGENT, Tangent, unthunk
from tmapad._targets import Input, Target, batches
from tmapad._ufuncs import TableForm
from tmapad._windows import check_window, passes, pull_array

RESIDUALS = ("auto", "save", "recompute")
LARGEST_CAPTURED = 1024  # numbers in captured arrays that are differentiated without being named


def forward(
    f: Any, xs: Sequence[Any], wrt: Any, residuals: Any, out: Any, dtype: Any, options: Options
) -> tuple[Any, Pull]:
    """Run the forward pass of a gradient. Returns `y` and what pulls cotangents back."""
    if not isinstance(residuals, str) or residuals not in RESIDUALS:
        raise ValueError(f"residuals must be one of {', '.join(map(repr, RESIDUALS))}, not {residuals!r}")
    call = Call(f, xs, as_dtype(dtype))
    frame = call.frame
    wanted = differentiated(call, wrt)
    named = ((i, a) for i, a in call.captured_arrays.items() if i in wanted)
    arrays = {i: Input(a.shape, "array", a.dtype.newbyteorder("=")) for i, a in named}
    wanted = tuple(i for i in wanted if i not in arrays)
    reads: tuple[int, ...] = ()
    # Whatever is wrong with the derivative is found here, before anything is computed.
    dys = tuple(char if j in frame.kernel.active else None for j, char in enumerate(frame.kernel.results))
    if frame.kernel.pairs(wanted):
        sinks = tuple(Sink("array", a.cotangent_dtype.char, a.cotangent_dtype.kind != "c") for a in call.arguments)
        planned = frame.kernel.pull(frame.chars, wanted, dys, tuple(sinks[i] for i in wanted))
        reads = planned.reads
    read_again: set[int] = set()
    for i in arrays:
        read_again.update(check_window(frame, i, dys))
    outputs = call.outputs(out)
    read = (*frame.arrays, *frame.captured.values())
    overwritten = any(share_memory(y, x) for y in outputs for x in read)
    save = bool(frame.kernel.pairs(wanted)) and (overwritten or frame.function.saves(residuals, frame.kernel))
    held = read_again if save else read_again.union(reads)
    kept = _kept(frame, held, outputs, everything=residuals == "save")
    chars = tuple(y.dtype.char for y in outputs)
    planned = frame.kernel.forward(frame.chars, chars, wanted, save=save)
    size = math.prod(frame.shape)
    saved = follow(options, size, lambda options: run_and_write(frame, outputs, planned, options))
    inputs = [Input.of(argument) for argument in call.arguments]
    pull = Pull(kept, inputs, call.mapped, call.captures, call.kind, wanted, tuple(saved) if save else None, options)
    pull.arrays = arrays
    return call.results(outputs, out), pull


def _kept(frame: Frame, held: Collection[int], outputs: Sequence[Array], *, everything: bool) -> Frame:
    """The frame for the backward pass: it has what that reads, and placeholders for the rest.

    Arrays that the forward pass writes to are copied; all are if nothing that happens later is to be seen.
    """

    def keep(array: Array) -> Array:
        if array.ndim and (everything or any(share_memory(y, array) for y in outputs)):
            return array.copy()
        return array.view(np.ndarray)  # the shapes and types of the user's own arrays may be changed in place

    arrays = [keep(a) if i in held else placeholder(a.dtype, a.shape) for i, a in enumerate(frame.arrays)]
    captured = {i: keep(array) for i, array in frame.captured.items() if i in held}
    for i, array in captured.items():
        arrays[i] = np.array(array.ctypes.data, arrays[i].dtype)
    return Frame(frame.function, frame.kernel, frame.shape, tuple(arrays), captured, frame.python)


def differentiated(call: Call, wrt: Any) -> tuple[int, ...]:
    """Return the arguments to differentiate: those that `wrt` names, or all that can be.

    Raises
    ------
    NoDerivativeError
        If the derivative in one of them is neither registered nor known.
    """
    function, kernel = call.frame.function, call.frame.kernel
    if wrt is None:
        asked = [i for i in range(len(call.arguments)) if i in call.mapped or i in call.captures]
        asked = [i for i in asked if i not in call.constants]
        _check_size(call, asked)
    else:
        asked = sorted({_position(name, call, call.mapped) for name in (wrt if isinstance(wrt, tuple) else (wrt,))})
    wanted = []
    for i in asked:
        if not _has_gradient(call, i):
            continue
        argument = call.arguments[i]
        if i in call.captured_arrays:
            known = "known" if isinstance(kernel.form, Automatic) or not kernel.active else "unknown"
        else:
            known = function.differentiable(i, kernel)
        if known == "unknown" and wrt is None and isinstance(kernel.form, TableForm) and _is_integer(argument):
            continue  # the order of a Bessel function, say
        if known == "unknown":
            raise NoDerivativeError(no_derivative(call, i, asked))
        if known == "known":
            wanted.append(i)
    return tuple(wanted)


def _has_gradient(call: Call, i: int) -> bool:
    """Whether an argument is no constant: bools are, and integers that were captured."""
    if i in call.captured_arrays:
        return call.captured_arrays[i].dtype.kind in "fc"
    return call.arguments[i].differentiable and (i in call.mapped or not _is_integer(call.arguments[i]))


def _check_size(call: Call, asked: Sequence[int]) -> None:
    """Refuse to differentiate large captured arrays without being told to: they may be tables."""
    arrays = {
        call.captures[i]: call.captured_arrays[i] for i in asked if i in call.captured_arrays and _has_gradient(call, i)
    }
    total = sum(array.size for array in arrays.values())
    if total <= LARGEST_CAPTURED:
        return
    others = tuple(_name(call, i) for i in asked if call.captures.get(i) not in arrays and _has_gradient(call, i))
    named = ", ".join(f"{path!r} ({array.size})" for path, array in arrays.items())
    everything = (*others, *arrays)
    raise ValueError(
        f"{call.frame.function.name} captured arrays of {total} numbers: {named}. Their gradient takes "
        f"{sum(map(passes, arrays.values()))} passes over all elements. Leave them out, rrule(..., wrt={others!r}), "
        f"or ask for it, rrule(..., wrt={everything!r})"
    )


def _name(call: Call, i: int) -> int | str:
    """How `wrt` calls an argument."""
    return call.captures.get(i) or call.mapped.index(i)


def _is_integer(argument: Argument) -> bool:
    return argument.type is int or argument.array.dtype.kind in "iu"


def no_derivative(call: Call, argument: int, asked: Sequence[int]) -> str:
    """The message for a derivative that nobody gave."""
    name, form = call.frame.function.name, call.frame.kernel.form
    others = tuple(_name(call, i) for i in asked if i != argument and _has_gradient(call, i))
    less = f", or leave it out: rrule(..., wrt={others!r})" if len(call.arguments) > 1 else ""
    if argument >= call.frame.kernel.nin:
        path = call.captures[argument]
        return (
            f"{name} captured {path}, in which its derivative is not known: make it an argument and bind that with "
            f"functools.partial{less}"
        )
    parameter = call.frame.function.parameters[argument]
    if isinstance(form, TableForm):
        return form.why_not(parameter) + less
    return (
        f"{name} has no derivative in {parameter}: register one with "
        f"tmapad.register({name}, derivative=...), where None stands for 'not differentiable'{less}"
    )


def _position(entry: Any, call: Call, mapped: list[int]) -> int:
    """The argument that an entry of `wrt` names: by position among the mapped ones, or by name among the captured."""
    if isinstance(entry, str):
        for index, name in call.captures.items():
            if name == entry:
                return index
        has = ", ".join(map(repr, call.captures.values())) or "nothing"
        raise ValueError(
            f"wrt names {entry!r}; {call.frame.function.name} captured {has} (arguments are named by position; what is "
            "captured as an integer is a constant)"
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
        With placeholders for the arrays that are not needed.
    inputs : list of Input
        The function's arguments, captured ones included; `mapped` says which are mapped, and `captures` has the
        names of those captured, by position.
    wanted : tuple of int
        Arguments that get a cotangent, but for captured arrays.
    arrays : dict of Input
        Captured arrays that get one, by the positions of their addresses.
    residuals : tuple of ndarray or None
        Saved partial derivatives; None if they are computed again from the arrays.
    """

    def __init__(
        self,
        frame: Frame,
        inputs: list[Input],
        mapped: list[int],
        captures: dict[int, str],
        kind: str,
        wanted: tuple[int, ...],
        residuals: tuple[Array, ...] | None,
        options: Options,
    ) -> None:
        self.frame = frame
        self.arrays: dict[int, Input] = {}
        self.inputs, self.mapped, self.captures, self.kind = inputs, mapped, captures, kind
        self.wanted, self.residuals, self.options = wanted, residuals, options

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
            follow(self.options, math.prod(self.frame.shape), lambda options: None)
            return (
                NO_TANGENT,
                dy if any(i in self.wanted or i in self.arrays for i in self.captures) else NO_TANGENT,
                *(given.get(i, dy) for i in self.mapped),
            )
        dys = self._cotangents(dy)
        size = math.prod(self.frame.shape)
        results = follow(self.options, size, lambda options: self._run(dys, given, size, options))
        captured = {name: results[i] for i, name in self.captures.items() if i in results}
        df = tangent_of_captures(captured) if captured else NO_TANGENT
        return (NO_TANGENT, df, *(results.get(i, NO_TANGENT) for i in self.mapped))

    def raise_known(self, program: Program, failure: tuple[int, int, BaseException | None]) -> None:
        """Raise that for which a run of a program of the kernel's stopped, on these arrays."""
        planned = self.frame.kernel.made(program)
        try:
            if planned is not None:
                raise_failure(failure, planned.sources, self.frame, self.frame.arrays)
        finally:
            del failure  # the traceback would hold it, see raise_failure

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

    def _run(self, dys: dict[int, Array], given: dict[int, Array], size: int, options: Options) -> dict[int, Any]:
        targets = {i: self._target(i, dys, given.get(i), size) for i in self.wanted}
        runs = list(batches(targets, size)) if size and dys and self.frame.kernel.pairs(self.wanted) else []
        if options.followed is not None:
            options.followed.runs = len(runs) + sum(passes(self.frame.captured[i]) for i in self.arrays)
        # Before the others, which may be written to what these read.
        pulled = {
            i: pull_array(self.frame, i, to, dys, options, keep_terms=self._keeps_terms)
            for i, to in self.arrays.items()
        }
        for batch in runs:
            self._run_batch(dys, batch, options)
        if not runs:
            for target in targets.values():
                target.zero()
        return pulled | {i: target.result() for i, target in targets.items()}

    def _run_batch(self, dys: dict[int, Array], targets: dict[int, Target], options: Options) -> None:
        kernel, wanted = self.frame.kernel, tuple(targets)
        chars = tuple(dys[j].dtype.char if j in dys else None for j in range(len(kernel.results)))
        sinks = tuple(target.sink for target in targets.values())
        if self.residuals is not None:
            saved = dict(zip(kernel.terms(self.wanted), self.residuals, strict=True))
            partials = [saved[term] for term in kernel.terms(wanted)]
            planned = kernel.pull_saved(wanted, tuple(array.dtype.char for array in partials), chars, sinks)
            inputs = [*partials, *dys.values()]
        else:
            planned = kernel.pull(self.frame.chars, wanted, chars, sinks)
            inputs = [*self.frame.arrays, *dys.values()]
        outputs = [target.array_for(char) for target, char in zip(targets.values(), planned.chars, strict=True)]
        frame = self.frame if self.residuals is None else replace(self.frame, captured={})  # it reads none of them
        run(planned, frame, inputs, outputs, options)
        for target in targets.values():
            target.finish(options)

    def _target(self, i: int, dys: dict[int, Array], out: Array | None, size: int) -> Target:
        held = self.frame.arrays
        like = [a for a in (*held[i : i + 1], *dys.values()) if a.shape == self.inputs[i].shape]
        return Target(self.inputs[i], self.frame.shape, size, like, out, keep_terms=self._keeps_terms)

    @property
    def _keeps_terms(self) -> bool:
        return self.frame.function.may_complain()
