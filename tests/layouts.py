"""The array zoo: the same elements, laid out in memory in every way that NumPy knows."""

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def strided(x: Array) -> Array:
    """Every second element of a longer last axis."""
    return np.repeat(x, 2, axis=-1)[..., ::2]


def every_third_row(x: Array) -> Array:
    return np.repeat(x, 3, axis=0)[1::3]


def reversed_axes(x: Array) -> Array:
    """Negative strides along all axes."""
    backwards = (slice(None, None, -1),) * x.ndim
    return x[backwards].copy()[backwards]


def reversed_and_strided(x: Array) -> Array:
    return strided(x[::-1])[::-1]


def inside(x: Array) -> Array:
    """A window of a larger array: rows are contiguous, the whole is not."""
    return np.pad(x, 1)[(slice(1, -1),) * x.ndim]


def transposed(x: Array) -> Array:
    return x.T.copy().T


def fortran_ordered(x: Array) -> Array:
    return np.array(x, order="F")


def last_axis_first(x: Array) -> Array:
    """Axes in an order that is neither C's nor Fortran's, if there are three."""
    return np.moveaxis(np.moveaxis(x, -1, 0).copy(), 0, -1)


def axes_swapped(x: Array) -> Array:
    return np.swapaxes(np.swapaxes(x, 0, -1).copy(), 0, -1)


def byte_swapped(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder("S"))


def unaligned(x: Array) -> Array:
    return np.frombuffer(b"\0" + x.tobytes(), dtype=x.dtype, offset=1).reshape(x.shape)


def packed_field(x: Array) -> Array:
    """A field of a record without padding: strided and unaligned."""
    records = np.zeros(x.shape, [("before", "u1"), ("x", x.dtype), ("after", "u2")])
    records["x"] = x
    return records["x"]


def read_only(x: Array) -> Array:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def memory_mapped(x: Array) -> Array:
    """A read-only view of a file."""
    with tempfile.TemporaryFile() as file:
        file.write(b"\0" + x.tobytes())
        file.flush()
        return np.memmap(file, x.dtype, "r", 1, x.shape) if x.size else x


# Name and function of every layout; each gives an array equal to its argument. The first is the plainest.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": np.ndarray.copy,
    "strided": strided,
    "every third row": every_third_row,
    "reversed": reversed_axes,
    "reversed and strided": reversed_and_strided,
    "inside": inside,
    "transposed": transposed,
    "Fortran": fortran_ordered,
    "last axis first": last_axis_first,
    "axes swapped": axes_swapped,
    "byte-swapped": byte_swapped,
    "unaligned": unaligned,
    "packed field": packed_field,
    "read-only": read_only,
    "memory-mapped": memory_mapped,
}

# Round the lengths at which something changes: a vectorized loop's group, a strip, a block of a sum, the
# number of terms up to which sums keep them.
SIZES = (0, 1, 2, 63, 64, 65, 511, 512, 513, 5000, 66000)

# Shapes without, with one and with axes of length 1 and 0.
SHAPES = (
    (),
    (0,),
    (1,),
    (5,),
    (3, 0),
    (0, 3),
    (1, 1),
    (1, 5),
    (5, 1),
    (3, 4),
    (2, 1, 4),
    (1, 3, 1),
    (2, 3, 4),
)

# Arguments that broadcast: shapes of two, and what they broadcast to.
PAIRS = (
    ((4,), ()),
    ((), (4,)),
    ((1,), (4,)),
    ((4,), (1,)),
    ((3, 1), (1, 4)),
    ((3, 1), (4,)),
    ((3, 4), (4,)),
    ((3, 4), (3, 1)),
    ((3, 4), (1, 1)),
    ((2, 1, 4), (3, 1)),
    ((2, 3, 4), (3, 1)),
    ((2, 3, 4), (1, 4)),
    ((1, 3, 1), (2, 1, 4)),
    ((0,), (1,)),
    ((3, 0), (1, 1)),
    ((0, 1), (1, 5)),
    ((1, 1), (1,)),
    ((5,), (2, 1, 1)),
)
