"""One thread against two: a C function that costs about a microsecond an element, forward and backward.

The Kelvin function ber of SciPy, with its derivative berp, both called by their C pointers. Nothing is saved
in the forward pass: the backward pass calls berp for every element.
"""

import numpy as np
from _compare import compare, rounds_from_command_line, show, target
from scipy import special

from tmapad import from_cython, rrule, tmap

ROUNDS = rounds_from_command_line(__doc__, 15)
ber = from_cython("scipy.special.cython_special", "ber", derivative="berp")
x = np.random.default_rng(1).uniform(0.1, 15.0, 100_000)
dy = np.cos(x)
dx = np.empty_like(x)

backs = {}
for threads in (1, 2):
    y, backs[threads] = rrule(tmap, ber, x, num_threads=threads, residuals="recompute")
    np.testing.assert_array_equal(y, special.ber(x))
    np.testing.assert_array_equal(backs[threads](dy)[2], special.berp(x) * dy)
    assert backs[threads].nbytes == 0

passes = {
    "forward": {threads: lambda threads=threads: tmap(ber, x, out=y, num_threads=threads) for threads in (1, 2)},
    "backward": {threads: lambda threads=threads: backs[threads](dy, out=(dx,)) for threads in (1, 2)},
}
for name, calls in passes.items():
    comparison = compare({f"{n} thread{'s' * (n > 1)}": call for n, call in calls.items()}, rounds=ROUNDS)
    show(f"{name}, {x.size:,} elements, times that of one thread", comparison)
    target("one thread, over two,", comparison.ratios("1 thread", "2 threads"), at_least=1.9)
