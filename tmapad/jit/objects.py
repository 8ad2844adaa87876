"""Which symbols an object file needs from elsewhere.

LLVM's loader ends the process when a symbol is missing, or binds it to address 0. llvmlite does not list
symbols, so they are read here: from ELF, which LLVM's loader takes on Linux and Windows, and from Mach-O.
"""

import struct
from collections.abc import Iterator

_ELF_SYMBOL_TABLE = 2
_MACH_O_SYMBOL_TABLE = 2
_MACH_O_KIND = 0x0E  # bits of a symbol's type; all 0: undefined
_MACH_O_DEBUG = 0xE0


def undefined_symbols(code: bytes) -> list[str]:
    """Names of the symbols that object file `code`, 64-bit and little-endian, does not define.

    Raises
    ------
    ValueError
        It is of another format.
    """
    for magic, read in _FORMATS.items():
        if code.startswith(magic):
            return sorted(set(read(code)))
    raise ValueError(f"object code starts with {code[:8]!r}: neither 64-bit little-endian ELF nor Mach-O")


def _elf(code: bytes) -> Iterator[str]:
    # Elf64_Ehdr: e_shoff at 0x28, e_shentsize and e_shnum at 0x3a. Elf64_Shdr: type at 4; offset, size, link
    # from 0x18. Elf64_Sym: name, info, other, section.
    (headers,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [struct.unpack_from("<4xI16xQQI", code, headers + entry_size * number) for number in range(count)]
    for kind, offset, size, link in sections:
        if kind == _ELF_SYMBOL_TABLE:
            strings = sections[link][1]
            for position in range(offset + 24, offset + size, 24):  # the first entry is empty
                name, section = struct.unpack_from("<I2xH", code, position)
                if section == 0:
                    yield _string(code, strings + name)


def _mach_o(code: bytes) -> Iterator[str]:
    # mach_header_64: ncmds at 16, the commands from 32. symtab_command: symoff, nsyms, stroff from 8.
    # nlist_64: strx, type, sect, desc, value.
    (count,) = struct.unpack_from("<I", code, 16)
    command = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", code, command)
        if kind == _MACH_O_SYMBOL_TABLE:
            symbols, number, strings = struct.unpack_from("<III", code, command + 8)
            for position in range(symbols, symbols + 16 * number, 16):
                name, symbol_type, value = struct.unpack_from("<IB3xQ", code, position)
                # A symbol with a value that is not defined is a common one: it asks for memory only.
                if not symbol_type & (_MACH_O_KIND | _MACH_O_DEBUG) and value == 0:
                    yield _string(code, strings + name).removeprefix("_")
        command += size


def _string(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


_FORMATS = {b"\x7fELF\x02\x01": _elf, b"\xcf\xfa\xed\xfe": _mach_o}
