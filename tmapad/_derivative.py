"""derivative: the derivative of a scalar function as another one, which has a derivative itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tmapad._automatic import Automatic
from tmapad._find import find
from tmapad._function import ScalarFunction
from tmapad.jit import PythonFunction, python_function
from tmapad.jit.arity import calling


def derivative(f: Any, argnum: int = 0) -> ScalarFunction:
    """Return the derivative of a scalar function in one of its arguments.

    Parameters
    ----------
    f : callable or pointer
        As for `tmap`.
    argnum : int, optional
        The number of the argument.

    Returns
    -------
    ScalarFunction
        Of the same arguments. It can be mapped and differentiated like any other: second derivatives are
        ``derivative(derivative(f))`` and ``rrule(tmap, derivative(f), x)``. A complex function of a complex argument is
        taken to be holomorphic; of a real result of a complex z it is the d for which ``dy = Re(d dz)``. Of a function
        with several results it gives the derivative of each.

    Raises
    ------
    TypeError
        If `f` is nothing that can be mapped, or `argnum` is no number of an argument.
    NoDerivativeError
        When it is used, if `f` cannot be differentiated.

    Examples
    --------
    Newton's method for all elements at once:

    >>> import numpy as np
    >>> from tmapad import derivative, tmap
    >>> def f(x, a):
    ...     return x**3 - a
    >>> df = derivative(f)
    >>> a = np.array([8.0, 27.0, 64.0])
    >>> x = np.full(3, 3.0)
    >>> for _ in range(6):
    ...     x = x - tmap(f, x, a) / tmap(df, x, a)
    >>> x
    array([2., 3., 4.])
    """
    function = find(f)
    is_number = isinstance(argnum, (int, np.integer)) and not isinstance(argnum, bool)
    if not is_number or not 0 <= argnum < function.nin:
        raise TypeError(f"argnum must be the number of an argument, 0 to {function.nin - 1}, not {argnum!r:.60}")
    value = function.implementation
    if not isinstance(value, PythonFunction) or not isinstance(function.form, Automatic):
        # A Python function that calls one of another kind: its derivative is the one that the other is registered with.
        made = python_function(calling(function, function.nin))
        assert made is not None
        value = made
    differentiated = value.derivative(int(argnum))
    return ScalarFunction(
        differentiated,
        Automatic(differentiated),
        threadsafe=function.threadsafe,
        name=f"the derivative of {function.name} in {function.parameters[argnum]}",
        recipe=(derivative, (f, argnum)),
    )
