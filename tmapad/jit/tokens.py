"""What stands for a constant when it is asked whether code that was compiled for one serves for another."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np


class Address(int):
    """The address of an object, as a token: nothing else may get it while tokens are compared."""


def token(value: Any, of_object: Callable[[Any], Hashable | None] = lambda value: None) -> Hashable:
    """Give what two constants have in common only if they are compiled alike.

    Numbers are told apart by their types and their bits, text by what it says, tuples by what they hold, other objects
    by `of_object`; where that gives None, by identity.
    """
    if isinstance(value, tuple):
        return (type(value), *(token(part, of_object) for part in value))
    if isinstance(value, np.generic):
        return (type(value), value.dtype.str, value.tobytes())  # NumPy's own types are equal to Python's
    if isinstance(value, float | complex):
        return (type(value), np.array(value).tobytes())
    if value is None or isinstance(value, int | str | bytes):
        return (type(value), value)
    found = of_object(value)
    return Address(id(value)) if found is None else found
