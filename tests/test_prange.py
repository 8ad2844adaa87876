"""A lint of the Cython sources: what is written in a parallel loop, and what it calls."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = sorted(Path(__file__).parent.parent.glob("tmapad/*.p[yx][xi]"))
LOOP = re.compile(r"^( *)for (\w+) in prange\(", re.MULTILINE)
DEFINED = r"^cdef (?:inline )?[\w *]*\b{}\([^)]*\)(.*):$"
SIGNED = r"^ *cdef (?:int|Py_ssize_t|npy_intp|int64_t) .*\b{}\b"
LEAVES = re.compile(r"\b(return|break|continue|raise|yield)\b")


def faults(text: str) -> Iterator[str]:
    """What is wrong with the parallel loops of a source; the functions that they call are in it, or declared."""
    for loop in LOOP.finditer(text):
        indent, variable = loop[1], loop[2]
        start = text.index("\n", loop.end()) + 1
        body = re.match(rf"(?:{indent} +.*\n|\n)*", text[start:])
        assert body is not None
        function = text[: loop.start()].rpartition("\ncdef ")[2]
        if not re.search(SIGNED.format(variable), function, re.MULTILINE):
            yield f"{variable} is not declared as a signed integer"
        if found := LEAVES.search(body[0]):
            yield f"{found[0]} in a parallel loop"
        yield from unsafe_calls(text, body[0], set())


def unsafe_calls(text: str, body: str, seen: set[str]) -> Iterator[str]:
    """Functions of ours that are reached and could take the GIL, raise, or ask for memory."""
    if re.search(r"\b(PyMem_\w*|malloc|calloc|realloc)\(", body):
        yield "memory is asked for in a parallel loop"
    for name in set(re.findall(r"\b(\w+)\(", body)) - seen:
        seen.add(name)
        if found := re.search(DEFINED.format(name), text, re.MULTILINE):
            if "noexcept" not in found[1] or not re.search(r"nogil|with gil", found[1]):
                yield f"{name} is not noexcept nogil"
            elif "with gil" not in found[1]:  # handlers of signals, on the calling thread, now and then
                following = re.match(r"(?:\n|    .*\n)*", text[found.end() + 1 :])
                assert following is not None
                yield from unsafe_calls(text, following[0], seen)


def test_parallel_loops() -> None:
    text = "\n".join(path.read_text() for path in SOURCES)
    assert list(faults(text)) == []
    assert len(LOOP.findall(text)) == 1


GOOD = """
cdef void work(int number) noexcept nogil:
    helper(number)

cdef int helper(int number) noexcept nogil:
    return number

cdef void region(int n) noexcept nogil:
    cdef int number
    for number in prange(n, num_threads=n):
        work(number)

"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", None),
        ("        work(number)\n", "        work(number)\n        return\n", "return in a parallel loop"),
        ("    cdef int number\n", "    cdef unsigned int number\n", "number is not declared as a signed integer"),
        ("work(int number) noexcept nogil", "work(int number) except *", "work is not noexcept nogil"),
        ("helper(int number) noexcept nogil", "helper(int number) nogil", "helper is not noexcept nogil"),
        ("    return number", "    return malloc(number)", "memory is asked for in a parallel loop"),
    ],
)
def test_what_is_wrong_is_found(old: str, new: str, fault: str | None) -> None:
    assert list(faults(GOOD.replace(old, new, 1) if old else GOOD)) == ([] if fault is None else [fault])
