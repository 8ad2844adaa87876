"""Registered functions as Numba knows them: calls of what `registered` defines."""

from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir as llvm_ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.core.typing import signature
from numba.extending import intrinsic
from numba.np.numpy_support import as_dtype, from_dtype

from tmapad._protocol import Registered
from tmapad.jit.arity import calling
from tmapad.jit.captures import symbols
from tmapad.jit.given import inner
from tmapad.jit.references import References
from tmapad.jit.registered import Callee, Code, code_for
from tmapad.jit.scalar import llvm_type, slots


def registered_function(given: Registered, references: References | None) -> Any:
    """Give what Numba can call: a function that reads what `given` captured where `references` say."""
    part = inner(given.implementation)
    captures = part.captures() if hasattr(part, "captures") else []
    assert references is not None or not captures  # what it reads is read by the function that is compiled
    version = part.fingerprint() if hasattr(part, "fingerprint") else 0
    return _function(given, version, tuple(references.place_of(one, given) for one in captures) if references else ())


@lru_cache(256)
def _function(given: Registered, version: int, captured: tuple[int, ...]) -> Any:  # noqa: ARG001 - a key
    callee = Callee(given)

    def typing(*arguments: Any) -> Any:
        dtypes = list(map(_dtype, arguments))
        if any(dtype is None for dtype in dtypes):
            return None
        code = code_for(callee, dtypes)  # type: ignore[arg-type]
        results = [from_dtype(np.dtype(char)) for char in code.outputs]
        result = results[0] if len(results) == 1 else types.Tuple(results)
        typed = signature(result, *(from_dtype(np.dtype(char)) for char in code.inputs))

        def lowered(context: Any, builder: Any, typed: Any, arguments: Any) -> Any:
            return _call(context, builder, code, captured, typed, arguments)

        return typed, lowered

    # Numba reads from it what it is to pass: as many arguments as it has, after its context.
    made = intrinsic(_named(calling(typing, given.implementation.nin, before=("_context",)), given))
    cpu_target.typing_context.refresh()
    made._numba_type_ = cpu_target.typing_context.resolve_value_type(made)  # also as a part of a tuple
    return made


def _named(function: FunctionType, given: Registered) -> FunctionType:
    """Give a function the name, the names of the arguments and the defaults of a registered one."""
    part = given.implementation
    code = function.__code__.replace(co_varnames=("_context", *part.parameters))
    least = getattr(part, "min_nin", part.nin)
    defaults = tuple(part.default(i) for i in range(least, part.nin))  # type: ignore[attr-defined]
    return FunctionType(code, function.__globals__, given.name, defaults, function.__closure__)


def _dtype(argument: Any) -> np.dtype[Any] | None:
    """The type of an argument, given as one of Numba's, or of a default; None if it is not a number."""
    if isinstance(argument, bool | int | float | complex):
        return np.dtype(type(argument))
    plain = types.unliteral(argument) if isinstance(argument, types.Type) else None
    return as_dtype(plain) if isinstance(plain, types.Number | types.Boolean) else None


def _call(context: Any, builder: Any, code: Code, captured: Sequence[int], typed: Any, arguments: Sequence[Any]) -> Any:
    """Call a registered function, and raise if it does."""
    parts = []
    for char, argument in zip(code.inputs, arguments, strict=True):
        if char in "FD":
            parts += [builder.extract_value(argument, place) for place in (0, 1)]
        else:
            parts.append(builder.zext(argument, llvm_ir.IntType(8)) if char == "?" else argument)
    for number, capture in zip(captured, code.captures, strict=True):
        for symbol, slot in symbols(number, capture.type):
            read = llvm_ir.FunctionType(llvm_type(llvm_ir, slot), [])
            parts.append(builder.call(cgutils.get_or_insert_function(builder.module, read, symbol), []))
    results = [llvm_ir.IntType(32)] * code.raises
    results += [llvm_type(llvm_ir, slot) for char in code.outputs for slot in slots(char)]
    result = results[0] if len(results) == 1 else llvm_ir.LiteralStructType(results)
    function_type = llvm_ir.FunctionType(result, [part.type for part in parts])
    value = builder.call(cgutils.get_or_insert_function(builder.module, function_type, code.symbol), parts)
    fields = [value] if len(results) == 1 else [builder.extract_value(value, place) for place in range(len(results))]
    if code.raises:
        status = fields.pop(0)
        with builder.if_then(builder.icmp_signed("!=", status, status.type(0)), likely=False):
            context.call_conv.return_user_exc(builder, AssertionError, ())
    values = [_number(context, builder, char, fields) for char in code.outputs]
    return values[0] if len(values) == 1 else context.make_tuple(builder, typed.return_type, values)


def _number(context: Any, builder: Any, char: str, fields: list[Any]) -> Any:
    """One result, in the form that Numba has numbers in."""
    if char in "FD":
        number = context.make_complex(builder, from_dtype(np.dtype(char)))
        number.real, number.imag = fields.pop(0), fields.pop(0)
        return number._getvalue()
    field = fields.pop(0)
    return builder.icmp_unsigned("!=", field, field.type(0)) if char == "?" else field
