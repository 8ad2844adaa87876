"""The key of a compiled kernel in the cache: a digest of all that its machine code depends on.

Everything that goes in has a name or a value that means the same in every process. Of what has none (most
objects, C functions given by their address) nothing is assumed: there is no key then, and nothing is cached.
"""

import builtins
import os
import struct
import sys
import time
from collections.abc import Callable, Container
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np

from tmapad._core import processor
from tmapad._version import __version__
from tmapad.jit.digests import digest
from tmapad.jit.references import GLOBAL, MISSING, Reference, References, _is_stable, is_numba, python_code_of

_IMPORTED = time.time()
# Of our own sources those that decide what is compiled: folders, and which of their files.
_SOURCES: dict[str, Callable[[str], Any]] = {
    ".": lambda name: name == "_abi.h" or (name.startswith("_derivative") and name.endswith(".py")),
    "jit": lambda name: name.endswith(".py"),
}
# Files that change with the version of a package, or with the commit that it was built from. To read them takes
# a hundredth of the time that importlib.metadata needs.
_VERSION_FILES = {"llvmlite": "_version.py", "numba": "_version.py", "scipy": "version.py"}
# Settings of Numba that say where and how fast it works, and not what comes out.
_IRRELEVANT = frozenset({"NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR", "NUMBA_THREADING_LAYER"})
# Of a code object all that decides what it does. Not its file and its lines: nothing compiled depends on them.
_CODE_FIELDS = (
    *("co_code", "co_exceptiontable", "co_name", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_flags", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_consts"),
)
_UFUNC_MODULES = ("numpy", "scipy.special")


class _NamelessError(Exception):
    """Something has no name that means the same in every process."""


def key(references: References, **request: str) -> str | None:
    """Give the name under which a compiled function is cached: 64 hexadecimal digits. None if it cannot be.

    Parameters
    ----------
    references : References
        The function, and all that it reads.
    **request : str
        What else decides what is compiled: types, options, which derivatives.
    """
    try:
        content = _Names(references).function()
    except _NamelessError:
        return None
    facts = environment()
    if facts is None:
        return None
    return digest(ascii((facts, _settings(), sorted(request.items()), content)).encode())


@cache
def environment() -> tuple[tuple[str, str], ...] | None:
    """Tell what compiles, and for which machine. None if nothing does, or if our sources changed since they ran."""
    try:
        sources = _sources()
        facts = {**_versions(), **_machine()}
    except (ImportError, OSError):  # no llvmlite, or tmapad is in a zip file
        return None
    return None if sources is None else tuple({"sources": sources, **facts}.items())


def _versions() -> dict[str, str]:
    return {
        "tmapad": __version__,
        "Python": f"{sys.implementation.cache_tag} {sys.version}",
        "NumPy": np.__version__,
        "LLVM": _llvm_library(),
        **{package: _version_of(package) for package in _VERSION_FILES},
    }


def _machine() -> dict[str, str]:
    return {"processor": _processor(), "platform": f"{sys.platform} {sys.maxsize:x}", "C library": _c_library()}


def _processor() -> str:
    """What kind of processor this is: as it says itself, or as LLVM does, whose import takes long."""
    if (words := processor()) is not None:
        return words.hex()
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()} {llvm.get_process_triple()}"


def _llvm_library() -> str:
    """Which LLVM it is, without loading it: name, size and age of llvmlite's library."""
    origin = _origin("llvmlite")
    if origin is None:
        raise ImportError("there is no llvmlite", name="llvmlite")
    with os.scandir(Path(origin).parent / "binding") as entries:
        libraries = [(one.name, one.stat()) for one in entries if one.name.startswith(("libllvmlite.", "llvmlite."))]
    return repr(sorted((name, status.st_size, status.st_mtime_ns) for name, status in libraries))


def _version_of(package: str) -> str:
    """What tells versions of an installed package apart, without importing it; empty if there is none."""
    origin = _origin(package)
    if origin is None:
        return ""
    file = Path(origin).parent / _VERSION_FILES[package]
    if file.exists():
        return file.read_text()
    from importlib.metadata import version

    return version(package)


def _origin(package: str) -> str | None:
    """Where the file of a package is that is run first."""
    try:
        spec = find_spec(package)
    except ValueError:  # something else is imported under that name
        return None
    return None if spec is None else spec.origin


def _c_library() -> str:
    """Which libm is linked with and which computed what LLVM folded into constants."""
    if sys.platform == "win32":
        return str(sys.getwindowsversion())
    if "CS_GNU_LIBC_VERSION" in os.confstr_names:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    return os.uname().release


def _sources() -> str | None:
    """A digest of our own sources: whoever changes the compiler is not given what it made before."""
    contents = []
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - with Path all this takes four times as long
    for folder, is_source in _SOURCES.items():
        for name in sorted(filter(is_source, os.listdir(f"{package}/{folder}"))):  # noqa: PTH208
            with open(f"{package}/{folder}/{name}", "rb") as file:  # noqa: PTH123
                if os.fstat(file.fileno()).st_mtime > _IMPORTED:
                    return None
                contents += [name.encode(), file.read()]
    return digest(*contents)


def _settings() -> list[tuple[str, str]]:
    """Numba's settings in the environment, which it reads again at each compilation."""
    return sorted(
        (name, value) for name, value in os.environ.items() if name.startswith("NUMBA_") and name not in _IRRELEVANT
    )


