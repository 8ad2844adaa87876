"""What a call costs: one element, where there is nothing to gain, against np.exp on the same array."""

import ctypes
import ctypes.util

import numpy as np
from _compare import compare, rounds_from_command_line, show, target

from tmapad import register, rrule, tmap

ROUNDS = rounds_from_command_line(__doc__, 51)
libm = ctypes.CDLL(ctypes.util.find_library("m"))
for function in (libm.sin, libm.cos):
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
sin = register(libm.sin, derivative=libm.cos)
x, dy = np.array([0.5]), np.array([2.0])


def gradient():
    y, back = rrule(tmap, sin, x)
    return y, back(dy)


y, (_, _, dx) = gradient()
np.testing.assert_allclose(y, np.sin(x), rtol=1e-15)
np.testing.assert_allclose(dx, np.cos(x) * dy, rtol=1e-15)

comparison = compare(
    {"np.exp": lambda: np.exp(x), "tmap": lambda: tmap(sin, x), "rrule and back": gradient},
    number=2000,
    rounds=ROUNDS,
)
show("one element, a C function, times np.exp", comparison)
target("tmap", comparison.ratios("tmap", "np.exp"), at_most=4.0)
target("rrule and back", comparison.ratios("rrule and back", "np.exp"), at_most=10.0)
