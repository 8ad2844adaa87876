"""From what a user passes to the `ScalarFunction` behind it: as registered, or made of it now."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType
from typing import Any

from tmapad._bound import Bound
from tmapad._function import ScalarFunction
from tmapad._pointers import pointer
from tmapad._protocol import Implementation
from tmapad._ufuncs import TableForm, Ufunc, ufunc
from tmapad.jit import PythonFunction, python_function

ACCEPTED = (
    "a Python or njit function, a ufunc, a ctypes or cffi function pointer, a scipy.LowLevelCallable, a capsule, "
    "a numba.cfunc, or what register or from_cython returned"
)

# By the function's id. Entries hold the function itself, so that its id stays its own.
_registered: dict[int, tuple[Any, ScalarFunction]] = {}
_seen: dict[int, tuple[Any, ScalarFunction]] = {}
_SEEN_AT_MOST = 256  # functions that were never registered, the last ones used


def find(f: Any) -> ScalarFunction:
    """Return the `ScalarFunction` of something callable: as registered, or made of it now.

    Raises
    ------
    TypeError
        If it is nothing that can be mapped.
    """
    if isinstance(f, ScalarFunction):
        return f
    found = _registered.get(id(f)) or _seen.get(id(f))
    if found is not None:
        return found[1]
    made = _make(f, "f")
    for oldest in list(_seen)[:-_SEEN_AT_MOST]:
        _seen.pop(oldest, None)
    _seen[id(f)] = (f, made)  # which keeps f alive, and so its id its own
    return made


def _make(f: Any, role: str) -> ScalarFunction:
    value = implementation(f, role)
    form = TableForm(value) if isinstance(value, Ufunc) else None
    return ScalarFunction(value, form, recipe=(find, (f,)) if isinstance(value, (Ufunc, PythonFunction)) else None)


def implementation(f: Any, role: str, *, from_output: bool = False, **options: Any) -> Implementation:
    """Return what runs `f`, which a user passed as `role`."""
    if isinstance(f, functools.partial):
        inner = implementation(f.func, role, from_output=from_output, **options)
        return Bound(inner, positions(f, inner.name, inner.parameters))
    if isinstance(f, ScalarFunction):
        return f.implementation
    known = registered(f)
    if known is not None and role != "f":
        return known.implementation  # with the user data and the promises it was registered with
    native = pointer(
        f,
        name=options.get("name"),
        user_data=options.get("user_data"),
        raises=options.get("raises", False),
        max_inputs=6 + from_output,
    )
    if native is not None:
        return native
    made = ufunc(f, raises=options.get("raises", False)) or python_function(f, division=options.get("division", "ieee"))
    if made is None:
        if isinstance(f, BuiltinFunctionType):
            call = f"{f.__module__}.{f.__name__}" if f.__module__ not in (None, "builtins") else f.__name__
            raise TypeError(f"{role} is the builtin {call}, which has no code to compile: pass lambda x: {call}(x)")
        raise TypeError(f"{role} is {f!r:.80} ({type(f).__name__}); it must be {ACCEPTED}")
    return made


def registered(f: Any) -> ScalarFunction | None:
    """Return what `f` was registered as."""
    found = _registered.get(id(f))
    return None if found is None else found[1]


def remember(f: Any, function: ScalarFunction) -> None:
    """From now on `f` stands for the function."""
    _registered[id(f)] = (f, function)
    _seen.pop(id(f), None)


def resolve(f: Any) -> tuple[ScalarFunction, dict[int, Any]]:
    """Return the function behind `f`, and what `functools.partial` bound: values by argument."""
    if not isinstance(f, functools.partial):
        return find(f), {}
    function = find(f.func)
    return function, positions(f, function.name, function.parameters)


def positions(f: functools.partial[Any], function: str, parameters: tuple[str, ...]) -> dict[int, Any]:
    """Return what `functools.partial` bound, by position."""
    bound: dict[int, Any] = dict(enumerate(f.args))
    if len(bound) > len(parameters):
        raise TypeError(f"partial binds {len(bound)} arguments; {function} takes {len(parameters)}")
    for name, value in f.keywords.items():
        if name not in parameters:
            raise TypeError(f"partial binds {name!r}; {function} has the arguments {', '.join(parameters)}")
        index = parameters.index(name)
        if index in bound:
            raise TypeError(f"partial binds {name!r} twice, by position and by name")
        bound[index] = value
    return bound
