"""A Python function as something that runs: compiled for the types it is called with."""

import importlib
import itertools
from collections.abc import Callable, Set
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from tmapad._core import Loop
from tmapad._protocol import ArgType
from tmapad.jit import arguments
from tmapad.jit.compiling import undisturbed
from tmapad.jit.references import References, is_numba, python_code_of

OLDEST_NUMBA = (0, 62)

_DIVISIONS = ("ieee", "python")
_VERSIONS = itertools.count(1)


def python_function(obj: object, *, division: str = "ieee") -> "PythonFunction | None":
    """Give the implementation of a Python function, or of what Numba made from one; None for others.

    Parameters
    ----------
    obj : object
        A function, a lambda, what ``numba.njit`` or ``numba.cfunc`` returned. Numba is not imported: if it is
        not yet, nothing can be of its kind.
    division : {"ieee", "python"}
        Whether a division by zero gives an infinity or a NaN, or raises.

    Raises
    ------
    TypeError
        The function cannot be mapped, whatever the types of its arguments.
    """
    function = python_code_of(obj)
    if function is None:
        return None
    if not is_numba(obj, "ccallback", "CFunc"):
        return PythonFunction(function, division=division)
    declared = _front_end(function.__name__).declared_types(function, obj._sig)  # type: ignore[attr-defined]
    return PythonFunction(function, division=division, signature=declared)


class _State(NamedTuple):
    """What was compiled, and what it depends on. Replaced as a whole, so that no lock is needed."""

    version: int
    references: References
    loops: dict[str, Loop]


