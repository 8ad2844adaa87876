"""np.exp through tmap, against np.exp itself: a million elements, into an array that is there already."""

import numpy as np
from _compare import compare, rounds_from_command_line, show, target

from tmapad import tmap

ROUNDS = rounds_from_command_line(__doc__, 101)
x = np.random.default_rng(1).standard_normal(10**6)
expected = np.exp(x)
y = np.empty_like(x)

for threads in (1, 2):
    y[:] = np.nan
    assert tmap(np.exp, x, out=y, num_threads=threads) is y
    np.testing.assert_array_equal(y, expected)

plain, one, two = "np.exp(x, out=y)", "tmap(np.exp, x, out=y), 1 thread", "the same, 2 threads"
comparison = compare(
    {
        plain: lambda: np.exp(x, out=y),
        one: lambda: tmap(np.exp, x, out=y, num_threads=1),
        two: lambda: tmap(np.exp, x, out=y, num_threads=2),
    },
    rounds=ROUNDS,
)
show("np.exp of 1,000,000 float64, times that of NumPy", comparison)
target("tmap on one thread, over NumPy's time,", comparison.ratios(one, plain), at_most=1.0)
target("NumPy's time, over tmap's on two threads,", comparison.ratios(plain, two), at_least=1.7)
