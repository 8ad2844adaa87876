"""The processor's flags of exceptional results: a map sets them as any computation does, and clears none."""

import ctypes
import ctypes.util
from typing import Any

import numpy as np
import pytest

from tmapad import tmap

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
ALL = 0x1F  # of x86 and aarch64
N = 200_000
ONE, OUT = np.ones(N), np.empty(N)
threads = pytest.mark.parametrize("num_threads", [None, 1, 2, 3])


def flags_after(y: Any, *, before: int = 0, num_threads: int | None = 1) -> int:
    """Flags after 1 / y; nothing of NumPy's may run in between, which would clear them."""
    LIBM.feclearexcept(ALL)
    LIBM.feraiseexcept(before)
    tmap(np.divide, ONE, y, out=OUT, num_threads=num_threads)
    return LIBM.fetestexcept(ALL)


@threads
def test_flags_from_before_are_kept(num_threads: int | None) -> None:
    division = flags_after(0.0)
    assert division
    assert flags_after(2.0) == 0
    for _ in range(5):
        assert flags_after(2.0, before=division, num_threads=num_threads) == division
        assert flags_after(2.0, num_threads=num_threads) == 0


@threads
def test_the_calling_thread_sets_flags(num_threads: int | None) -> None:
    """It may get no chunk where there are others, but hardly every time."""
    assert any(flags_after(0.0, num_threads=num_threads) == flags_after(0.0) for _ in range(50))
