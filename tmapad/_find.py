"""From what a user passes to the `ScalarFunction` behind it: as registered, or made of it now."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import numpy as np

from tmapad._automatic import Automatic
from tmapad._bound import Bound
from tmapad._function import ScalarFunction
from tmapad._pointers import pointer
from tmapad._protocol import REGISTRY, Implementation, identity
from tmapad._ufuncs import TableForm, Ufunc, ufunc
from tmapad.jit import PythonFunction, bound_by, call_bound, capture_type, code_of, python_function
from tmapad.jit.tokens import token

ACCEPTED = (
    "a Python or njit function, a method or an object that is called, a ufunc, a ctypes or cffi function pointer, "
    "a scipy.LowLevelCallable, a capsule, a numba.cfunc, or what register or from_cython returned"
)

# Entries hold the function itself, so that its identity stays its own.
_seen: dict[Hashable, tuple[Any, ScalarFunction]] = {}
_SEEN_AT_MOST = 256  # functions that were never registered, the last ones used
_holding: deque[Hashable] = deque()  # those seen that captured arrays, which live as long as they do
_HOLDING_AT_MOST = 8


class Resolved(NamedTuple):
    """What a user passed as a function.

    Attributes
    ----------
    function : ScalarFunction
    positions : dict
        What `functools.partial` bound of a registered function, by position.
    bound : mapping or None
        What it bound of a Python function, by name: of these the function takes no arguments.
    python : callable or None
        Runs one element in Python, if the function itself cannot, not knowing what was bound.
    """

    function: ScalarFunction
    positions: dict[int, Any]
    bound: Mapping[str, Any] | None = None
    python: Callable[..., Any] | None = None


def find(f: Any) -> ScalarFunction:
    """Return the `ScalarFunction` of something callable: as registered, or made of it now.

    Raises
    ------
    TypeError
        If it is nothing that can be mapped.
    """
    if (known := registered(f)) is not None:
        return known
    found = _seen.get(identity(f))
    return _remembered(identity(f), f, _make(f, implementation(f, "f"))) if found is None else found[1]


def _remembered(key: Hashable, f: Any, made: ScalarFunction) -> ScalarFunction:
    for oldest in list(_seen)[:-_SEEN_AT_MOST]:
        _seen.pop(oldest, None)
    _seen[key] = (f, made)  # which keeps f alive, and so its id its own
    if made.captures_arrays:
        _holding.append(key)
        for _ in range(len(_holding) - _HOLDING_AT_MOST):
            _seen.pop(_holding.popleft(), None)
    return made


def _make(f: Any, value: Implementation) -> ScalarFunction:
    recipe = (find, (f,)) if isinstance(value, (Ufunc, PythonFunction)) else None
    return ScalarFunction(value, derived(value), recipe=recipe)


def derived(value: Implementation) -> Automatic | TableForm | None:
    """Return the derivative that need not be given: of known ufuncs, and of Python functions."""
    if isinstance(value, Ufunc):
        return TableForm(value)
    return Automatic(value) if isinstance(value, PythonFunction) else None


def implementation(f: Any, role: str, *, from_output: bool = False, **options: Any) -> Implementation:
    """Return what runs `f`, which a user passed as `role`."""
    if isinstance(f, functools.partial) and not (role == "f" and _is_python(f.func)):
        inner = implementation(f.func, role, from_output=from_output, **options)
        return Bound(inner, positions(f, inner.name, inner.parameters))
    if isinstance(f, ScalarFunction):
        return f.implementation
    known = None if isinstance(f, functools.partial) else registered(f)
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
    made: Implementation | None = ufunc(f, raises=options.get("raises", False))
    made = made or python_function(f, division=options.get("division", "ieee"))
    if made is None:
        if isinstance(f, BuiltinFunctionType):
            call = f"{f.__module__}.{f.__name__}" if f.__module__ not in (None, "builtins") else f.__name__
            raise TypeError(f"{role} is the builtin {call}, which has no code to compile: pass lambda x: {call}(x)")
        raise TypeError(f"{role} is {f!r:.80} ({type(f).__name__}); it must be {ACCEPTED}")
    return made


def registered(f: Any) -> ScalarFunction | None:
    """Return what `f` was registered as; itself if that is what it is."""
    known = REGISTRY.find(f)
    assert known is None or isinstance(known, ScalarFunction)
    return known


def remember(f: Any, function: ScalarFunction) -> None:
    """From now on `f` stands for the function."""
    REGISTRY.add(f, function)
    _seen.pop(identity(f), None)


def _is_python(f: Any) -> bool:
    """Whether it is a Python function, method or object that nobody registered, of which partial may bind anything."""
    if isinstance(f, ScalarFunction) or registered(f) is not None:
        return False
    return code_of(functools.partial(f)) is not None


def resolve(f: Any) -> Resolved:
    """Return the function behind `f`, and what `functools.partial` bound."""
    if not isinstance(f, functools.partial):
        return Resolved(find(f), {})
    if not _is_python(f.func):
        function = find(f.func)
        return Resolved(function, positions(f, function.name, function.parameters))
    bound = bound_by(f)
    key = (identity(f.func), tuple((name, _token(value)) for name, value in bound.items()))
    found = _seen.get(key)
    if found is None:
        # Others like it are the same function with other values of what it captured.
        like = functools.partial(f.func, **{name: _representative(value) for name, value in bound.items()})
        function = _remembered(key, like, _make(like, implementation(like, "f")))
    else:
        function = found[1]
    return Resolved(function, {}, bound, functools.partial(call_bound, f.func, bound, function.parameters))


def _token(value: Any) -> Hashable:
    """What stands for a bound value: the type of one that is captured, a constant itself."""
    kind = capture_type(value)
    return token(value) if kind is None else kind


def _representative(value: Any) -> Any:
    """A value of the same type, so that an array need not be kept."""
    kind = capture_type(value)
    return value if kind is None or kind.ndim is None else np.empty((0,) * kind.ndim, kind.given)


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
