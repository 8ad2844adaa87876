"""derivative: the derivative of a scalar function as another one, which has a derivative itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tmapad._automatic import Automatic
from tmapad._find import find
from tmapad._function import ScalarFunction
from tmapad.jit import PythonFunction, python_function


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
        if function.nin not in _CALLS:
            raise TypeError(
                f"{function.name} takes {function.nin} arguments and has a registered derivative: that of functions of "
                f"up to {max(_CALLS)} arguments can be differentiated again"
            )
        made = python_function(_CALLS[function.nin](function))
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


# A Python function that calls one of another kind: its derivative is the one that the other is registered with.
_CALLS: dict[int, Callable[[ScalarFunction], Callable[..., Any]]] = {
    1: lambda f: lambda a: f(a),  # noqa: PLW0108 - Numba needs code
    2: lambda f: lambda a, b: f(a, b),  # noqa: PLW0108
    3: lambda f: lambda a, b, c: f(a, b, c),  # noqa: PLW0108
    4: lambda f: lambda a, b, c, d: f(a, b, c, d),  # noqa: PLW0108
    5: lambda f: lambda a, b, c, d, e: f(a, b, c, d, e),  # noqa: PLW0108
    6: lambda f: lambda a, b, c, d, e, g: f(a, b, c, d, e, g),  # noqa: PLW0108
}
