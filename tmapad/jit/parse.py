"""Read instructions of LLVM IR from their text.

llvmlite would tell what they are made of, but takes a tenth of a millisecond for each answer. The text is LLVM's own,
written by its printer, and so of one form: an instruction is a line, its operands are separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from tmapad.jit.instructions import Block, Function, Instruction
from tmapad.jit.typenames import closing, member, split

_RESULT = re.compile(r'(%(?:"[^"]*"|[-\w.$]+)) = ')
_METADATA = re.compile(r"(?:,? ![\w.]+(?: !\d+|\(.*?\))?)+$")
_TAIL = re.compile(r"\b(?:must|no)?tail call ")
# What only tells the optimizer about memory.
_IGNORED = re.compile(r"@llvm\.(?:experimental\.noalias|lifetime|assume|dbg|donothing)")
_LABEL = re.compile(r'("[^"]*"|[-\w.$]+):')
_TARGET = re.compile(r'label (%(?:"[^"]*"|[-\w.$]+))')
_CALLEE = re.compile(r' ([@%](?:"[^"]*"|[-\w.$]+)|inttoptr \([^()]*\))\(')
_PLAIN_TYPE = re.compile(r'%?(?:"[^"]*"|[-\w.$]+)')
_TRAILING_TYPE = re.compile(r"[\w.]+$")

_FLAGS = frozenset(
    {"nsw", "nuw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw", "volatile", "inalloca"}
    | {"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"}
)
_BINARY = frozenset(
    {"add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "and", "or", "xor"}
    | {"fadd", "fsub", "fmul", "fdiv", "frem"}
)
_CASTS = frozenset(
    {"trunc", "zext", "sext", "fptrunc", "fpext", "fptosi", "fptoui", "sitofp", "uitofp"}
    | {"ptrtoint", "inttoptr", "bitcast", "addrspacecast"}
)

# What a parser gives: the type of the result, the operands, their types, the function called, the blocks.
_Parsed = tuple[str, list[str], list[str], str, list[str]]


def function(text: str) -> Function:
    """Read the definition of a function, whose values must all have names."""
    header, *lines = text.splitlines()
    start = header.index("@")
    opening = header.index("(", start)
    end = closing(header, opening)
    arguments = [typed(one) for one in split(header[opening + 1 : end])]
    attributes = re.sub(r"#\d+ ?", "", header[end + 1 : header.rindex("{")]).lstrip()  # groups of attributes
    before = header[len("define ") : start].split()
    linkage = "internal" if "internal" in before else ""
    result = header[len("define ") : start].replace("internal ", "").replace("dso_local ", "").strip()
    name = header[start + 1 : opening].strip('"')
    return Function(name, result, arguments, list(_blocks(lines)), attributes, linkage)


def _blocks(lines: Iterable[str]) -> Iterator[Block]:
    block: Block | None = None
    pending = ""
    for line in lines:
        if not line.startswith("  "):
            if label := _LABEL.match(line):
                if block is not None:
                    yield block
                block = Block(f"%{label[1]}", [])
            continue
        pending = f"{pending} {line.strip()}" if pending else line.strip()
        if pending.startswith("switch ") and "]" not in line:
            continue
        assert block is not None
        if not _IGNORED.search(pending):
            block.instructions.append(instruction(_TAIL.sub("call ", _METADATA.sub("", pending))))
        pending = ""
    if block is not None:
        yield block


def instruction(text: str) -> Instruction:
    """Read one instruction, without metadata."""
    found = _RESULT.match(text)
    name, rest = (found[1], text[found.end() :]) if found else ("", text)
    opcode, _, rest = rest.partition(" ")
    type_, operands, types, callee, blocks = _PARSERS.get(opcode, _other)(opcode, _without_flags(rest))
    return Instruction(name, opcode, type_, operands, types, text, callee, blocks)


def _without_flags(text: str) -> str:
    while (word := text.partition(" ")[0]) in _FLAGS:
        text = text[len(word) + 1 :]
    return text


def typed(text: str) -> tuple[str, str]:
    """Split a type and a value, with attributes between them left out."""
    if text[0] in "{[<":
        end = closing(text, 0) + 1
    else:
        found = _PLAIN_TYPE.match(text)
        assert found is not None, text
        end = found.end()
    value = text[end:].strip()
    while " " in value and value[0].isalpha() and not value.startswith(_EXPRESSIONS):
        word = value.partition(" ")[0]
        if "(" in word:  # an attribute with an argument
            value = value[closing(value, value.index("(")) + 1 :].strip()
        elif word in ("align", "dereferenceable"):
            value = value.split(" ", 2)[2]
        else:
            value = value[len(word) + 1 :]
    return text[:end], value


_EXPRESSIONS = ("getelementptr", "inttoptr", "ptrtoint", "bitcast", "add", "sub", "trunc", "splat")


def _values(items: Iterable[str]) -> tuple[list[str], list[str]]:
    """The operands that are written with their types, and these."""
    pairs = [typed(item) for item in items]
    return [value for _, value in pairs], [type_ for type_, _ in pairs]


def _binary(_: str, rest: str) -> _Parsed:
    first, second = split(rest)
    type_, value = typed(first)
    return type_, [value, second], [type_, type_], "", []


def _compare(opcode: str, rest: str) -> _Parsed:
    _, _, rest = rest.partition(" ")
    type_, operands, types, *_ = _binary(opcode, rest)
    return _like(type_, "i1"), operands, types, "", []


def _like(type_: str, element: str) -> str:
    """The type of a result for each element of an operand: vectors are of another type than numbers."""
    return f"{type_[: type_.index('x') + 2]}{element}>" if type_[0] == "<" else element


def _select(_: str, rest: str) -> _Parsed:
    operands, types = _values(split(rest))
    return types[1], operands, types, "", []


def _phi(_: str, rest: str) -> _Parsed:
    first, *others = split(rest)
    at = first.rindex(" [ ") if first[0] in "{[<" else first.index(" [ ")
    type_ = first[:at]
    pairs = [split(item.strip()[1:-1]) for item in (first[at + 1 :], *others)]
    return type_, [value for value, _ in pairs], [type_] * len(pairs), "", [block for _, block in pairs]


def _branch(_: str, rest: str) -> _Parsed:
    blocks = _TARGET.findall(rest)
    operands, types = _values([split(rest)[0]]) if len(blocks) > 1 else ([], [])
    return "void", operands, types, "", blocks


def _return(_: str, rest: str) -> _Parsed:
    operands, types = ([], []) if rest == "void" else _values([rest])
    return "void", operands, types, "", []


def _call(_: str, rest: str) -> _Parsed:
    found = _CALLEE.search(rest)
    if found is None:
        raise ValueError(f"a call of what is not a function: {rest!r:.80}")
    opening = found.end() - 1
    operands, types = _values(
        item for item in split(rest[opening + 1 : closing(rest, opening)]) if not item.startswith("metadata")
    )
    callee = found[1][1:].strip('"') if found[1][0] == "@" else ""
    return _result_of_call(rest[: found.start()]), operands, types, callee, []


def _result_of_call(text: str) -> str:
    """The type at the end of what is before the function: calling conventions and attributes come first."""
    text = text.strip()
    if text[-1] not in "}]>":
        found = _TRAILING_TYPE.search(text)
        return found[0] if found else text
    brackets = (start for start, one in enumerate(text) if one in "{[<")
    return next(text[start:] for start in brackets if closing(text, start) == len(text) - 1)


def _load(_: str, rest: str) -> _Parsed:
    type_, pointer = split(rest)[:2]
    operands, types = _values([pointer])
    return type_, operands, types, "", []


def _store(_: str, rest: str) -> _Parsed:
    operands, types = _values(split(rest)[:2])
    return "void", operands, types, "", []


def _address(_: str, rest: str) -> _Parsed:
    operands, types = _values(split(rest)[1:])
    return "ptr", operands, types, "", []


def _cast(_: str, rest: str) -> _Parsed:
    operand, _, result = rest.rpartition(" to ")
    operands, types = _values([operand])
    return result, operands, types, "", []


def _extract(_: str, rest: str) -> _Parsed:
    aggregate, *indices = split(rest)
    type_, value = typed(aggregate)
    return member(type_, tuple(map(int, indices))), [value], [type_], "", []


def _insert(_: str, rest: str) -> _Parsed:
    operands, types = _values(split(rest)[:2])
    return types[0], operands, types, "", []


def _allocate(_: str, rest: str) -> _Parsed:  # noqa: ARG001 - how much, is in the text
    return "ptr", [], [], "", []


def _one(_: str, rest: str) -> _Parsed:
    operands, types = _values([rest])
    return types[0], operands, types, "", []


def _other(_: str, rest: str) -> _Parsed:
    """Of what is not known here: which values it uses."""
    names = re.findall(r'%(?:"[^"]*"|[-\w.$]+)', rest)
    return "unknown", names, ["unknown"] * len(names), "", _TARGET.findall(rest)


_PARSERS: dict[str, Callable[[str, str], _Parsed]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_CASTS, _cast),
    "alloca": _allocate,
    "br": _branch,
    "call": _call,
    "extractvalue": _extract,
    "fcmp": _compare,
    "fneg": _one,
    "freeze": _one,
    "getelementptr": _address,
    "icmp": _compare,
    "insertvalue": _insert,
    "load": _load,
    "phi": _phi,
    "ret": _return,
    "select": _select,
    "store": _store,
    "switch": lambda _, rest: ("void", *_values([split(rest)[0]]), "", _TARGET.findall(rest)),
    "unreachable": lambda _, rest: ("void", [], [], "", []),
}
