"""Elementary functions in LLVM IR: calls of opaque functions, and the definitions of these.

A derivative is taken of a function as a whole, by its row in the table of derivatives, and not of the arithmetic that
Numba makes of it. So until then it is a call of a function that is not inlined. Its symbol says which it is:
``tmapad.arctan2:dd->d`` is the name of a row and the types, as NumPy writes them. Where two functions share a row but
not their last bits, what follows a dot is the name: ``tmapad.numpy.sinh:D->D``.

Arguments are numbers in the types that `slots` gives, real and imaginary parts apart. One real result is returned as
itself, everything else as a structure of all parts.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tmapad import _derivative_math, _derivative_special  # noqa: F401  their rows are known then
from tmapad._derivatives import names
from tmapad.jit import registered, special
from tmapad.jit.canonical import to_registers
from tmapad.jit.composite import FALLBACKS, calling, in_single, is_compiled
from tmapad.jit.scalar import OPAQUE, PURE, REGISTERED, SCALAR, always_inline, slots

# Functions of libm, Numba's helpers in C and LLVM's intrinsics, as Numba calls them, by what they are. Of several the
# first is called.
_NATIVE = {
    "sin:d->d": "llvm.sin.f64",
    "cos:d->d": "llvm.cos.f64",
    "tan:d->d": "tan",
    "arcsin:d->d": "asin",
    "arccos:d->d": "acos",
    "arctan:d->d": "atan",
    "sinh:d->d": "sinh",
    "cosh:d->d": "cosh",
    "tanh:d->d": "tanh",
    "arcsinh:d->d": "asinh",
    "arccosh:d->d": "acosh",
    "arctanh:d->d": "atanh",
    "exp:d->d": "llvm.exp.f64",
    "exp2:d->d": "llvm.exp2.f64",
    "expm1:d->d": "expm1",
    "log:d->d": "llvm.log.f64",
    "log2:d->d": "llvm.log2.f64 log2",
    "log10:d->d": "llvm.log10.f64",
    "log1p:d->d": "log1p",
    "sqrt:d->d": "sqrt",
    "libm.cbrt:d->d": "cbrt",
    "erf:d->d": "erf",
    "erfc:d->d": "erfc",
    "gamma:d->d": "numba_gamma",
    "gammaln:d->d": "lgamma",
    "power:dd->d": "llvm.pow.f64",
    "arctan2:dd->d": "atan2",
    "hypot:dd->d": "hypot _hypot",
    "nextafter:dd->d": "nextafter numba_nextafter",
    "math_fma:ddd->d": "llvm.fma.f64",
}
# What has an intrinsic function in LLVM, but is called by another name.
_INTRINSIC = {"floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc"}


def _single_native(raws: str) -> str:
    return " ".join(raw.replace(".f64", ".f32") if "." in raw else f"{raw}f" for raw in raws.split())


_NATIVE |= {in_single(name): _single_native(raws) for name, raws in _NATIVE.items()}
_NATIVE = {OPAQUE + name: raws for name, raws in _NATIVE.items()}
_OF_NATIVE = {raw: f'"{symbol}"' for symbol, raws in _NATIVE.items() for raw in raws.split()}
_OF_NATIVE |= {raw: f"{intrinsic}.f64" for raw, intrinsic in _INTRINSIC.items()}
_OF_NATIVE |= {f"{raw}f": f"{intrinsic}.f32" for raw, intrinsic in _INTRINSIC.items()}
# A call without fast-math flags, which would have to stay with it.
_NATIVE_CALL = re.compile(rf"(= (?:tail )?call (?:double|float) @)({'|'.join(map(re.escape, _OF_NATIVE))})(?=\()")


def opaque(text: str) -> str:
    """Replace the calls of native functions in a module by calls of opaque functions, and declare these."""
    found: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        name = found[match[2]] = _OF_NATIVE[match[2]]
        return match[1] + name

    text = _NATIVE_CALL.sub(renamed, text)
    present = set(_DECLARED.findall(text))
    return "\n".join([text, *(_declaration(name) for name in dict.fromkeys(found.values()) if name not in present)])


_DECLARED = re.compile(r'^(?:declare|define) .*?@("[^"]*"|[-\w.$]+)\(', re.MULTILINE)


def _declaration(name: str) -> str:
    if name.startswith('"'):
        return declaration(name.strip('"'))
    real = "float" if name.endswith("f32") else "double"
    return f"declare {real} @{name}({real})"


def declaration(symbol: str) -> str:
    """Give the line that declares an opaque function."""
    inputs, output = _parts(symbol)
    return f'declare {output} @"{symbol}"({", ".join(inputs)}) {PURE}'


def define(module: Any) -> None:
    """Link the definitions of the opaque functions that a module declares; those that have none stay as they are."""
    _set_linkage(module, "linkonce_odr")
    while defined := [one.name for one in module.functions if one.is_declaration and is_defined(one.name)]:
        for symbol in defined:
            if symbol.startswith(REGISTERED):
                linked = registered.definition(symbol)
            else:
                linked = llvm.parse_assembly(definition(symbol))
            _set_linkage(linked, "linkonce_odr")
            module.link_in(linked)
    _set_linkage(module, "internal")


def _set_linkage(module: Any, linkage: str) -> None:
    """Say of opaque functions whose they are: what is internal to a module is not what another one declares."""
    for function in module.functions:
        if function.name.startswith(OPAQUE) and not function.is_declaration:
            function.linkage = linkage


def is_defined(symbol: str) -> bool:
    """Whether there is a definition of an opaque function."""
    if symbol.startswith(REGISTERED):
        return registered.is_defined(symbol)
    return symbol in _NATIVE or is_compiled(_name(symbol)) or bool(_special(symbol)) or _name(symbol) in FALLBACKS


def _special(symbol: str) -> tuple[str, str] | None:
    """Name and types of SciPy's special function that a symbol is of, if it is of one."""
    name, _, types = symbol.removeprefix(OPAQUE).partition(":")
    plain = name.removeprefix(special.SCIPY)
    if not symbol.startswith(OPAQUE) or (plain == name and name not in names()):
        return None
    return (plain, types) if special.entry_for(plain, types) else None


