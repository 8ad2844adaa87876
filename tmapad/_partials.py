"""partials: every partial derivative as an array, in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tmapad._arrays import Array, give_back
from tmapad._call import Call, Options, as_dtype, as_options, follow, run_and_write, tangent_of_captures
from tmapad._errors import NoDerivativeError
from tmapad._pullback import differentiated
from tmapad._tangents import NO_TANGENT
from tmapad._targets import Input
from tmapad._ufuncs import TableForm
from tmapad._windows import passes, pull_array


def partials(
    f: Any,
    *xs: Any,
    wrt: Any = None,
    dtype: Any = None,
    num_threads: int | None = None,
    schedule: str = "dynamic",
    chunk_size: int | None = None,
    progress: Any = False,
) -> tuple[Any, tuple[Any, ...]]:
    """Return ``f`` of every element and its partial derivatives there, not summed over anything.

    Parameters
    ----------
    f : callable or pointer
        As for `tmap`.
    *xs : array_like
        Its arguments, which broadcast.
    wrt : int, str or tuple of them, optional
        What to differentiate: positions of arguments, names of captured variables. By default all arguments.
    dtype, num_threads, schedule, chunk_size, progress
        As for `tmap`. None but the first changes a bit of the results.

    Returns
    -------
    y : ndarray, scalar or tuple
        The value, as from `tmap`.
    derivatives : tuple
        An entry for each argument, of y's shape and kind, in the argument's precision; complex if the argument or
        y is. `NoTangent()` stands for arguments that are not differentiated: bools, those that `wrt` leaves out. If
        `wrt` names captured variables, a `Tangent` with theirs, by name, is the last entry; those of a captured array
        have its axes after y's. Of a function with several outputs: a tuple of this for each output.

    Raises
    ------
    NoDerivativeError
        If `f` has no derivative in an argument that is to be differentiated, or, with a complex result, is not
        holomorphic in it.
    TypeError, ValueError
        As `tmap`.

    See Also
    --------
    rrule : the product with a cotangent, summed over the axes along which an argument was broadcast.

    Notes
    -----
    Of a complex argument z the partial derivative d is f'(z) if f is holomorphic; if y is real, it is the number for
    which ``dy = Re(d dz)``. Cost and memory are those of ``rrule(..., residuals="save")``; a captured array takes a
    pass for every 8 of its elements.

    Examples
    --------
    A Jacobian as `scipy.optimize.curve_fit` takes it: a row for each observation, a column for each parameter.

    >>> import numpy as np
    >>> from tmapad import partials
    >>> y, (dx, da) = partials(np.power, np.array([1.0, 2.0, 4.0]), 2.0)
    >>> y, dx, da.round(3)
    (array([ 1.,  4., 16.]), array([2., 4., 8.]), array([ 0.   ,  2.773, 22.181]))
    >>> _, (_, *columns) = partials(np.multiply, np.array([1.0, 2.0, 4.0]), 2.0, wrt=1)
    >>> np.stack(columns, axis=1)
    array([[1.],
           [2.],
           [4.]])
    """
    options = as_options(num_threads, schedule, chunk_size, progress)
    call = Call(f, xs, as_dtype(dtype))
    frame = call.frame
    wanted = differentiated(call, _arguments(call) if wrt is None else wrt)
    outputs = call.outputs(None)
    size = math.prod(frame.shape)
    rows = follow(options, size, lambda options: _rows(call, wanted, outputs, options))
    return call.results(outputs, None), rows[0] if len(rows) == 1 else rows


def _rows(call: Call, wanted: tuple[int, ...], outputs: list[Array], options: Options) -> tuple[tuple[Any, ...], ...]:
    """Compute: write the outputs, and return a row of partial derivatives for each."""
    frame, kernel = call.frame, call.frame.kernel
    if options.followed is not None:
        windows = sum(passes(frame.captured[i]) for i in wanted if i in call.captured_arrays)
        options.followed.runs = 1 + windows * len(kernel.active)
    terms = kernel.terms(wanted)
    planned = kernel.forward(frame.chars, kernel.results, wanted, save=bool(terms))
    saved = dict(zip(terms, run_and_write(frame, outputs, planned, options), strict=True))
    return tuple(_row(call, wanted, j, saved, options) for j in range(len(outputs)))


def _arguments(call: Call) -> tuple[int, ...]:
    """All arguments but those that are integers by nature, such as the order of a Bessel function."""
    function, kernel = call.frame.function, call.frame.kernel
    return tuple(
        position
        for position, i in enumerate(call.mapped)
        if not isinstance(kernel.form, TableForm)
        or call.arguments[i].array.dtype.kind not in "iu"
        or function.differentiable(i, kernel) != "unknown"
    )


Saved = dict[tuple[int, int, int], Array]  # by output, argument and term


def _row(call: Call, wanted: tuple[int, ...], output: int, saved: Saved, options: Options) -> tuple[Any, ...]:
    """The partial derivatives of one output, as the caller gets them."""
    found = {
        i: _in_array(call, output, i, options) if i in call.captured_arrays else _entry(call, output, i, saved)
        for i in wanted
    }
    captured = {path: found[i] for i, path in call.captures.items() if i in found}
    return (*(found.get(i, NO_TANGENT) for i in call.mapped), *([tangent_of_captures(captured)] if captured else ()))


def _entry(call: Call, output: int, argument: int, saved: Saved) -> Any:
    """One partial derivative, of the kind that the result has: zero if the result is an integer or a bool."""
    kernel, shape = call.frame.kernel, call.frame.shape
    dtype = call.arguments[argument].cotangent_dtype
    if kernel.results[output] in "FD":
        dtype = np.result_type(dtype, np.complex64)
    if output not in kernel.active:
        return give_back(np.zeros(shape, dtype), call.kind)
    if (output, argument, 0) not in saved:
        return NO_TANGENT
    return give_back(_holomorphic(call, output, argument, saved).astype(dtype, copy=False), call.kind)


def _in_array(call: Call, output: int, position: int, options: Options) -> Array:
    """The partial derivatives in the elements of a captured array, of y's shape and then the array's."""
    frame, array = call.frame, call.captured_arrays[position]
    char = frame.kernel.results[output]
    if array.dtype.kind == "c" or char in "FD":
        raise NoDerivativeError(
            f"partials in the captured array {call.captures[position]} are those of a real function of real numbers: "
            "use rrule"
        )
    dys = {output: np.broadcast_to(np.ones((), char), frame.shape)} if output in frame.kernel.active else {}
    to = Input(array.shape, "array", array.dtype.newbyteorder("="))
    return pull_array(frame, position, to, dys, options, keep_terms=True, summed=False)


def _holomorphic(call: Call, output: int, argument: int, saved: Saved) -> Array:
    """The term that multiplies dz in ``dy = d dz + e conj(dz)``; if y is complex, the other one must be zero."""
    kernel, function = call.frame.kernel, call.frame.function
    assert kernel.form is not None
    d: Array | None = None
    mixed = False
    for term, antiholomorphic in enumerate(kernel.form.terms(output, argument)):
        part = saved[output, argument, term]
        if not antiholomorphic or kernel.results[output] not in "FD":
            d = part
        else:  # zero up to rounding, which may be amplified
            with np.errstate(all="ignore"):
                mixed = d is None or bool(np.any(np.abs(part) > np.sqrt(np.finfo(part.dtype).eps) * np.abs(d)))
    if d is None or mixed:
        raise NoDerivativeError(
            f"{function.name} is not holomorphic in {_name(call, argument)}, so that no complex number is its "
            "derivative: use rrule"
        )
    return d


def _name(call: Call, argument: int) -> str:
    return call.captures.get(argument) or call.frame.function.parameters[argument]
