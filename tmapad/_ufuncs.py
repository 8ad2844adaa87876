"""Ufuncs as loops with known derivatives: NumPy's, SciPy's, those of ``@cython.ufunc`` and ``numba.vectorize``."""

from __future__ import annotations

import functools
import gc
import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tmapad import _derivative_special as _special  # noqa: F401  (importing it fills the table)
from tmapad._core import Loop, raising_loop, select_loop, ufunc_loop
from tmapad._derivative_table import NOT_HOLOMORPHIC, WITHOUT
from tmapad._derivatives import Derivative, Emitter, derivative
from tmapad._errors import NoDerivativeError
from tmapad._protocol import ArgType, described, numbered
from tmapad.jit import importing, undisturbed

# Types of loops that are run. The others are long double, objects, strings, dates.
ACCEPTED = frozenset("?bBhHiIlLqQefdFD")
# float16 is computed in float32 except where the result is about the type itself.
ABOUT_THE_TYPE = frozenset({"nextafter", "spacing"})
# The values of the Python scalars that adapt to the types beside them.
WEAK: dict[type, complex] = {int: 0, float: 0.0, complex: 0j}


@dataclass(frozen=True)
class _Choice:
    """What NumPy would do for certain types, and what is done."""

    loop: Loop
    results: tuple[np.dtype[Any], ...]


