"""tmap, its pullback and its pushforward in NumPy: one element after the other, slow, and obviously right."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Scalar = Callable[..., Any]


def tmap(f: Scalar, *xs: Array) -> Array:
    """``y[i] = f(x1[i], ..., xk[i])`` for arguments that broadcast."""
    wide = np.broadcast_arrays(*xs)
    values = [f(*(x[i].item() for x in wide)) for i in np.ndindex(wide[0].shape)]
    return np.array(values, dtype=None if values else float).reshape(wide[0].shape)


def pull(partials: Sequence[Scalar], xs: Sequence[Array], dy: Array) -> tuple[Array, ...]:
    """``dx_k = sum of conj(d_k) * dy`` over the axes along which x_k was broadcast; 0 where dy is 0."""

    def term(d: Any, dy: Any) -> Any:
        return 0.0 if dy == 0 else np.conj(d) * dy

    terms = [np.vectorize(term, otypes="D")(tmap(partial, *xs), dy) for partial in partials]
    return tuple(add_up(t if np.iscomplexobj(x) else t.real, x.shape) for t, x in zip(terms, xs, strict=True))


def add_up(terms: Array, shape: tuple[int, ...]) -> Array:
    """Sum the terms that belong to each element of an array of `shape` that was broadcast to theirs."""
    of_element = defaultdict(list)
    for i in np.ndindex(terms.shape):
        own = i[len(i) - len(shape) :]
        of_element[tuple(0 if n == 1 else k for k, n in zip(own, shape, strict=True))].append(terms[i])
    sums = np.zeros(shape, terms.dtype)
    for i, parts in of_element.items():
        total = math.fsum(np.real(parts))
        sums[i] = complex(total, math.fsum(np.imag(parts))) if np.iscomplexobj(terms) else total
    return sums


def push(partials: Sequence[Scalar], xs: Sequence[Array], dxs: Sequence[Array]) -> Array:
    """``dy = sum over k of d_k * dx_k``: the Jacobian-vector product."""
    return sum(tmap(partial, *xs) * dx for partial, dx in zip(partials, dxs, strict=True))


def dot(a: Array, b: Array) -> float:
    """The inner product of C as R^2, and of R: exactly rounded."""
    products = (np.conj(np.asarray(a, "D")) * b).real
    return math.fsum(np.ravel(products))
