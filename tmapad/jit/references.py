"""What a Python function reads from outside itself, and whether that is still the same.

Numba compiles the values of globals and closure cells into the code as constants. Whoever runs compiled code
later must know that they have not changed since: `References` remembers them, for a function and all the
functions it calls, and compares in a fraction of a microsecond.

Numbers that have a derivative, and arrays, are no constants: compiled code is given them as arguments (see
`captures`), and only their types are compared. Of other objects whose contents Numba would copy into the code
(lists) what changes inside is not seen, so these are refused.
"""

import array
import dis
import enum
import sys
from _ctypes import CFuncPtr
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tmapad._foreign import _FUNCFLAG_PYTHONAPI, _holds_callback
from tmapad._protocol import REGISTRY, Implementation, Registered, identity
from tmapad.jit.captures import Capture, Place, capture_type
from tmapad.jit.given import is_whole, python_of, with_parts
from tmapad.jit.raises import bare
from tmapad.jit.tokens import Address, token

MISSING = object()
GLOBAL, CELL, DEFAULT, MODULE, ATTRIBUTE, ARGUMENT = (
    "global variable",
    "captured variable",
    "default value",
    "module attribute",
    "attribute",
    "bound argument",
)

_STABLE_PACKAGES = frozenset({*sys.stdlib_module_names, "llvmlite", "numba", "numpy", "scipy"})
CONTAINERS = (np.ndarray, np.void, list, dict, set, bytearray, memoryview, array.array)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of classes that are not static in C
_VALUES = (*CONTAINERS, bool, int, float, complex, str, bytes, tuple, np.generic, enum.Enum, type, Registered)
_DOUBLES = frozenset({np.float64, np.complex128})
_DOUBLE_NAMES = frozenset({"float64", "double", "complex128", "cdouble"})


@dataclass(frozen=True)
class Reference:
    """One value that compiled code depends on.

    Attributes
    ----------
    path : str
        How the function gets at it: ``"rate"``, ``"settings.rate"``, ``"helper.rate"``.
    kind : str
        `GLOBAL`, `CELL`, `DEFAULT`, `MODULE`, `ATTRIBUTE` or `ARGUMENT`.
    holder : dict, cell, function, module or object
        Where the value is looked up, under `key`.
    key : str
    value : object
        What was found there; `MISSING` for nothing, and for a capture.
    capture : int or None
        Its number among the captures, if compiled code is given its value as an argument.
    """

    path: str
    kind: str
    holder: Any
    key: str
    value: Any
    capture: int | None = None

    def read(self) -> Any:
        """Look the value up again."""
        return _READ[self.kind](self.holder, self.key)


