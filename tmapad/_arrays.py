"""The gate for arrays: what arguments, results and cotangents may be, and their shapes, types and overlaps."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmapad import _core
from tmapad._protocol import ArgType

Array = np.ndarray[Any, Any]

ACCEPTED = "bool, integers, float16, float32, float64, complex64 and complex128"
ACCEPTED_CHARS = frozenset("?bBhHiIlLqQefdFD")
UNDERFLOW = 4  # among NumPy's flags
CPU_DEVICES = (1, 3)  # kDLCPU and kDLCUDAHost of the DLPack standard


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call, as the core gets it, and what it was.

    ``kind`` is "array", "scalar" (a NumPy scalar or a 0-d array), "weak" (a Python scalar) or "tuple".
    """

    array: Array
    kind: str
    type: ArgType
    given: Any = None  # the Python scalar itself

    def ready(self, char: str, name: str, *, half: bool) -> tuple[Array, int]:
        """Return it for a loop of this type: scalars are copied now; arrays are held, and converted strip by strip.

        A Python number beside float16 is one of float16 (`half`), before it is computed with in float32. The flags that
        the conversion raised are returned too.
        """
        if self.kind not in ("weak", "scalar"):
            return self.array, 0
        if self.type is int and char in "bBhHiIlLqQ":
            try:
                return np.asarray(self.given, char), 0
            except OverflowError:
                raise OverflowError(f"{name} is {self.given!r:.40}, which {np.dtype(char)} does not hold") from None
        with noting_flags() as flags:
            rounded = self.array.astype("e") if half and self.type is float and char == "f" else self.array
            converted = rounded.astype(char)
        # Of a Python number NumPy reports that it is too large for a type, not that it is too small.
        return converted, flags.raised & ~UNDERFLOW if self.kind == "weak" else flags.raised

    @property
    def differentiable(self) -> bool:
        """Whether it has a cotangent: everything but bools has."""
        return self.type is not bool and self.array.dtype.char != "?"

    @property
    def cotangent_dtype(self) -> np.dtype[Any]:
        """The type of its cotangent: its own; float64 for integers."""
        return self.array.dtype.newbyteorder("=") if self.array.dtype.kind in "fc" else np.dtype(np.float64)


class Flags:
    """The floating-point flags (NumPy's numbers) that conversions raised: see `noting_flags`."""

    def __init__(self) -> None:
        self.raised = 0

    def note(self, _: str, raised: int) -> None:
        """Take what NumPy says."""
        self.raised |= raised


@contextlib.contextmanager
def noting_flags() -> Iterator[Flags]:
    """Collect the flags that NumPy's conversions raise here, instead of reporting them."""
    flags = Flags()
    with np.errstate(all="call", call=flags.note):
        yield flags


