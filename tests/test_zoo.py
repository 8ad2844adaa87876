"""The tools of the other tests: the zoo's references, the layouts, the oracle."""

import numpy as np
import oracle
import pytest
import zoo
from layouts import LAYOUTS

from tmapad import tmap

STEP = 1e-4


@pytest.mark.parametrize("entry", zoo.parameters())
def test_references_are_right(entry: zoo.Entry) -> None:
    """The value is the function's, and the partial derivatives are those of the value: differences say so."""
    xs = entry.arguments((20,), entry.chars[-1], seed=3)
    double = entry.chars[-1] in "dD"
    np.testing.assert_allclose(
        tmap(entry.f, *xs), oracle.tmap(entry.value, *xs), rtol=1e-12 if double else 1e-5, atol=1e-13
    )
    wide = [x.astype("D" if np.iscomplexobj(x) else "d") for x in xs]
    for k, partial in enumerate(entry.partials):

        def shifted(h: complex, k: int = k) -> np.ndarray:
            return oracle.tmap(entry.value, *(x + h * (i == k) for i, x in enumerate(wide)))

        for step in (STEP, 1j * STEP) if np.iscomplexobj(xs[k]) else (STEP,):
            coarse = (shifted(2 * step) - shifted(-2 * step)) / (4 * step)
            fine = (shifted(step) - shifted(-step)) / (2 * step)
            np.testing.assert_allclose(oracle.tmap(partial, *wide), (4 * fine - coarse) / 3, rtol=1e-8, atol=1e-8)


def test_kinds_of_functions() -> None:
    """All types, all numbers of arguments from one to three and six, all forms of derivatives are there."""
    assert {char for entry in zoo.ENTRIES for char in entry.chars} == set("efdFD")
    assert {entry.nin for entry in zoo.ENTRIES} == {1, 2, 3, 6}
    assert {entry.saves for entry in zoo.ENTRIES} == {True, False}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(5,), (0,), (3, 4), (2, 3, 4), (3, 0)])
@pytest.mark.parametrize("char", "?ldD")
def test_layouts_change_no_element(layout: str, shape: tuple[int, ...], char: str) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(char)
    laid_out = LAYOUTS[layout](x)
    assert laid_out.dtype.newbyteorder("=") == x.dtype
    np.testing.assert_array_equal(laid_out, x)
    assert laid_out is not x or x.size == 0


def test_layouts_differ() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    seen = {
        (y.strides, y.flags.aligned, y.dtype.isnative, y.flags.writeable, type(y))
        for y in (make(x) for make in LAYOUTS.values())
    }
    assert len(seen) == len(LAYOUTS) - 2  # transposed and Fortran are one; unaligned is read-only as well


def test_oracle_by_hand() -> None:
    x, a = np.array([[1.0], [2.0]]), np.array([3.0, 4.0, 5.0])
    partials = (lambda x, a: a, lambda x, a: x)
    dy = np.array([[1.0, 10.0, 0.0], [100.0, 1000.0, 10000.0]])
    np.testing.assert_array_equal(oracle.tmap(lambda x, a: x * a, x, a), [[3, 4, 5], [6, 8, 10]])
    dx, da = oracle.pull(partials, (x, a), dy)
    np.testing.assert_array_equal(dx, [[43], [54300]])
    np.testing.assert_array_equal(da, [201, 2010, 20000])
    np.testing.assert_array_equal(oracle.push(partials, (x, a), (np.ones((2, 1)), np.zeros(3))), [[3, 4, 5]] * 2)
    (dz,) = oracle.pull((lambda z: 2 * z,), (np.array([1 + 1j]),), np.array([1.0]))
    np.testing.assert_array_equal(dz, [2 - 2j])
    assert oracle.dot(np.array([1 + 2j]), np.array([3 + 4j])) == 11