class References:
    """What a function and all it calls read from outside, as of now.

    Parameters
    ----------
    function : function
        The functions it calls are found among the values it reads: plain functions, and those that Numba
        decorated. The standard library, NumPy, SciPy and Numba are taken to stay as they are.
    instance : object, optional
        What its first argument is, if it is a method.
    bound : mapping, optional
        Arguments that `functools.partial` gave it, by name.

    Attributes
    ----------
    all : list of Reference
        More may be listed than the compiled code depends on, never less.
    captures : list of Capture
        Those of them whose values compiled code is given as arguments.
    registered : dict
        Functions among them that are called as a whole (see `registered`), by their ids.
    """

    def __init__(
        self, function: FunctionType, *, instance: Any = MISSING, bound: Mapping[str, Any] | None = None
    ) -> None:
        self._changes = REGISTRY.changes
        self.all: list[Reference] = []
        self.captures: list[Capture] = []
        self.registered: dict[int, Registered] = {}
        self._stands_for: dict[Hashable, Registered] = {}  # by the identity of what was registered
        self._of_packages: list[tuple[str, Registered]] = []  # the same, of modules that stay as they are
        self._packages: dict[int, ModuleType] = {}
        self._in_derivative = False
        self._reader = 0  # the id of the registered function that reads what is added, if it is one
        self._visited: set[tuple[int, int]] = set()  # functions, each with what it is called by
        self._done: set[tuple[int, str]] = set()  # attributes that were read, by the ids of what they are of
        self._function = function
        self._captured: list[Reference] = []
        self._paths: set[str] = set()
        self._functions: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._numbers: dict[int, int] = {}  # of functions, by their ids
        # Modules and plain objects, whose attributes may be read: number, path, and the object, by its id.
        self._holders: dict[int, tuple[int, str, Any]] = {}
        self._attributes: set[str] = {"__call__"}
        # What is read where: by the id of a function or an object, and a name.
        self._found: dict[tuple[int, str, str], Reference] = {}
        self._given = bound or {}
        references = [Reference(name, ARGUMENT, self._given, name, value) for name, value in self._given.items()]
        self._follow([self._add(reference) for reference in references])
        if instance is not MISSING:
            self._hold(instance, "")
        self._visit(function, "")
        self._visit_holders()
        while self._include_from_packages():
            self._visit_holders()
        # What `current` walks through, by the kind of look-up.
        fixed = [r for r in self.all if r.capture is None]
        self._in_dicts = [(r.holder, r.key, r.value) for r in fixed if r.kind == GLOBAL]
        self._in_cells = [(r.holder, r.value) for r in fixed if r.kind == CELL]
        self._in_modules = [(r.holder, r.key, r.value) for r in fixed if r.kind == MODULE]
        self._in_objects = [(r.holder, r.key, r.value) for r in fixed if r.kind == ATTRIBUTE]
        self._types = [(r, capture.type) for r, capture in zip(self._captured, self.captures, strict=True)]

    def current(self) -> bool:
        """Whether every name is still bound to the same object; False may also mean to an equal one."""
        if REGISTRY.changes is not self._changes:
            return False
        for function, code, defaults, keyword_defaults in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keyword_defaults
            ):
                return False
        for namespace, key, value in self._in_dicts:
            if namespace.get(key, MISSING) is not value:
                return False
        for cell, value in self._in_cells:
            if _contents(cell) is not value:
                return False
        for module, key, value in self._in_modules:
            if getattr(module, key, MISSING) is not value:
                return False
        for holder, key, value in self._in_objects:
            if attribute(holder, key) is not value:
                return False
        return all(kind.is_of(reference.read()) for reference, kind in self._types)

    def values(self, bound: Mapping[str, Any] | None = None) -> list[Any] | None:
        """The captured values as of now; None if the type of one is another now.

        Those of `bound` are used for arguments that were given by `functools.partial`.
        """
        values = [
            bound[reference.key] if bound is not None and reference.holder is self._given else reference.read()
            for reference, _ in self._types
        ]
        fits = all(kind.is_of(value) for value, (_, kind) in zip(values, self._types, strict=True))
        return values if fits else None

    def problem(self) -> str | None:
        """What cannot be compiled of it, if anything, as the end of a sentence that begins with the function."""
        for reference in self.all:
            for value in _flat(reference.value):
                for is_wrong, why in _PROBLEMS.items():
                    if is_wrong(reference, value):
                        return why.format(kind=reference.kind, path=reference.path, type=type(value).__name__)
        return None

    def found(self, holder: Any, kind: str, name: str) -> Reference | None:
        """What a function reads as a global or captured variable, or what is read from a module or an object."""
        return self._found.get((id(holder), kind, name))

    def capture_of(self, argument: str) -> int | None:
        """The number of a bound argument among the captures; None if it is a constant."""
        return self._found[id(None), ARGUMENT, argument].capture

    def read_by(self, function: FunctionType, kind: str) -> Iterator[Reference]:
        """What a function reads as global or captured variables."""
        names = function.__code__.co_freevars if kind == CELL else _names(function.__code__)[0]
        return filter(None, (self.found(function, kind, name) for name in names))

    def held(self, value: Any) -> int | None:
        """The number of a module or an object whose attributes may be read."""
        entry = self._holders.get(id(value))
        return None if entry is None or entry[2] is not value or self.stands_for(value) else entry[0]

    def stands_for(self, value: Any) -> Registered | None:
        """The registered function that is called as a whole where `value` is called."""
        return self._stands_for.get(identity(value))

    def path_of(self, value: Any) -> str:
        """How the function gets at a module or object that is `held`."""
        return self._holders[id(value)][1]

    def name_double(self) -> bool:
        """Whether ``np.float64`` or the like is read anywhere: float64 is asked for, by a conversion for example."""
        read = any(isinstance(one.value, type) and one.value in _DOUBLES for one in self.all)
        return read or not self._attributes.isdisjoint(_DOUBLE_NAMES)

    def tokens(self) -> tuple[Any, ...]:
        """What tells compiled code for this from other code: all that it depends on. Hashable."""
        functions = [
            (code, self._token(defaults), self._token(tuple((keywords or {}).items())))
            for _, code, defaults, keywords in self._functions
        ]
        references = [
            (reference.path, reference.kind, reference.capture, self._token_of(reference)) for reference in self.all
        ]
        registered = [(name, Address(id(given))) for name, given in self._of_packages]
        return (*functions, *references, *registered)

    def kept(self) -> list[Any]:
        """Objects that `tokens` names by their address: nothing else may get it while the tokens are compared."""
        constants = [reference.value for reference in self.all if reference.capture is None]
        named = [value for value in _flat(tuple(constants)) if isinstance(self._token(value), Address)]
        return [*named, *self.registered.values()]

    def _token_of(self, reference: Reference) -> Any:
        return self._token(reference.value) if reference.capture is None else self.captures[reference.capture].type

    def _token(self, value: Any) -> Hashable:
        return token(value, self._token_of_object)

    def _token_of_object(self, value: Any) -> Hashable | None:
        """What stands for one whose contents are compared as well, or that something else stands for."""
        if (given := self.stands_for(value)) is not None:
            return Address(id(given))
        if isinstance(value, FunctionType) and id(value) in self._numbers:
            return ("function", self._numbers[id(value)])
        number = self.held(value)
        return None if number is None else ("object", number)

    def _visit(self, function: FunctionType, path: str) -> None:
        if (id(function), self._reader) in self._visited:
            return
        self._visited.add((id(function), self._reader))
        if id(function) not in self._numbers:
            self._numbers[id(function)] = len(self._functions)
            self._functions.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        names, attributes = _names(function.__code__)
        self._attributes |= attributes
        added = []
        for name in names:
            value = function.__globals__.get(name, MISSING)
            added.append(self._add(Reference(path + name, GLOBAL, function.__globals__, name, value), function))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            added.append(self._add(Reference(path + name, CELL, cell, name, _contents(cell)), function))
        for name, value in _defaults(function):
            added.append(self._add(Reference(path + name, DEFAULT, function, name, value)))
        self._follow(added)

    def _visit_holders(self) -> None:
        """Add what may be read from modules and objects: every attribute that is named anywhere.

        They can be renamed or handed on before something is read from them, so where a name belongs to is
        not always seen.
        """
        done = self._done
        while missing := [
            (path, holder, key)
            for _, path, holder in self._holders.values()
            for key in sorted(self._attributes)
            if (id(holder), key) not in done
        ]:
            added = []
            for path, holder, key in missing:
                done.add((id(holder), key))
                kind = MODULE if isinstance(holder, ModuleType) else ATTRIBUTE
                if (value := _READ[kind](holder, key)) is not MISSING:
                    where = f"{path}.{key}" if path else key
                    added.append(self._add(Reference(where, kind, holder, key, value), holder))
            self._follow(added)

    def _hold(self, value: Any, path: str) -> None:
        self._holders.setdefault(id(value), (len(self._holders), path, value))

    def _add(self, reference: Reference, reader: Any = None) -> Reference:
        reference = self._with_capture(reference)
        self.all.append(reference)
        place = id(reader), reference.kind, reference.key
        if not self._reader or place not in self._found:
            self._found[place] = reference
        if reference.capture is not None:
            self._captured += [reference] if reference.capture == len(self._captured) else []
        return reference

    def _follow(self, references: list[Reference]) -> None:
        """Go on with the functions and objects that were read."""
        for reference in references:
            value, path = reference.value, reference.path
            if reference.capture is not None or self._include(value, f"{path}."):
                continue
            if reference.kind == ATTRIBUTE and isinstance(value, FunctionType):
                self._include(MethodType(value, reference.holder), f"{path}.")
            if isinstance(value, ModuleType):
                if not _is_stable(value.__name__):
                    self._hold(value, path)
                else:
                    self._packages[id(value)] = value
            elif is_plain(value):
                self._hold(value, path)
            else:
                parts = list(_flat(value))
                for number, part in enumerate(parts):
                    inside = f"{path}." if len(parts) == 1 else f"{path}.{number}."
                    if self._include(part, inside):
                        continue
                    function = python_code_of(part.__func__ if isinstance(part, staticmethod) else part)
                    if function is not None and not _is_stable(function.__module__):
                        self._visit(function, inside)

    def _include(self, value: Any, path: str) -> bool:
        """Add what a registered function and its derivative read, if that is what `value` is called as."""
        given = REGISTRY.find(value)
        if given is None or not is_whole(given) or self._is_itself(given):
            return False
        self._stands_for[identity(value)] = given
        if id(given) not in self.registered:
            self.registered[id(given)] = given
            outside, reader = self._in_derivative, self._reader
            self._reader = id(given)
            for number, part in enumerate(with_parts(given)):
                self._in_derivative = outside or number > 0
                self._read_by(part, f"{path}derivative." if number else path)
            self._in_derivative, self._reader = outside, reader
        return True

    def _is_itself(self, given: Registered) -> bool:
        """Whether it is the function whose references these are: one that calls itself."""
        source = python_of(given.implementation)
        return source is not None and source.is_plain and source.function is self._function

    def _read_by(self, part: Implementation, path: str) -> None:
        """Add what one of the functions of a registered function reads."""
        source = python_of(part)
        if source is not None:
            bound = source.bound
            references = [Reference(path + name, ARGUMENT, bound, name, bound[name]) for name in bound]
            self._follow([self._add(reference, bound) for reference in references])
            if source.instance is not MISSING:
                self._hold(source.instance, path.removesuffix("."))
            self._visit(source.function, path)
        if (owner := REGISTRY.owner(part)) is not None:
            self._include(owner, path)

    def _include_from_packages(self) -> bool:
        """Include what was registered of modules that stay as they are; whether there was anything new."""
        before = len(self.registered)
        pending, done = list(self._packages.values()), set()
        while pending:
            module = pending.pop()
            done.add(id(module))
            for key in sorted(self._attributes & vars(module).keys()):
                value = vars(module)[key]
                if isinstance(value, ModuleType):
                    pending += [value] if id(value) not in done else []
                elif identity(value) not in self._stands_for and self._include(value, f"{key}."):
                    self._of_packages.append((f"{module.__name__}.{key}", self._stands_for[identity(value)]))
        return len(self.registered) > before

    def place_of(self, capture: Capture, given: Registered) -> int:
        """The number of a capture that a registered function has, which is called as a whole."""
        place = capture.place.read_by(given)
        return next(number for number, one in enumerate(self.captures) if one.place == place)

    def _with_capture(self, reference: Reference) -> Reference:
        """Give a number to what compiled code gets as an argument."""
        kind = None if reference.kind == DEFAULT else capture_type(reference.value)
        if kind is None:
            return reference
        for other in self._captured if reference.kind == GLOBAL else ():
            if other.kind == GLOBAL and other.holder is reference.holder and other.key == reference.key:
                return replace(reference, value=MISSING, capture=other.capture)
        path = reference.path
        while path in self._paths:  # an attribute `a` of an instance, and an argument `a` of its method
            path = f"self.{path}"
        self._paths.add(path)
        constant = self._in_derivative or reference.kind in (GLOBAL, MODULE)
        reader = None if reference.kind == GLOBAL else self._reader
        place = Place(reference.kind, id(reference.holder), reference.key, reader)
        self.captures.append(Capture(path, kind, constant, place))
        # The value itself is not kept: it may be a large array.
        return replace(reference, path=path, value=MISSING, capture=len(self.captures) - 1)