def as_argument(x: Any, name: str) -> Argument:
    """Make an argument of what a user passed as `name`; a TypeError if it holds anything but numbers."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return Argument(_weak(x, name), "weak", _weak_type(x), x)
    if isinstance(x, tuple):
        return _tuple_argument(x, name)
    refuse_special(x, name)
    array = _as_array(x, name)
    if array.dtype.char not in ACCEPTED_CHARS:
        hint = "; pass a native Python or NumPy number array" if array.dtype.hasobject else ""
        raise TypeError(f"{name} is {_what(x)} of dtype {array.dtype}; accepted are {ACCEPTED}{hint}")
    scalar = isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0)
    return Argument(array, "scalar" if scalar else "array", array.dtype)


def _as_array(x: Any, name: str) -> Array:
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} is {_what(x)} that makes no array of numbers: {error}") from None


def _weak_type(x: Any) -> type:
    return next(t for t in (bool, int, float, complex) if isinstance(x, t))


def _weak(x: Any, name: str) -> Array:
    try:
        if isinstance(x, int) and not -(2**63) <= x < 2**63:
            return np.asarray(float(x))
        return np.asarray(x)
    except OverflowError:
        raise TypeError(f"{name} is an int too large for a float64: {x!r:.40}") from None


def _tuple_argument(x: tuple[Any, ...], name: str) -> Argument:
    for item in x:
        if not isinstance(item, (bool, int, float, complex, np.number, np.bool_)):
            raise TypeError(f"{name} is a tuple with {_what(item)} in it; a tuple must hold numbers: pass an array")
    if x and all(isinstance(item, (bool, int, float, complex)) and not isinstance(item, np.generic) for item in x):
        array = np.asarray([_weak(item, name) for item in x])
    else:
        array = np.asarray(x, dtype=None if x else np.float64)
    if array.dtype.char not in ACCEPTED_CHARS:
        raise TypeError(f"{name} is a tuple of dtype {array.dtype}; accepted are {ACCEPTED}")
    return Argument(array, "tuple", array.dtype)


def refuse_special(x: Any, name: str) -> None:
    """Refuse arrays whose meaning `numpy.asarray` would drop, or that lie on another device."""
    if (ma := sys.modules.get("numpy.ma")) is not None and isinstance(x, ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; pass {name}.filled(...) or {name}.compressed()")
    if isinstance(x, np.matrix):
        raise TypeError(f"{name} is a numpy.matrix; pass numpy.asarray({name})")
    if hasattr(x, "todense") or hasattr(x, "toarray"):
        raise TypeError(f"{name} is a sparse array ({type(x).__name__}); pass {name}.toarray() or map {name}.data")
    if hasattr(x, "__cuda_array_interface__") or _device(x) not in CPU_DEVICES:
        raise TypeError(f"{name} ({type(x).__name__}) lies on another device; copy it to the CPU")


def _device(x: Any) -> int:
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack_device__"):
        return CPU_DEVICES[0]
    return int(x.__dlpack_device__()[0])


def _what(x: Any) -> str:
    return f"an array ({type(x).__name__})" if isinstance(x, np.ndarray) else f"a {type(x).__name__}"


def broadcast_shape(arguments: Sequence[Argument], names: Sequence[str]) -> tuple[int, ...]:
    """Return the shape that the arguments broadcast to, as NumPy does; tuples must be of one length."""
    lengths = {name: a.array.size for a, name in zip(arguments, names, strict=True) if a.kind == "tuple"}
    if len(set(lengths.values())) > 1:
        raise ValueError("tuples must be of one length, not " + ", ".join(f"{k}: {v}" for k, v in lengths.items()))
    shapes = {a.array.shape for a in arguments} - {()}
    if len(shapes) < 2:
        return next(iter(shapes), ())
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    sizes = [{n for n in axis if n != 1} for axis in zip(*padded, strict=True)]
    if any(len(axis) > 1 for axis in sizes):
        given = ", ".join(f"{n}: {a.array.shape}" for a, n in zip(arguments, names, strict=True))
        raise ValueError(f"arguments do not broadcast to one shape: {given}")
    return tuple(next(iter(axis), 1) for axis in sizes)


def result_kind(arguments: Sequence[Argument]) -> str:
    """Return what a result is given back as: "scalar", "tuple" or "array"."""
    kinds = {a.kind for a in arguments} - {"weak", "scalar"}
    if not kinds:
        return "scalar"
    return "tuple" if kinds == {"tuple"} else "array"


def give_back(array: Array, kind: str) -> Any:
    """Return a result as the kind of thing its argument was."""
    if kind == "tuple":
        return tuple(array)
    return array[()] if kind in ("scalar", "weak") else array


# ---------------------------------------------------------------------------------------------- out=


def as_outputs(out: Any, nout: int, shape: tuple[int, ...], name: str = "out") -> tuple[Array | None, ...]:
    """Check what was given as ``out``: None, an array, or a tuple with an array or None for each output."""
    given = out if isinstance(out, tuple) else (out,)
    if out is None:
        return (None,) * nout
    if len(given) != nout:
        raise ValueError(f"{name} must have an array or None for each of {nout} outputs, not {len(given)}")
    for k, array in enumerate(given):
        if array is not None:
            check_output(array, shape, name if nout == 1 else f"{name}[{k}]")
    for k, array in enumerate(given):
        for other in given[:k]:
            if array is not None and other is not None and share_memory(array, other):
                raise ValueError(f"arrays in {name} share memory")
    return given


def check_output(out: Any, shape: tuple[int, ...], name: str) -> None:
    """Refuse an output that cannot be written as asked, before anything is computed."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, not {_what(out)}")
    refuse_special(out, name)
    if out.shape != shape:
        raise ValueError(f"{name} has shape {out.shape}; the result has shape {shape}")
    if out.dtype.char not in ACCEPTED_CHARS:
        raise TypeError(f"{name} has dtype {out.dtype}; accepted are {ACCEPTED}")
    if not out.flags.writeable:
        raise ValueError(f"{name} is read-only")
    if _overlaps_itself(out):
        raise ValueError(f"{name} overlaps itself: several of its elements share memory (strides {out.strides})")


def check_casting(result: np.dtype[Any], out: Array, name: str) -> None:
    """Refuse an output that cannot hold the result: as NumPy, casting "same_kind"."""
    if not np.can_cast(result, out.dtype, "same_kind"):
        raise TypeError(f"{name} has dtype {out.dtype}, which cannot hold the result's {result} (casting 'same_kind')")


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may share memory: some axis steps less far than what lies inside of it reaches."""
    if not array.size:
        return False
    reach = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (n - 1)
    return False


def share_memory(a: Array, b: Array) -> bool:
    """Whether two arrays share an element's memory; True also where finding out would take long, as in ufuncs."""
    return np.may_share_memory(a.view(np.ndarray), b.view(np.ndarray), max_work=1)  # type: ignore[arg-type]  # NumPy's stub knows 0 and -1 only


def overlaps(out: Array, x: Array) -> bool:
    """Whether writing `out` may change elements of `x` that are yet to be read: any overlap but element on element."""
    if not share_memory(out, x):
        return False
    same = (
        out.__array_interface__["data"][0] == x.__array_interface__["data"][0]
        and out.shape == x.shape
        and out.strides == x.strides
        and out.itemsize == x.itemsize
    )
    return not same


def allocate(arrays: Sequence[Array], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array laid out as the arrays are (order "K")."""
    result: Array = _core.empty_like_all(tuple(arrays), shape, dtype)
    return result


# ---------------------------------------------------------------------------------------------- cotangents


def as_cotangent(dy: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> Array:
    """Check the cotangent of a result: the result's shape, and a type that casts to the result's."""
    if isinstance(dy, (bool, int, float, complex)) and shape != ():
        raise ValueError(f"{name} is a Python scalar; it must have the shape of y, {shape}")
    refuse_special(dy, name)
    array = _as_array(dy, name)
    if array.dtype.char not in ACCEPTED_CHARS:
        raise TypeError(f"{name} has dtype {array.dtype}; accepted are {ACCEPTED}")
    if array.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"{name} is complex ({array.dtype}), but y is real ({dtype}); pass its real part")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; y has shape {shape} (cotangents do not broadcast)")
    return array


def broadcast_axes(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the axes of `shape` along which an array of shape `own` varies, and those along which it is broadcast."""
    padded = (1,) * (len(shape) - len(own)) + own
    kept = [axis for axis, (n, full) in enumerate(zip(padded, shape, strict=True)) if n == full]
    summed = [axis for axis, (n, full) in enumerate(zip(padded, shape, strict=True)) if n != full]
    return kept, summed
