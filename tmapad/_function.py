"""`ScalarFunction`: a scalar function with its derivative, for any types."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tmapad._automatic import Automatic, WithPartials
from tmapad._bound import Bound
from tmapad._forms import Separate, Together
from tmapad._kernel import Kernel, precision_of, result_chars
from tmapad._pointers import Pointer
from tmapad._protocol import REGISTRY, ArgType, Implementation, Registered, computation_type
from tmapad._ufuncs import TableForm, Ufunc
from tmapad.jit import Capture, PythonFunction, as_inputs

if TYPE_CHECKING:
    from tmapad._explain import Explanation


class ScalarFunction(Registered):
    """A scalar function and its derivative, ready to be mapped.

    Made by `register` and `from_cython`. Calling it maps it: ``f(x)`` is ``tmap(f, x)``.

    Attributes
    ----------
    name : str
        What messages call it.
    nin : int
        The number of its arguments.
    nout : int or None
        The number of its results; None for a Python function that was not compiled yet.
    parameters : tuple of str
        The names of its arguments: those of the Python function, else ``x`` or ``x1``, ``x2``, ...
    form : Form or None
        How its derivative is given, for any types.
    """

    def __init__(
        self,
        value: Implementation,
        form: Automatic | Separate | Together | TableForm | None,
        *,
        nondiff: frozenset[int] = frozenset(),
        threadsafe: bool = True,
        name: str | None = None,
        recipe: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
    ) -> None:
        self.implementation: Implementation = value
        self.form: Automatic | Separate | Together | TableForm | None = form
        self.nondiff, self.threadsafe = nondiff, threadsafe
        self.name = name or value.name
        self._recipe = recipe  # a callable and its arguments, by which pickle makes the function again
        self._kernels: dict[Any, Kernel] = {}
        self._version: tuple[int, ...] = ()
        # What `tmap` and `rrule` found for arrays of certain types: see _tmap.pyx.
        self._shortcuts: dict[Any, Any] = {}
        self._parts = (value, *(form.parts if form is not None else ()))
        inner = [part.inner if isinstance(part, Bound) else part for part in self._parts]
        self._python = tuple(part for part in inner if isinstance(part, PythonFunction))
        self._of_scipy = any(isinstance(part, Ufunc) and part.origin == "scipy" for part in inner)
        REGISTRY.own(self)

    @property
    def nin(self) -> int:
        """The number of arguments."""
        return self.implementation.nin

    @property
    def min_nin(self) -> int:
        """How many arguments it takes at least: the others of a Python function have defaults."""
        return (
            self.implementation.min_nin if isinstance(self.implementation, PythonFunction) else self.implementation.nin
        )

    def default(self, argument: int) -> Any:
        """Return the default of an argument of a Python function; None if it has none."""
        if not isinstance(self.implementation, PythonFunction) or argument < self.min_nin:
            return None
        return self.implementation.default(argument)

    @property
    def nout(self) -> int | None:
        """The number of results; None for a Python function that was not compiled yet."""
        return self.implementation.nout

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments."""
        return self.implementation.parameters

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<ScalarFunction {self.name}({', '.join(self.parameters)})>"

    def __call__(self, *xs: Any, **keywords: Any) -> Any:
        """Map the function: ``tmap(f, *xs, **keywords)``."""
        return _mapper(self, *xs, **keywords)

    def __copy__(self) -> ScalarFunction:
        return self

    def __deepcopy__(self, memo: object) -> ScalarFunction:
        return self

    def __reduce__(self) -> Any:
        found = _importable(self, self.implementation)
        if found is not None:
            return found
        for part in self._parts:
            if isinstance(part, Pointer):
                part.__reduce__()  # a bare pointer says why it cannot be pickled, and what can
        assert self._recipe is not None
        return self._recipe

    def compile(self, types: str) -> None:
        """Prepare the function for arguments of given types, so that the first call does not have to.

        Parameters
        ----------
        types : str
            NumPy's type characters of the arguments, and of the results if they are to be checked: ``"dd"``
            or ``"dd->d"``.

        Raises
        ------
        TypeError
            If there is no loop for these types, or the results have others.
        """
        inputs, arrow, outputs = types.replace(" ", "").partition("->")
        unknown = set(types) - set("?bBhHiIlLqQefdFD-> ")
        if unknown or not inputs:
            raise TypeError(f"types must be NumPy's type characters, such as 'dd->d', not {types!r:.60}")
        kernel = self.kernel(tuple(np.dtype(char) for char in inputs), None)
        if arrow and outputs != "".join(kernel.results):
            raise TypeError(f"{self.name} gives {''.join(kernel.results)} for {inputs}, not {outputs}")

    def explain(self, *xs: Any) -> Explanation:
        """Say what a call with these arguments would run: loop, derivative, residuals, threads, and why.

        Returns
        -------
        Explanation
            With a field for each of these; printing it shows them line by line.
        """
        from tmapad._explain import explain

        return explain(self, xs)

    @property
    def runs_serially(self) -> str:
        """Why the function runs on the calling thread alone; empty if it does not."""
        return "" if self.threadsafe else "registered with threadsafe=False"

    def kernel(self, types: tuple[ArgType, ...], dtype: np.dtype[Any] | None) -> Kernel:
        """Return what the function does for arguments of these types, computed in `dtype` if one is given."""
        while True:
            version = self.refresh()
            key, kernels = (types, dtype, version), self._kernels
            found = kernels.get(key)
            if found is None:
                found = self._make_kernel(types, dtype)
                if self.refresh() != version:
                    continue  # some of it may have been made from old values, and some from new ones
                kernels[key] = found
            return found

    def refresh(self) -> tuple[int, ...]:
        """Forget what was compiled if a constant that it read is another now; return what tells versions apart."""
        version = tuple(part.fingerprint() for part in self._python)
        if version != self._version:
            self._kernels, self._shortcuts, self._version = {}, {}, version
        return version

    def _make_kernel(self, types: tuple[ArgType, ...], dtype: np.dtype[Any] | None) -> Kernel:
        if not self.min_nin <= len(types) <= self.nin:
            raise TypeError(
                f"{self.name} takes {self.nin} argument{'s' * (self.nin > 1)}; {len(types)} types were given"
            )
        kept = self.nondiff if isinstance(self.implementation, PythonFunction) else frozenset()
        given = types if dtype is None else tuple(t if i in kept else dtype for i, t in enumerate(types))
        if isinstance(self.implementation, Ufunc):
            loop = self.implementation.loop(given)
            results: tuple[str, ...] = tuple(r.char for r in self.implementation.result_types(given))
        else:
            loop = self._find_loop(self.implementation, given)
            types_of_captures = () if dtype is not None else self._types_of_captures()
            results = result_chars(loop, self.precision((*given, *types_of_captures)))
        form = self.form
        if isinstance(form, (Automatic, TableForm)):
            form = form.for_types(loop.types)
        elif form is not None:
            form.check_outputs(self.name, loop.nout)
        captured = [(id(part), "".join(capture.chars for capture in part.captures())) for part in self._python]
        return Kernel(
            self.implementation,
            form,
            loop,
            results,
            self._find_loop,
            name=self.name,
            captured=captured,
            serial=not self.threadsafe,
        )

    def _types_of_captures(self) -> list[ArgType]:
        """Types of the real and complex numbers that it captured, which decide on its precision as arguments do."""
        if not isinstance(self.implementation, PythonFunction):
            return []
        return [capture.type.given for capture in self.implementation.captures() if capture.type.differentiable]

    def precision(self, types: tuple[ArgType, ...]) -> str:
        """Return the precision that arguments of these types have together: "half", "single" or "double"."""
        numbers = tuple(t for i, t in enumerate(types) if i not in self.nondiff)
        arrays = [t for t in numbers if not isinstance(t, type)]
        if arrays and all(t.char == "e" for t in arrays):
            return "half"
        return precision_of(computation_type(numbers))

    def _find_loop(self, part: Implementation, types: tuple[Any, ...]) -> Any:
        """The loop of a part; arguments that are not differentiated stay integers in compiled functions."""
        if isinstance(part, Bound):
            return self._find_loop(part.inner, part.all_types(types))
        if isinstance(part, (PythonFunction, WithPartials)):
            integer = frozenset(self.parameters[i] for i in self.nondiff) & set(part.parameters)
            return part.loop(types, integer=integer)
        return part.loop(types)

    def may_complain(self) -> bool:
        """Whether it may raise or warn now although it usually does not: SciPy's functions do if told to."""
        if not self._of_scipy:
            return False
        actions: dict[str, str] = sys.modules["scipy.special"].geterr()
        return any(action != "ignore" for kind, action in actions.items() if kind != "memory")

    @property
    def captures_arrays(self) -> bool:
        """Whether it holds arrays that it captured."""
        return any(capture.type.ndim is not None for part in self._python for capture in part.captures())

    def captured(self, bound: Mapping[str, Any] | None) -> list[tuple[bool, Capture, Any]]:
        """Return what it and its derivatives captured: whether the function itself did, what it is, and its value now.

        `bound` are the values of arguments that `functools.partial` bound.
        """
        return [
            (part is self.implementation, capture, value)
            for part in self._python
            for capture, value in part.captured(bound if part is self.implementation else None)
        ]

    def inputs_of_captures(self) -> tuple[list[np.ndarray[Any, Any]], dict[int, np.ndarray[Any, Any]]] | None:
        """Return what its loops are given for what was captured, and captured arrays, by their places in that.

        To be asked after `refresh`; None if something was rebound in between, by another thread.
        """
        inputs: list[np.ndarray[Any, Any]] = []
        arrays = {}
        for part in self._python:
            captured = part.captured_since()
            if captured is None:
                return None
            for capture, value in captured:
                given, array = as_inputs(value, capture.type)
                if array is not None:
                    arrays[len(inputs)] = array
                inputs += given
        return inputs, arrays

    def differentiable(self, argument: int, kernel: Kernel) -> str:
        """Whether there is a derivative in an argument: "known", "none" (it has no gradient) or "unknown"."""
        if argument in self.nondiff or kernel.loop.in_chars[argument] not in "efdFD":
            return "none"
        if not kernel.active:
            return "known"
        if kernel.form is None or (argument >= kernel.nin and not isinstance(kernel.form, Automatic)):
            return "unknown"
        known = {kernel.form.known(output, argument) for output in kernel.active}
        return "unknown" if "unknown" in known else "known" if "known" in known else "none"

    @staticmethod
    def saves(residuals: str, kernel: Kernel) -> bool:
        """Whether the partials of the forward pass are kept."""
        return residuals == "save" or (residuals == "auto" and kernel.form is not None and kernel.form.saves)


def _importable(function: ScalarFunction, value: Implementation) -> str | None:
    """The name by which pickle finds the function again: a decorated one is what its module holds under its name."""
    python = value.python
    if not isinstance(python, FunctionType):
        return None
    holder: Any = sys.modules.get(python.__module__)
    for part in python.__qualname__.split("."):
        holder = getattr(holder, part, None)
    if holder is not function:
        return None
    function.__module__ = python.__module__
    return python.__qualname__


# `tmap` is defined above this module, and calling a function maps it.
_mapper: Callable[..., Any]


def call_with(mapper: Callable[..., Any]) -> None:
    """Take the function that ``f(x)`` calls."""
    global _mapper  # noqa: PLW0603 - set once, when the package is imported
    _mapper = mapper
