"""What a Python function reads from outside itself, and whether that is still the same.

Numba compiles the values of globals and closure cells into the code as constants. Whoever runs compiled code
later must know that they have not changed since: `References` remembers them, for a function and all the
functions it calls, and compares in a fraction of a microsecond.

Rebinding a name is seen. What changes inside an object is not, so objects whose contents Numba would copy
into the code (arrays, lists) are refused.
"""

import array
import dis
import sys
from _ctypes import CFuncPtr
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from tmapad._foreign import _FUNCFLAG_PYTHONAPI, _holds_callback
from tmapad._protocol import Registered
from tmapad.jit.raises import bare

_MISSING = object()
_GLOBAL_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_ATTRIBUTE_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_STABLE_PACKAGES = frozenset({*sys.stdlib_module_names, "llvmlite", "numba", "numpy", "scipy"})
_CONTAINERS = (np.ndarray, np.void, list, dict, set, bytearray, memoryview, array.array)


@dataclass(frozen=True)
class Reference:
    """One value that compiled code depends on.

    Attributes
    ----------
    path : str
        How the function gets at it: ``"rate"``, ``"settings.rate"``, ``"helper.rate"``.
    kind : str
        "global variable", "captured variable", "module attribute" or "default value".
    holder : dict, cell, module or function
        Where the value is looked up, under `key`.
    key : str
    value : object
        What was found there; `_MISSING` for nothing.
    """

    path: str
    kind: str
    holder: Any
    key: str
    value: Any


class References:
    """What a function and all it calls read from outside, as of now.

    Parameters
    ----------
    function : function
        The functions it calls are found among the values it reads: plain functions, and those that Numba
        decorated. The standard library, NumPy, SciPy and Numba are taken to stay as they are.

    Attributes
    ----------
    all : list of Reference
        More may be listed than the compiled code depends on, never less.
    """

    def __init__(self, function: FunctionType) -> None:
        self.all: list[Reference] = []
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._modules: dict[int, tuple[str, ModuleType]] = {}
        self._attributes: set[str] = set()
        self._visit(function, "")
        self._visit_modules()
        # What `current` walks through, by the kind of look-up.
        self._in_dicts = [(r.holder, r.key, r.value) for r in self.all if r.kind == "global variable"]
        self._in_cells = [(r.holder, r.value) for r in self.all if r.kind == "captured variable"]
        self._in_modules = [(r.holder, r.key, r.value) for r in self.all if r.kind == "module attribute"]

    def current(self) -> bool:
        """Whether every name is still bound to the same object; False may also mean to an equal one."""
        for function, code, defaults, keyword_defaults in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keyword_defaults
            ):
                return False
        for namespace, key, value in self._in_dicts:
            if namespace.get(key, _MISSING) is not value:
                return False
        for cell, value in self._in_cells:
            if _contents(cell) is not value:
                return False
        for module, key, value in self._in_modules:  # noqa: SIM110 - a generator costs as much as the rest
            if getattr(module, key, _MISSING) is not value:
                return False
        return True

    def same_as(self, other: "References") -> bool:
        """Whether code compiled for `other` is right for this: equal numbers need not be the same object."""
        return self._tokens() == other._tokens()

    def problem(self) -> str | None:
        """What cannot be compiled of it, if anything, as the end of a sentence that begins with the function."""
        for reference in self.all:
            for value in _flat(reference.value):
                for is_wrong, why in _PROBLEMS.items():
                    if is_wrong(reference, value):
                        return why.format(kind=reference.kind, path=reference.path, type=type(value).__name__)
        return None

    def numbers(self) -> dict[str, Any]:
        """Captured variables that hold a float, a complex number or an array of these."""
        return {
            reference.path: reference.value
            for reference in self.all
            if reference.kind == "captured variable" and _is_differentiable(reference.value)
        }

    def _tokens(self) -> list[Any]:
        functions = [
            (code, _token(defaults), _token(tuple((keywords or {}).items())))
            for _, code, defaults, keywords in self._functions
        ]
        return [*functions, *((reference.path, _token(reference.value)) for reference in self.all)]

    def _visit(self, function: FunctionType, path: str) -> None:
        if any(function is seen for seen, *_ in self._functions):
            return
        self._functions.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        names: dict[str, None] = {}
        for instruction in _instructions(bare(function.__code__)):
            if instruction.opname in _GLOBAL_LOADS:
                names[instruction.argval] = None
            elif instruction.opname in _ATTRIBUTE_LOADS:
                self._attributes.add(instruction.argval)
        for name in names:
            value = function.__globals__.get(name, _MISSING)
            self._add(Reference(path + name, "global variable", function.__globals__, name, value))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._add(Reference(path + name, "captured variable", cell, name, _contents(cell)))
        for name, value in _defaults(function):
            self._add(Reference(path + name, "default value", function, name, value))

    def _visit_modules(self) -> None:
        """Add what may be read from modules: every attribute that is named anywhere.

        A module can be renamed or handed on before something is read from it, so where a name belongs to is
        not always seen.
        """
        done: set[tuple[int, str]] = set()
        while missing := [
            (path, module, key)
            for path, module in self._modules.values()
            for key in sorted(self._attributes)
            if (id(module), key) not in done
        ]:
            for path, module, key in missing:
                done.add((id(module), key))
                if (value := getattr(module, key, _MISSING)) is not _MISSING:
                    self._add(Reference(f"{path}.{key}", "module attribute", module, key, value))

    def _add(self, reference: Reference) -> None:
        self.all.append(reference)
        if isinstance(reference.value, ModuleType):
            if not _is_stable(reference.value.__name__):
                self._modules.setdefault(id(reference.value), (reference.path, reference.value))
            return
        for value in _flat(reference.value):
            function = python_code_of(value)
            if function is not None and not _is_stable(function.__module__):
                self._visit(function, f"{reference.path}.")


