"""Cotangents of captured arrays: some elements at a time, each a sum over everything that was mapped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tmapad._arrays import Array
from tmapad._call import Frame, Options, run
from tmapad._kernel import Sink
from tmapad._targets import Input, Target

WIDTH = 8
"""How many partial derivatives one pass computes at most: more would not fit into the processor's registers."""


def widths(numbers: int) -> int:
    """How many elements the passes over an array of this many numbers take at once."""
    return min(WIDTH, numbers)


def passes(array: Array) -> int:
    """How many passes over all elements the cotangent of a captured array takes."""
    numbers = _numbers(array)
    return -(-numbers // widths(numbers)) if numbers else 0


def _numbers(array: Array) -> int:
    """How many real numbers there are in an array."""
    return array.size * (2 if array.dtype.kind == "c" else 1)


def pull_array(
    frame: Frame,
    position: int,
    to: Input,
    dys: Mapping[int, Array],
    options: Options,
    *,
    keep_terms: bool,
    summed: bool = True,
) -> Array:
    """Pull cotangents of the results back to a captured array.

    Parameters
    ----------
    frame : Frame
    position : int
        Of the array's address among the frame's arrays.
    to : Input
        The array.
    dys : mapping
        Cotangents of results, by output.
    options : Options
    keep_terms : bool
        As for `Target`.
    summed : bool, optional
        Otherwise the axes of what was mapped come first in the result: for arrays of real numbers.
    """
    read = frame.captured[position]
    kernel, size = frame.kernel, math.prod(frame.shape)
    numbers = _numbers(read)
    real = np.dtype(read.dtype.char.lower())
    element = Input(() if summed else frame.shape, "array", np.dtype(to.dtype.char.lower()))
    result: Array = np.zeros((*element.shape, numbers), element.dtype)
    if numbers and size and dys:
        width = widths(numbers)
        # A 1 among zeros: seen from before it, a perturbation of any element.
        unit = np.zeros(2 * numbers + width, real)
        unit[width + numbers - 1] = 1.0
        chars = tuple(dys[j].dtype.char if j in dys else None for j in range(len(kernel.results)))
        for first in range(0, numbers, width):
            targets = [Target(element, frame.shape, size, (), None, keep_terms=keep_terms) for _ in range(width)]
            planned = kernel.pull_window(frame.chars, position, real.char, chars, tuple(t.sink for t in targets))
            outputs = [target.array_for(char) for target, char in zip(targets, planned.chars, strict=True)]
            shadow = np.array(unit.ctypes.data + (width + numbers - 1 - first) * real.itemsize, np.intp)
            run(planned, frame, [*frame.arrays, shadow, *dys.values()], outputs, options)
            for target, number in zip(targets, range(first, numbers), strict=False):
                target.finish(options)
                result[..., number] = target.result()
    return result.view(to.dtype).reshape(*element.shape, *to.shape)


def check_window(frame: Frame, position: int, outputs: Sequence[str | None]) -> tuple[int, ...]:
    """Compile what `pull_array` runs; return which of the frame's arrays it reads."""
    read = frame.captured[position]
    numbers = _numbers(read)
    real = read.dtype.char.lower()
    sinks = (Sink("products", real, True),) * widths(numbers)
    planned: Any = frame.kernel.pull_window(frame.chars, position, real, tuple(outputs), sinks)
    return tuple(k for k in planned.reads if k < len(frame.arrays))
