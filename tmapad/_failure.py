"""What is raised when a loop stopped at an element: the exception that the function itself raises there."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tmapad._plan import Source
from tmapad._protocol import GivenDerivative, Registered
from tmapad.jit import python_of

if TYPE_CHECKING:
    from tmapad._call import Frame


def raise_failure(
    failure: tuple[int, int, BaseException | None],
    sources: Sequence[Source | None],
    frame: Frame,
    inputs: Sequence[Any],
) -> NoReturn:
    """Run the element again in Python, where it raises its own exception, and raise that with a note."""
    step, index, error = failure
    where = tuple(int(k) for k in np.unravel_index(index, frame.shape)) if frame.shape else ()
    arguments = tuple(
        np.broadcast_to(x, frame.shape)[where].astype(char).item()
        for x, char in zip(inputs[: frame.kernel.nin], frame.kernel.loop.in_chars, strict=False)
    )
    place = f"in {frame.function.name}, at {_index(where)} with arguments {_shown(arguments)}"
    if error is None:
        error = _from_python(sources[step], frame, arguments, place)
    with contextlib.suppress(Exception):  # the user's own exception may refuse it
        error.add_note(f"tmapad: {place}")
    try:
        raise error
    finally:
        del error, failure  # the traceback holds this frame, and so its arrays: not until the garbage is collected


def _from_python(source: Source | None, frame: Frame, arguments: tuple[Any, ...], place: str) -> BaseException:
    assert source is not None
    part = source.implementation
    is_value = getattr(part, "function", part) is frame.function.implementation
    python = (frame.python if is_value else None) or part.python
    if python is not None:
        if source.takes_output:
            arguments = (*_value_at(frame, arguments), *arguments)
        registered = part.function.registered() if hasattr(part, "function") else []
        for run in (python, functools.partial(_with_derivatives, registered, python)):
            try:
                run(*arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised as itself
                return error
    if getattr(getattr(part, "function", part), "allocates", False):
        return MemoryError(f"{part.name} found no memory for an array of its own, or for its derivatives")
    return RuntimeError(
        f"{part.name} failed when compiled, but not in Python: {place}. Integers of compiled code have 64 bits: where "
        "it computes larger ones, or fractions of them such as n**-1, let it compute floats"
    )


def _with_derivatives(registered: Sequence[Registered], python: Callable[..., Any], *arguments: Any) -> None:
    """Run a Python function, and the derivatives of the registered functions that it calls, as compiled code did."""
    by_code = {source.function.__code__: given for given in registered if (source := python_of(given.implementation))}
    calls = {type(given).__call__.__code__ for given in registered}
    running: dict[FrameType, tuple[Registered, Sequence[Any]]] = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        names = frame.f_locals if event == "call" else {}
        if event == "call" and frame.f_code in by_code:
            given = by_code[frame.f_code]
            running[frame] = given, [names[name] for name in given.implementation.parameters]
        elif event == "call" and frame.f_code in calls and names["self"] in registered:
            running[frame] = names["self"], names["xs"]
        elif event == "return" and frame in running:
            given, xs = running.pop(frame)
            if isinstance(given.form, GivenDerivative) and result is not None:
                for part in given.form.parts:
                    if part.python is not None:
                        part.python(*([result] if given.form.takes_output else ()), *xs)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        python(*arguments)
    finally:
        sys.setprofile(before)


def _value_at(frame: Frame, arguments: tuple[Any, ...]) -> list[Any]:
    """The function's own value for the arguments of one element."""
    loop = frame.kernel.loop
    xs = [np.array(x, char) for x, char in zip(arguments, loop.in_chars, strict=False)]
    xs += frame.arrays[frame.kernel.nin :]
    ys = [np.empty((), char) for char in frame.kernel.results]
    planned = frame.kernel.map(tuple(x.dtype.char for x in xs), frame.kernel.results)
    with np.errstate(all="ignore"):
        planned.program.run((*(xs[k] for k in planned.reads), *ys), ())
    return [y.item() for y in ys]


def _index(where: tuple[int, ...]) -> str:
    return f"element {where[0] if len(where) == 1 else where}" if where else "the only element"


def _shown(arguments: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{a!r}" for a in arguments) + ")"
