"""The casts between arrays and loops: those of NumPy, value by value."""

import itertools
from typing import Any

import numpy as np
import pytest

from tmapad._core import Program, builtin_loop

HALVES = np.arange(65536, dtype="u2").view("e")
RNG = np.random.default_rng(0)


def samples(char: str) -> Any:
    """Values of a type at which a cast may go wrong: all of float16, what lies between, the ends of integers."""
    if char == "?":
        return np.array([0, 1, 2, 255], "u1").view(bool)
    if char == "e":
        return HALVES
    if char in "fd":
        wide = HALVES[np.isfinite(HALVES)].astype(char)
        between = np.sort(wide)
        between = (between[1:] + between[:-1]) / 2
        near = [np.nextafter(v, char_limit) for v in (wide, between) for char_limit in np.array([9e9, -9e9], char)]
        bits = RNG.integers(0, 2 ** (8 * wide.itemsize - 1), 10_000, dtype=f"u{wide.itemsize}").view(char)
        return np.concatenate([HALVES.astype(char), between, *near, bits, -bits])
    if char in "FD":
        reals = samples(char.lower())
        return reals[: len(reals) // 2 * 2].view(char)
    ends = np.iinfo(char)
    random = RNG.integers(ends.min, ends.max, 1000, dtype=char)
    return np.array([ends.min, ends.max, 0, 1, ends.max - 1, ends.max // 2, *random], char)


CHARS = "?bBhHiIlLqQefdFD"
CASTS = [pair for pair in itertools.product(CHARS, CHARS) if builtin_loop("cast", "->".join(pair)) is not None]


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("pair", CASTS, ids="->".join)
def test_casts_are_numpys(pair: tuple[str, str]) -> None:
    x = samples(pair[0])
    expected = x.astype(pair[1])
    y = np.empty_like(expected)
    loop = builtin_loop("cast", "->".join(pair))
    slots = [("input", x.itemsize, None), ("output", y.itemsize, None)]
    Program(slots, [(loop, (0, 1))]).run((x, y), x.shape)
    np.testing.assert_array_equal(y, expected)
    reals = [z.view(z.dtype.char.lower()) if z.dtype.kind == "c" else z for z in (y, expected)]
    if pair[1] in "efdFD":
        numbers = ~np.isnan(reals[1])  # a NaN has no sign that means anything
        np.testing.assert_array_equal(np.signbit(reals[0])[numbers], np.signbit(reals[1])[numbers])


def test_whatever_numpy_casts_safely_is_cast() -> None:
    for pair in itertools.product(CHARS, CHARS):
        if np.can_cast(*pair, "safe") and pair[0] != pair[1] and pair[1] != "e":
            assert pair in CASTS
