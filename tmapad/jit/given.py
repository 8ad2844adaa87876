"""Registered functions that compiled code calls as a whole, as far as that needs no compiler.

A Python function without a derivative of its own is compiled along with what calls it, and ufuncs of NumPy and SciPy
are what they are without being registered. All others are called as a whole: see `registered`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tmapad._protocol import GivenDerivative, Implementation, Registered


class Source(NamedTuple):
    """What a compiled Python function is made from.

    Attributes
    ----------
    function : FunctionType
    instance : object
        What its first argument is, if it is a method.
    bound : mapping
        Arguments whose values are known, by name.
    is_plain : bool
        It is the function and nothing more, so that it can be compiled along with what calls it.
    """

    function: Any
    instance: Any
    bound: Mapping[str, Any]
    is_plain: bool


def inner(part: Implementation) -> Any:
    """What runs, without the numbers that `functools.partial` bound."""
    return getattr(part, "inner", part)


def python_of(part: Implementation) -> Source | None:
    """What an implementation is made from, if it is a compiled Python function."""
    found: Source | None = getattr(inner(part), "source", None)
    return found


def is_whole(given: Registered) -> bool:
    """Whether compiled code calls it as a whole."""
    if isinstance(given.form, GivenDerivative):
        return True
    if getattr(given.implementation, "origin", "") in ("numpy", "scipy"):
        return False
    source = python_of(given.implementation)
    return source is None or not source.is_plain


def with_parts(given: Registered) -> list[Implementation]:
    """Its implementation, and the functions of its derivative."""
    parts = given.form.parts if isinstance(given.form, GivenDerivative) else ()
    return [given.implementation, *parts]
