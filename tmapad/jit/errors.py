"""From Numba's page about what it cannot compile to one sentence."""

import linecache
import re
from types import FunctionType
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OBJECTS = re.compile(r"Function\(<(?:built-in )?function (\w+)[^>]*>\)|<(?:built-in )?function (\w+)[^>]*>")
_LOCATION = re.compile(r'^File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_NO_REASON = re.compile(r"^(Failed in |During: |File |- |Overload of function |There are \d+ candidate)")
_INTERNALS = re.compile(r"( for '\$[^']*')?, defined at .*")
_LONGEST = 240


def compile_error(function: FunctionType, error: Exception) -> TypeError:
    """One short error for anything that went wrong while Numba compiled `function`.

    It names the function, quotes the line of it that Numba stopped at, and gives Numba's first reason. The
    caller raises it from `error`, which has the rest.
    """
    page = _COLOURS.sub("", str(error))
    where = source_line(function.__code__.co_filename, _line_number(function, error, page))
    return TypeError(f"cannot compile {function.__name__}: {_reason(page) or type(error).__name__}{where}")


def source_line(filename: str, number: int | None) -> str:
    """Line `number` of a file, to end a message with; empty if there is none."""
    if number is None:
        return ""
    text = linecache.getline(filename, number).strip()
    return f" (line {number}: `{text}`)" if text else f" (line {number})"


def _line_number(function: FunctionType, error: Exception, page: str) -> int | None:
    """The line Numba names, if it is in the function's own file; its first line otherwise."""
    location: Any = getattr(error, "loc", None)
    if location is not None and _is_same_file(function, location.filename):
        return int(location.line)
    for match in _LOCATION.finditer(page):
        if _is_same_file(function, match["file"]):
            return int(match["line"])
    return function.__code__.co_firstlineno


def _is_same_file(function: FunctionType, name: str) -> bool:
    # Numba shortens long paths to their last parts.
    return bool(name) and function.__code__.co_filename.endswith(name.replace("...", ""))


def _reason(page: str) -> str:
    """The first sentence that says why: headings skipped, what a colon announces included."""
    lines = [line.strip() for line in page.splitlines()]
    lines = [line.removeprefix(">>> ") for line in lines if line and not _NO_REASON.match(line)]
    if not lines:
        return ""
    reason = lines[0]
    if reason.endswith(":") and len(lines) > 1:
        reason = f"{reason} {lines[1]}"
    reason = _INTERNALS.sub("", _OBJECTS.sub(lambda match: match[1] or match[2], reason))
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}..."