class _Names:
    """What stands for a function and for the values it reads: tuples of strings, bytes and such, which `ascii` shows.

    Parameters
    ----------
    references : References
        Functions are numbered in the order in which they are found there, which is the order of the code.
    """

    def __init__(self, references: References) -> None:
        self._references = references
        self._seen_modules: set[str] = set()

    def function(self) -> Any:
        """Name the function with all that it reads.

        Raises
        ------
        _NamelessError
            Something in it has no name.
        """
        if _overloaded(self._references._numbers) or self._references.registered:
            raise _NamelessError
        codes = [self.value(code) for _, code, *_ in self._references._functions]
        return codes, [(one.path, one.kind, one.capture, self._reference(one)) for one in self._references.all]

    def _reference(self, reference: Reference) -> Any:
        """Name what the code depends on of a value it reads: the type of an argument, or all of a constant."""
        if reference.capture is not None:
            given = self._references.captures[reference.capture].type
            return np.dtype(given.given).str, isinstance(given.given, type), given.ndim
        if reference.kind == GLOBAL and reference.value is MISSING:
            return self._builtin(reference)
        return self.value(reference.value)

    def _builtin(self, reference: Reference) -> Any:
        namespace = reference.holder.get("__builtins__", builtins)
        if namespace is not builtins and namespace is not vars(builtins):
            raise _NamelessError
        return self.value(vars(builtins).get(reference.key, MISSING))

    def value(self, value: Any) -> Any:
        """Name one value."""
        if (name := _VALUES.get(type(value))) is not None:
            return type(value).__name__, name(self, value)
        if value is MISSING:
            return "missing"
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return "number", value.dtype.str, value.tobytes()
        if isinstance(value, type(np.sum)):
            return "function", _qualified(value)
        if (number := self._references.held(value)) is not None:
            return "object", number  # whose attributes are among the references
        function = python_code_of(value)
        if function is None:
            raise _NamelessError
        return type(value).__name__, self._python_function(function), _declared(value)

    def _python_function(self, function: FunctionType) -> Any:
        number = self._references._numbers.get(id(function))
        return _qualified(function) if number is None else number

    def _module(self, module: ModuleType) -> Any:
        """Name a module, and what may be read from it if `References` takes it to stay as it is.

        Somebody may have put something else into it.
        """
        if not _is_stable(module.__name__):
            return module.__name__
        if sys.modules.get(module.__name__) is not module:
            raise _NamelessError
        if module.__name__ in self._seen_modules:
            return module.__name__
        self._seen_modules.add(module.__name__)
        read = sorted(self._references._attributes & vars(module).keys())
        return module.__name__, [(name, self.value(vars(module)[name])) for name in read]


def _code(names: _Names, code: CodeType) -> Any:
    return [names.value(getattr(code, field)) for field in _CODE_FIELDS]


def _class(_: _Names, value: type) -> Any:
    if issubclass(value, BaseException):
        return value.__module__, value.__qualname__  # of which only the fact is compiled
    return _qualified(value)


def _qualified(value: Any) -> tuple[str, str]:
    """Module and name of what belongs to Python, NumPy, SciPy or Numba, if it is found there."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    found = sys.modules.get(module) if isinstance(module, str) and _is_stable(module) else None
    for part in name.split(".") if isinstance(name, str) else ():
        found = getattr(found, part, None)
    if found is not value:
        raise _NamelessError
    return module, name  # type: ignore[return-value]


def _ufunc(_: _Names, value: np.ufunc) -> tuple[str, str]:
    for module in _UFUNC_MODULES:
        if getattr(sys.modules.get(module), value.__name__, None) is value:
            return module, value.__name__
    raise _NamelessError


def _same(_: _Names, value: Any) -> Any:
    return value


# By the very type of a value: one of a class derived from it may be more than that.
_VALUES: dict[type, Callable[[_Names, Any], Any]] = {
    NoneType: _same,
    EllipsisType: _same,
    bool: _same,
    str: _same,
    bytes: _same,
    int: lambda _, value: hex(value),  # of which no number of digits is too long
    float: lambda _, value: struct.pack("<d", value),
    complex: lambda _, value: struct.pack("<dd", value.real, value.imag),
    tuple: lambda names, value: [names.value(part) for part in value],
    frozenset: lambda names, value: sorted((names.value(part) for part in value), key=ascii),
    slice: lambda names, value: [names.value(part) for part in (value.start, value.stop, value.step)],
    CodeType: _code,
    FunctionType: lambda names, value: names._python_function(value),
    staticmethod: lambda names, value: names.value(value.__func__),
    BuiltinFunctionType: lambda _, value: _qualified(value),
    ModuleType: lambda names, value: names._module(value),
    np.ufunc: _ufunc,
    type: _class,
}


def _declared(value: Any) -> list[str]:
    """The signatures that the user limited a compiled function to: its arguments are cast to them."""
    if is_numba(value, "ccallback", "CFunc"):
        return [str(value._sig)]
    is_limited = is_numba(value, "dispatcher", "Dispatcher") and not value._can_compile
    return list(map(str, value.nopython_signatures)) if is_limited else []


def _overloaded(functions: Container[int]) -> bool:
    """Whether somebody told Numba to compile something else in place of one of these, given by their ids."""
    templates = sys.modules.get("numba.core.typing.templates")
    known = () if templates is None else templates.builtin_registry.globals
    return any(id(function) in functions for function, _ in known)
