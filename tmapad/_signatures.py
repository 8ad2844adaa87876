"""Signatures of scalar C functions: what a function is declared as, and whether there is a loop for it.

Types are compared by what they are, not by how they are spelled: everything below works on the canonical
names that `canonical` gives, such as ``double``, ``float complex``, ``double *``, ``void *``.
"""

import keyword
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmapad._errors import SignatureError
from tmapad._patterns import pattern

MAX_INPUTS = 6
MAX_OUTPUTS = 8  # of a function that writes through pointers; as in _scalar_loops.h

NUMBERS = {"double": "d", "float": "f", "double complex": "D", "float complex": "F"}
POINTERS = {f"{number} *": char for number, char in NUMBERS.items()}
SKIP_DISPATCH = "int __pyx_skip_dispatch"  # Cython's last argument of a cpdef function
TRAILING: dict[tuple[str, ...], str] = {(): "", ("void *",): "void *", (SKIP_DISPATCH,): "int"}

_SPELLINGS = {
    spelling: number
    for number, spellings in {
        "float": "float npy_float npy_float32 __pyx_t_5numpy_float32_t",
        "double": "double npy_double npy_float64 __pyx_t_5numpy_float64_t __pyx_t_5numpy_double_t",
        "float complex": "__pyx_t_float_complex npy_cfloat npy_complex64 _cffi_float_complex_t",
        "double complex": "__pyx_t_double_complex npy_cdouble npy_complex128 _cffi_double_complex_t",
    }.items()
    for spelling in spellings.split()
}
_COMPLEX = {"complex", "_Complex", "__complex__"}
_WORDS = {"float", "double", "long", "int", "void", *_COMPLEX}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict", "__restrict__", "register"}
_PIECE = pattern(r"[A-Za-z_]\w*|\S", re.ASCII)


class Declaration(NamedTuple):
    """A function as its owner declares it: canonical types where they are known, and the text to show."""

    result: str
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that a loop exists for.

    Attributes
    ----------
    char : str
        The one type of all its numbers, as NumPy's character: one of ``f d F D``.
    nin : int
        Numbers that it takes.
    nout : int
        Pointers that it writes its results through, or 0 if it returns its value.
    trailing : str
        What it takes after them: nothing, ``"void *"``, or ``"int"`` for Cython's ``__pyx_skip_dispatch``.
    parameters : tuple of str
        Names of the numbers; empty if they have none.
    text : str
        The signature as it was given.
    """

    char: str
    nin: int
    nout: int
    trailing: str
    parameters: tuple[str, ...]
    text: str


def canonical(declaration: str) -> tuple[str, str]:
    """Split the declaration of a parameter or a result into its canonical type and its name, if it has one.

    A type that is not known comes back as it was written, for the message.
    """
    pieces = _PIECE.findall(declaration)
    stars = pieces.count("*")
    at = pieces.index("*") if stars else len(pieces)
    base, after = pieces[:at], [piece for piece in pieces[at:] if piece != "*" and piece not in _QUALIFIERS]
    words = [piece for piece in base if piece not in _QUALIFIERS]
    if not stars and len(words) > 1 and words[-1].isidentifier() and words[-1] not in _WORDS:
        after = [words.pop()]
    number = _number(words)
    name = after[0] if after else ""
    if len(after) > 1 or stars > 1:
        number = ""
    if stars == 1 and number != "void" and "const" in base:  # results are not written through those
        number = ""
    if number == "int" and name == "__pyx_skip_dispatch" and not stars:
        return SKIP_DISPATCH, name
    if not number:
        return declaration.strip(), name
    return number + " *" * stars, name


def _number(words: list[str]) -> str:
    """Canonical name of a type that is spelled by these words; "" if there is none."""
    if len(words) == 1:
        return _SPELLINGS.get(words[0], words[0] if words[0] in {"void", "int"} else "")
    rest = [word for word in words if word not in _COMPLEX]
    is_complex = len(words) == len(rest) + 1
    if is_complex and rest in (["float"], ["double"]):
        return f"{rest[0]} complex"
    return ""


def parse(text: str) -> Declaration:
    """Read a C signature such as ``double (double, void *)``; its result is "" if the text is none."""
    result, opening, rest = text.partition("(")
    inside, closing, after = rest.rpartition(")")
    if not (opening and closing and result.strip()) or after.strip() or "(" in inside or ")" in inside:
        return Declaration("", (), (), text)
    declared = [canonical(item) for item in inside.split(",")]
    if [kind for kind, _ in declared] in (["void"], [""]):
        declared = []
    return Declaration(
        canonical(result)[0], tuple(kind for kind, _ in declared), tuple(name for _, name in declared), text
    )


def shown(text: str) -> str:
    """Quote a stranger's text for a message: ASCII, and no longer than a reader can use."""
    return ascii(text if len(text) <= 200 else f"{text[:200]}...")


