"""What is raised when a loop stopped at an element: the exception that the function itself raises there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tmapad._protocol import Implementation

if TYPE_CHECKING:
    from tmapad._call import Frame


def raise_failure(
    failure: tuple[int, int, BaseException | None],
    sources: Sequence[Implementation | None],
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
    error.add_note(f"tmapad: {place}")
    raise error


def _from_python(source: Implementation | None, frame: Frame, arguments: tuple[Any, ...], place: str) -> BaseException:
    assert source is not None
    if source.python is not None:
        try:
            if source.nin > len(arguments):  # a derivative of the output: it comes first
                assert frame.kernel.value.python is not None
                y = frame.kernel.value.python(*arguments)
                arguments = (*(y if isinstance(y, tuple) else (y,)), *arguments)
            source.python(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised as itself
            return error
    return RuntimeError(f"{source.name} failed when compiled, but not in Python: {place}")


def _index(where: tuple[int, ...]) -> str:
    return f"element {where[0] if len(where) == 1 else where}" if where else "the only element"


def _shown(arguments: tuple[Any, ...]) -> str:
    return "(" + ", ".join(f"{a!r}" for a in arguments) + ")"
