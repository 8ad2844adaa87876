"""Arguments of a Python function: which it takes, and as what types they are given to compiled code."""

import inspect
from collections.abc import Collection, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tmapad._protocol import ArgType, computation_type

ACCEPTED = "bool, integers, float16 to float64, complex64 and complex128"

IN_DOUBLE = str.maketrans("fF", "dD")
"""To types of twice the precision."""

_IN_SINGLE = str.maketrans("dD", "fF")
_INT64 = np.dtype(np.int64).char
_UINT64 = np.dtype(np.uint64).char
_SCALARS: dict[type, np.dtype[Any]] = {kind: np.dtype(kind) for kind in (bool, int, float, complex)}
_KINDS = "biufc"  # of dtypes that hold numbers, from narrow to wide
_COMPUTED = {"b": "d", "i": "d", "u": "d", "f": "d", "c": "D"}
_PLACES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SPECIAL = {
    inspect.isgeneratorfunction: "a generator",
    inspect.iscoroutinefunction: "a coroutine",
    inspect.isasyncgenfunction: "an asynchronous generator",
}


def parameters(function: FunctionType) -> list[inspect.Parameter]:
    """List all parameters of `function` itself, not of what it wraps."""
    return list(inspect.signature(function, follow_wrapped=False).parameters.values())


def positional(function: FunctionType, *, method: bool = False, bound: Collection[str] = ()) -> list[inspect.Parameter]:
    """List the parameters that arrays can be given for: all positional ones that are not `bound`.

    The first one of a `method` is its object.

    Raises
    ------
    TypeError
        The function does not take a fixed number of them, needs others, or returns no value when called.
    """
    name = function.__name__
    for is_special, what in _SPECIAL.items():
        if is_special(function):
            raise TypeError(f"{name} is {what}; a function that is mapped must return a number")
    result = []
    for parameter in parameters(function)[method:]:
        if parameter.kind in _COLLECTING:
            raise TypeError(
                f"{name} takes {parameter}; a function that is mapped must name its arguments: "
                f"wrap it, as in lambda x: {name}(x)"
            )
        if parameter.name in bound:
            continue
        if parameter.kind is not parameter.KEYWORD_ONLY:
            result.append(parameter)
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"{name} has the keyword-only argument {parameter.name!r} without a default; a function that is mapped "
                "takes positional arguments: make it one, or bind it with functools.partial"
            )
    if not result:
        raise TypeError(
            f"partial binds all arguments of {name}; one must be left for the arrays"
            if bound
            else f"{name} takes no positional argument; a function that is mapped takes one or more"
        )
    return result


def bind(args: Sequence[Any], keywords: dict[str, Any], function: FunctionType, *, method: bool) -> dict[str, Any]:
    """Give what `functools.partial` bound, by name.

    Parameters
    ----------
    args, keywords : sequence and dict
        Those of the partial.
    function : function
    method : bool
        Its first argument is an object, and none of these.

    Raises
    ------
    TypeError
        The function has no such arguments.
    """
    named = parameters(function)[method:]
    names = [parameter.name for parameter in named]
    places = [parameter.name for parameter in named if parameter.kind in _PLACES]
    if len(args) > len(places):
        raise TypeError(f"partial binds {len(args)} arguments; {function.__name__} takes {len(places)}")
    bound = dict(zip(places, args, strict=False))
    for name, value in keywords.items():
        if name not in names:
            raise TypeError(f"partial binds {name!r}; {function.__name__} has the arguments {', '.join(names)}")
        if name in bound:
            raise TypeError(f"partial binds {name!r} twice, by position and by name")
        bound[name] = value
    return {name: bound[name] for name in names if name in bound}


def are_single(inputs: tuple[ArgType, ...]) -> bool:
    """Whether a function of numbers of these types is computed in float32."""
    return computation_type(inputs).char in "fF"


def computed_char(given: ArgType, *, keep: bool, single: bool) -> str | None:
    """Choose the type that an argument is computed in, as NumPy's character; None if it is not a number.

    Parameters
    ----------
    given : dtype or type
    keep : bool
        Integers stay integers and bools stay bools; otherwise they become real numbers.
    single : bool
        Real and complex numbers are float32 and complex64, not float64 and complex128.
    """
    dtype = _SCALARS.get(given) if isinstance(given, type) else given
    if dtype is None or dtype.char in "gG":
        return None
    if keep and dtype.kind == "b":
        return "?"
    if keep and dtype.kind in "iu":
        return _UINT64 if dtype.kind == "u" and dtype.itemsize == 8 else _INT64
    char = _COMPUTED.get(dtype.kind)
    return char.translate(_IN_SINGLE) if single and char else char


def fits(given: ArgType, declared: str) -> bool:
    """Whether an argument can be cast to the type a function is declared for.

    As for C functions: without loss, integers and bools counting as float64; a Python scalar adapts.
    """
    wanted = np.dtype(declared)
    if isinstance(given, type):
        scalar = _SCALARS.get(given)
        return scalar is not None and _KINDS.index(scalar.kind) <= _KINDS.index(wanted.kind)
    if given.kind in "biu" and wanted.kind in "fc":
        given = np.dtype(np.float64)
    return given.kind in _KINDS and np.can_cast(given, wanted, "safe")


def type_name(given: ArgType) -> str:
    """How a message calls the type of an argument."""
    return f"Python's {given.__name__}" if isinstance(given, type) else str(given)