@cache
def definition(symbol: str) -> str:
    """Give a module that defines an opaque function: as internal, and not to be inlined.

    Raises
    ------
    KeyError
        There is no such function.
    """
    if (raws := _NATIVE.get(symbol)) is not None:
        return _around_native(symbol, raws.split()[0])
    if is_compiled(_name(symbol)):
        return _around_compiled(symbol)
    if (found := _special(symbol)) is not None:
        declared, lines, parts = special.body(*found)
        return f"{declared}\n{_function(symbol, lines, parts)}"
    if _name(symbol) in FALLBACKS:
        return _around_compiled(symbol)
    raise KeyError(symbol)


def _around_native(symbol: str, native: str) -> str:
    inputs, output = _parts(symbol)
    arguments = ", ".join(f"{kind} %x{number}" for number, kind in enumerate(inputs))
    call = f"%y = call {output} @{native}({arguments}) {PURE}"
    return f"declare {output} @{native}({', '.join(inputs)}) {PURE}\n{_function(symbol, [call], ['%y'])}"


def _around_compiled(symbol: str) -> str:
    """Define what Numba makes of a Python function."""
    from tmapad.jit.frontend import scalar_ir  # which imports Numba

    chars, outputs = types_of(symbol)
    out_char = outputs if len(outputs) == 1 else None
    scalar = scalar_ir(calling(_name(symbol)), chars, out_char=out_char, opaque=False)
    arguments = ", ".join(f"{kind} %x{number}" for number, kind in enumerate(_parts(symbol)[0]))
    wanted, kinds = ([part for char in chars for part in slots(char)] for chars in (outputs, scalar.out_chars))
    returned = f"{{ {', '.join(['i32', *kinds])} }}"
    lines = [f"%r = call {returned} @{SCALAR}({arguments})"]
    results = []
    for number, (kind, part) in enumerate(zip(kinds, wanted, strict=True)):
        lines.append(f"%y{number} = extractvalue {returned} %r, {number + 1}")
        results.append(f"%y{number}")
        if kind != part:  # of several results in single precision Numba gives some in double
            lines.append(f"%z{number} = fptrunc {kind} %y{number} to {part}")
            results[-1] = f"%z{number}"
    function = _function(symbol, lines, results, linkage="")
    module = llvm.parse_assembly(f"{always_inline(scalar.llvm, [SCALAR])}\n{function}")
    module.get_function(SCALAR).linkage = "internal"
    to_registers(module)
    return str(module).replace(f"define {_head(symbol)}", f"define internal {_head(symbol)}", 1)


def _function(symbol: str, lines: Sequence[str], parts: Sequence[str], linkage: str = "internal ") -> str:
    """Write a function that runs these instructions and returns these parts."""
    inputs, output = _parts(symbol)
    arguments = ", ".join(f"{kind} %x{number}" for number, kind in enumerate(inputs))
    lines = [*lines]
    result = parts[0]
    if len(parts) > 1:
        result = "poison"
        kinds = output.strip("{ }").split(", ")
        for number, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
            lines.append(f"%s{number} = insertvalue {output} {result}, {kind} {part}, {number}")
            result = f"%s{number}"
    text = "".join(f"  {line}\n" for line in [*lines, f"ret {output} {result}"])
    return f"define {linkage}{_head(symbol)}{arguments}) noinline {PURE} {{\n{text}}}\n"


def _name(symbol: str) -> str:
    return symbol.removeprefix(OPAQUE)


def types_of(symbol: str) -> tuple[str, str]:
    """Give the characters of the arguments and of the results."""
    inputs, _, outputs = symbol.rpartition(":")[2].partition("->")
    return inputs, outputs


def _parts(symbol: str) -> tuple[list[str], str]:
    """Types of the arguments, and of the result, in LLVM."""
    inputs, outputs = types_of(symbol)
    results = [part for char in outputs for part in slots(char)]
    return (
        [part for char in inputs for part in slots(char)],
        results[0] if len(results) == 1 else "{ " + ", ".join(results) + " }",
    )


def _head(symbol: str) -> str:
    return f'{_parts(symbol)[1]} @"{symbol}"('
