"""Elementary functions as Numba knows them: calls of opaque functions in place of what Numba would make of them."""

import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir as llvm_ir
from numba.core import cgutils, errors, ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import mk_unique_var
from numba.core.registry import cpu_target
from numba.core.typing import signature
from numba.extending import intrinsic

from tmapad.jit import exact, special
from tmapad.jit.arity import calling
from tmapad.jit.composite import CALLS, in_single
from tmapad.jit.elementary import types_of
from tmapad.jit.scalar import OPAQUE, llvm_type, slots

_NUMBERS = {
    "f": types.float32,
    "d": types.float64,
    "F": types.complex64,
    "D": types.complex128,
    "i": types.intc,
}
_CHARS = {number: char for char, number in _NUMBERS.items()}
# What can be given for each of these: itself, and what it holds.
_HELD = {"f": "f", "d": "fd", "F": "fF", "D": "fdFD", "i": "i"}
_POWERS = (operator.pow, pow, np.power)
# With Python's division these raise, of a divisor 0.
_DIVISIONS = frozenset({"remainder", "floor_divide", "divmod"})


def arguments_fit(given: Sequence[Any], chars: str) -> bool:
    """Whether arguments of Numba's types `given` can be passed as `chars`: integers as any number."""
    if len(given) != len(chars):
        return False
    for argument, char in zip(map(types.unliteral, given), chars, strict=True):
        if not isinstance(argument, types.Integer | types.Boolean) and _CHARS.get(argument, "?") not in _HELD[char]:
            return False
    return True


@cache
def opaque_function(symbol: str) -> Any:
    """Make the function that Numba can call, of arguments in the types that `symbol` says."""
    typed = _signature(symbol)

    def code(context: Any, builder: Any, typed: Any, arguments: Any) -> Any:
        if symbol.removeprefix(OPAQUE).partition(":")[0] in _DIVISIONS:
            _check_divisor(context, builder, arguments[1])
        return _call(context, builder, symbol, typed, arguments)

    def typing(*given: Any) -> Any:
        return (typed, code) if arguments_fit(given, types_of(symbol)[0]) else None

    return _known(typing, len(typed.args), symbol.removeprefix(OPAQUE).partition(":")[0])


@cache
def special_function(name: str) -> Any:
    """Make the function that Numba can call, for any types that SciPy's function of this name takes."""
    available = [entry.types for entry in special.entries(name)]

    def typing(*given: Any) -> Any:
        for asked in (each for types_ in available for each in (in_single(types_), types_)):
            if arguments_fit(given, types_of(asked)[0]) and (_has_float32(given) or not set(asked) & set("fF")):
                symbol = f"{OPAQUE}{special.SCIPY}{name}:{asked}"
                return _signature(symbol), partial(_call_special, symbol)
        return None

    return _known(typing, len(types_of(available[0])[0]), name)


def _known(typing: Callable[..., Any], count: int, name: str) -> Any:
    """Tell Numba of a function of `count` arguments that writes LLVM IR, also while it is compiling."""
    function = calling(typing, count, before=("_context",))  # which Numba reads the arguments from, and adds
    function.__name__ = function.__qualname__ = name
    made = intrinsic(function)
    cpu_target.typing_context.refresh()
    return made


def _has_float32(given: Sequence[Any]) -> bool:
    return any(_CHARS.get(one, "?") in "fF" for one in given)


def _call_special(symbol: str, context: Any, builder: Any, typed: Any, arguments: Any) -> Any:
    return _call(context, builder, symbol, typed, arguments)


def _signature(symbol: str) -> Any:
    inputs, outputs = types_of(symbol)
    results = [_NUMBERS[char] for char in outputs]
    return signature(results[0] if len(results) == 1 else types.Tuple(results), *(_NUMBERS[char] for char in inputs))


