"""What is no array of numbers in this process's memory is refused, by the name of the argument."""

import functools
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from functions import TIMES

from tmapad import rrule, tmap


class OnDevice:
    __cuda_array_interface__ = "what it holds does not matter"


class OnOtherDevice:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


REFUSED: list[tuple[Any, str]] = [
    (np.zeros(3, "g"), "longdouble|float128"),
    (np.zeros(3, "G"), "clongdouble|complex256"),
    (np.longdouble(2), "longdouble|float128"),
    (np.array([1, None], object), "dtype object"),
    ([1.0, None], "dtype object"),
    (np.zeros(3, "M8[s]"), "datetime64"),
    (np.zeros(3, "m8[s]"), "timedelta64"),
    (np.datetime64("2020-01-01"), "datetime64"),
    (np.array(["a"]), "<U1"),
    ("a", "<U1"),
    (np.array([b"a"]), "dtype .S1"),
    (None, "dtype object"),
    ({"a": 1}, "dtype object"),
    (np.zeros(3, [("a", "d")]), "dtype"),
    (np.ma.array([1.0, 2.0], mask=[True, False]), "masked array.*filled"),
    (np.ma.masked, "masked array"),
    (np.matrix([[1.0]]), "numpy.matrix.*asarray"),
    (scipy.sparse.csr_array([[1.0]]), "sparse array.*csr_array.*toarray"),
    (scipy.sparse.coo_matrix([[1.0]]), "sparse array"),
    (OnDevice(), "OnDevice.*lies on another device; copy it to the CPU"),
    (OnOtherDevice(), "OnOtherDevice.*lies on another device"),
    ((1.0, "a"), "tuple with a str"),
    ((np.longdouble(1),), "tuple of dtype"),
]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize(("x", "message"), REFUSED, ids=[str(k) for k in range(len(REFUSED))])
def test_refused(x: Any, message: str) -> None:
    """As an argument, as a cotangent, and as what a partial captures: with the name of the argument."""
    good = np.ones(3)
    with pytest.raises(TypeError, match=f"(?s)x .*({message})"):
        tmap(TIMES, good, x)
    with pytest.raises(TypeError, match=f"(?s)a .*({message})"):
        rrule(tmap, TIMES, x, good)
    with pytest.raises(TypeError, match=f"(?s)captured a .*({message})"):
        tmap(functools.partial(TIMES, x), good)
    _, back = rrule(tmap, TIMES, good, good)
    with pytest.raises(TypeError, match=r"^dy "):
        back(x)


def test_refused_python_integer() -> None:
    with pytest.raises(TypeError, match="a is an int too large for a float64: 1000"):
        tmap(TIMES, 10**400, np.ones(3))


@pytest.mark.parametrize("x", [[[1.0], [2.0, 3.0]], [[1.0], 2.0]])
def test_refused_ragged(x: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"x is a list.*(ragged|inhomogeneous)"):
        tmap(TIMES, 2.0, x)
    _, back = rrule(tmap, TIMES, 2.0, np.ones((2, 2)))
    with pytest.raises((TypeError, ValueError), match=r"dy is a list.*(ragged|inhomogeneous)"):
        back(x)
