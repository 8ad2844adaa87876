"""A call of `tmap`: what the user passed, made ready for the core; its results, made ready for the user."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from tmapad import _core
from tmapad._arrays import (
    Argument,
    Array,
    allocate,
    as_argument,
    as_outputs,
    broadcast_shape,
    check_casting,
    give_back,
    noting_flags,
    overlaps,
    result_kind,
    share_memory,
)
from tmapad._core import Program
from tmapad._failure import raise_failure
from tmapad._find import resolve
from tmapad._function import ScalarFunction
from tmapad._kernel import Kernel, Planned
from tmapad._progress import Pass, Report, as_progress
from tmapad._tangents import Tangent
from tmapad._threads import check_num_threads, get_num_threads
from tmapad.jit import Capture, as_inputs

COMPUTATION_TYPES = "efdFD"
COMPUTATION_NAMES = "float16, float32, float64, complex64 or complex128"


@dataclass(frozen=True, slots=True)
class Options:
    """How a call is run; no result depends on it."""

    num_threads: int | Callable[[], int]
    schedule: str
    chunk_size: int | None
    progress: Callable[[], Report] | None = None
    followed: Pass | None = None  # of which runs tell how far they have come


T = TypeVar("T")


def follow(options: Options, size: int, work: Callable[[Options], T]) -> T:
    """Do the work of a pass over so many elements, with these options; tell whoever wants to know how far it is."""
    if options.progress is None:
        return work(options)
    with Pass(options.progress(), size) as followed:
        return work(replace(options, followed=followed))


def as_options(num_threads: Any, schedule: Any, chunk_size: Any, progress: Any = False) -> Options:
    """Check the keywords that say how to run."""
    if not isinstance(schedule, str) or schedule not in _core.SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(map(repr, _core.SCHEDULES))}, not {schedule!r}")
    if chunk_size is not None:
        try:
            size = operator.index(chunk_size)
        except TypeError:
            raise TypeError(f"chunk_size must be an int, not {type(chunk_size).__name__}") from None
        if isinstance(chunk_size, (bool, np.bool_)) or not 1 <= size < 2**62:
            raise ValueError(f"chunk_size must be a number of elements, at least 1, not {chunk_size!r}")
        chunk_size = size
    threads = get_num_threads if num_threads is None else check_num_threads(num_threads)
    return Options(threads, str(schedule), chunk_size, as_progress(progress))


def as_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Check ``dtype=``: a type in which numbers are computed."""
    if dtype is None:
        return None
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"dtype must be {COMPUTATION_NAMES}, not {dtype!r:.60}") from None
    if checked.char not in COMPUTATION_TYPES:
        raise TypeError(f"dtype must be {COMPUTATION_NAMES}, not {checked}")
    return checked.newbyteorder("=")


@dataclass(slots=True)
class Frame:
    """What programs are run on: the function for its types, and the arrays as the core gets them.

    Captured arrays are given to the core by their addresses: `captured` has them by the positions of these. If the
    function itself cannot run one element in Python, `python` can. `cast` are the flags that the conversion of numbers
    raised.
    """

    function: ScalarFunction
    kernel: Kernel
    shape: tuple[int, ...]
    arrays: tuple[Array, ...]
    captured: dict[int, Array] = field(default_factory=dict)
    python: Callable[..., Any] | None = None
    cast: int = 0

    @property
    def chars(self) -> tuple[str, ...]:
        """Type characters of the arrays."""
        return tuple(a.dtype.char for a in self.arrays)


