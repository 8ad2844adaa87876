"""The compiler's derivatives of whole functions compared with those of dual.py, element by element."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dual
import numpy as np

from tmapad import Tangent, rrule, tmap

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Expected:
    """What dual numbers say of some elements.

    Attributes
    ----------
    ys : list of ndarray
        Each output.
    dxs : list of ndarray
        Each argument's cotangents.
    captured : dict
        The cotangent of each captured variable, before it is summed over the elements.
    scale : ndarray
        For each element the largest tangent on the way, times that of `dys`.
    """

    ys: list[Array]
    dxs: list[Array]
    captured: dict[str, Array]
    scale: Array


def expected(
    f: Callable[..., Any], xs: Sequence[Array], dys: Sequence[Array], captured: dict[str, Any] | None = None
) -> Expected:
    """Run the function on dual numbers, at each element of 1-d arrays."""
    captured = captured or {}
    rows, scale = [], []
    for at, dy in zip(zip(*map(np.ndarray.tolist, xs), strict=True), zip(*dys, strict=True), strict=True):
        rows.append(dual.pulled(f, at, dy, captured))
        scale.append(dual.Dual.largest * max(map(abs, dy)))
    ys, cotangents = zip(*rows, strict=True)
    columns = [np.array(column) for column in zip(*cotangents, strict=True)]
    return Expected(
        [np.array(column) for column in zip(*ys, strict=True)],
        columns[: len(xs)],
        dict(zip(captured, columns[len(xs) :], strict=True)),
        np.array(scale),
    )


def part(df: Any, path: str) -> Any:
    """The cotangent of a captured variable: ``"helper.a"`` of `df` is ``df.helper.a``."""
    return functools.reduce(lambda tangent, name: tangent[name], path.split("."), df)


def assert_close(got: Any, wanted: Any, scale: Any, rtol: float, told: object = "") -> None:
    """Equal to a tolerance relative to the scale, or infinite or NaN alike."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, told
    with np.errstate(invalid="ignore"):
        near = np.abs(got - wanted) <= rtol * np.maximum(np.abs(wanted), scale)
    near &= np.isfinite(wanted)
    alike = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    assert (near | alike).all(), (told, got[~(near | alike)][:5], wanted[~(near | alike)][:5])


def draw_dys(ys: Sequence[Array], seed: int = 0) -> list[Array]:
    """Cotangents of these outputs."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=y.shape) + (1j * rng.normal(size=y.shape) if np.iscomplexobj(y) else 0.0) for y in ys]


def assert_derivatives(
    f: Callable[..., Any], *xs: Array, captured: dict[str, Any] | None = None, rtol: float = 1e-11, **keywords: Any
) -> None:
    """Values and cotangents of a mapped function, of its arguments and of what it captured, are those of `dual`."""
    y, back = rrule(tmap, f, *xs, **keywords)
    ys = y if isinstance(y, tuple) else (y,)
    dys = draw_dys(ys)
    wanted = expected(f, xs, dys, captured)
    for one, value in zip(ys, wanted.ys, strict=True):
        assert_close(one, value, 1e-3, 1e-13, "value")
    _, df, *dxs = back(tuple(dys) if isinstance(y, tuple) else dys[0])
    for i, (got, dx) in enumerate(zip(dxs, wanted.dxs, strict=True)):
        assert_close(got, dx, wanted.scale, rtol, f"argument {i}")
    assert isinstance(df, Tangent) == bool(captured)
    for path, terms in wanted.captured.items():
        total = terms.sum(axis=0)
        assert_close(part(df, path), total, math.fsum(wanted.scale), rtol, path)