def python_code_of(value: Any) -> FunctionType | None:
    """The Python function that Numba compiles where `value` is called: its own, or what was decorated."""
    if isinstance(value, FunctionType):
        return value
    if is_numba(value, "dispatcher", "Dispatcher"):
        return _as_function(value.py_func)
    if is_numba(value, "ccallback", "CFunc"):
        return _as_function(value.__wrapped__)
    source = python_of(value.implementation) if isinstance(value, Registered) else None
    return source.function if source is not None and source.is_plain else None


def is_numba(value: Any, module: str, name: str) -> bool:
    """Whether `value` is of a class in ``numba.core``; none can be if that was not imported yet."""
    found = getattr(sys.modules.get(f"numba.core.{module}"), name, None)
    return isinstance(found, type) and isinstance(value, found)


def attribute(holder: Any, name: str) -> Any:
    """What an object has under a name, without running any code of its class: a property is given as it is."""
    found = MISSING
    for cls in type(holder).__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            break
    if isinstance(found, MemberDescriptorType):  # of __slots__
        try:
            return found.__get__(holder)
        except AttributeError:
            return MISSING
    if hasattr(type(found), "__set__"):  # a property, or what is like one: it has the last word
        return found
    return _namespace(holder).get(name, found)


def _namespace(holder: Any) -> dict[str, Any]:
    try:
        namespace: dict[str, Any] = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return {}
    return namespace