class PythonFunction:
    """A Python function that is compiled when first needed, once for each combination of types.

    Parameters
    ----------
    function : function
        A plain Python function. What it calls is compiled along with it.
    division : {"ieee", "python"}
        Whether a division by zero gives an infinity or a NaN, or raises ZeroDivisionError.
    signature : str, optional
        The types it is declared for, in NumPy's form, such as ``"FF->F"``: what ``numba.cfunc`` was told.
        Otherwise everything is computed in float64 and complex128.

    Attributes
    ----------
    name : str
        The function's name.
    parameters : tuple of str
        Names of its positional arguments.
    nin, min_nin : int
        How many arguments it takes, and how many it takes at least; the others have defaults.
    nout : int or None
        How many results it returns; None before it is compiled.
    python : function
        The function itself, to raise the real exception for one element.

    Raises
    ------
    TypeError
        The function does not take a fixed number of positional arguments, or does not return a value.
    """

    def __init__(self, function: FunctionType, *, division: str = "ieee", signature: str | None = None) -> None:
        if division not in _DIVISIONS:
            raise ValueError(f'division must be "ieee" or "python": {division!r}')
        positional = arguments.positional(function)
        self.name = function.__name__
        self.python: Callable[..., Any] = function
        self.parameters = tuple(parameter.name for parameter in positional)
        self.nin = len(positional)
        self.min_nin = max(1, sum(parameter.default is parameter.empty for parameter in positional))
        self.nout: int | None = None
        self._function = function
        self._division = division
        self._declared, _, self._result = (signature or "").partition("->")
        if signature is not None and len(self._declared) != self.nin:
            raise TypeError(f"{self.name} takes {self._counts()}, but is declared for {signature}")
        self._state = _State(next(_VERSIONS), References(function), {})

    def __repr__(self) -> str:
        return f"<PythonFunction {self.name}({', '.join(self.parameters)})>"

    def loop(self, inputs: tuple[ArgType, ...], *, integer: Set[str] = frozenset()) -> Loop:
        """Give the loop for arguments of given types, compiling it if there is none yet.

        Parameters
        ----------
        inputs : tuple of dtype or type
            For each argument its dtype, or ``float``, ``complex``, ``int`` or ``bool`` for a Python scalar.
            Arguments with defaults may be left out at the end.
        integer : set of str
            Names of the arguments that stay integers (int64) or bools if they are. All others are real or
            complex numbers.

        Returns
        -------
        Loop
            To be used only for as long as `fingerprint` gives the same number.

        Raises
        ------
        TypeError
            An argument is not a number, or the function cannot be compiled.
        ImportError
            It must be compiled, and there is no Numba.
        """
        if not self.min_nin <= len(inputs) <= self.nin:
            raise TypeError(f"{self.name} takes {self._counts()}, not {len(inputs)}")
        chars = "".join(self._in_char(number, given, integer) for number, given in enumerate(inputs))
        loop = self._current().loops.get(chars)
        return undisturbed(lambda: self._compile_once(chars)) if loop is None else loop

    def default(self, argument: int) -> Any:
        """Give the default of an argument that has one."""
        defaults = self._function.__defaults__ or ()
        return defaults[argument - self.nin + len(defaults)]

    def fingerprint(self) -> int:
        """Give a number that changes when something does that the compiled code depends on.

        That is a global, a captured variable or the attribute of a module that the function, or a function it
        calls, reads: it is bound to another value then. Contents cannot change, see `References`.
        """
        return self._current().version

    def captured_numbers(self) -> dict[str, Any]:
        """Find what would have a gradient if it were an argument: captured floats, complex numbers, arrays.

        Names are those in the function, ``"helper.rate"`` for what a function captured that it calls.
        """
        return self._current().references.numbers()

    def _current(self) -> _State:
        state = self._state
        if not state.references.current():
            references = References(self._function)
            if references.same_as(state.references):
                state = state._replace(references=references)
            else:
                state = _State(next(_VERSIONS), references, {})
            self._state = state
        return state

    def _compile_once(self, chars: str) -> Loop:
        with _front_end(self.name).global_compiler_lock:
            while True:
                state = self._current()
                if (loop := state.loops.get(chars)) is None:
                    loop = self._compile(chars, state.references)
                    if self._current().version != state.version:
                        continue  # the code may have been made from old values or from new ones
                    state.loops[chars] = loop
                    self.nout = loop.nout
                return loop

    def _compile(self, chars: str, references: References) -> Loop:
        # They need Numba, or llvmlite, which comes with it.
        from tmapad.jit import engine, frontend, loop

        if problem := references.problem():
            raise TypeError(f"{self.name} {problem}")
        left_out = arguments.parameters(self._function)[len(chars) :]
        defaults = [frontend.Omitted(parameter.default) for parameter in left_out]
        scalar = frontend.scalar_ir(
            self._function, [*chars, *defaults], division=self._division, out_char=self._result or None
        )
        compiled = loop.loop_code(scalar)
        memory = engine.Engine(compiled.code, self.name)
        types = f"{scalar.in_chars}->{scalar.out_chars}"
        # What it reads is kept along with the code, which may hold addresses of C functions found there.
        keep = (memory, references)
        return Loop(memory.address(loop.LOOP), 0, types, len(chars), can_fail=compiled.can_fail, keep=keep)

    def _in_char(self, number: int, given: ArgType, integer: Set[str]) -> str:
        """NumPy's character for the type that argument `number` is cast to."""
        name = self.parameters[number]
        if not self._declared:
            char = arguments.computed_char(given, keep=name in integer)
            accepted = arguments.ACCEPTED
        else:
            char = self._declared[number] if arguments.fits(given, self._declared[number]) else None
            accepted = f"what fits {np.dtype(self._declared[number])}, for which it is declared"
        if char is None:
            raise TypeError(
                f"argument {name!r} of {self.name} has type {arguments.type_name(given)}; accepted: {accepted}"
            )
        return char

    def _counts(self) -> str:
        if self.min_nin == self.nin:
            return f"{self.nin} argument{'s' if self.nin > 1 else ''}"
        return f"{self.min_nin} to {self.nin} arguments"


def _front_end(name: str) -> ModuleType:
    """Import what needs Numba, in order to compile the function called `name`."""
    oldest = ".".join(map(str, OLDEST_NUMBA))
    wanted = (
        f"{name} is a Python function, which must be compiled, and for that tmapad needs Numba {oldest} or newer: "
        'python -m pip install "tmapad[numba]"'
    )
    try:
        import numba
    except ImportError as error:
        raise ImportError(f"{wanted} ({error})", name="numba") from error
    if tuple(numba.version_info[:2]) < OLDEST_NUMBA:
        raise ImportError(f"{wanted} (found {numba.__version__})", name="numba")
    return importlib.import_module("tmapad.jit.frontend")
