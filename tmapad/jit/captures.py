"""What may be captured as an argument: numbers and arrays, and how compiled code is given them.

A captured number that compiled code must not know is read there by a call without arguments, which later becomes an
argument of the whole: see `symbols`. So another value needs no other code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tmapad._patterns import pattern
from tmapad._protocol import ArgType, Registered
from tmapad.jit.scalar import SCALAR, slots

PREFIX = "tmapad.capture:"
"""How the symbols of captures begin."""

# NumPy's character of a number in compiled code, by that of its own type.
_NUMBERS = {"e": "f", "f": "f", "d": "d", "F": "F", "D": "D"}
_INTEGERS = frozenset("?bBhHiIlLqQ")
_ADDRESS = "q"

_CALL = pattern(
    rf'^ *(?P<name>%(?:"[^"]*"|[-\w.$]+)) = (?:tail )?call [^@\n]*@"(?P<symbol>{re.escape(PREFIX)}[^"]*)"\(\).*\n',
    re.MULTILINE,
)
_DECLARATION = pattern(rf'^declare [^@\n]*@"{re.escape(PREFIX)}[^"]*"\(\).*\n', re.MULTILINE)
_REMAINING = pattern(rf'call [^@\n]*@"{re.escape(PREFIX)}(\d+)')
_LOCAL = pattern(r'%(?:"[^"]*"|[-\w.$]+)')


@dataclass(frozen=True)
class CaptureType:
    """The type of a captured value.

    Attributes
    ----------
    given : dtype or type
        Of the number, or of an array's elements; ``float`` or ``complex`` for Python's own numbers, which are weak.
    ndim : int or None
        Of an array; None for a number.
    """

    given: ArgType
    ndim: int | None = None

    # NumPy holds its types to be equal to Python's, which are weak.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CaptureType):
            return NotImplemented
        return (self.weak, self.char_given, self.ndim) == (other.weak, other.char_given, other.ndim)

    def __hash__(self) -> int:
        return hash((self.weak, self.char_given, self.ndim))

    @property
    def weak(self) -> bool:
        """Whether it is one of Python's own types."""
        return isinstance(self.given, type)

    @property
    def char_given(self) -> str:
        """NumPy's character for the type as it is given."""
        return np.dtype(self.given).char

    def is_of(self, value: Any) -> bool:
        """Whether it is the type of a value."""
        return type(value) is self.given or capture_type(value) == self

    @property
    def char(self) -> str:
        """NumPy's character for the number, or for the elements, in compiled code."""
        return _NUMBERS.get(self.char_given, self.char_given)

    @property
    def chars(self) -> str:
        """NumPy's characters for the arguments of compiled code: the number, or an array's address and axes."""
        return self.char if self.ndim is None else _ADDRESS * (1 + self.ndim)

    @property
    def differentiable(self) -> bool:
        """Whether it consists of real or complex numbers."""
        return self.char in "fdFD"


class Place(NamedTuple):
    """Where a captured variable is read, and by what.

    Attributes
    ----------
    kind : str
        See `references`.
    holder : int
        The id of what holds it.
    key : str
        Its name there.
    reader : int or None
        The id of the registered function by which it is read, 0 for none; None if it does not matter.
    """

    kind: str
    holder: int
    key: str
    reader: int | None

    def read_by(self, given: Registered) -> Place:
        """The place, as the function has it that calls a registered one."""
        return self._replace(reader=id(given)) if self.reader == 0 else self


NOWHERE = Place("", 0, "", None)


@dataclass(frozen=True)
class Capture:
    """A captured variable that is an argument of the compiled code.

    Attributes
    ----------
    path : str
        How messages and users call it: ``"a"``, ``"helper.a"``, ``"settings.rate"``.
    type : CaptureType
    constant : bool
        It is differentiated only if it is asked for by name: globals, what is read from modules, and what only
        registered derivatives read.
    place : Place
        Where it is read, and by what.
    """

    path: str
    type: CaptureType
    constant: bool = False
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def chars(self) -> str:
        """As `CaptureType` has it."""
        return self.type.chars


def capture_type(value: Any) -> CaptureType | None:
    """The type of a value, if compiled code can be given it as an argument: real and complex numbers, and arrays."""
    if isinstance(value, np.generic):
        return CaptureType(value.dtype) if value.dtype.char in _NUMBERS else None
    if isinstance(value, float | complex):
        return CaptureType(float if isinstance(value, float) else complex)
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray | np.matrix):
        return None
    if value.dtype.char not in _NUMBERS and value.dtype.char not in _INTEGERS:
        return None
    return CaptureType(value.dtype.newbyteorder("="), value.ndim or None)


def symbols(number: int, capture_type: CaptureType) -> list[tuple[str, str]]:
    """The functions without arguments by which code reads capture `number`, each with its type in LLVM."""
    prefix = f"{PREFIX}{number}"
    if capture_type.ndim is not None:
        names = ["address", *(f"shape{axis}" for axis in range(capture_type.ndim))]
    else:
        names = ["real", "imag"] if capture_type.char in "FD" else [""]
    types = [slot for char in capture_type.chars for slot in slots(char)]
    return [(f"{prefix}.{name}" if name else prefix, slot) for name, slot in zip(names, types, strict=True)]


def all_symbols(captures: Sequence[Capture]) -> Iterator[tuple[str, str]]:
    """The same for all captures: names and types of the last arguments of the compiled code."""
    for number, capture in enumerate(captures):
        yield from symbols(number, capture.type)


def addresses(captures: Sequence[Capture]) -> Iterator[str]:
    """Those of the symbols that stand for addresses of arrays."""
    for number, capture in enumerate(captures):
        if capture.type.ndim is not None:
            yield symbols(number, capture.type)[0][0]


def as_arguments(llvm: str, captures: Sequence[Capture], function: str) -> str:
    """Replace the calls that read captures by the arguments of ``@scalar`` that are called like them.

    `function` is its name, for a message.

    Raises
    ------
    TypeError
        There is one outside of ``@scalar``.
    """
    if PREFIX not in llvm:
        return llvm
    start = llvm.index(f"@{SCALAR}(")
    end = llvm.index("\n}", start)
    body = llvm[start:end]
    names = {match["name"]: f'%"{match["symbol"]}"' for match in _CALL.finditer(body)}
    body = _LOCAL.sub(lambda match: names.get(match[0], match[0]), _CALL.sub("", body))
    llvm = _DECLARATION.sub("", llvm[:start] + body + llvm[end:])
    if outside := _REMAINING.search(llvm):
        path = captures[int(outside[1])].path
        raise TypeError(
            f"{function} reads the captured {path!r} in a function that calls itself: make it an argument there"
        )
    return llvm


def as_inputs(value: Any, kind: CaptureType) -> tuple[list[np.ndarray[Any, Any]], Any]:
    """The arguments of compiled code for a value, as arrays without axes, and what must live as long as they are used.

    An array that is not contiguous, or of another type than compiled code reads, is copied.
    """
    if kind.ndim is None:
        return [np.array(value, kind.char)], None
    array = np.require(value.view(np.ndarray), np.dtype(kind.char), ["C", "A"])
    return [np.array(number, _ADDRESS) for number in (array.ctypes.data, *array.shape)], array
