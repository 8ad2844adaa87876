"""Fail unless a wheel holds what users need and nothing else: ``python check_wheel.py WHEEL``."""

import re
import sys
import zipfile
from pathlib import PurePosixPath

# What a `cimport tmapad`, a type checker and the import itself need.
NEEDED = {
    "tmapad/__init__.pxd",
    "tmapad/__init__.py",
    "tmapad/__main__.py",
    "tmapad/_abi.h",
    "tmapad/_core.pyi",
    "tmapad/jit/__init__.py",
    "tmapad/py.typed",
}
COMPILED = ("tmapad/_core.", "tmapad/_tmap.")
OURS = re.compile(r"tmapad/|tmapad-[^/]*\.dist-info/")
# Sources that nobody can use once they are compiled, and what lies about in a checkout.
UNWANTED_SUFFIXES = {".c", ".cpp", ".o", ".pxi", ".pyc", ".pyx"}


def faults(files: dict[str, str]) -> list[str]:
    """Return what is wrong with a wheel that holds these files, the text of its .pxd beside their names."""
    compiled = [name for name in files if name.endswith((".so", ".pyd"))]
    named = {
        (pxd, f"tmapad/{header}")
        for pxd, text in files.items()
        for header in re.findall(r'^ *cdef extern from "([^"/]+)"', text, flags=re.MULTILINE)
    }
    return [
        *(f"lacks {name}" for name in sorted(NEEDED - files.keys())),
        *(f"lacks {start}*" for start in COMPILED if not any(name.startswith(start) for name in compiled)),
        *(f"lacks {header}, which {pxd} names" for pxd, header in sorted(named) if header not in files),
        *([] if any(re.search(r"\.dist-info/.*LICENSE$", name) for name in files) else ["lacks the license"]),
        *(f"holds {name}" for name in sorted(files) if PurePosixPath(name).suffix in UNWANTED_SUFFIXES),
        *(f"holds {name}" for name in sorted(files) if not OURS.match(name)),
    ]


def main(wheel: str) -> int:
    """Print what is wrong with `wheel`, and return the exit status."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name).decode() if name.endswith(".pxd") else "" for name in archive.namelist()}
    found = faults(files)
    for fault in found:
        print(f"{wheel} {fault}")
    print(f"{wheel}: {len(files)} files, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
