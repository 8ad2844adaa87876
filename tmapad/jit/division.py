"""Divisions as IEEE has them: a zero divisor gives an infinity or a NaN.

Numba's own division of complex numbers, and its powers with negative integers, raise ZeroDivisionError whatever its
error model.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import mk_unique_var

NAN = float("nan")
LARGEST_MULTIPLIED = 0x10000  # the exponent up to which Numba multiplies


def quotient(a: complex, b: complex) -> complex:
    """Divide by R. L. Smith's algorithm (Algorithm 116, Communications of the ACM 5, 1962), as Python and NumPy do."""
    if abs(b.real) >= abs(b.imag):
        if b.real == 0.0:
            return complex(a.real / abs(b.real), a.imag / abs(b.real))
        ratio = b.imag / b.real
        divisor = b.real + b.imag * ratio
        return complex((a.real + a.imag * ratio) / divisor, (a.imag - a.real * ratio) / divisor)
    if abs(b.imag) >= abs(b.real):
        ratio = b.real / b.imag
        divisor = b.real * ratio + b.imag
        return complex((a.real * ratio + a.imag) / divisor, (a.imag * ratio - a.real) / divisor)
    return complex(NAN, NAN)


def integer_power(a: float, b: int) -> float:
    """Multiply, as Numba does, but divide 1 by the product as IEEE has it."""
    exponent = -b if b < 0 else b
    if exponent > LARGEST_MULTIPLIED or exponent < 0:
        return math.pow(a, float(b))
    product = 1.0
    while exponent != 0:
        if exponent & 1:
            product *= a
        exponent >>= 1
        a *= a
    return 1.0 / product if b < 0 else product


def _is_quotient(operation: Any, a: Any, b: Any) -> bool:
    return operation is operator.truediv and (isinstance(a, types.Complex) or isinstance(b, types.Complex))


def _is_power(operation: Any, a: Any, b: Any) -> bool:
    """Whether it may divide; a product of known length is Numba's own."""
    if operation not in (operator.pow, pow) or a != types.float64 or not isinstance(b, types.Integer):
        return False
    return not isinstance(b, types.IntegerLiteral) or b.literal_value < 0


REPLACEMENTS: list[tuple[Callable[[Any, Any, Any], bool], Callable[..., Any]]] = [
    (_is_quotient, quotient),
    (_is_power, integer_power),
]


def replace_divisions(state: Any, dispatcher: Callable[[Callable[..., Any]], Any]) -> bool:
    """Call the functions above where that is divided, in Numba's typed IR; `dispatcher` makes them Numba's."""
    changed = False
    for block in state.func_ir.blocks.values():
        body = []
        for statement in block.body:
            value = statement.value if isinstance(statement, ir.Assign) else None
            operation, operands = _operation(state, value)
            for applies, function in REPLACEMENTS:
                if operation is not None and applies(operation, *state.calltypes[value].args):
                    called = dispatcher(function)
                    variable = ir.Var(block.scope, mk_unique_var(function.__name__), statement.loc)
                    state.typemap[variable.name] = types.Dispatcher(called)
                    body.append(ir.Assign(ir.Global(function.__name__, called, statement.loc), variable, statement.loc))
                    call = ir.Expr.call(variable, operands, (), statement.loc)
                    arguments = tuple(map(types.unliteral, state.calltypes.pop(value).args))
                    state.calltypes[call] = state.typemap[variable.name].get_call_type(state.typingctx, arguments, {})
                    statement.value = call
                    changed = True
                    break
            body.append(statement)
        block.body = body
    return changed


def _operation(state: Any, value: Any) -> tuple[Any, tuple[Any, ...]]:
    """What is done to which two operands, if that is what an expression is."""
    if isinstance(value, ir.Expr) and value.op in ("binop", "inplace_binop"):
        return value.immutable_fn if value.op == "inplace_binop" else value.fn, (value.lhs, value.rhs)
    if isinstance(value, ir.Expr) and value.op == "call" and len(value.args) == 2 and not value.kws:
        function = state.typemap[value.func.name]
        if isinstance(function, types.Function) and function.typing_key is pow:
            return pow, tuple(value.args)
    return None, ()


@register_pass(mutates_CFG=False, analysis_only=False)
class DivideIEEE(FunctionPass):  # type: ignore[misc]
    """Divide as IEEE has it what Numba divides as Python does, if that is asked for. Runs when types are known."""

    _name = "tmapad_divide_ieee"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace divisions."""
        helpers = state.pipeline.helpers
        return helpers.ieee and replace_divisions(state, helpers.replacement)
