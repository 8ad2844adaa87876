"""Take structs and arrays apart that are values, not memory: their parts become values of their own.

Numba passes tuples, complex numbers and arrays about as structs. What remains after their parts were followed
from where they are put in to where they are taken out is scalar, as far as the function computes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from tmapad.jit.instructions import Block, Function, Instruction
from tmapad.jit.typenames import inside, is_aggregate, member, members

Path = tuple[int, ...]
_MAKE_AGGREGATES = frozenset({"insertvalue", "phi", "select"})
_ALIGNMENT = re.compile(r", align (\d+)")
_ORDERED = re.compile(r"^(%\S+ = )?(load|store) (volatile|atomic) ")  # must stay one access
_PLACE = "%.place."  # how the names of the addresses of parts begin
_ZEROS = {"double": "0.0", "float": "0.0", "ptr": "null"}


def take_apart(function: Function) -> None:
    """Replace every part taken out of an aggregate by what was put in, also through phis, selects and memory."""
    parts = _Parts(function)
    parts.split_memory()
    parts.replace()


class _Parts:
    def __init__(self, function: Function) -> None:
        self._function = function
        self._definitions = function.definitions()
        self._blocks: dict[str, Block] = {
            one.name: block for block in function.blocks for one in block.instructions if one.name
        }
        self._known: dict[tuple[str, Path], str] = {}
        self._count = 0

    def split_memory(self) -> None:
        """Load and store the parts of aggregates, each by itself."""
        for block in self._function.blocks:
            for one in list(block.instructions):
                if one.opcode not in ("load", "store") or _ORDERED.search(one.text):
                    continue
                type_ = one.type if one.opcode == "load" else one.types[0]
                pointer = one.operands[-1]
                if not is_aggregate(type_):
                    continue
                split: list[Instruction] = []
                for path in leaves(type_):
                    split += self._split(one, type_, pointer, path)
                at = block.instructions.index(one)
                # An aggregate that was loaded may be needed as a whole.
                block.instructions[at : at + 1] = [*split, *([one] if one.opcode == "load" else [])]

    def _split(self, one: Instruction, type_: str, pointer: str, path: Path) -> list[Instruction]:
        """Load or store one part."""
        part = member(type_, path)
        suffix = ".".join(map(str, path))
        self._count += 1
        place = f"{_PLACE}{self._count}.{suffix}"
        while place in self._definitions:
            self._count += 1
            place = f"{_PLACE}{self._count}.{suffix}"
        indices = ", ".join(f"i32 {index}" for index in (0, *path))
        address = f"{place} = getelementptr {type_}, ptr {pointer}, {indices}"
        found = _ALIGNMENT.search(one.text)
        aligned = ", align 1" if found and int(found[1]) < 8 else ""
        if one.opcode == "load":
            name = _suffixed(one.name, suffix)
            self._known[one.name, path] = name
            access = Instruction(name, "load", part, [place], ["ptr"], f"{name} = load {part}, ptr {place}{aligned}")
        else:
            value = self._part(one.operands[0], type_, path) or self._taken_out(one.operands[0], type_, path)
            text = f"store {part} {value}, ptr {place}{aligned}"
            access = Instruction("", "store", "void", [value, place], [part, "ptr"], text)
        return [Instruction(place, "getelementptr", "ptr", [pointer], ["ptr"], address), access]

    def replace(self) -> None:
        values = {}
        for one in list(self._function.instructions()):
            if one.opcode == "extractvalue":
                part = self._part(one.operands[0], one.types[0], one.indices)
                if part is not None:
                    values[one.name] = part
        for name, value in values.items():  # what one was replaced by may have been replaced as well
            last = value
            while last in values:
                last = values[last]
            values[name] = last
        self._function.replace(values)
        _remove(self._function, values)
        while unused := _unused_aggregates(self._function):
            _remove(self._function, unused)

    def _part(self, operand: str, type_: str, path: Path) -> str | None:
        """The value at a path in an aggregate; None if it is not known."""
        if not path:
            return operand
        if (operand, path) in self._known:
            return self._known[operand, path]
        source = self._definitions.get(operand)
        if source is None:
            return constant_part(operand, type_, path)
        if source.opcode == "insertvalue":
            at = source.indices
            if path[: len(at)] == at:
                return self._part(source.operands[1], source.types[1], path[len(at) :])
            if at[: len(path)] == path:
                return None  # a part that is put together from several
            return self._part(source.operands[0], type_, path)
        if source.opcode == "extractvalue":
            return self._part(source.operands[0], source.types[0], source.indices + path)
        if source.opcode in ("phi", "select"):
            return self._joined(source, path)
        return None

    def _joined(self, source: Instruction, path: Path) -> str | None:
        """A phi or select of parts in place of one of aggregates."""
        type_ = member(source.type, path)
        if is_aggregate(type_):
            return None
        name = _suffixed(source.name, ".".join(map(str, path)))
        self._known[source.name, path] = name  # a loop may come back to it
        values = [source.operands[0]] if source.opcode == "select" else []
        types = [source.types[0]] if source.opcode == "select" else []
        for operand, operand_type in list(zip(source.operands, source.types, strict=True))[len(values) :]:
            part = self._part(operand, operand_type, path)
            if part is None:
                part = self._taken_out(operand, operand_type, path)
            values.append(part)
            types.append(type_)
        if source.opcode == "select":
            text = f"{name} = select i1 {values[0]}, {type_} {values[1]}, {type_} {values[2]}"
        else:
            incoming = ", ".join(f"[ {value}, {block} ]" for value, block in zip(values, source.blocks, strict=True))
            text = f"{name} = phi {type_} {incoming}"
        block = self._blocks[source.name]
        block.instructions.insert(
            block.instructions.index(source),
            Instruction(name, source.opcode, type_, values, types, text, blocks=list(source.blocks)),
        )
        return name

    def _taken_out(self, operand: str, type_: str, path: Path) -> str:
        """Take a part out where the aggregate is made."""
        source = self._definitions[operand]
        name = _suffixed(operand, ".".join(map(str, path)))
        self._known[operand, path] = name
        indices = ", ".join(map(str, path))
        block = self._blocks[operand]
        block.instructions.insert(
            block.instructions.index(source) + 1,
            Instruction(
                name,
                "extractvalue",
                member(type_, path),
                [operand],
                [type_],
                f"{name} = extractvalue {type_} {operand}, {indices}",
            ),
        )
        return name


def leaves(type_: str, path: Path = ()) -> Iterator[Path]:
    """The paths to all parts of an aggregate that are none themselves."""
    if not is_aggregate(type_):
        yield path
        return
    for number, part in enumerate(members(type_)):
        yield from leaves(part, (*path, number))


def _suffixed(name: str, suffix: str) -> str:
    # Numba's own names end in numbers, but do not contain this.
    return f'{name[:-1]}.part.{suffix}"' if name.endswith('"') else f"{name}.part.{suffix}"


def _remove(function: Function, names: Container[str]) -> None:
    for block in function.blocks:
        block.instructions = [one for one in block.instructions if not one.name or one.name not in names]


def _unused_aggregates(function: Function) -> set[str]:
    """Names of aggregates that nothing is made of: they would keep in memory whatever they point to."""
    used = {operand for one in function.instructions() for operand in one.operands if operand != one.name}
    return {
        one.name
        for one in function.instructions()
        if one.name and one.name not in used and one.opcode in _MAKE_AGGREGATES and is_aggregate(one.type)
    }


def constant_part(operand: str, type_: str, path: Path) -> str | None:
    """A part of a constant aggregate of this type."""
    for index in path:
        part = members(type_)[index]
        if operand[0] in "{[":
            operand = inside(operand)[index].removeprefix(part).strip()
        elif operand == "zeroinitializer" and not is_aggregate(part):
            operand = _ZEROS.get(part, "0")
        elif operand not in ("undef", "poison", "zeroinitializer"):
            return None
        type_ = part
    return operand
