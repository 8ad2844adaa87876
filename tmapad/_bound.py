"""``functools.partial`` of numbers as something that runs: ``partial(scipy.special.jv, -1)`` for a derivative."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tmapad._core import Loop
from tmapad._protocol import ArgType, Implementation


class Bound:
    """An `Implementation` some of whose arguments are fixed numbers.

    Attributes
    ----------
    inner : Implementation
        What takes all arguments.
    values : mapping
        The fixed numbers, by position among all arguments.
    """

    def __init__(self, inner: Implementation, values: Mapping[int, Any]) -> None:
        self.inner, self.values = inner, values
        self.name = f"partial({inner.name})"
        self.nin = inner.nin - len(values)
        self.nout = inner.nout
        self.parameters = tuple(name for i, name in enumerate(inner.parameters) if i not in values)

    @property
    def python(self) -> Callable[..., Any] | None:
        """Runs one element in Python."""
        if self.inner.python is None:
            return None
        return functools.partial(self.inner.python, **{self.inner.parameters[i]: v for i, v in self.values.items()})

    def loop(self, inputs: tuple[ArgType, ...]) -> Loop:
        """Return the loop for all arguments, the fixed ones included: they are weak."""
        return self.inner.loop(self.all_types(inputs))

    def all_types(self, inputs: tuple[ArgType, ...]) -> tuple[ArgType, ...]:
        """Return the types of all arguments, given those of the free ones."""
        free = iter(inputs)
        return tuple(type(self.values[i]) if i in self.values else next(free) for i in range(self.inner.nin))
