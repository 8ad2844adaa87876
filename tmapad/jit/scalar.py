"""What the stages of the compiler hand to each other: one scalar function in LLVM IR."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tmapad._patterns import pattern

if TYPE_CHECKING:
    from tmapad.jit.captures import Capture

SCALAR = "scalar"
"""Name of the function in the IR."""

LOOP = "loop"
"""Name of the loop in the object code."""

OPAQUE = "tmapad."
"""How the symbols of functions begin that are not inlined before the derivative is taken: see `elementary`."""

REGISTERED = f"{OPAQUE}registered."
"""How the symbols of registered functions begin: see `registered`. They may do anything that compiled code may."""

NATIVE = f"{OPAQUE}native."
"""How the symbols of code begin that is not compiled here, and found by its address."""

PURE = "nounwind willreturn memory(none)"
"""Attributes of these functions: a call whose result is not used can go."""

_NAME = pattern(r'@("[^"]*"|[-\w.$]+)\(')
_OPAQUE_DEFINITION = pattern(rf'^(define internal [^@\n]*@"{re.escape(OPAQUE)}[^"]*"\([^)]*\) ).*\{{$', re.MULTILINE)
_CALL = pattern(r" call [^@%\n]*([@%][^(\n]*)\(")
_SLOW = f'@"{NATIVE}'
_CHEAP = ("@llvm.", f'@"{OPAQUE}')
_LABEL = pattern(r'("[^"]*"|[-\w.$]+):')
_TARGET = pattern(r'label %("[^"]*"|[-\w.$]+)')
_ADDRESS = pattern(r"\binttoptr \(?i64 -?\d")
_UNNAMED = pattern(r" (?:local_)?unnamed_addr")
_REAL_PARTS = {"f": "float", "d": "double", "F": "float", "D": "double"}


@dataclass(frozen=True)
class ScalarIR:
    """A scalar function as LLVM IR, in the form that every stage takes and gives.

    The module defines one external function, ``{i32 status, T y1, ...} @scalar(T x1, ...)``. All it needs is
    internal to the module and inlined where it can be; what is left to link are libm, LLVM's intrinsics and,
    for a function that allocates, Numba's run time. Local variables are in registers. Nothing was optimised
    by value: a derivative taken later still sees every operation of the source. A status other than 0 means
    that the function raised; the results are then undefined.

    Numbers are passed in the LLVM types that `slots` gives: a bool as ``i8``, a complex number as its real
    and its imaginary part, so that no argument and no result is an aggregate.

    Attributes
    ----------
    name : str
        The Python function's name, for messages.
    llvm : str
        The module, as text: it can be compared, hashed, stored and parsed into any LLVM context.
    in_chars, out_chars : str
        NumPy's characters for the types of the arguments and the results.
    can_raise : bool
        False only if the status is always 0.
    captures : tuple of Capture
        What the last arguments are, after those of the Python function: see `captures`.
    """

    name: str
    llvm: str
    in_chars: str
    out_chars: str
    can_raise: bool
    captures: "tuple[Capture, ...]" = ()

    @property
    def takes_long(self) -> bool:
        """Whether it has a loop, or calls code of unknown cost: all but elementary functions."""
        return self._takes_long(f"@{SCALAR}")

    def _takes_long(self, function: str) -> bool:
        body = self.llvm[re.search(rf"^define .*{re.escape(function)}\(", self.llvm, re.MULTILINE).start() :]  # type: ignore[union-attr]
        body = body[: body.index("\n}")]
        calls = set(_CALL.findall(body))
        if any(call.startswith(_SLOW) or not call.startswith(_CHEAP) for call in calls):
            return True
        following: dict[str, list[str]] = {}
        block = ""
        for line in body.splitlines()[1:]:
            if label := _LABEL.match(line):
                block = label[1]
            following.setdefault(block, []).extend(_TARGET.findall(line))
        return _has_cycle(following) or any(
            self._takes_long(call) for call in calls if call.startswith(f'@"{REGISTERED}')
        )


def _has_cycle(following: dict[str, list[str]]) -> bool:
    """Whether a graph has one: what does not go away when nodes without successors are removed."""
    remaining = {node: set(targets) for node, targets in following.items()}
    while ended := [node for node, targets in remaining.items() if not targets]:
        for node in ended:
            del remaining[node]
        for targets in remaining.values():
            targets.difference_update(ended)
    return bool(remaining)


def slots(char: str) -> tuple[str, ...]:
    """Types of LLVM in which a number with NumPy's type `char` is passed: one, or two for complex numbers."""
    if real := _REAL_PARTS.get(char):
        return (real,) * (2 if char in "FD" else 1)
    return (f"i{8 * np.dtype(char).itemsize}",)


def llvm_type(ir: Any, slot: str) -> Any:
    """`slot`, one of those `slots` gives, as a type of `llvmlite.ir`."""
    if slot.startswith("i"):
        return ir.IntType(int(slot[1:]))
    return ir.DoubleType() if slot == "double" else ir.FloatType()


def function_type(ir: Any, in_chars: str, out_chars: str) -> Any:
    """Type of ``@scalar`` as `llvmlite.ir` has it."""
    arguments = [llvm_type(ir, slot) for char in in_chars for slot in slots(char)]
    results = [llvm_type(ir, slot) for char in out_chars for slot in slots(char)]
    return ir.FunctionType(ir.LiteralStructType([ir.IntType(32), *results]), arguments)


def always_inline(llvm: str, names: Collection[str]) -> str:
    """Mark functions of a module to be inlined wherever they are called, unless they are never to be.

    In the text: before version 0.48 llvmlite takes the attributes of a function for those of its result.
    """
    lines = llvm.splitlines(keepends=True)
    never = {"noinline"}  # also said by a reference to a group of attributes
    never |= {line.split()[1] for line in lines if line.startswith("attributes #") and " noinline" in line}
    for number, line in enumerate(lines):
        if line.startswith("define ") and (name := _NAME.search(line)) and name[1].strip('"') in names:
            end = _after_parameters(line, name.end())
            if never.isdisjoint(line[end:].split()):
                lines[number] = f"{line[:end]} alwaysinline{line[end:]}"
    return "".join(lines)


def inlined(llvm: str) -> str:
    """Mark the opaque functions that a module defines to be inlined after all."""
    return _OPAQUE_DEFINITION.sub(
        lambda match: f"{match[1]}alwaysinline nounwind{'' if REGISTERED in match[1] else ' willreturn'} {{", llvm
    )


def renamed(llvm: str, name: str, attributes: str) -> str:
    """Give ``@scalar`` another name, and these attributes instead of those it has."""
    found = re.search(rf"^define .*?@{SCALAR}\(", llvm, re.MULTILINE)
    assert found is not None
    end = _after_parameters(llvm, found.end())
    definition = llvm[found.start() : end].replace(f"@{SCALAR}(", f'@"{name}"(')
    return f"{llvm[: found.start()]}{definition} {attributes} {llvm[llvm.index('{', end) :]}"


def holds_address(llvm: str) -> bool:
    """Whether an address of this process is in a module as a constant, which means nothing in another process."""
    return _ADDRESS.search(llvm) is not None


def _after_parameters(definition: str, start: int) -> int:
    """Where the attributes of a function begin, if the list of its parameters begins before `start`."""
    depth = 1
    quoted = False
    for position in range(start, len(definition)):
        character = definition[position]
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
        if depth == 0:
            rest = _UNNAMED.match(definition, position + 1)
            return rest.end() if rest else position + 1
    raise ValueError(f"no end to the parameters of {definition!r}")