def python_code_of(value: Any) -> FunctionType | None:
    """The Python function that Numba compiles where `value` is called: its own, or what was decorated."""
    if isinstance(value, FunctionType):
        return value
    if is_numba(value, "dispatcher", "Dispatcher"):
        return _as_function(value.py_func)
    if is_numba(value, "ccallback", "CFunc"):
        return _as_function(value.__wrapped__)
    if isinstance(value, Registered) and value.implementation.python is not None:
        return _as_function(value.implementation.python)
    return None


def is_numba(value: Any, module: str, name: str) -> bool:
    """Whether `value` is of a class in ``numba.core``; none can be if that was not imported yet."""
    found = getattr(sys.modules.get(f"numba.core.{module}"), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _as_function(value: Callable[..., Any]) -> FunctionType | None:
    return value if isinstance(value, FunctionType) else None


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Instructions of `code` and of the functions, lambdas and comprehensions inside it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _is_stable(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _STABLE_PACKAGES


def _flat(value: Any) -> Iterator[Any]:
    """`value`, or what it holds if it is a tuple: only tuples can be constants with parts."""
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of the defaults of a function's arguments."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _is_container(_: Reference, value: Any) -> bool:
    return isinstance(value, _CONTAINERS)


def _runs_python(_: Reference, value: Any) -> bool:
    if not isinstance(value, CFuncPtr):
        return False
    return bool(type(value)._flags_ & _FUNCFLAG_PYTHONAPI) or _holds_callback(value)


def _is_default_function(reference: Reference, value: Any) -> bool:
    return reference.kind == "default value" and python_code_of(value) is not None


def _is_getattr(reference: Reference, value: Any) -> bool:
    return value is getattr or (value is _MISSING and reference.key == "getattr")


_PROBLEMS: dict[Callable[[Reference, Any], bool], str] = {
    _is_container: "reads the {kind} {path!r}, of type {type}: compiled code would keep a copy of what it holds now, "
    "and not see it change. Pass numbers as arguments, or use a tuple of numbers",
    _runs_python: "calls the {kind} {path!r}, a ctypes function that runs Python code, for which threads would have "
    "to wait for each other: call the Python function itself",
    _is_getattr: "uses getattr, of which Numba remembers what it once gave: write the name of the attribute",
    _is_default_function: "has a function as the {kind} of {path!r}: call it by its own name instead",
}


def _is_differentiable(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "fc"
    return isinstance(value, float | complex)


def _token(value: Any) -> Any:
    """What stands for `value` when two are compared: numbers by their bits, other objects by identity."""
    if isinstance(value, tuple):
        return (type(value), *map(_token, value))
    if isinstance(value, np.generic):
        return (value.dtype, value.tobytes())
    if isinstance(value, float | complex):
        return (type(value), np.array(value).tobytes())
    if value is None or isinstance(value, int | str | bytes):
        return (type(value), value)
    return id(value)
