"""A Python function as something that runs: compiled for the types it is called with."""

import copy
import functools
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tmapad._core import LARGEST_LOOP, Loop
from tmapad._errors import NoDerivativeError
from tmapad._protocol import ArgType, Registered
from tmapad.jit import arguments, cache, keys, loader
from tmapad.jit.captures import Capture
from tmapad.jit.compiling import undisturbed
from tmapad.jit.forks import importing
from tmapad.jit.given import Source
from tmapad.jit.references import MISSING, References, attribute, is_numba, is_plain, python_code_of
from tmapad.jit.scalar import LOOP, ScalarIR, holds_address

if TYPE_CHECKING:
    from tmapad.jit.engine import Engine

OLDEST_NUMBA = (0, 62)

_DIVISIONS = ("ieee", "python")
_VERSIONS = itertools.count(1)


def python_function(obj: Any, *, division: str = "ieee") -> "PythonFunction | None":
    """Give the implementation of a Python function, or of what Numba made from one; None for others.

    Parameters
    ----------
    obj : object
        A function, a lambda, what ``numba.njit`` or ``numba.cfunc`` returned, a bound method, an object that can be
        called, or `functools.partial` of one of these. Numba is not imported: if it is not yet, nothing can be of its
        kind.
    division : {"ieee", "python"}
        Whether a division by zero gives an infinity or a NaN, or raises.

    Raises
    ------
    TypeError
        The function cannot be mapped, whatever the types of its arguments.
    """
    parts = code_of(obj)
    if parts is None:
        return None
    function, instance, partial = parts
    if is_numba(obj, "ccallback", "CFunc"):
        declared = _front_end(function.__name__).declared_types(function, obj._sig)
        return PythonFunction(function, division=division, signature=declared)
    if partial is not None:
        return PythonFunction(
            function, division=division, instance=instance, bound=bound_by(partial), python=partial.func
        )
    python = None if instance is MISSING else obj
    return PythonFunction(function, division=division, instance=instance, python=python)


def code_of(obj: Any) -> "tuple[FunctionType, Any, functools.partial[Any] | None] | None":
    """Give the Python function behind what is called, the object it is bound to or `MISSING`, the partial if any."""
    if isinstance(obj, functools.partial):
        inner = None if is_numba(obj.func, "ccallback", "CFunc") else code_of(obj.func)
        return None if inner is None else (inner[0], inner[1], obj)
    if (function := python_code_of(obj)) is not None:
        return function, MISSING, None
    instance = None
    if isinstance(obj, MethodType):
        function, instance = python_code_of(obj.__func__), obj.__self__
    elif callable(obj) and is_plain(obj):
        function, instance = python_code_of(attribute(obj, "__call__")), obj
    return None if function is None else (function, instance, None)


def bound_by(partial: "functools.partial[Any]") -> dict[str, Any]:
    """Give what `functools.partial` bound of a Python function, by name."""
    found = code_of(partial)
    assert found is not None
    return arguments.bind(partial.args, partial.keywords, found[0], method=found[1] is not MISSING)


def call_bound(obj: Any, bound: Mapping[str, Any], parameters: Sequence[str], *xs: Any) -> Any:
    """Call the Python function behind `obj` with arguments some of which are bound; `parameters` are those for `xs`."""
    found = code_of(obj)
    assert found is not None
    function, instance, _ = found
    values = {**bound, **dict(zip(parameters, xs, strict=False))}
    places = [] if instance is MISSING else [instance]
    for parameter in arguments.parameters(function)[len(places) :]:
        if parameter.name not in values or parameter.kind is parameter.KEYWORD_ONLY:
            break
        places.append(values.pop(parameter.name))
    return function(*places, **values)


class _Variant(NamedTuple):
    """What is compiled of a function."""

    chars: str  # of the arguments
    wrt: tuple[int, ...]  # the arguments it gives partial derivatives in
    window: tuple[int, str, int] | None  # and the elements of a captured array


