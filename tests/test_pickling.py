"""Functions that can be found by name are pickled by it: decorated, registered, of Cython modules, ufuncs."""

import copy
import functools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo
from scipy import special

import tmapad
from tmapad import from_cython, register, rrule, tmap

# pickle looks for a ufunc in every module, and asks those that NumPy deprecated as well, if somebody imported them.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core is deprecated:DeprecationWarning")

X = np.array([1.0, 2.0])


@register(derivative=lambda x: 3 * x * x)
def cube(x: float) -> float:
    return x * x * x


def square(x: float) -> float:
    return x * x


def twice(x: float) -> float:
    return 2 * x


FUNCTIONS = {
    "decorated": cube,
    "registered": register(square, derivative=twice),
    "Cython": from_cython("scipy.special.cython_special", "gammaln", derivative="psi"),
    "Cython and Python": from_cython("scipy.special.cython_special", "erf", derivative=twice),
    "ufunc": register(special.log1p),
    "bound": register(special.itstruve0, derivative=functools.partial(special.struve, 0)),
}

SCRIPT = """
import pickle, sys
import numpy as np
from tmapad import rrule, tmap
results = []
for f in pickle.load(sys.stdin.buffer):
    y, back = rrule(tmap, f, np.array([1.0, 2.0]))
    results.append((y, back(y)[2]))
pickle.dump(results, sys.stdout.buffer)
"""


def both(f: Any) -> tuple[Any, Any]:
    y, back = rrule(tmap, f, X)
    return y, back(y)[2]


def test_functions_are_the_same_in_another_process() -> None:
    path = [str(Path(tmapad.__path__[0]).parent), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=pickle.dumps(list(FUNCTIONS.values())),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    for (y, dx), f in zip(pickle.loads(done.stdout), FUNCTIONS.values(), strict=True):
        np.testing.assert_array_equal((y, dx), both(f))


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_round_trips_and_copies(f: Any) -> None:
    np.testing.assert_array_equal(both(pickle.loads(pickle.dumps(f))), both(f))
    assert copy.copy(f) is f
    assert copy.deepcopy([f])[0] is f


def test_bare_pointers_are_not_pickled_whatever_they_are_part_of() -> None:
    sine, cosine = zoo.libm("sin"), zoo.libm("cos")
    for f in (
        register(sine, derivative=cosine, replace=True),
        register(lambda x: x, derivative=sine),
        from_cython("scipy.special.cython_special", "j0", derivative=cosine),
    ):
        with pytest.raises(TypeError, match=r"cannot pickle .*: an address means nothing to another process"):
            pickle.dumps(f)