class Call:
    """What the user passed, made ready.

    Attributes
    ----------
    arguments : list of Argument
        Of the function's loop, in its order: captured ones and mapped ones. What a Python function captured comes
        after its arguments: of an array its address and the lengths of its axes, each as an argument.
    mapped : list of int
        Which of them are mapped: the others are captured, or have their defaults.
    captures : dict
        Names of the captured arguments, by position among all; an array's is that of its address.
    constants : set of int
        Which captures are differentiated only if they are named.
    captured_arrays : dict
        Captured arrays as the user has them, by the same positions.
    kind : str
        What results are given back as.
    frame : Frame
        The function for these types, and the arguments as the core gets them: as they are, or, of a single
        element, that element in the type of the loop.
    """

    def __init__(self, f: Any, xs: Sequence[Any], dtype: np.dtype[Any] | None) -> None:
        resolved = resolve(f)
        function, bound = resolved.function, resolved.positions
        self.mapped, defaults = _places(function, bound, len(xs))
        given = {**dict(zip(self.mapped, xs, strict=True)), **bound, **defaults}
        names = function.parameters[: len(given)]
        self.captures = {i: names[i] for i in sorted(bound)}
        self.arguments = [
            as_argument(given[i], name) if i in self.mapped else _captured(given[i], name)
            for i, name in enumerate(names)
        ]
        for argument, name in zip(self.arguments, names, strict=True):
            if dtype is not None and dtype.kind != "c" and argument.array.dtype.kind == "c":
                raise TypeError(
                    f"{name} is complex ({argument.array.dtype}); dtype={dtype} would drop its imaginary part"
                )
        mapped = [self.arguments[i] for i in self.mapped]
        shape = broadcast_shape(mapped, [names[i] for i in self.mapped])
        self.kind = result_kind(mapped)
        types = tuple(a.type for a in self.arguments)
        while True:
            kernel = function.kernel(types, dtype)
            captured = function.captured(resolved.bound)
            if kernel is function.kernel(types, dtype):
                break  # no value got another type, in another thread
        half = function.precision(types) == "half"
        ready = [
            a.ready(char, name, half=half)
            for a, char, name in zip(self.arguments, kernel.loop.in_chars[: kernel.nin], names, strict=True)
        ]
        arrays = [array for array, _ in ready]
        cast = functools.reduce(operator.or_, (flags for _, flags in ready), 0)
        self.constants: set[int] = set()
        self.captured_arrays: dict[int, Array] = {}
        read: dict[int, Array] = {}
        for own, capture, value in captured:
            with noting_flags() as flags:
                inputs, array = as_inputs(value, capture.type)
            cast |= flags.raised
            if array is not None:
                read[len(arrays)] = array
            if own:
                self._note(len(arrays), capture, value)
            is_number = own and array is None
            self.arguments += [as_argument(value if is_number else x, f"the captured {capture.path}") for x in inputs]
            arrays += inputs
        self.frame = Frame(function, kernel, shape, tuple(arrays), read, resolved.python, cast)

    def _note(self, position: int, capture: Capture, value: Any) -> None:
        self.captures[position] = capture.path
        if capture.constant:
            self.constants.add(position)
        if capture.type.ndim is not None:
            self.captured_arrays[position] = value

    def outputs(self, out: Any) -> list[Array]:
        """The arrays that results are written to: those given as ``out``, new ones where there are none."""
        shape = self.frame.shape
        dtypes = [np.dtype(char) for char in self.frame.kernel.results]
        given = as_outputs(out, len(dtypes), shape)
        for k, (array, dtype) in enumerate(zip(given, dtypes, strict=True)):
            if array is not None:
                check_casting(dtype, array, "out" if len(dtypes) == 1 else f"out[{k}]")
        return [
            allocate(self.frame.arrays, shape, dtype) if array is None else array.view(np.ndarray)
            for array, dtype in zip(given, dtypes, strict=True)
        ]

    def results(self, outputs: list[Array], out: Any) -> Any:
        """Return results as the kind of thing that the arguments were; one that was given as it is."""
        given = out if isinstance(out, tuple) else (out,) * len(outputs)
        ys = tuple(
            array if array is not None else give_back(y, self.kind) for y, array in zip(outputs, given, strict=True)
        )
        return ys[0] if len(ys) == 1 else ys


def _places(function: ScalarFunction, bound: dict[int, Any], count: int) -> tuple[list[int], dict[int, Any]]:
    """Return which arguments are mapped, and the values of those left out that have a number as their default.

    Others left out must come last: compiled code then knows their defaults.
    """
    free = [i for i in range(function.nin) if i not in bound]
    mapped, rest = free[:count], free[count:]
    defaults = {i: value for i in rest if isinstance(value := function.default(i), (bool, int, float, complex))}
    given = sorted({*bound, *mapped, *defaults})
    if not 0 < count <= len(free) or len(given) < function.min_nin or given[-1] != len(given) - 1:
        least = "" if function.min_nin == function.nin else f"{function.min_nin} to "
        raise TypeError(
            f"{function.name} takes {least}{function.nin} argument{'s' * (function.nin > 1)}"
            f"{f', of which {len(bound)} bound' if bound else ''}, but {count} {'was' if count == 1 else 'were'} given"
        )
    return mapped, defaults


