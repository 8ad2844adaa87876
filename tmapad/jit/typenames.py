"""Types of LLVM, as they are written."""

from __future__ import annotations

import re

_ELEMENT = re.compile(r"\[(\d+) x (.*)\]$", re.DOTALL)
_OPENING, _CLOSING = "{[(<", "}])>"


def is_aggregate(type_: str) -> bool:
    """Whether a type is a struct or an array."""
    return type_[0] in "{["


def member(type_: str, path: tuple[int, ...]) -> str:
    """The type of a part of an aggregate."""
    for index in path:
        type_ = members(type_)[index]
    return type_


def members(type_: str) -> list[str]:
    """The types of an aggregate's parts."""
    if found := _ELEMENT.match(type_):
        return [found[2]] * int(found[1])
    return inside(type_)


def inside(text: str) -> list[str]:
    """What is between the brackets that a text begins with, at the commas there."""
    return split(text[1 : closing(text, 0)])


def split(text: str) -> list[str]:
    """Split at the commas that are not within brackets or quotes."""
    if "," not in text:
        return [text.strip()] if text.strip() else []
    parts, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts


def closing(text: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    depth, quoted = 0, False
    for position in range(start, len(text)):
        character = text[position]
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in _OPENING) - (character in _CLOSING)
            if depth == 0:
                return position
    raise ValueError(f"a bracket is not closed in {text!r:.80}")
