"""From Numba's page about what it cannot compile to one sentence."""

import linecache
import re
from traceback import walk_tb
from types import FunctionType
from typing import Any

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OBJECTS = re.compile(r"Function\(<(?:built-in )?function (\w+)[^>]*>\)|<(?:built-in )?function (\w+)[^>]*>")
_LOCATION = re.compile(r'^File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_NO_REASON = re.compile(r"^(Failed in |During: |File |- |Overload of function |There are \d+ candidate)")
_INTERNALS = re.compile(
    r"( for '\$[^']*')?, defined at .*|,? ?(Raised from|location:) .*|,? If the feature is explicitly .*"
)
_RAISED_FROM = re.compile(r"Raised from (?P<file>.*) \((?P<line>\d+)\)")
_LONGEST = 240
_LONGEST_LINE = 120
# What Numba says in its own words, and in those of who wrote the function.
_WORDS = {
    r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'.*": r"Numba has no compiled form of \2.\1",
    r"Untyped global name '(\w+)':.*<class 'builtin_function_or_method'>.*": r"Numba has no compiled form of \1",
    r"Untyped global name '(\w+)':.* of (<.*>)": r"\1, of type \2, means nothing to compiled code",
    r"Use of unsupported NumPy function 'numpy\.([\w.]+)' or .*": r"Numba has no compiled form of np.\1, or not for "
    r"this",
    r"Use of unsupported opcode \(FORMAT_WITH_SPEC\) found\.?": "a format spec in f-strings is not compiled",
    r"Use of unsupported opcode \((\w+)\) found\.?": r"Numba does not know what the statement does (\1)",
    r"The use of yield in a closure is unsupported\.?": "generators and generator expressions are not compiled: "
    "write a loop, or name what they yield in a tuple",
    r"Numba encountered the use of a language feature .*make_function.*": "a function with defaults that are not "
    "constant is not compiled: pass them as arguments",
    r"Illegal IR, del found at: (.*)": r"the variable of \1 is deleted, which is not compiled",
    r"No implementation of function Function\(<intrinsic exception_match>\).*": "an except clause that names what it "
    "catches is not compiled, but except Exception: test for it with an if",
    r"Exception object cannot be stored into variable .*": "an exception has no name in compiled code",
    r"No implementation of function Function\(<class '(\w+)'>\) found for signature: (.*)": r"Numba cannot make \1 of "
    r"this: \2",
    r"op_MAKE_FUNCTION with kwdefaults is not implemented": "an inner function with defaults of keyword-only "
    "arguments is not compiled: define it outside",
    r"float128": "Numba has no long doubles",
    r"(format spec in f-strings) not supported yet\.?": r"a \1 is not compiled",
}
_NUMBA = "numba"
# Local variables of Numba that know a place in the source.
_AT = ("self", "constraint", "inst", "expr", "stmt", "instr")


def compile_error(function: FunctionType, error: Exception) -> TypeError:
    """One short error for anything that went wrong while Numba compiled `function`.

    It names the function, quotes the line of it that Numba stopped at, and gives Numba's first reason. The
    caller raises it from None: `error` is its context then, which nobody is shown.
    """
    page = _COLOURS.sub("", str(error))
    where = source_line(function.__code__.co_filename, _line_number(function, error, page))
    numbas = _reason(page)
    reason = _in_other_words(numbas) or numbas or type(error).__name__
    if reason == (numbas or type(error).__name__) and _is_internal(error):
        reason = f"Numba fails at it ({type(error).__name__}{f': {reason}' * (reason != type(error).__name__)})"
    return TypeError(f"cannot compile {function.__name__}: {reason}{where}")


def source_line(filename: str, number: int | None) -> str:
    """Line `number` of a file, to end a message with; empty if there is none."""
    if number is None:
        return ""
    text = linecache.getline(filename, number).strip()
    text = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}..."
    return f" (line {number}: `{text}`)" if text else f" (line {number})"


def _line_number(function: FunctionType, error: Exception, page: str) -> int | None:
    """The line Numba names, if it is in the function's own file; its first line otherwise."""
    location: Any = getattr(error, "loc", None)
    if location is not None and _is_same_file(function, location.filename):
        return int(location.line)
    for match in (*_LOCATION.finditer(page), *_RAISED_FROM.finditer(page)):
        if _is_same_file(function, match["file"]):
            return int(match["line"])
    return _line_in_traceback(function, error) or function.__code__.co_firstlineno


def _is_internal(error: Exception) -> bool:
    """Whether it came to pass in Numba's own code, and was not meant for users."""
    if type(error).__module__.partition(".")[0] == _NUMBA:
        return False
    frames = list(walk_tb(error.__traceback__))
    return bool(frames) and (frames[-1][0].f_globals.get("__name__") or "").partition(".")[0] == _NUMBA


def _line_in_traceback(function: FunctionType, error: Exception) -> int | None:
    """The line of the statement that Numba was at, if it does not tell."""
    found = None
    for frame, _ in walk_tb(error.__traceback__):
        if (frame.f_globals.get("__name__") or "").partition(".")[0] != _NUMBA:
            continue
        for name in _AT:
            location = getattr(frame.f_locals.get(name), "loc", None)
            if location is not None and _is_same_file(function, getattr(location, "filename", "")):
                found = int(location.line)
    return found


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


def _in_other_words(reason: str) -> str:
    """The reason in words of who wrote the function; empty if there are none."""
    found = ((re.fullmatch(numbas, reason), ours) for numbas, ours in _WORDS.items())
    return next((match.expand(ours) for match, ours in found if match is not None), "")