class Ufunc:
    """A ufunc as an `Implementation`.

    Attributes
    ----------
    ufunc : numpy.ufunc
        What has the loops.
    origin : str
        Who made it: "numpy", "scipy", "numba" or "other".
    raises : bool
        Its loops may set a Python exception. Of Numba's and NumPy's own this is known loop by loop: see `Loop.raises`.
    """

    python = None

    def __init__(self, ufunc: np.ufunc, origin: str, *, dispatcher: Any = None, raises: bool = False) -> None:
        self.ufunc, self.origin, self.raises = ufunc, origin, raises
        self._dispatcher = dispatcher  # Numba's DUFunc
        self.parameters = _parameters(dispatcher, ufunc.nin)
        self._choices: dict[tuple[ArgType, ...], _Choice] = {}
        self._loops: dict[int, Loop] = {}

    @property
    def name(self) -> str:
        """What messages call it."""
        return str(self.ufunc.__name__)

    @property
    def nin(self) -> int:
        """How many arguments it takes."""
        return int(self.ufunc.nin)

    @property
    def nout(self) -> int:
        """How many outputs it has."""
        return int(self.ufunc.nout)

    def __repr__(self) -> str:
        return f"<Ufunc {self.name}>"

    def loop(self, inputs: tuple[ArgType, ...]) -> Loop:
        """Return the loop that NumPy would choose for arguments of these types, for float16 that of float32.

        Raises
        ------
        TypeError
            If there is none, or it computes with a type that is not supported.
        """
        return self._choice(inputs).loop

    def result_types(self, inputs: tuple[ArgType, ...]) -> tuple[np.dtype[Any], ...]:
        """Return the types of the results, as NumPy has them for arguments of these types."""
        return self._choice(inputs).results

    def _choice(self, inputs: tuple[ArgType, ...]) -> _Choice:
        found = self._choices.get(inputs)
        if found is None:
            found = self._choices.setdefault(inputs, self._choose(inputs))
        return found

    def _choose(self, inputs: tuple[ArgType, ...]) -> _Choice:
        if len(inputs) != self.nin:
            raise TypeError(
                f"{self.name} takes {self.nin} argument{'s' * (self.nin > 1)}, but {len(inputs)} were given"
            )
        if self._dispatcher is not None:
            chars, results = self._compile(inputs)
        else:
            resolved = self._resolve(tuple(np.dtype(bool) if given is bool else given for given in inputs))
            if np.dtype(object) in resolved and np.dtype(object) not in inputs:
                # Comparisons of Python scalars alone: NumPy goes by their values.
                resolved = self._resolve(tuple(np.dtype(g) if isinstance(g, type) else g for g in inputs))
            chars, results = _types(resolved, self.nin), resolved[self.nin :]
        if not set(chars) <= ACCEPTED | {"-", ">"}:
            raise TypeError(f"{self._refusal(inputs)}: NumPy would compute with {_unsupported(chars)}")
        if "e" in chars and self.name not in ABOUT_THE_TYPE:
            chars = chars.replace("e", "f")
        if chars not in self.ufunc.types:
            raise TypeError(f"{self._refusal(inputs)}: there is no loop {chars}")
        return _Choice(self._numbered_loop(self.ufunc.types.index(chars)), results)

    def _resolve(self, inputs: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
        try:
            return tuple(self.ufunc.resolve_dtypes((*inputs, *[None] * self.nout)))
        except TypeError:
            raise TypeError(self._refusal(inputs)) from None

    def _refusal(self, inputs: tuple[ArgType, ...]) -> str:
        accepted = dict.fromkeys(types for types in self.ufunc.types if set(types) <= ACCEPTED | {"-", ">"})
        return (
            f"{self.name} cannot be computed for arguments of types {described(inputs)}; "
            f"it has the loops {', '.join(accepted) or 'none'} (NumPy's type characters)"
        )

    def _numbered_loop(self, index: int) -> Loop:
        found = self._loops.get(index)
        if found is None:
            found = ufunc_loop(self.ufunc, index, self._group())
            if self.origin == "numba":
                found = Loop(
                    found.address, found.data, found.types, found.nin, group=found.group, dense=True, speculates=True,
                    keep=found,
                )  # fmt: skip
            if self._may_raise(found):
                found = raising_loop(found)
            found = self._loops.setdefault(index, found)
        return found

    def _group(self) -> int:
        """NumPy's loops are vectorized: a remainder may be computed otherwise. SciPy's and Cython's are not."""
        if self._dispatcher is not None:
            fast = bool(self._dispatcher.targetoptions.get("fastmath"))
            return 64 if fast or sys.modules["numba"].config.USING_SVML else 1
        return 64 if self.origin == "numpy" else 1

    def _may_raise(self, loop: Loop) -> bool:
        if self._dispatcher is not None:
            return self.raises or _numba_raises(self._dispatcher, loop.in_chars)
        # The power of integers raises for negative exponents.
        return self.raises or (self.ufunc is np.power and loop.out_chars not in "fdFD")

    # -------------------------------------------------------------------------------- Numba

    def _compile(self, inputs: tuple[ArgType, ...]) -> tuple[str, tuple[np.dtype[Any], ...]]:
        """Compile a DUFunc for these types if it is not, and if it may be: not if it was made for given signatures."""
        half = tuple(np.dtype("f") if given == np.dtype("e") else given for given in inputs)
        dtypes = _concrete(half)
        chars = "".join(dtype.char for dtype in dtypes)
        if not self._compiled(chars) and set(chars) <= ACCEPTED:
            undisturbed(lambda: self._add(chars, dtypes, inputs))
        resolved = None if self._compiled(chars) else self._resolve(half)
        types = self._compiled(chars) or _types(resolved or (), self.nin)
        results = [np.dtype(char) for char in types[self.nin + 2 :]]
        if half != inputs and all(np.dtype(given).char == "e" for given in inputs if not isinstance(given, type)):
            results = [np.dtype("e") if result.char in "fd" else result for result in results]
        return types, tuple(results)

    def _compiled(self, chars: str) -> str | None:
        return next((types for types in self.ufunc.types if types.partition("->")[0] == chars), None)

    def _add(self, chars: str, dtypes: tuple[np.dtype[Any], ...], inputs: tuple[ArgType, ...]) -> None:
        with importing():
            from tmapad.jit import frontend  # noqa: F401 - from now on Numba's lock is held over forks

        numba = sys.modules["numba"]
        try:
            with numba.core.compiler_lock.global_compiler_lock:
                if not self._compiled(chars):
                    self._dispatcher.add(tuple(numba.from_dtype(dtype) for dtype in dtypes))
        except RuntimeError:  # made for given signatures
            pass
        except numba.core.errors.NumbaError as error:
            reason = str(error).strip().splitlines()
            raise TypeError(f"{self._refusal(inputs)}; Numba cannot compile it for these: {reason[-1]}") from error


def _types(dtypes: Sequence[np.dtype[Any]], nin: int) -> str:
    chars = [dtype.char for dtype in dtypes]
    return "".join(chars[:nin]) + "->" + "".join(chars[nin:])


def _unsupported(types: str) -> str:
    return ", ".join(dict.fromkeys(np.dtype(char).name for char in types if char not in ACCEPTED | {"-", ">"}))


def _concrete(inputs: tuple[ArgType, ...]) -> tuple[np.dtype[Any], ...]:
    """Types for Numba, which knows no weak scalars: these take the precision of the arguments beside them."""
    common = np.result_type(*(WEAK.get(given, given) if isinstance(given, type) else given for given in inputs))
    dtypes = []
    for given in inputs:
        dtype = np.dtype(bool) if given is bool else common if isinstance(given, type) else given
        if given in (int, float) and dtype.kind == "c":
            dtype = np.empty(0, dtype).real.dtype
        dtypes.append(np.dtype(dtype.newbyteorder("=").str) if dtype.char in ACCEPTED else dtype)
    return tuple(dtypes)


def _numba_raises(dispatcher: Any, in_chars: str) -> bool:
    """Whether compiled code may raise: Numba marks where it stores an exception, unless that is never reached."""
    try:
        for signature, compiled in dispatcher._dispatcher.overloads.items():
            numba = sys.modules["numba"]
            if tuple(numba.from_dtype(np.dtype(char)) for char in in_chars) == tuple(signature.args):
                return "numba_exception_output" in compiled.library.get_llvm_str()
    except (AttributeError, RuntimeError):  # another Numba, or code from its cache, which cannot be looked into
        pass
    return True


def _parameters(dispatcher: Any, nin: int) -> tuple[str, ...]:
    if dispatcher is not None:
        names = tuple(inspect.signature(dispatcher).parameters)
        if len(names) == nin:
            return names
    return numbered(nin)


# ------------------------------------------------------------------------------------------------ recognition


def ufunc(given: Any, *, raises: bool = False) -> Ufunc | None:
    """Recognize a ufunc; return None for anything else.

    Parameters
    ----------
    given : object
        ``numpy.ufunc`` or what ``numba.vectorize`` returned.
    raises : bool, optional
        It may raise Python exceptions, which nothing about an ``@cython.ufunc`` tells.

    Raises
    ------
    TypeError
        If it is a ufunc that cannot be run element by element on several threads.
    """
    if _is_numba(given, "gufunc", "GUFunc") or (isinstance(given, np.ufunc) and given.signature is not None):
        raise TypeError(
            f"{given.__name__} works on vectors, not on elements: it has the core signature {given.signature}"
        )
    if _is_numba(given, "dufunc", "DUFunc"):
        return Ufunc(given.ufunc, "numba", dispatcher=given, raises=raises)
    if not isinstance(given, np.ufunc):
        return None
    if all("O" in types for types in given.types):
        raise TypeError(
            f"{given.__name__} works on Python objects, like all that np.frompyfunc makes: pass the function itself"
        )
    if any(type(part).__module__ == "numba" for part in gc.get_referents(given)):
        raise TypeError(
            f"{given.__name__} starts threads of its own: make it by numba.vectorize without target='parallel', "
            "or pass the Python function itself"
        )
    return Ufunc(given, _origin(given), raises=raises)


def _is_numba(given: Any, module: str, name: str) -> bool:
    found = sys.modules.get(f"numba.np.ufunc.{module}")
    kind = getattr(found, name, None)  # which another thread may be importing
    return isinstance(kind, type) and isinstance(given, kind)


def _origin(given: np.ufunc) -> str:
    """Who made a ufunc. SciPy is not imported for that: if one of its ufuncs is here, SciPy is."""
    if getattr(np, given.__name__, None) is given:
        return "numpy"
    return "scipy" if getattr(sys.modules.get("scipy.special"), given.__name__, None) is given else "other"


@functools.cache
def elementary(name: str) -> Ufunc:
    """Return NumPy's or SciPy's ufunc of this name, for formulas."""
    found = getattr(np, name, None)
    if not isinstance(found, np.ufunc):
        found = getattr(sys.modules["scipy.special"], name)
    return Ufunc(found, _origin(found))


def _loop_of(name: str, types: tuple[np.dtype[Any], ...]) -> Loop:
    return select_loop(types[1].char) if name == "select" else elementary(name).loop(types)


# ------------------------------------------------------------------------------------------------ derivatives


class TableForm:
    """The derivative of a known ufunc, as a `Form`: see `tmapad._forms`.

    Parameters
    ----------
    ufunc : Ufunc
    types : str, optional
        Of the loop. Without them, what is known is what is known for any types.
    """

    saves = False
    gives_value = False
    parts: tuple[Ufunc, ...] = ()

    def __init__(self, ufunc: Ufunc, types: str | None = None) -> None:
        self._ufunc = ufunc
        self._types = ufunc.ufunc.types if types is None else [types]

    def for_types(self, types: str) -> TableForm:
        """Return the derivative for a loop of these types."""
        return TableForm(self._ufunc, types)

    def _derivative(self, types: str) -> Derivative | None:
        return derivative(self._ufunc.name, types) if self._ufunc.origin in ("numpy", "scipy") else None

    def known(self, output: int, argument: int) -> Literal["known", "none", "unknown"]:
        """Whether the table has this partial derivative."""
        found = [d for types in self._types if set(types) <= ACCEPTED | {"-", ">"} and (d := self._derivative(types))]
        return "known" if any(d.partials[output][argument] is not None for d in found) else "unknown"

    def terms(self, output: int, argument: int) -> tuple[bool, ...]:  # noqa: ARG002  (a row is so as a whole)
        """Whether ``dx = d * conj(dy)``, for the types that the form was made for."""
        rows = (self._derivative(types) for types in self._types)
        return (any(found.antiholomorphic for found in rows if found is not None),)

    def emit(self, call: Any, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], tuple[tuple[Any, bool], ...]]:
        """Add the steps of the formulas to a program; of the `Emission` it needs builder, value_loop, xs and ys."""
        types = call.value_loop.types
        found = self._derivative(types)
        if found is None:
            raise NoDerivativeError(self.why_not())
        emitter = Emitter(call.builder, _loop_of, types, call.xs, lambda: call.ys)
        return {(j, i): ((emitter.partial(found, j, i), found.antiholomorphic),) for j, i in wanted}

    def why_not(self, argument: str = "") -> str:
        """Return the message for a partial derivative that the table does not have."""
        name = self._ufunc.name
        reason = WITHOUT.get(name) or NOT_HOLOMORPHIC.get(name) or "it is not in the table of derivatives"
        return (
            f"{name} has no derivative{argument and ' in '}{argument} for {', '.join(self._types)}: {reason}; "
            f"register one with tmapad.register({name}, derivative=...)"
        )
