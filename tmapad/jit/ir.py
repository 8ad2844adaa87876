"""LLVM IR as Python objects: modules that can be read from text, changed, and written again.

llvmlite reads IR, but changes nothing in it; these objects do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tmapad.jit import parse
from tmapad.jit.instructions import Block, Function, Instruction, is_constant, local, symbol

__all__ = ["Block", "Function", "Instruction", "Module", "is_constant", "local", "symbol"]


class Module:
    """A module: one function as objects, everything else as text.

    Attributes
    ----------
    function : Function
    rest : str
        All other definitions and declarations.
    """

    def __init__(self, function: Function, rest: str) -> None:
        self.function = function
        self.rest = rest
        self._declared = set(re.findall(r'^(?:declare|define)[^@\n]*@("[^"]*"|[-\w.$]+)\(', rest, re.MULTILINE))

    @classmethod
    def read(cls, text: str, name: str) -> Module:
        """Read a module and the function called `name` in it, whose values must all have names."""
        start, end = _extent(text, name)
        return cls(parse.function(text[start:end]), text[:start] + text[end:])

    def declares(self, name: str) -> bool:
        """Whether there is a function of this name, apart from the one that is objects."""
        return symbol(name)[1:] in self._declared

    def add(self, name: str, text: str) -> None:
        """Add a definition or declaration of a function, unless there is one."""
        if not self.declares(name):
            self._declared.add(symbol(name)[1:])
            self.rest += f"{text.rstrip()}\n"

    def declare(self, name: str, result: str, arguments: Iterable[str]) -> None:
        """Declare a function, unless it is there."""
        self.add(name, f"declare {result} {symbol(name)}({', '.join(arguments)})")

    def add_global(self, name: str, text: str) -> None:
        """Add a global variable, unless there is one."""
        if f"{symbol(name)} =" not in self.rest:
            self.rest += f"{symbol(name)} = {text}\n"

    def __str__(self) -> str:
        return f"{self.rest}\n{self.function}"


def _extent(text: str, name: str) -> tuple[int, int]:
    """Where a function's definition begins and ends."""
    found = re.search(rf"^define [^\n]*{re.escape(symbol(name))}\([^\n]*\n", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"there is no function {name!r} in this module")
    return found.start(), text.index("\n}\n", found.start()) + 3
