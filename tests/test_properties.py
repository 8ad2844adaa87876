"""Properties of all functions, shapes, types, layouts and keywords: tried on examples that hypothesis makes up."""

from typing import Any

import numpy as np
import oracle
import zoo
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from layouts import LAYOUTS
from same import assert_same

from tmapad import NoTangent, rrule, tmap

# Of one element's value or partial derivative, by the precision of the computation; and how far a sum may be off.
TOLERANCE = {"e": 2e-3, "f": 4e-6, "F": 4e-6, "d": 1e-12, "D": 1e-12}
STEP = {"f": 1e-2, "F": 1e-2, "d": 1e-5, "D": 1e-5}

RUN = st.fixed_dictionaries(
    {},
    optional={
        "num_threads": st.sampled_from([1, 2, 3]),
        "schedule": st.sampled_from(["static", "dynamic", "guided"]),
        "chunk_size": st.sampled_from([1, 5, 64, 1000]),
        "residuals": st.sampled_from(["save", "recompute", "auto"]),
    },
)


class Case:
    """A function, arguments in some layout, a cotangent, keywords."""

    def __init__(self, draw: Any) -> None:
        self.entry: zoo.Entry = draw(st.sampled_from(zoo.ENTRIES))
        self.keywords: dict[str, Any] = draw(RUN)
        shapes = draw(mutually_broadcastable_shapes(num_shapes=self.entry.nin, max_dims=3, max_side=4))
        char = draw(st.sampled_from([c for c in self.entry.chars if c != "e"]))
        seed = draw(st.integers(0, 2**16))
        plain = self.entry.arguments(list(shapes.input_shapes), char, seed)
        self.xs = [lay_out(x, draw) for x in plain]
        self.shape = shapes.result_shape
        self.kind = "c" if char in "FD" else "f"
        self.char = char
        self.seed = seed

    def numbers(self, shape: Any, more: int, kind: str) -> Any:
        rng = np.random.default_rng((self.seed, more))
        return np.asarray(rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind == "c" else 0))

    def cotangent(self, more: int = 1) -> Any:
        return self.numbers(self.shape, more, self.kind).astype(self.char)

    def tangents(self) -> list[Any]:
        return [self.numbers(x.shape, 10 + k, x.dtype.kind) for k, x in enumerate(self.xs)]

    def rrule(self) -> Any:
        return rrule(tmap, self.entry.f, *self.xs, **self.keywords)

    def close(self, result: Any, expected: Any, terms: float = 1.0) -> None:
        """Within the rounding of as many terms of that size as were added up."""
        tolerance = TOLERANCE[self.char]
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * (1 + terms))

    def __repr__(self) -> str:
        arrays = ", ".join(f"{x.dtype.str}{x.shape} strides {x.strides}" for x in self.xs)
        return f"{self.entry.name}({arrays}) {self.keywords} seed {self.seed}"


def lay_out(x: Any, draw: Any) -> Any:
    names = list(LAYOUTS) if x.ndim else ["contiguous", "byte-swapped", "unaligned", "read-only"]
    return LAYOUTS[draw(st.sampled_from(names))](x)


@st.composite
def cases(draw: Any) -> Case:
    return Case(draw)


def size(partials: Any, case: Case) -> float:
    """About how large the terms of cotangents are, all together."""
    values = [np.abs(oracle.tmap(partial, *case.xs)).sum() for partial in partials]
    return float(max(values, default=0.0))


@given(cases())
def test_equals_the_oracle(case: Case) -> None:
    y, back = case.rrule()
    case.close(y, oracle.tmap(case.entry.value, *case.xs), np.abs(y).max(initial=0))
    dy = case.cotangent()
    no, df, *dxs = back(dy)
    assert no is df is NoTangent()
    expected = oracle.pull(case.entry.partials, case.xs, dy)
    for dx, right in zip(dxs, expected, strict=True):
        case.close(dx, right, 4 * size(case.entry.partials, case))


