"""What runs: the one interface behind C pointers, ufuncs and compiled Python functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tmapad._core import Loop

# The type of an argument: a dtype, or of a Python scalar its own type, because such scalars are weak (NEP
# 50).
ArgType = np.dtype[Any] | type


class Implementation(Protocol):
    """Something that runs on elements, and gives a loop for the types it is asked for."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def nin(self) -> int:
        """How many arguments it takes."""

    @property
    def nout(self) -> int | None:
        """How many outputs it has; None if only compiling tells."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments; ("x",) or ("x1", "x2", ...) where there are none."""

    @property
    def python(self) -> Callable[..., Any] | None:
        """Runs one element in Python, to raise its exception as it is; None for native code."""

    def loop(self, inputs: tuple[ArgType, ...]) -> Loop:
        """Return the loop whose ``in_chars`` are what arguments of these types are cast to.

        Raises
        ------
        TypeError
            If there is none: the message names the types given and those accepted.
        """


class Registered:
    """What a user registered, which compiled Python functions may call."""

    implementation: Implementation  # of its value
    threadsafe: bool


def numbered(nin: int) -> tuple[str, ...]:
    """Return names for arguments that have none, as NumPy numbers them."""
    return ("x",) if nin == 1 else tuple(f"x{i + 1}" for i in range(nin))


def computation_type(inputs: tuple[ArgType, ...]) -> np.dtype[Any]:
    """Return the type in which a function of arguments of these types is computed: float32 or wider.

    Integers and booleans count as float64, float16 as float32, Python scalars as weak.
    """
    known: list[Any] = []
    for given in inputs:
        if isinstance(given, type):
            known.append(0j if given is complex else 0.0)
        else:
            known.append(given if given.kind in "fc" else np.dtype(np.float64))
    return np.result_type(np.float32, *known) if _any_dtype(known) else np.result_type(np.float64, *known)


def _any_dtype(known: list[Any]) -> bool:
    return any(isinstance(entry, np.dtype) for entry in known)


def described(inputs: tuple[ArgType, ...]) -> str:
    """Return types as a message shows them: ``(float64, float)``."""
    return "(" + ", ".join(t.__name__ if isinstance(t, type) else str(t) for t in inputs) + ")"
