"""The derivative table as it is compiled: a row gives in a Python function what it gives for the ufunc.

The rows themselves are held to bounds by `test_derivative_table`, with arithmetic that NumPy's loops do. Here the same
graphs are instructions, and their elementary functions are those of libm and SciPy's entry points.
"""

import numpy as np
import pytest
from primals import ROWS, Row
from test_derivative_table import columns, function

from tmapad import NoDerivativeError, rrule, tmap

ARGUMENTS = "abcdef"
# What Numba and scipy.special.cython_special do not have, or have with integers where the ufunc takes real numbers.
NOT_COMPILED = frozenset({"ldexp", "kn", "yn", "lambertw"})


def compiled(row: Row) -> object:
    """A Python function that calls the function of a row."""
    arguments = ", ".join(ARGUMENTS[: row.nin])
    names = {"f": function(row.name)}
    exec(f"def g({arguments}): return f({arguments})", names)
    return names["g"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.name not in NOT_COMPILED], ids=lambda row: row.name
)
def test_a_row_is_the_same_compiled(row: Row) -> None:
    with np.errstate(all="ignore"):
        xs = [np.asarray(x, np.float64) for x in columns(row.points)]
    known = []
    for argument in range(row.nin):
        try:
            rrule(tmap, function(row.name), *(x[:1] for x in xs), wrt=argument)
        except NoDerivativeError:
            continue
        known.append(argument)
    y, back = rrule(tmap, function(row.name), *xs, wrt=tuple(known))
    z, compiled_back = rrule(tmap, compiled(row), *xs, wrt=tuple(known))
    np.testing.assert_allclose(z, y, rtol=1e-14, atol=1e-300)
    dy = tuple(map(np.ones_like, y)) if isinstance(y, tuple) else np.ones_like(y)
    expected, got = back(dy)[2:], compiled_back(dy)[2:]
    for argument in known:
        np.testing.assert_allclose(got[argument], expected[argument], rtol=1e-13, atol=1e-300)
