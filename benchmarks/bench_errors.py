"""What errors cost: calls that fail at their last element, against the same calls without the failure.

And what it costs to look, after each element, whether a C function has set an exception.
"""

import ctypes
import ctypes.util

import numba
import numpy as np
from _compare import compare, rounds_from_command_line, show, target

from tmapad import from_cython, register, rrule, tmap

ROUNDS = rounds_from_command_line(__doc__, 15)
N = 1_000_000


def compiled(x):
    if x < 0:
        raise ValueError("negative")
    return x * x


@register(derivative=compiled)
def with_derivative(x):
    return 2 * x


@numba.vectorize
def ufunc(x):
    if x < 0:
        raise ValueError("negative")
    return x * x


def outcome(call):
    try:
        return call()
    except ValueError as error:
        return error


good = np.full((N // 100, 100), 3)
bad = good.copy()
bad[-1, -1] = -1
held = good.astype(float)
dy = np.ones_like(held)
backs = {
    threads: rrule(tmap, with_derivative, held, num_threads=threads, residuals="recompute")[1] for threads in (1, 2)
}


def pull(x, threads):
    held[...] = x
    return backs[threads](dy)


kinds = {
    "compiled": lambda x, t: tmap(compiled, x.astype(float), num_threads=t),
    "compiled, Fortran order": lambda x, t: tmap(compiled, x.astype(float, order="F"), num_threads=t),
    "compiled, out=": lambda x, t: tmap(compiled, x.astype(float), out=np.empty(x.shape), num_threads=t),
    "compiled, forward": lambda x, t: rrule(tmap, compiled, x.astype(float), num_threads=t)[0],
    "its derivative, back": pull,
    "a ufunc of Numba's": lambda x, t: tmap(ufunc, x.astype(float), num_threads=t),
    "np.power of integers": lambda x, t: tmap(np.power, 3, x, num_threads=t),
}
for name, call in kinds.items():
    for threads in (1, 2):
        error = outcome(lambda: call(bad, threads))  # noqa: B023 - called at once
        assert isinstance(error, ValueError), name
        assert f"at element {(N // 100 - 1, 99)} " in error.__notes__[0], name
        assert not isinstance(outcome(lambda: call(good, threads)), ValueError)  # noqa: B023

for name, call in kinds.items():
    for threads in (1, 2):
        comparison = compare(
            {
                "good": lambda: outcome(lambda: call(good, threads)),  # noqa: B023
                "fails at the end": lambda: outcome(lambda: call(bad, threads)),  # noqa: B023
            },
            rounds=ROUNDS,
        )
        show(f"{name}: {N} elements, {threads} thread{'s' * (threads > 1)}", comparison)
        target("a failing call, over a good one,", comparison.ratios("fails at the end", "good"), at_most=2.0)

libm = ctypes.CDLL(ctypes.util.find_library("m"))
libm.fabs.argtypes, libm.fabs.restype = [ctypes.c_double], ctypes.c_double
plain = register(libm.fabs, name="fabs")
raising = register(libm.fabs, name="fabs, raises=True", raises=True, replace=True)
gammaln = from_cython("scipy.special.cython_special", "gammaln")
gammaln_raising = from_cython("scipy.special.cython_special", "gammaln", raises=True)
x = np.linspace(-3.0, 3.0, 1_000_000)
for f, g in ((plain, raising), (gammaln, gammaln_raising)):
    np.testing.assert_array_equal(tmap(f, x), tmap(g, x))
    comparison = compare(
        {"as it is": lambda: tmap(f, x, num_threads=1), "raises=True": lambda: tmap(g, x, num_threads=1)},  # noqa: B023
        rounds=ROUNDS,
    )
    show(f"{f.name}: 1,000,000 elements, 1 thread", comparison)
    target("raises=True, over the same without,", comparison.ratios("raises=True", "as it is"), at_most=2.0)
