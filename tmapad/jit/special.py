"""SciPy's special functions inside compiled functions, through the C entry points of `scipy.special.cython_special`.

SciPy is imported only when one of them is met. In LLVM IR an entry point is a symbol of its own,
``tmapad.cython_special.erf:d->d``, which has no definition: `bind` gives it the address in this process.
"""

import importlib
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import llvmlite.binding as llvm
import numpy as np

from tmapad._foreign import read
from tmapad._signatures import SKIP_DISPATCH
from tmapad.jit.scalar import OPAQUE, PURE, slots

SCIPY = "scipy."
"""What comes before the name of SciPy's own version of a function that others have as well."""

ENTRY = f"{OPAQUE}cython_special."
"""How the symbols of the entry points begin."""

_MODULE = "scipy.special.cython_special"
_CHARS = {"double": "d", "float": "f", "double complex": "D", "float complex": "F"}
_POINTERS = {f"{number} *": char for number, char in _CHARS.items()}
# Where a C function takes and returns a complex number as two real ones, as `slots` does.
_COMPLEX_IN_PARTS = sys.platform != "win32" and platform.machine().lower() in {"x86_64", "amd64", "arm64", "aarch64"}


# Functions that are left out. They take the GIL, in order to warn that they make integers of real arguments, to print
# that they divided by zero, or to raise that there is no memory; or they end the process for an infinite order.
_UNSAFE = re.compile("bdtr[ci]?|expn|kn|nbdtr[ci]?|pdtri|smirnovi?|yn|hyp0f1|pb[dv]v|mathieu_.*|(obl|pro)_.*")


class Entry(NamedTuple):
    """One entry point: a variant of a function for certain types.

    Attributes
    ----------
    types : str
        Such as ``"dD->D"``.
    writes : bool
        It writes its results through pointers.
    skips : bool
        It takes Cython's last int.
    address : int
    """

    types: str
    writes: bool
    skips: bool
    address: int


def name_of(value: object) -> str | None:
    """Give the name of one of SciPy's special functions that has an entry point, None for everything else."""
    if not isinstance(value, np.ufunc):
        return None
    name: str = value.__name__
    known = getattr(sys.modules.get("scipy.special"), name, None)
    return name if known is value and entries(name) else None


@cache
def entries(name: str) -> tuple[Entry, ...]:
    """Find the entry points of a function, those for real numbers first; none without SciPy."""
    if _UNSAFE.fullmatch(name):
        return ()
    try:
        exported: dict[str, object] = importlib.import_module(_MODULE).__pyx_capi__
    except ImportError:
        return ()
    # Variants of a fused function: as Cython spells them before and after 3.3. Their numbers mean nothing.
    spelled = re.compile(rf"(__pyx_fuse_\d+(_\d+)*)?{name}(\[.*\])?")
    found = [_entry(capsule) for key, capsule in exported.items() if spelled.fullmatch(key)]
    distinct = {entry.types: entry for entry in found if entry is not None}
    return tuple(sorted(distinct.values(), key=lambda entry: (sum(map(str.isupper, entry.types)), entry.types)))


def _entry(capsule: object) -> Entry | None:
    """Read an entry point; None if it takes or gives something else than real and complex numbers."""
    foreign = read(capsule)
    assert foreign is not None
    *parameters, last = foreign.declared.parameters
    skips = last == SKIP_DISPATCH
    kinds = parameters if skips else [*parameters, last]
    inputs = [_CHARS[kind] for kind in kinds if kind in _CHARS]
    written = [_POINTERS[kind] for kind in kinds if kind in _POINTERS]
    outputs = written or [_CHARS.get(foreign.declared.result, "")]
    complete = len(inputs) + len(written) == len(kinds) and all(outputs)
    types = f"{''.join(inputs)}->{''.join(outputs)}"
    if not complete or (bool(written) != (foreign.declared.result == "void")):
        return None
    if any(map(str.isupper, types)) and not _COMPLEX_IN_PARTS:
        return None
    return Entry(types, bool(written), skips, foreign.address)