def refuse(who: str, given: str, reason: str, limit: int = MAX_INPUTS) -> SignatureError:
    """Make the error that shows the signature given and those accepted."""
    return SignatureError(
        f"{who} has the signature {given}: {reason}.\n"
        "Accepted are\n"
        f"    T (T, ...)                 with 1 to {limit} arguments, which returns its value, and\n"
        f"    void (T, ..., T *, ...)    with 1 to {min(limit, MAX_INPUTS)} arguments, "
        f"which writes 1 to {MAX_OUTPUTS} results through pointers,\n"
        "where every T is the same one of double, float, double complex and float complex. A last void * "
        "(user data) or, in the name of a capsule, Cython's int __pyx_skip_dispatch may follow."
    )


def accept(declared: Declaration, who: str, limit: int = MAX_INPUTS) -> Signature:
    """Check that there is a loop for a function that is declared so.

    Parameters
    ----------
    declared : Declaration
        What its owner says.
    who : str
        Name of the function, for the message.
    limit : int
        Numbers that it may take: one more where a derivative is given the value too.

    Raises
    ------
    SignatureError
        If there is none.
    """
    numbers, rest = _leading(declared.parameters, NUMBERS)
    pointers, last = _leading(rest, POINTERS)
    writer = declared.result == "void"
    result = () if writer else (declared.result,)
    kinds = dict.fromkeys((*result, *numbers, *(pointer.removesuffix(" *") for pointer in pointers)))
    strangers = [
        kind
        for kind in (*result, *declared.parameters)
        if kind not in NUMBERS and kind not in POINTERS and (kind,) not in TRAILING
    ]
    # The first row that applies is the reason; the later ones rely on what the earlier ones have excluded.
    reasons = (
        (not declared.result, "that is no C signature, and the name of a capsule must be its function's"),
        (any("long double" in kind for kind in strangers), "long double is not supported"),
        (strangers, _stranger(strangers[0]) if strangers else ""),
        (not writer and declared.result not in NUMBERS, f"its result is '{declared.result}'"),
        (last not in TRAILING, f"'{last[0]}' can only be its last argument" if last else ""),
        (not numbers, "it takes no numbers"),
        (len(kinds) > 1, f"its numbers are not of one type: {', '.join(kinds)}"),
        (writer and not pointers, "it neither returns a value nor writes one through a pointer"),
        (not writer and pointers, "it returns a value and takes pointers too"),
        (len(numbers) > (min(limit, MAX_INPUTS) if writer else limit), f"it takes {len(numbers)} numbers"),
        (len(pointers) > MAX_OUTPUTS, f"it writes through {len(pointers)} pointers"),
        (writer and last == (SKIP_DISPATCH,), f"it writes through pointers and takes '{SKIP_DISPATCH}'"),
    )
    for applies, reason in reasons:
        if applies:
            raise refuse(who, shown(declared.text), reason, limit)
    return Signature(
        NUMBERS[numbers[0]],
        len(numbers),
        len(pointers),
        TRAILING[last],
        _distinct(declared.names[: len(numbers)]),
        declared.text,
    )


def _leading(kinds: Sequence[str], among: Container[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split off the longest beginning whose items are all among the given ones."""
    end = next((i for i, kind in enumerate(kinds) if kind not in among), len(kinds))
    return tuple(kinds[:end]), tuple(kinds[end:])


def _stranger(kind: str) -> str:
    hint = ""
    if kind.startswith("__pyx_t_"):
        hint = " (a typedef, and a capsule does not tell of what: declare the function with the type itself)"
    return f"{shown(kind)} is not one of the accepted types{hint}"


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that can be used as keywords, or none."""
    usable = all(name and not keyword.iskeyword(name) for name in names) and len(set(names)) == len(names)
    return names if usable else ()
