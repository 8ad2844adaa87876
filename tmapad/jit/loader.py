"""Object code in memory without LLVM: to import llvmlite takes longer than all else that cached code needs.

What LLVM writes for x86-64 on Linux is simple, since the code may lie anywhere: an ELF file whose sections need
addresses of 64 bits, and nothing else. Those are taken; whatever is not exactly so is left to `engine`.
"""

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

# As the ELF specification and the supplement for x86-64 have it.
_MAGIC = b"\x7fELF\x02\x01\x01"  # 64-bit, little-endian
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _RELOCATIONS = 1, 2, 4
_IGNORED = frozenset({0, 3, 7})  # nothing, strings, notes
_UNWIND = 0x70000001
_WRITABLE, _IN_MEMORY, _THREAD_LOCAL = 1 << 0, 1 << 1, 1 << 10
_UNDEFINED, _LAST_SECTION = 0, 0xFF00
_ABSOLUTE, _RELATIVE = 1, 24  # relocations: S + A, and S + A - P, in 64 bits

_LINUX = sys.platform == "linux" and sys.maxsize > 2**32


class _Section(NamedTuple):
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class Image:
    """Object code in executable memory, which is freed with the object.

    Parameters
    ----------
    memory : mmap.mmap
        That may be executed.
    symbols : dict
        Addresses of what is defined, by name.
    frames : int
        Where it says how the stack is unwound in this code; 0 if it does not.
    unwinder : ctypes.CDLL
        The library to be told that.
    """

    def __init__(self, memory: mmap.mmap, symbols: dict[str, int], frames: int, unwinder: Any) -> None:
        self._memory, self._symbols = memory, symbols
        # Held here: when the interpreter ends, modules may be gone before this is.
        self._frames, self._forget = ctypes.c_void_p(frames), unwinder["__deregister_frame"]
        if frames:
            unwinder["__register_frame"](self._frames)

    def __del__(self) -> None:
        if self._frames.value:
            self._forget(self._frames)

    def address(self, symbol: str) -> int:
        """Give the address of a function in the code."""
        return self._symbols[symbol]


def load(code: bytes) -> Image | None:
    """Give object code in memory; None if it is not as simple as that, or needs what the process does not have."""
    if not _LINUX or not code.startswith(_MAGIC) or struct.unpack_from("<HH", code, 16) != (_RELOCATABLE, _X86_64):
        return None
    sections = list(_sections(code))
    layout = _layout(sections)
    libraries = _process()
    if layout is None or libraries is None:
        return None
    places, size = layout
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, place in places.items():
        section = sections[number]
        memory[place : place + section.size] = code[section.offset : section.offset + section.size]
    symbols = _symbols(code, sections, {number: base + place for number, place in places.items()})
    if symbols is None or not _relocate(code, sections, places, base, memory, symbols):
        return None
    if libraries[0].mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    frames = [base + place for number, place in places.items() if sections[number].kind == _UNWIND]
    defined = {name: address for name, address, number in symbols if number != _UNDEFINED}
    return Image(memory, defined, frames[0] if frames else 0, libraries[1])


@cache
def _process() -> tuple[Any, Any] | None:
    """What is linked with this process, and the library that unwinds stacks; None if there is no such library."""
    try:
        return ctypes.CDLL(None), ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        return None


def _sections(code: bytes) -> Iterator[_Section]:
    # Elf64_Ehdr: e_shoff at 0x28, e_shentsize and e_shnum at 0x3a. Elf64_Shdr: name, type, flags, address, offset,
    # size, link, info, alignment.
    (headers,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    for number in range(count):
        yield _Section(*struct.unpack_from("<4xIQ8xQQIIQ", code, headers + entry_size * number))


def _layout(sections: list[_Section]) -> tuple[dict[int, int], int] | None:
    """Where each section goes, by its number, and how much memory they take; None if one is of another kind."""
    places: dict[int, int] = {}
    end = 0
    # How stacks are unwound comes last: a zero ends it, as what was never written to is.
    for number, section in sorted(enumerate(sections), key=lambda one: one[1].kind == _UNWIND):
        if section.flags & _IN_MEMORY:
            if section.kind not in (_PROGRAM, _UNWIND) or section.flags & (_WRITABLE | _THREAD_LOCAL):
                return None
            start = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
            places[number], end = start, start + section.size
        elif section.kind not in (_SYMBOLS, _RELOCATIONS, _PROGRAM) and section.kind not in _IGNORED:
            return None
    return places, end + 8


def _symbols(code: bytes, sections: list[_Section], bases: dict[int, int]) -> list[tuple[str, int, int]] | None:
    """Name and address of each symbol, and the section it is in; None if the process does not have one."""
    # Elf64_Sym: name, info, other, section, value, size.
    found = []
    for section in sections:
        if section.kind != _SYMBOLS:
            continue
        names = sections[section.link].offset
        for start in range(section.offset, section.offset + section.size, 24):
            name, number, value = struct.unpack_from("<IxxHQ", code, start)
            text = code[names + name : code.index(b"\0", names + name)].decode()
            address: int | None = 0
            if number == _UNDEFINED:
                address = _address_of(text) if text else 0
            elif number < _LAST_SECTION:
                address = bases.get(number, 0) + value
            if address is None:
                return None
            found.append((text, address, number))
    return found


def _address_of(symbol: str) -> int | None:
    """The address of a C function that the process has."""
    libraries = _process()
    assert libraries is not None
    try:
        return ctypes.cast(libraries[0][symbol], ctypes.c_void_p).value
    except AttributeError:
        return None


def _relocate(
    code: bytes,
    sections: list[_Section],
    places: dict[int, int],
    base: int,
    memory: mmap.mmap,
    symbols: list[tuple[str, int, int]],
) -> bool:
    """Write addresses where they are needed; whether all is of the kinds that are known here."""
    for section in sections:
        if section.kind != _RELOCATIONS or section.info not in places:
            continue
        # Elf64_Rela: offset, type and symbol, addend.
        for start in range(section.offset, section.offset + section.size, 24):
            offset, kind, symbol, addend = struct.unpack_from("<QIIq", code, start)
            place = places[section.info] + offset
            _, address, number = symbols[symbol]
            if kind not in (_ABSOLUTE, _RELATIVE) or (number != _UNDEFINED and number not in places):
                return False
            target = address + addend - (base + place if kind == _RELATIVE else 0)
            struct.pack_into("<Q", memory, place, target % 2**64)
    return True