@given(cases())
def test_types_shapes_and_inputs_are_kept(case: Case) -> None:
    before = [x.copy() for x in case.xs]
    y, back = case.rrule()
    dy = case.cotangent()
    kept = dy.copy()
    _, _, *dxs = back(dy)
    assert y.shape == case.shape
    assert y.dtype == case.char
    if case.shape == () and all(x.ndim == 0 for x in case.xs):
        assert isinstance(y, np.generic)
    for x, dx in zip(case.xs, dxs, strict=True):
        assert (dx.shape, dx.dtype) == (x.shape, x.dtype.newbyteorder("="))
        assert isinstance(dx, np.generic if x.ndim == 0 else np.ndarray)
    for x, old in zip(case.xs, before, strict=True):
        assert x.tobytes() == old.tobytes()
    assert dy.tobytes() == kept.tobytes()
    assert_same(tmap(case.entry.f, *case.xs), y)


@given(cases())
def test_adjoint(case: Case) -> None:
    """``<dy, J dx> = <J' dy, dx>``, with a Jacobian that is the oracle's."""
    dy, dxs = case.cotangent(), case.tangents()
    _, back = case.rrule()
    forward = oracle.dot(dy, oracle.push(case.entry.partials, case.xs, dxs))
    backward = sum(oracle.dot(pulled, dx) for pulled, dx in zip(back(dy)[2:], dxs, strict=True))
    case.close(backward, forward, 20 * size(case.entry.partials, case))


@given(cases())
def test_finite_differences(case: Case) -> None:
    """``<back(dy), dx>`` is the slope of ``<dy, tmap(x + h dx)>``: no formula of a derivative is trusted."""
    dy, dxs = case.cotangent(), case.tangents()
    wide = [x.astype("D" if case.kind == "c" else "d") for x in case.xs]
    # Where the function has a wide loop the differences are taken there.
    char = case.entry.chars[-1]
    h = STEP[char]

    def at(step: float) -> float:
        xs = [(x + step * 0.1 * dx).astype(char) for x, dx in zip(wide, dxs, strict=True)]
        return oracle.dot(dy, tmap(case.entry.f, *xs))

    slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (1.2 * h)
    _, back = case.rrule()
    pulled = sum(oracle.dot(pulled, dx) for pulled, dx in zip(back(dy)[2:], dxs, strict=True))
    rough = 2e-2 if char in "fF" else max(1e-7, 10 * TOLERANCE[case.char])
    scale = 1 + size(case.entry.partials, case) + np.abs(tmap(case.entry.f, *case.xs)).sum()
    assert abs(pulled - slope) <= rough * scale


@given(cases(), st.sampled_from([0.0, 1.0, -2.0, 0.5]), st.sampled_from([1.0, 4.0]))
def test_linear(case: Case, a: float, b: float) -> None:
    """``back(a u + b v) = a back(u) + b back(v)``; exactly so for a power of two."""
    u, v = case.cotangent(1), case.cotangent(2)
    _, back = case.rrule()
    of_u, of_v, of_both = back(u)[2:], back(v)[2:], back((a * u + b * v).astype(case.char))[2:]
    for pulled_u, pulled_v, pulled in zip(of_u, of_v, of_both, strict=True):
        case.close(pulled, a * pulled_u + b * pulled_v, 20 * size(case.entry.partials, case))
    assert_same(back(b * u)[2:], tuple(type(dx)(b * dx) if dx.ndim == 0 else b * dx for dx in of_u))


@given(cases())
def test_broadcasting_is_repetition(case: Case) -> None:
    """The same as for arguments that were repeated by hand, whose cotangents are then added up."""
    wide = [np.broadcast_to(x, case.shape).copy() for x in case.xs]
    y, back = case.rrule()
    y_wide, back_wide = rrule(tmap, case.entry.f, *wide)
    assert np.asarray(y).tobytes() == np.asarray(y_wide).tobytes()
    dy = case.cotangent()
    for x, dx, terms in zip(case.xs, back(dy)[2:], back_wide(dy)[2:], strict=True):
        case.close(dx, oracle.add_up(np.asarray(terms), x.shape), 4 * size(case.entry.partials, case))
