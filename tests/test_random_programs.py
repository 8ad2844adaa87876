"""Random programs: values as Numba compiles them, bit for bit, and derivatives as dual numbers give them.

``--programs N`` runs more of them.
"""

from typing import Any

import numba
import numpy as np
import pytest
from against_dual import assert_close, draw_dys, expected, part
from random_programs import written

from tmapad import rrule, tmap

SIZE = 40
SKIPPED = 0.05  # of a program's elements at most
TOLERANCE = 1e-10  # of the largest tangent on the way to the result


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(metafunc.config.getoption("--programs")))


def draw_arguments(nin: int, seed: int) -> Any:
    """Random numbers, and some where conditions are met exactly."""
    rng = np.random.default_rng(seed)
    xs = rng.uniform(-3, 3, (nin, SIZE))
    xs[:, :4] = rng.choice([0.0, 0.5, 1.0, -1.0], (nin, 4))
    xs[:, 4] = xs[0, 4]
    return xs


def as_tuple(y: Any) -> tuple[Any, ...]:
    return y if isinstance(y, tuple) else (y,)


def test_program(seed: int) -> None:
    program = written(seed)
    print(f"seed {seed}, captured {program.captured}\n\n{program.source}")  # shown if it fails
    jit = numba.njit(error_model="numpy")
    alone, f = jit(program.function(jit)), program.function()
    xs = draw_arguments(program.nin, seed)
    one_by_one = [np.array(column) for column in zip(*(as_tuple(alone(*at)) for at in xs.T), strict=True)]

    y, back = rrule(tmap, f, *xs)
    for mapped in (as_tuple(tmap(f, *xs)), as_tuple(y)):
        for got, value in zip(mapped, one_by_one, strict=True):
            np.testing.assert_array_equal(got, value)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(value))

    dys = draw_dys(one_by_one, seed)
    wanted = expected(f, xs, dys, program.captured)
    # Python's own arithmetic may round otherwise, and then take another branch; at a kink there may be no derivative.
    same = np.full(SIZE, True)
    for got, value in zip(one_by_one, wanted.ys, strict=True):
        same &= np.isclose(got, value, rtol=1e-14, atol=1e-14)
    for terms in (*wanted.dxs, *wanted.captured.values()):
        same &= np.isfinite(terms)
    assert np.count_nonzero(~same) <= SKIPPED * SIZE
    dys = [np.where(same, dy, 0.0) for dy in dys]
    scale = np.where(same, wanted.scale, 0.0)
    _, df, *dxs = back(tuple(dys) if isinstance(y, tuple) else dys[0])
    for i, (got, dx) in enumerate(zip(dxs, wanted.dxs, strict=True)):
        assert_close(got[same], dx[same], scale[same], TOLERANCE, f"argument {i}")
    for path, terms in wanted.captured.items():
        assert_close(part(df, path), terms[same].sum(), scale.sum(), TOLERANCE, path)
