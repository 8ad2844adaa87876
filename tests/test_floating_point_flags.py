"""The processor's flags of exceptional results: after a call the calling thread has those that it had before."""

import ctypes
import ctypes.util
import math
from typing import Any

import numpy as np
import pytest

from tmapad import rrule, tmap

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
ALL = 0x1F  # of x86 and aarch64
N = 200_000
ONE, OUT = np.ones(N), np.empty(N)
threads = pytest.mark.parametrize("num_threads", [None, 1, 2, 3])


def flags_after(y: Any, *, before: int, num_threads: int | None) -> int:
    """Flags after 1 / y; nothing of NumPy's may run in between, which would clear them."""
    LIBM.feclearexcept(ALL)
    LIBM.feraiseexcept(before)
    tmap(np.divide, ONE, y, out=OUT, num_threads=num_threads)
    return LIBM.fetestexcept(ALL)


def raised_by(function: Any, x: float) -> int:
    """The flag that one of libm's functions raises at x."""
    LIBM.feclearexcept(ALL)
    function(ctypes.c_double(x), ctypes.c_double(1.0))
    return LIBM.fetestexcept(ALL)


@threads
@pytest.mark.parametrize("y", [2.0, 0.0])
def test_flags_are_as_before(y: float, num_threads: int | None) -> None:
    """Neither is one cleared that was up, nor is one left up that the map raised."""
    division, invalid = raised_by(LIBM.logb, 0.0), raised_by(LIBM.fmod, math.inf)
    assert division
    assert invalid
    assert division != invalid
    with np.errstate(all="ignore"):
        for before in (0, division, invalid, division | invalid):
            for _ in range(3):
                assert flags_after(y, before=before, num_threads=num_threads) == before


@threads
def test_flags_from_before_are_not_reported(num_threads: int | None) -> None:
    LIBM.feraiseexcept(ALL)
    tmap(np.divide, ONE, 2.0, out=OUT, num_threads=num_threads)  # a warning would be an error
    LIBM.feraiseexcept(ALL)
    rrule(tmap, lambda x: 1 / x, ONE, num_threads=num_threads)[1](ONE)
    LIBM.feclearexcept(ALL)