def _as_function(value: Callable[..., Any]) -> FunctionType | None:
    return value if isinstance(value, FunctionType) else None


@lru_cache(512)
def _names(code: CodeType) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of the globals and of the attributes that `code` and the functions in it read."""
    names: dict[str, None] = {}
    attributes = set()
    for instruction in _instructions(bare(code)):
        # By what the interpreter's own table says has a name, so that none is missed that a later version adds.
        if instruction.opcode not in dis.hasname:
            continue
        if "GLOBAL" in instruction.opname or instruction.opname.endswith("_NAME"):
            names[instruction.argval] = None
        else:
            attributes.add(instruction.argval)
    return tuple(names), frozenset(attributes)


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Instructions of `code` and of the functions, lambdas and comprehensions inside it."""
    yield from dis.get_instructions(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _instructions(constant)


def _contents(cell: CellType, _: str = "") -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return MISSING


_READ: dict[str, Callable[[Any, str], Any]] = {
    GLOBAL: lambda namespace, key: namespace.get(key, MISSING),
    CELL: _contents,
    MODULE: lambda module, key: getattr(module, key, MISSING),
    ATTRIBUTE: attribute,
    ARGUMENT: lambda bound, key: bound[key],
}


def _is_stable(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _STABLE_PACKAGES


def is_plain(value: Any) -> bool:
    """Whether it is an object of a class written in Python, whose attributes can be read one by one."""
    cls = type(value)
    if cls is SimpleNamespace:
        return True
    if value is MISSING or isinstance(value, _VALUES) or python_code_of(value) is not None:
        return False
    if not cls.__flags__ & _HEAP_TYPE or _is_stable(cls.__module__) or hasattr(cls, "_numba_type_"):
        return False
    if any("__getattribute__" in vars(one) for one in cls.__mro__[:-1]):  # what that gives is known by asking it only
        return False
    return not callable(value) or python_code_of(attribute(value, "__call__")) is not None


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


def _is_container(reference: Reference, value: Any) -> bool:
    # Attributes are found by their names alone: what is wrong with one is said where it is read.
    return reference.kind != ATTRIBUTE and reference.capture is None and isinstance(value, CONTAINERS)


def _runs_python(_: Reference, value: Any) -> bool:
    if not isinstance(value, CFuncPtr):
        return False
    return bool(type(value)._flags_ & _FUNCFLAG_PYTHONAPI) or _holds_callback(value)


def _is_getattr(reference: Reference, value: Any) -> bool:
    return value is getattr or (value is MISSING and reference.key == "getattr")


_PROBLEMS: dict[Callable[[Reference, Any], bool], str] = {
    _is_container: "reads the {kind} {path!r}, of type {type}: compiled code would keep a copy of what it holds now, "
    "and not see it change. Pass numbers as arguments, or use a tuple or an array of numbers",
    _runs_python: "calls the {kind} {path!r}, a ctypes function that runs Python code, for which threads would have "
    "to wait for each other: call the Python function itself",
    _is_getattr: "uses getattr, of which Numba remembers what it once gave: write the name of the attribute",
}