def _call(context: Any, builder: Any, symbol: str, typed: Any, arguments: Any) -> Any:
    """Call an opaque function in its own calling convention."""
    inputs, outputs = types_of(symbol)
    parts = [
        part
        for char, argument in zip(inputs, arguments, strict=True)
        for part in (map(builder.extract_value, (argument, argument), (0, 1)) if char in "FD" else [argument])
    ]
    results = [llvm_type(llvm_ir, slot) for char in outputs for slot in slots(char)]
    result = results[0] if len(results) == 1 else llvm_ir.LiteralStructType(results)
    function_type = llvm_ir.FunctionType(result, [part.type for part in parts])
    value = builder.call(cgutils.get_or_insert_function(builder.module, function_type, symbol), parts)
    if len(outputs) == 1:
        return value
    numbers = []
    part = iter(range(len(results)))
    for char, one in zip(outputs, typed.return_type, strict=True):
        number = builder.extract_value(value, next(part))
        if char in "FD":
            complex_ = context.make_complex(builder, one)
            complex_.real, complex_.imag = number, builder.extract_value(value, next(part))
            number = complex_._getvalue()
        numbers.append(number)
    return context.make_tuple(builder, typed.return_type, numbers)


def _check_divisor(context: Any, builder: Any, divisor: Any) -> None:
    """Raise ZeroDivisionError if this is compiled to do so."""
    zero = builder.fcmp_ordered("==", divisor, divisor.type(0.0))
    with builder.if_then(zero, likely=False):
        context.error_model.fp_zero_division(builder, ("division by zero",))


def _symbol(called: Any, typed: Any) -> str | None:
    """The opaque function for a call that Numba typed, if there is one."""
    for name in CALLS.get(called, ()) if isinstance(called, Hashable) else ():
        inputs, outputs = types_of(name)
        results = typed.return_type if isinstance(typed.return_type, types.BaseTuple) else [typed.return_type]
        if "".join(_CHARS.get(one, "?") for one in results) != outputs or not arguments_fit(typed.args, inputs):
            continue
        # What is real is passed as a complex number only if the result is one.
        exact = all(_CHARS.get(one) == char for one, char in zip(typed.args, inputs, strict=True) if char in "FD")
        if exact or outputs in "FD":
            return OPAQUE + name
    return None


def _replacement(called: Any, typed: Any, helpers: Any, loc: Any) -> Any:
    """What is to be called instead, if anything."""
    symbol = _symbol(called, typed)
    if symbol is not None:
        return opaque_function(symbol)
    if called not in _POWERS or not all(isinstance(one, types.Integer) for one in typed.args):
        return None
    exponent = typed.args[1]
    if not isinstance(exponent, types.IntegerLiteral):
        return helpers.replacement(exact.integer_power) if exponent.signed else None
    if exponent.literal_value < 0:
        raise errors.TypingError("a negative power of an integer is a fraction: take that of a float, float(n)", loc)
    return None


def _calls(state: Any, value: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """What an expression calls, with which arguments: nothing, or one function."""
    if not isinstance(value, ir.Expr):
        return
    if value.op == "call" and not value.kws and value.vararg is None:
        function = state.typemap[value.func.name]
        if isinstance(function, types.BaseFunction):
            yield function.typing_key, tuple(value.args)
    elif value.op in ("binop", "inplace_binop"):
        yield value.immutable_fn if value.op == "inplace_binop" else value.fn, (value.lhs, value.rhs)


@register_pass(mutates_CFG=False, analysis_only=False)
class CallOpaque(FunctionPass):  # type: ignore[misc]
    """Call opaque functions, if that is asked for. Runs when types are known."""

    _name = "tmapad_call_opaque"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace calls and operators."""
        if not state.pipeline.helpers.opaque:
            return False
        changed = False
        for block in state.func_ir.blocks.values():
            body = []
            for statement in block.body:
                value = statement.value if isinstance(statement, ir.Assign) else None
                for called, arguments in _calls(state, value):
                    function = _replacement(called, state.calltypes[value], state.pipeline.helpers, statement.loc)
                    if function is not None:
                        body.append(_replace(state, block.scope, statement, function, arguments))
                        changed = True
                body.append(statement)
            block.body = body
        return changed


def _replace(state: Any, scope: Any, statement: Any, function: Any, arguments: tuple[Any, ...]) -> Any:
    """Call another function in a statement; gives the statement that has to come before it."""
    variable = ir.Var(scope, mk_unique_var("opaque"), statement.loc)
    state.typemap[variable.name] = state.typingctx.resolve_value_type(function)
    call = ir.Expr.call(variable, arguments, (), statement.loc)
    given = state.calltypes.pop(statement.value).args
    state.calltypes[call] = state.typemap[variable.name].get_call_type(state.typingctx, given, {})
    statement.value = call
    return ir.Assign(ir.Global("opaque", function, statement.loc), variable, statement.loc)
