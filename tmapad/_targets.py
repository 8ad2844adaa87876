"""Where cotangents go: arrays of their own, or sums over the axes along which an argument was broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmapad import _core
from tmapad._arrays import Argument, Array, allocate, broadcast_axes, give_back
from tmapad._call import Options
from tmapad._kernel import Sink

# A sum over all elements keeps its terms, to be added at the end, up to this many: so that even a thousand
# elements can be computed on all threads. Beyond it only the sums of blocks are kept. The bits are the same.
KEEP_TERMS = 1 << 16


@dataclass(slots=True)
class Input:
    """What a pullback must know of an argument, besides its elements."""

    shape: tuple[int, ...]
    kind: str
    dtype: np.dtype[Any]  # of the cotangent

    @classmethod
    def of(cls, argument: Argument) -> Input:
        """Take what is needed, and not the array."""
        return cls(argument.array.shape, argument.kind, argument.cotangent_dtype)


def total_of(terms: Array, to: Input) -> Any:
    """Return the cotangent of a number: the sum of its terms, all of which are there, or the only one."""
    total = terms if terms.size == 1 else _core.sum_terms(terms)
    if total.dtype != to.dtype:
        with np.errstate(all="ignore"):
            total = total.astype(to.dtype)
    return give_back(total.reshape(()), to.kind)


class Target:
    """Where the cotangent of one argument goes, and how its terms are summed if the argument was broadcast."""

    def __init__(
        self,
        to: Input,
        shape: tuple[int, ...],
        size: int,
        like: Sequence[Array],
        out: Array | None,
        *,
        keep_terms: bool,
    ) -> None:
        self.input, self.shape, self.size, self.out = to, shape, size, out
        self.kept, self.summed = broadcast_axes(to.shape, shape)
        self.summed = [axis for axis in self.summed if shape[axis] != 1]
        sums = "blocks" if self.single and size > KEEP_TERMS and not keep_terms else "products"
        self.sink = Sink(sums if self.summed else "array", to.dtype.char, to.dtype.kind != "c")
        self._like = like
        self._written: Array | None = None
        self._total: Array | None = None

    @property
    def single(self) -> bool:
        """Whether all terms are added to one sum."""
        return all(self.shape[axis] == 1 for axis in self.kept)

    def zero(self) -> None:
        """Without elements, or without a derivative that is not zero."""
        self._total = self.out if self.out is not None else np.empty(self.input.shape, self.input.dtype)
        self._total[...] = 0

    def array_for(self, char: str) -> Array:
        """Return the array that the program writes."""
        if self.sink.where == "blocks":
            blocks = -(-self.size // _core.BLOCK_SIZE)
            self._written = np.empty(blocks, "D" if char in "FD" else "d")
            return self._written
        if self.sink.where == "products":
            # The axes to be summed lie innermost, so that the terms of a sum are neighbours in C order.
            order = [*(axis for axis in range(len(self.shape)) if axis not in self.summed), *self.summed]
            self._written = np.empty([self.shape[axis] for axis in order], char)
            return self._written.transpose(np.argsort(order).tolist())
        self._written = self.out if self.out is not None else allocate(self._like, self.input.shape, self.input.dtype)
        return self._written.reshape(self.shape) if self._written.shape != self.shape else self._written

    def finish(self, options: Options) -> None:
        """Add up."""
        assert self._written is not None
        if self.sink.where == "array":
            self._total = self._written
            return
        if self.single:
            sums = _core.sum_terms(self._written, block_sums=self.sink.where == "blocks")
        else:
            sums = self._sum_rows(options)
        self._written = None  # the terms are not needed any more
        with np.errstate(all="ignore"):
            self._total = sums.reshape(self.input.shape).astype(self.input.dtype)

    def _sum_rows(self, options: Options) -> Array:
        """Sums of rows of neighbouring terms, on all threads."""
        assert self._written is not None
        length = math.prod(self.shape[axis] for axis in self.summed)
        if length * self._written.itemsize >= 2**31:  # more than an item of an array may have; rows are few then
            return np.array([_core.sum_terms(row) for row in self._written.reshape(-1, length)])
        loop = _core.sum_loop("sum_rows", self._written.dtype.char, length)
        rows = self._written.reshape(-1).view(np.dtype((np.void, length * self._written.itemsize)))
        sums = np.empty(rows.size, loop.out_chars)
        program = _core.Program([("input", rows.itemsize, None), ("output", sums.itemsize, None)], [(loop, (0, 1))])
        program.run((rows, sums), rows.shape, num_threads=options.num_threads)
        return sums

    def result(self) -> Any:
        """Return the cotangent as the kind of thing that the argument was, or the array given for it."""
        assert self._total is not None
        if self.out is None:
            return give_back(self._total, self.input.kind)
        if self._total is not self.out:
            self.out[...] = self._total
        return self.out


def batches(targets: dict[int, Target], size: int) -> Iterator[dict[int, Target]]:
    """Split cotangents into those computed in one run: of large arrays of products there may be one at a time.

    Those that are written to arrays come last: these may be `dy` or arguments, which the other runs read.
    """
    large = [i for i, target in targets.items() if target.sink.where == "products" and size > KEEP_TERMS]
    for i in large[1:]:
        yield {i: targets[i]}
    yield {i: target for i, target in targets.items() if i not in large[1:]}
