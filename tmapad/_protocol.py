"""What runs: the one interface behind C pointers, ufuncs and compiled Python functions."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from types import MethodType
from typing import Any, Literal, NamedTuple, Protocol

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


Known = Literal["known", "none", "unknown"]


class Given(NamedTuple):
    """A function that gives a partial derivative.

    Attributes
    ----------
    part : Implementation
    place, total : int
        Which of its results the partial derivative is, and of how many.
    """

    part: Implementation
    place: int
    total: int


class GivenDerivative(ABC):
    """A derivative that a user gave: functions that return partial derivatives.

    Attributes
    ----------
    takes_output : bool
        Whether they take the outputs before the arguments.
    """

    takes_output = False

    @property
    @abstractmethod
    def parts(self) -> Iterable[Implementation]:
        """The functions."""

    @abstractmethod
    def known(self, output: int, argument: int) -> Known:
        """Whether there is a partial, none by the user's word ("none"), or none that is known."""

    @abstractmethod
    def given(self, output: int, argument: int, nin: int, nout: int) -> Given:
        """What gives a partial that is known, of a function of `nin` arguments with `nout` outputs."""


class Registered:
    """What a user registered, which compiled Python functions may call.

    Attributes
    ----------
    name : str
        What messages call it.
    implementation : Implementation
        Of its value.
    form : object
        How its derivative is given: a `GivenDerivative`, or what is found without the user.
    nondiff : frozenset of int
        Arguments that are not differentiated.
    threadsafe : bool
    """

    name: str
    implementation: Implementation
    form: Any
    nondiff: frozenset[int]
    threadsafe: bool


def identity(f: Any) -> Hashable:
    """What stands for a function: a method is a new object each time it is read."""
    return (id(f.__self__), id(f.__func__)) if isinstance(f, MethodType) else id(f)


class Registry:
    """What was registered: by the identity of what a user passed, and by the id of the implementation.

    Attributes
    ----------
    changes : object
        Another one after each registration.
    """

    def __init__(self) -> None:
        # Entries hold what was passed, so that its identity stays its own.
        self._entries: dict[Hashable, tuple[Any, Registered]] = {}
        self._owners: weakref.WeakValueDictionary[int, Registered] = weakref.WeakValueDictionary()
        self.changes = object()

    def find(self, f: Any) -> Registered | None:
        """Return what `f` was registered as; itself if that is what it is."""
        if isinstance(f, Registered):
            return f
        found = self._entries.get(identity(f))
        return None if found is None else found[1]

    def add(self, f: Any, function: Registered) -> None:
        """From now on `f` stands for the function."""
        self._entries[identity(f)] = (f, function)
        self.changes = object()

    def own(self, function: Registered) -> None:
        """From now on the function's implementation, as a derivative of another one, stands for it."""
        self._owners[id(function.implementation)] = function

    def owner(self, part: Implementation) -> Registered | None:
        """Return what has this implementation."""
        found = self._owners.get(id(part))
        return found if found is not None and found.implementation is part else None


REGISTRY = Registry()


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
