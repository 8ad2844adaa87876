"""Sort out what was given to `register`: which form, for which outputs and arguments, and whether it fits."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tmapad._automatic import Automatic
from tmapad._bound import Bound
from tmapad._errors import SignatureError
from tmapad._find import derived, implementation, registered
from tmapad._forms import Separate, Together
from tmapad._function import ScalarFunction
from tmapad._pointers import Pointer, cython_pointers
from tmapad._protocol import Implementation
from tmapad._ufuncs import TableForm

# The keywords of `register` that say how a derivative is given.
FORMS = ("derivative", "derivative_from_output", "value_and_derivative")


def build(f: Any, options: dict[str, Any], recipe: Any = None) -> ScalarFunction:
    """Make a `ScalarFunction` of what was given to `register` or `from_cython`.

    `recipe` is a callable and its arguments, by which pickle makes the function again.
    """
    given = [form for form in FORMS if options[form] is not None]
    if len(given) > 1:
        raise TypeError(f"give one of {', '.join(FORMS)}, not {' and '.join(given)}")
    if options.get("division", "ieee") not in ("ieee", "python"):
        raise ValueError(f"division must be 'ieee' or 'python', not {options['division']!r:.60}")
    value = implementation(f, "f", **options)
    if isinstance(value, Pointer) and value.writer:
        raise SignatureError(
            f"{value.name} writes through pointers ({value.signatures[0].text}); f must return its value"
        )
    if options["user_data"] is not None and not isinstance(value, Pointer):
        raise TypeError(f"user_data is for C functions with a last void *; {value.name} is not a C function")
    parameters = value.parameters
    unknown = [n for n in options["nondiff"] if n not in parameters]
    if unknown:
        raise ValueError(f"nondiff names {unknown[0]!r}; {value.name} has the arguments {', '.join(parameters)}")
    nondiff = frozenset(parameters.index(n) for n in options["nondiff"])
    form: Automatic | Separate | Together | TableForm | None
    if not given:
        form = derived(value)
    elif given[0] == "value_and_derivative":
        part = _part(options[given[0]], given[0], value, options)
        together = Together(part)
        if value.nout is not None:
            together.check_outputs(value.name, value.nout)
        form = together
    else:
        form = _separate(options[given[0]], given[0], value, options)
    return ScalarFunction(
        value,
        form,
        nondiff=nondiff,
        threadsafe=options["threadsafe"] and all(part.threadsafe for part in _registered_in(options)),
        name=options.get("name"),
        recipe=recipe,
    )


def _registered_in(options: dict[str, Any]) -> Iterator[ScalarFunction]:
    """Yield what of the derivative was registered itself: it may have to be run on one thread."""
    given = [options[form] for form in FORMS]
    while given:
        entry = given.pop()
        if _is_tuple(entry):
            given += entry
        elif isinstance(entry, functools.partial):
            given.append(entry.func)
        elif isinstance(entry, ScalarFunction):
            yield entry
        elif entry is not None and (known := registered(entry)) is not None:
            yield known


def _is_tuple(given: Any) -> bool:
    """Whether it is a tuple of functions: a scipy.LowLevelCallable is one function, and a subclass of tuple."""
    return type(given) is tuple


def _separate(given: Any, role: str, value: Implementation, options: dict[str, Any]) -> Separate:
    """Sort out what was given as ``derivative=``: over outputs, over arguments, or one function."""
    nin, nout = value.nin, value.nout
    by_output = _is_tuple(given) and (
        any(_is_tuple(entry) for entry in given)
        or (nin == 1 and (nout or len(given)) == len(given) and len(given) > 1)
        or (nin > 1 and len(given) != nin)
        or (nout is not None and nout > 1 and len(given) == nout)
    )
    entries = given if by_output else (given,)
    if nout is not None and nout != len(entries):
        raise SignatureError(f"{role} of {value.name} is given for {len(entries)} outputs; {value.name} has {nout}")
    return Separate(
        [_row(entry, role, value, options) for entry in entries], from_output=role == "derivative_from_output"
    )


def _row(entry: Any, role: str, value: Implementation, options: dict[str, Any]) -> Any:
    """Partials of one output: a list with one entry for each argument, or one function for all."""
    nin = value.nin
    if _is_tuple(entry):
        if len(entry) != nin:
            raise SignatureError(f"{role} of {value.name} has {len(entry)} entries; {value.name} takes {nin} arguments")
        return [None if part is None else _part(part, role, value, options) for part in entry]
    if entry is None:
        return [None] * nin
    part = _part(entry, role, value, options)
    if nin == 1:
        return [part]
    if part.nout is not None and part.nout != nin:
        raise SignatureError(
            f"{role} of {value.name} is one function that gives {part.nout} number{'s' * (part.nout > 1)}; "
            f"give a tuple of {nin}, one for each argument"
        )
    return part


def _part(given: Any, role: str, value: Implementation, options: dict[str, Any]) -> Implementation:
    """Return what runs one of the functions given for a derivative."""
    from_output = role == "derivative_from_output"
    part: Implementation
    if isinstance(given, str):
        if "module" not in options and ":" not in given:
            raise TypeError(f"{role} is the string {given!r}; strings name functions of a module: see from_cython")
        limit = 6 + from_output
        part = cython_pointers(options.get("module", ""), given, raises=options["raises"], max_inputs=limit)
    else:
        part = implementation(given, role, from_output=from_output, **{**options, "user_data": None, "name": None})
    if isinstance(part, Bound) and not all(isinstance(v, (int, float, complex)) for v in part.values.values()):
        raise TypeError(f"{role} {part.name} binds something else than numbers")
    if isinstance(part, Pointer) and isinstance(value, Pointer) and part.takes_user_data:
        part = part.with_data_of(value)
    expected = value.nin + from_output
    if part.nin != expected:
        raise SignatureError(
            f"{role} {part.name} of {value.name} takes {part.nin} argument{'s' * (part.nin > 1)}; it must take "
            f"{expected}: {'the output, then ' if from_output else ''}those of {value.name}"
        )
    if isinstance(part, Pointer) and part.writer and role != "value_and_derivative" and value.nin == 1:
        raise SignatureError(
            f"{role} {part.name} writes through pointers ({part.signatures[0].text}); it must return its value"
        )
    return part