def _captured(value: Any, name: str) -> Argument:
    argument = as_argument(value, f"the captured {name}")
    if argument.array.ndim:
        raise TypeError(
            f"the captured {name} is an array of shape {argument.array.shape}; partial can capture numbers only: "
            "pass an array as an argument of the map"
        )
    return argument


def run(planned: Planned, frame: Frame, inputs: Sequence[Array], outputs: Sequence[Array], options: Options) -> None:
    """Run a program on the arrays that were offered to it, into outputs of any layout and overlap."""
    for output in outputs:
        inputs = [x.copy() if overlaps(output, x) else x for x in inputs]
    inputs, captured = _apart(frame, inputs, outputs)
    failure = planned.program.run(
        (*(inputs[k] for k in planned.reads), *outputs),
        frame.shape,
        num_threads=options.num_threads,
        schedule=options.schedule,
        chunk_size=options.chunk_size,
        watch=frame.function.may_complain(),
        captured=captured,
        cast=frame.cast,
        progress=options.followed,
    )
    del captured  # which the program read
    if failure is not None:
        try:
            raise_failure(failure, planned.sources, frame, inputs)
        finally:
            del failure  # the traceback would hold it, see raise_failure
    if options.followed is not None:
        options.followed.finished += 1


def _apart(
    frame: Frame, inputs: Sequence[Array], outputs: Sequence[Array]
) -> tuple[Sequence[Array], tuple[Array, ...]]:
    """Give copies of captured arrays to the program instead of those that it writes to; return what it reads."""
    read = []
    for position, array in frame.captured.items():
        if any(share_memory(output, array) for output in outputs):
            read.append(array.copy())
            inputs = list(inputs)
            inputs[position] = np.array(read[-1].ctypes.data, inputs[position].dtype)
        else:
            read.append(array)
    return inputs, tuple(read)


def tangent_of_captures(captured: Mapping[str, Any]) -> Tangent:
    """Make a tangent of those of captured variables, by path: what a helper captured is in a tangent of its own."""
    parts: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for path, value in captured.items():
        name, dot, rest = path.partition(".")
        if dot:
            parts.setdefault(name, None)
            inner.setdefault(name, {})[rest] = value
        else:
            parts[name] = value
    return Tangent({name: tangent_of_captures(inner[name]) if name in inner else parts[name] for name in parts})


def map_elements(f: Any, xs: Sequence[Any], out: Any, dtype: Any, options: Options) -> tuple[Any, Call]:
    """`tmap` in general: any arguments, any outputs. Also returns the call, from which a shortcut is made."""
    call = Call(f, xs, as_dtype(dtype))
    outputs, frame = call.outputs(out), call.frame
    planned = frame.kernel.map(frame.chars, tuple(y.dtype.char for y in outputs))
    follow(options, math.prod(frame.shape), lambda options: run(planned, frame, frame.arrays, outputs, options))
    return call.results(outputs, out), call


def raise_known(f: Any, xs: Sequence[Any], program: Program, failure: tuple[int, int, BaseException | None]) -> None:
    """Raise that for which a shortcut's run stopped; return if its program is no longer that of the function."""
    frame = Call(f, xs, None).frame
    planned = frame.kernel.made(program)
    try:
        if planned is not None:
            raise_failure(failure, planned.sources, frame, frame.arrays)
    finally:
        del failure  # the traceback would hold it, see raise_failure


def run_and_write(
    frame: Frame,
    outputs: Sequence[Array],
    planned: Planned,
    options: Options,
) -> list[Array]:
    """Run a program that writes results, and then arrays of its own types; return these, the residuals."""
    residuals = [allocate(outputs, frame.shape, np.dtype(char)) for char in planned.chars]
    run(planned, frame, frame.arrays, [*outputs, *residuals], options)
    return residuals