def entry_for(name: str, types: str) -> Entry | None:
    """Find the entry point for types; in single precision that in double, if there is no other."""
    by_types = {entry.types: entry for entry in entries(name)}
    return by_types.get(types) or by_types.get(types.translate(_DOUBLE))


_DOUBLE = str.maketrans("fF", "dD")


class Body(NamedTuple):
    """What a function does that calls an entry point.

    Attributes
    ----------
    declared : str
        The declaration of the entry point.
    lines : list of str
        Instructions. The parts of the arguments are ``%x0``, ``%x1``, ...
    parts : list of str
        The parts of the results.
    """

    declared: str
    lines: list[str]
    parts: list[str]


def body(name: str, types: str) -> Body:
    """Write a call of the entry point for these types."""
    entry = entry_for(name, types)
    assert entry is not None
    asked_inputs, _, asked_outputs = types.partition("->")
    inputs, _, outputs = entry.types.partition("->")
    results = [_struct(char) for char in outputs]
    lines: list[str] = []
    given = [f"%x{number}" for number in range(len(_parts(inputs)))]
    converted = _convert(lines, "fpext", given, _parts(asked_inputs), _parts(inputs))
    arguments = [f"{kind} {value}" for kind, value in zip(_parts(inputs), converted, strict=True)]
    if entry.writes:
        lines += [f"%p{number} = alloca {result}" for number, result in enumerate(results)]
        arguments += [f"ptr %p{number}" for number in range(len(results))]
    if entry.skips:
        arguments.append("i32 0")
    returned, target = ("void", "") if entry.writes else (results[0], "%r0 = ")
    effects = "nounwind willreturn memory(argmem: write)" if entry.writes else PURE
    symbol = f'@"{ENTRY}{name}:{entry.types}"'
    lines.append(f"{target}call {returned} {symbol}({', '.join(arguments)}) {effects}")
    if entry.writes:
        lines += [f"%r{number} = load {result}, ptr %p{number}" for number, result in enumerate(results)]
    parts: list[str] = []
    for number, (char, result) in enumerate(zip(outputs, results, strict=True)):
        if char in "fd":
            parts.append(f"%r{number}")
        else:
            lines += [f"%r{number}.{part} = extractvalue {result} %r{number}, {part}" for part in range(2)]
            parts += [f"%r{number}.{part}" for part in range(2)]
    kinds = ", ".join(argument.partition(" ")[0] for argument in arguments)
    parts = _convert(lines, "fptrunc", parts, _parts(outputs), _parts(asked_outputs))
    return Body(f"declare {returned} {symbol}({kinds})", lines, parts)


def _parts(chars: str) -> list[str]:
    return [part for char in chars for part in slots(char)]


def _struct(char: str) -> str:
    parts = slots(char)
    return parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"


def _convert(lines: list[str], opcode: str, values: list[str], kinds: list[str], wanted: list[str]) -> list[str]:
    """Add the instructions that convert values where that changes their types; gives the values then."""
    converted = []
    for value, kind, to in zip(values, kinds, wanted, strict=True):
        if kind != to:
            lines.append(f"{value}.c = {opcode} {kind} {value} to {to}")
        converted.append(value if kind == to else f"{value}.c")
    return converted


def bind(symbols: Iterable[str]) -> list[str]:
    """Give symbols of entry points their addresses in this process.

    Parameters
    ----------
    symbols : iterable of str
        Those of other things are none of its business. If all are, SciPy is not imported.

    Returns
    -------
    list of str
        The symbols of entry points that SciPy, as it is here, does not have.
    """
    missing = []
    for symbol in symbols:
        if symbol.startswith(ENTRY):
            name, _, types = symbol.removeprefix(ENTRY).partition(":")
            entry = next((entry for entry in entries(name) if entry.types == types), None)
            if entry is None:
                missing.append(symbol)
            else:
                llvm.add_symbol(symbol, entry.address)
    return missing
