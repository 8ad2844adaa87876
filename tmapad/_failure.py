"""What is raised when a loop stopped at an element: the exception that the function itself raises there."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tmapad._plan import Source

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
        for x, char in zip(inputs, frame.kernel.loop.in_chars, strict=False)
    )
    place = f"in {frame.function.name}, at {_index(where)} with arguments {_shown(arguments)}"
    if error is None:
        error = _from_python(sources[step], frame, arguments, place)
    with contextlib.suppress(Exception):  # the user's own exception may refuse it
        error.add_note(f"tmapad: {place}")
    raise error


def _from_python(source: Source | None, frame: Frame, arguments: tuple[Any, ...], place: str) -> BaseException:
    assert source is not None
    part = source.implementation
    if part.python is not None:
        if source.takes_output:
            arguments = (*_value_at(frame, arguments), *arguments)
        try:
            part.python(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised as itself
            return error
    return RuntimeError(f"{part.name} failed when compiled, but not in Python: {place}")


def _value_at(frame: Frame, arguments: tuple[Any, ...]) -> list[Any]:
    """The function's own value for the arguments of one element."""
    loop = frame.kernel.loop
    xs = [np.array(x, char) for x, char in zip(arguments, loop.in_chars, strict=True)]
    ys = [np.empty((), char) for char in frame.kernel.results]
    frame.kernel.map(tuple(loop.in_chars), frame.kernel.results).program.run((*xs, *ys), ())
    return [y.item() for y in ys]


def _index(where: tuple[int, ...]) -> str:
    return f"element {where[0] if len(where) == 1 else where}" if where else "the only element"


def _shown(arguments: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{a!r}" for a in arguments) + ")"
