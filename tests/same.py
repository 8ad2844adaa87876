"""Results bit by bit: types, shapes and every byte of every element, in C order."""

import itertools
from typing import Any

import numpy as np

from tmapad import NoTangent, Tangent, rrule, tmap

THREADS = (1, 2, 3, 5)
SCHEDULES = ("static", "dynamic", "guided")
CHUNKS = (1, 7, 64, 1000, None)
PLAIN: dict[str, Any] = {"num_threads": 1, "schedule": "static"}

# Every way to hand elements to threads.
RUNS: list[dict[str, Any]] = [
    {"num_threads": threads, "schedule": schedule, "chunk_size": chunk}
    for threads, schedule, chunk in itertools.product(THREADS, SCHEDULES, CHUNKS)
]
# A few of them that differ in everything.
SOME_RUNS: list[dict[str, Any]] = [
    {"num_threads": 2},
    {"num_threads": 3, "schedule": "static", "chunk_size": 7},
    {"num_threads": 5, "schedule": "guided"},
    {"num_threads": 1, "chunk_size": 1000},
    {},
]


def bits(result: Any) -> Any:
    """What two results must have in common to be the same: not how they are laid out."""
    if isinstance(result, tuple):
        return tuple(map(bits, result))
    if isinstance(result, Tangent):
        return {name: bits(part) for name, part in result._asdict().items()}
    if result is NoTangent():
        return "NoTangent"
    array = np.asarray(result)
    return type(result).__name__, array.dtype.str, array.shape, array.tobytes()


def gradient(f: Any, *xs: Any, dy: Any, **keywords: Any) -> tuple[Any, ...]:
    """``(y, df, dx1, ..., dxk)`` of one call."""
    y, back = rrule(tmap, f, *xs, **keywords)
    return (y, *back(dy)[1:])


def assert_same(result: Any, expected: Any, *told: Any) -> None:
    if bits(result) != bits(expected):
        np.testing.assert_equal(result, expected, err_msg=f"{told}")
        raise AssertionError(f"equal, but not bit by bit: {told}")