@dataclass
class _Compiled:
    """What was compiled for all functions that depend on the same: closures of one code, say."""

    kept: list[Any]  # see References.kept
    loops: dict[_Variant, Loop] = field(default_factory=dict)
    scalars: dict[str, ScalarIR] = field(default_factory=dict)  # by the types of the arguments
    nout: int | None = None
    takes_long: bool = False
    allocates: bool = False


# How the names of the functions of Numba's run time begin that allocate memory, in the code that calls them.
_ALLOCATE = (b"NRT_Allocate", b"NRT_MemInfo_alloc", b"NRT_MemInfo_varsize", b"NRT_MemInfo_new_varsize")

# By what functions depend on, for as long as there is such a function.
_COMPILED: WeakValueDictionary[Any, _Compiled] = WeakValueDictionary()


def _compiled(references: References, *how: Any) -> _Compiled:
    """Find what was compiled already for what depends on the same, and in the same way."""
    return _COMPILED.setdefault((references.tokens(), *how), _Compiled(references.kept()))


class _State(NamedTuple):
    """What was compiled, and what it depends on. Replaced as a whole, so that no lock is needed."""

    version: int
    references: References
    compiled: _Compiled


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
        Otherwise everything is computed in float64 and complex128, or float32 and complex64: see `single`.
    instance : object, optional
        What its first argument is, if it is a method.
    bound : mapping, optional
        Arguments whose values are known, by name: real and complex numbers and arrays are captures, others constants.
    python : callable, optional
        What the user calls, with what is bound; by default `function`.

    Attributes
    ----------
    name : str
        The function's name.
    parameters : tuple of str
        Names of its positional arguments that are not bound.
    nin, min_nin : int
        How many arguments it takes, and how many it takes at least; the others have defaults.
    python : callable
        What the user calls, to raise the real exception for one element.

    Raises
    ------
    TypeError
        The function does not take a fixed number of positional arguments, or does not return a value.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        division: str = "ieee",
        signature: str | None = None,
        instance: Any = MISSING,
        bound: Mapping[str, Any] | None = None,
        python: Callable[..., Any] | None = None,
    ) -> None:
        if division not in _DIVISIONS:
            raise ValueError(f'division must be "ieee" or "python": {division!r}')
        self._bound = dict(bound or {})
        self._instance = instance
        positional = arguments.positional(function, method=instance is not MISSING, bound=self._bound)
        self.name = function.__name__ if function.__name__ != "__call__" else type(instance).__name__
        self.parameters = tuple(parameter.name for parameter in positional)
        self.python: Callable[..., Any] = function if python is None else python
        if self._bound:
            self.python = functools.partial(call_bound, self.python, self._bound, self.parameters)
        self.nin = len(positional)
        self.min_nin = max(1, sum(parameter.default is parameter.empty for parameter in positional))
        self._function = function
        self._division = division
        self._signature = signature or ""
        self._orders: tuple[int, ...] = ()  # the arguments it was differentiated in, one after the other
        self._declared, _, self._result = self._signature.partition("->")
        if signature is not None and len(self._declared) != self.nin:
            raise TypeError(f"{self.name} takes {self._counts()}, but is declared for {signature}")
        self._state = self._new_state(References(function, instance=instance, bound=self._bound))

    @property
    def nout(self) -> int | None:
        """How many results it returns; None before it is compiled."""
        return self._state.compiled.nout

    @property
    def takes_long(self) -> bool:
        """Whether it has a loop, or calls what is not compiled along with it; known once it is compiled."""
        return self._state.compiled.takes_long

    @property
    def allocates(self) -> bool:
        """Whether what was compiled of it makes arrays or lists."""
        return self._current().compiled.allocates

    def __repr__(self) -> str:
        return f"<PythonFunction {self.name}({', '.join(self.parameters)})>"

    def loop(
        self,
        inputs: tuple[ArgType, ...],
        *,
        integer: Set[str] = frozenset(),
        wrt: tuple[int, ...] = (),
        window: tuple[int, str, int] | None = None,
    ) -> Loop:
        """Give the loop for arguments of given types, compiling it if there is none yet.

        Parameters
        ----------
        inputs : tuple of dtype or type
            For each argument its dtype, or ``float``, ``complex``, ``int`` or ``bool`` for a Python scalar.
            Arguments with defaults may be left out at the end.
        integer : set of str
            Names of the arguments that stay integers (int64) or bools if they are. All others are real or
            complex numbers.
        wrt : tuple of int
            Arguments, by number, in which the partial derivatives are given after the results: see `forward.terms`.
        window : tuple, optional
            Elements of a captured array for which they are given as well: a `forward.Window`.

        Returns
        -------
        Loop
            To be used only for as long as `fingerprint` gives the same number.

        Raises
        ------
        TypeError
            An argument is not a number, or the function cannot be compiled.
        NoDerivativeError
            It cannot be differentiated in one of these arguments.
        ImportError
            It must be compiled, and there is no Numba.
        """
        variant = _Variant(self._in_chars(inputs, integer), wrt, window)
        loop = self._current().compiled.loops.get(variant)
        return undisturbed(lambda: self._find_or_compile(variant)) if loop is None else loop

    def scalar(self, inputs: tuple[ArgType, ...], *, integer: Set[str] = frozenset()) -> ScalarIR:
        """Give the scalar IR for arguments of given types, to be compiled into something else: see `loop`."""
        return self._scalar(self._in_chars(inputs, integer), self._current())

    @property
    def source(self) -> Source:
        """What it is made from."""
        is_plain = self._instance is MISSING and not (self._bound or self._orders or self._signature)
        return Source(self._function, self._instance, self._bound, is_plain)

    def derivative(self, argument: int) -> "PythonFunction":
        """Give the derivative in an argument, as a function of the same arguments."""
        result = copy.copy(self)
        result.name = f"the derivative of {self.name} in {self.parameters[argument]}"
        result._orders = (*self._orders, argument)
        result._state = result._new_state(self._state.references)
        return result

    def default(self, argument: int) -> Any:
        """Give the default of an argument that has one."""
        defaults, code = self._function.__defaults__ or (), self._function.__code__
        place = code.co_varnames[: code.co_argcount].index(self.parameters[argument])
        return defaults[place - code.co_argcount + len(defaults)]

    def fingerprint(self) -> int:
        """Give a number that changes when something does that the compiled code depends on.

        That is a global, a captured variable or the attribute of a module that the function, or a function it
        calls, reads: it is bound to another value then. Contents cannot change, see `References`.
        """
        return self._current().version

    def captures(self) -> list[Capture]:
        """Give what it captured that is given to its loops as arguments, after the others."""
        return self._current().references.captures

    def registered(self) -> list[Registered]:
        """Give the registered functions that it calls as a whole."""
        return list(self._current().references.registered.values())

    def captured(self, bound: Mapping[str, Any] | None = None) -> list[tuple[Capture, Any]]:
        """Give each of `captures` with its value now, those of `bound` for its bound arguments."""
        while True:
            references = self._current().references
            values = references.values(bound)
            if values is not None:
                return list(zip(references.captures, values, strict=True))

    def captured_since(self) -> list[tuple[Capture, Any]] | None:
        """Give the same, if no value got another type since `fingerprint` was asked; else None."""
        references = self._state.references
        values = references.values()
        return None if values is None else list(zip(references.captures, values, strict=True))

    def _current(self) -> _State:
        state = self._state
        if not state.references.current():
            references = References(self._function, instance=self._instance, bound=self._bound)
            new = self._new_state(references)
            state = state._replace(references=references) if new.compiled is state.compiled else new
            self._state = state
        return state

    def _new_state(self, references: References) -> _State:
        how = (self._division, self._signature, self._orders, self.parameters)
        return _State(next(_VERSIONS), references, _compiled(references, *how))

    def _find_or_compile(self, variant: _Variant) -> Loop:
        """Load the loop from the cache, without Numba, or compile it."""
        return self._cached(variant) or self._compile_once(variant)

    def _cached(self, variant: _Variant) -> Loop | None:
        with importing():
            state = self._current()
            if (loop := state.compiled.loops.get(variant)) is not None:
                return loop
            key = self._key(variant, state.references)
            record = None if key is None else cache.load(key)
            if record is not None:
                with suppress(RuntimeError):  # it calls what is not there: it is compiled, which fails likewise or not
                    loop = self._loaded(record, state.compiled, loader.load(record.code))
                    if self._current().version == state.version:
                        return self._keep(state, variant, loop)
        return None

    def _compile_once(self, variant: _Variant) -> Loop:
        with _front_end(self.name).global_compiler_lock:
            while True:
                state = self._current()
                if (loop := state.compiled.loops.get(variant)) is not None:
                    return loop
                record = self._compile(variant, state)
                loop = self._loaded(record, state.compiled)
                if self._current().version != state.version:
                    continue  # the code may have been made from old values or from new ones
                if not record.header["address"] and (key := self._key(variant, state.references)) is not None:
                    cache.store(key, record)
                return self._keep(state, variant, loop)

    @staticmethod
    def _keep(state: _State, variant: _Variant, loop: Loop) -> Loop:
        if variant == (variant.chars, (), None):
            state.compiled.nout = loop.nout
        return state.compiled.loops.setdefault(variant, loop)

    def _key(self, variant: _Variant, references: References) -> str | None:
        """The key in the cache; None for what cannot be cached or is not to be compiled."""
        if references.problem():
            return None
        return keys.key(
            references,
            parameters=repr(self.parameters),  # which of its arguments are not bound
            inputs=variant.chars,
            derivatives=repr((self._orders, variant.wrt, variant.window)),
            division=self._division,
            result=self._result,
        )

    def _compile(self, variant: _Variant, state: _State) -> cache.Record:
        from tmapad.jit import loop  # it needs llvmlite, which comes with Numba

        try:
            value = self._scalar(variant.chars, state)
            scalar = self._differentiated(value, variant)
        except NoDerivativeError as error:
            raise self._with_line(error, variant, state) from None
        compiled = loop.loop_code(scalar)
        header = {
            "types": f"{scalar.in_chars}->{scalar.out_chars}",
            "can_fail": compiled.can_fail,
            "takes_long": value.takes_long,
            "address": holds_address(scalar.llvm),
        }
        return cache.Record(header, compiled.code)

    def _scalar(self, chars: str, state: _State) -> ScalarIR:
        scalars = state.compiled.scalars
        if chars not in scalars:
            scalars[chars] = self._new_scalar(chars, state.references)
        # What is read in other places may have been compiled for another function that is like this one.
        return replace(scalars[chars], captures=tuple(state.references.captures))

    def _new_scalar(self, chars: str, references: References, *, marks: bool = False) -> ScalarIR:
        from tmapad.jit import forward, frontend, registered, single

        if problem := references.problem():
            raise TypeError(f"{self.name} {problem}")
        double = chars if self._declared else chars.translate(arguments.IN_DOUBLE)
        scalar = frontend.scalar_ir(
            self._function,
            self._arguments(double, references),
            division=self._division,
            out_char=self._result or None,
            references=references,
            marks=marks,
        )
        if double != chars and not references.name_double():
            scalar = single.single(scalar, chars) or scalar
        if double == scalar.in_chars[: len(chars)] and (narrow := registered.narrowed(scalar.llvm)):
            raise TypeError(
                f"{self.name} calls {narrow.name} with float64, but its numbers are float32, and arguments are "
                "converted only to a type that holds them without loss: convert them by np.float32 first"
            )
        for argument in self._orders:
            scalar = forward.derivative(scalar, argument)
        return scalar

    @staticmethod
    def _differentiated(scalar: ScalarIR, variant: _Variant) -> ScalarIR:
        from tmapad.jit import forward

        if not variant.wrt and not variant.window:
            return scalar
        window = None if variant.window is None else forward.Window(*variant.window)
        return forward.forward(scalar, variant.wrt, window)

    def _with_line(self, error: NoDerivativeError, variant: _Variant, state: _State) -> NoDerivativeError:
        """Find which line has no derivative: for that it is compiled again."""
        try:
            self._differentiated(self._new_scalar(variant.chars, state.references, marks=True), variant)
        except NoDerivativeError as with_line:
            return with_line
        return error

    def _arguments(self, chars: str, references: References) -> list[Any]:
        """What each parameter of the function is, for the front end."""
        from tmapad.jit import frontend

        given = dict(zip(self.parameters, chars, strict=False))
        result: list[Any] = []
        for parameter in arguments.parameters(self._function):
            name = parameter.name
            if self._instance is not MISSING and not result:
                result.append(frontend.Instance(self._instance))
            elif name in given:
                result.append(given[name])
            elif name not in self._bound:
                result.append(frontend.Omitted(parameter.default))
            elif (number := references.capture_of(name)) is not None:
                result.append(frontend.Captured(number))
            elif references.held(self._bound[name]) is not None:
                result.append(frontend.Instance(self._bound[name]))
            else:
                result.append(frontend.Omitted(self._bound[name]))
        return result

    def _loaded(self, record: cache.Record, compiled: _Compiled, memory: loader.Image | None = None) -> Loop:
        types, can_fail = record.header["types"], record.header["can_fail"]
        compiled.takes_long = record.header["takes_long"]
        compiled.allocates = compiled.allocates or any(name in record.code for name in _ALLOCATE)
        if len(types) - len("->") > LARGEST_LOOP:
            raise TypeError(
                f"{self.name} takes, captured and returns {len(types) - len('->')} numbers, partial derivatives "
                f"included; there may be {LARGEST_LOOP}: let an array take the place of many captured numbers"
            )
        code = memory or _engine(record.code, self.name)
        # What it reads is kept along with the code, which may hold addresses of C functions found there.
        keep = (code, compiled.kept)
        return Loop(code.address(LOOP), 0, types, types.index("->"), can_fail=can_fail, speculates=True, keep=keep)

    def _in_chars(self, inputs: tuple[ArgType, ...], integer: Set[str]) -> str:
        """NumPy's characters for the types that arguments are cast to."""
        if not self.min_nin <= len(inputs) <= self.nin:
            raise TypeError(f"{self.name} takes {self._counts()}, not {len(inputs)}")
        numbers = (given for name, given in zip(self.parameters, inputs, strict=False) if name not in integer)
        single = arguments.are_single(tuple(numbers))
        return "".join(
            self._in_char(number, given, keep=self.parameters[number] in integer, single=single)
            for number, given in enumerate(inputs)
        )

    def _in_char(self, number: int, given: ArgType, *, keep: bool, single: bool) -> str:
        """NumPy's character for the type that argument `number` is cast to."""
        name = self.parameters[number]
        if not self._declared:
            char = arguments.computed_char(given, keep=keep, single=single)
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


def _engine(code: bytes, name: str) -> "Engine":
    from tmapad.jit.engine import Engine

    return Engine(code, name)


def _front_end(name: str) -> ModuleType:
    """Import what needs Numba, in order to compile the function called `name`."""
    oldest = ".".join(map(str, OLDEST_NUMBA))
    wanted = (
        f"{name} is a Python function, which must be compiled, and for that tmapad needs Numba {oldest} or newer: "
        'python -m pip install "tmapad[numba]"'
    )
    with importing():
        try:
            import numba
        except ImportError as error:
            raise ImportError(f"{wanted} ({error})", name="numba") from error
        if tuple(numba.version_info[:2]) < OLDEST_NUMBA:
            raise ImportError(f"{wanted} (found {numba.__version__})", name="numba")
        return importlib.import_module("tmapad.jit.frontend")
