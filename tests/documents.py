"""Fenced blocks of the documents: what a reader would copy."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = re.compile(r"^\s*print\(.*\)\s+# (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: where it is, its language, its text."""

    place: str
    line: int
    language: str
    text: str

    @property
    def printed(self) -> list[str]:
        """What its calls of print are said to print: the comments beside them."""
        return [comment.strip() for comment in _PRINTED.findall(self.text)]


def blocks_of(text: str, place: str) -> Iterator[Block]:
    """Yield the blocks of a document."""
    for match in _FENCE.finditer(text):
        yield Block(place, text.count("\n", 0, match.start()) + 2, match[1], match[2])


BLOCKS = [block for path in DOCUMENTS for block in blocks_of(path.read_text(), path.relative_to(ROOT).as_posix())]
