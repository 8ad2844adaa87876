"""register and from_cython: a function and its derivative, in any of the forms, become a `ScalarFunction`."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from tmapad._build import build
from tmapad._check import check_derivative
from tmapad._find import registered, remember
from tmapad._function import ScalarFunction
from tmapad._pointers import cython_pointers


def register(
    f: Any = None,
    *,
    derivative: Any = None,
    derivative_from_output: Any = None,
    value_and_derivative: Any = None,
    nondiff: Iterable[str] = (),
    user_data: Any = None,
    raises: bool = False,
    threadsafe: bool = True,
    division: str = "ieee",
    check: Any = None,
    name: str | None = None,
    replace: bool = False,
) -> Any:
    """Register a scalar function and its derivative; also a decorator, with or without arguments.

    Parameters
    ----------
    f : callable or pointer
        A Python or njit function, a ufunc, a ctypes or cffi function pointer, a ``scipy.LowLevelCallable``, a
        capsule named by its C signature, or a ``numba.cfunc``. Afterwards `f` itself may be passed to `tmap`
        and `rrule`.
    derivative : optional
        ``d(x1, ..., xk)`` gives f'. For k > 1 a tuple of k functions, or one Python function that returns k
        numbers. For several outputs a tuple over outputs. None in place of a function: not differentiable in
        that argument.
    derivative_from_output : optional
        The same, called as ``d(y, x1, ..., xk)``.
    value_and_derivative : optional
        ``v(x1, ..., xk)`` gives ``(y, d1, ..., dk)``; in C ``void v(double x1, ..., double *y, double *d1,
        ...)``. With several outputs, all values come first, then the derivatives of the first output, and so
        on.
    nondiff : iterable of str, optional
        Arguments that are not differentiated; those of Python functions keep their integer or bool type.
    user_data : optional
        What C functions with a last ``void *`` get: a capsule, a ctypes or cffi pointer, an array. Kept
        alive, shared by all threads, not differentiated.
    raises : bool, optional
        The C function, or the ufunc's loop, may set a Python exception (Cython's ``except? -1``, ``except *``),
        which is then raised. It takes the GIL itself, to set one; it is not taken to look for one.
    threadsafe : bool, optional
        False: run on the calling thread alone.
    division : {"ieee", "python"}, optional
        For Python functions: whether a division by zero gives an infinity or a NaN, or raises
        ZeroDivisionError.
    check : float or tuple of floats, optional
        A point at which the derivative is compared with a difference quotient now.
    name : str, optional
        What messages call the function.
    replace : bool, optional
        Register `f` again with something else.

    Returns
    -------
    ScalarFunction

    Raises
    ------
    SignatureError
        If a C signature is not one of those that can be called, or a derivative's does not fit.
    TypeError, ValueError
        If another argument is not as above, or `f` was registered with something else before.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from tmapad import register, rrule, tmap
    >>> @register(derivative_from_output=lambda y, x: y * (1.0 - y))
    ... def logistic(x):
    ...     return 1.0 / (1.0 + math.exp(-x))
    >>> y, back = rrule(tmap, logistic, np.zeros(2))
    >>> back(np.ones(2))[2]
    array([0.25, 0.25])
    """
    options = {
        "derivative": derivative,
        "derivative_from_output": derivative_from_output,
        "value_and_derivative": value_and_derivative,
        "nondiff": _names(nondiff),
        "user_data": user_data,
        "raises": raises,
        "threadsafe": threadsafe,
        "division": division,
        "name": name,
    }
    if f is None:
        return functools.partial(register, check=check, replace=replace, **options)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a string, not {name!r:.60}")
    if isinstance(f, functools.partial):
        raise TypeError(
            "f is a functools.partial: register the function inside of it; what it binds gets its gradient in df"
        )
    if isinstance(f, ScalarFunction):
        raise TypeError(f"f is what register or from_cython returned for {f.name}: pass its derivative there")
    known = registered(f)
    made = build(f, options, (_register_again, (f, options)))
    if known is not None and not replace and not _same(known, made):
        raise ValueError(
            f"{made.name} is registered already, with something else; pass replace=True to register it again"
        )
    if check is not None:
        check_derivative(made, check)
    remember(f, made)
    return made


def from_cython(
    module: ModuleType | str,
    name: str,
    *,
    derivative: Any = None,
    derivative_from_output: Any = None,
    value_and_derivative: Any = None,
    nondiff: Iterable[str] = (),
    user_data: Any = None,
    raises: bool = False,
    threadsafe: bool = True,
    check: Any = None,
) -> ScalarFunction:
    """Register a function that a Cython module exports: ``cdef api ... noexcept nogil``, or named in its ``.pxd``.

    Parameters
    ----------
    module : module or str
        The extension module, or its dotted name.
    name : str
        The function's name. A fused function is used for all its types that can be called.
    derivative, derivative_from_output, value_and_derivative : str or as for `register`, optional
        A string names a function of the same module; ``"other.module:name"`` one of another.
    nondiff, user_data, raises, threadsafe, check
        As for `register`.

    Returns
    -------
    ScalarFunction
        It can be pickled: by the names of module and functions.

    Raises
    ------
    AttributeError
        If the module exports no function of that name.
    SignatureError
        If its C signature, or a derivative's, is not one of those that can be called.

    Examples
    --------
    >>> import numpy as np
    >>> from tmapad import from_cython, rrule, tmap
    >>> gammaln = from_cython("scipy.special.cython_special", "gammaln", derivative="psi")
    >>> y, back = rrule(tmap, gammaln, np.array([1.0, 2.0]))
    >>> back(np.ones(2))[2]
    array([-0.57721566,  0.42278434])
    """
    options = {
        "derivative": derivative,
        "derivative_from_output": derivative_from_output,
        "value_and_derivative": value_and_derivative,
        "nondiff": _names(nondiff),
        "user_data": user_data,
        "raises": raises,
        "threadsafe": threadsafe,
    }
    if not isinstance(module, (ModuleType, str)):
        raise TypeError(f"module must be a module or its dotted name, not {module!r:.60}")
    value = cython_pointers(module, name, user_data=user_data, raises=raises)
    origin = module if isinstance(module, str) else module.__name__
    recipe = None if user_data is not None else (_from_cython_again, (origin, name, options))
    made = build(value, {**options, "module": module}, recipe)
    if check is not None:
        check_derivative(made, check)
    return made


def _names(nondiff: Any) -> tuple[str, ...]:
    names = (nondiff,) if isinstance(nondiff, str) else tuple(nondiff) if isinstance(nondiff, Iterable) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"nondiff must hold names of arguments, not {nondiff!r:.60}")
    return names


def _from_cython_again(module: str, name: str, options: dict[str, Any]) -> ScalarFunction:
    return from_cython(module, name, **options)


def _register_again(f: Any, options: dict[str, Any]) -> ScalarFunction:
    """Unpickle: as registered here already, or registered now."""
    known = registered(f)
    again: ScalarFunction = register(f, **options) if known is None else known
    return again


def _same(a: ScalarFunction, b: ScalarFunction) -> bool:
    """Whether two functions were registered with the same things."""
    assert a._recipe is not None
    assert b._recipe is not None
    old, new = a._recipe[1][-1], b._recipe[1][-1]
    return all(old[key] is new[key] or (key != "user_data" and old[key] == new[key]) for key in new)
