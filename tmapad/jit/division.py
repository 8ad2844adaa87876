"""Division of complex numbers as IEEE has it for real ones: a zero divisor gives an infinity or a NaN.

Numba's own raises ZeroDivisionError, whatever its error model.
"""

import operator
from collections.abc import Callable
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import mk_unique_var

NAN = float("nan")


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


def replace_complex_divisions(state: Any, dispatcher: Callable[[], Any]) -> bool:
    """Call the dispatcher's function where complex numbers are divided, in Numba's typed IR."""
    changed = False
    for block in state.func_ir.blocks.values():
        body = []
        for statement in block.body:
            value = statement.value if isinstance(statement, ir.Assign) else None
            if value is not None and _divides_complex(state, value):
                function = ir.Var(block.scope, mk_unique_var("quotient"), statement.loc)
                state.typemap[function.name] = types.Dispatcher(dispatcher())
                body.append(ir.Assign(ir.Global("quotient", dispatcher(), statement.loc), function, statement.loc))
                call = ir.Expr.call(function, (value.lhs, value.rhs), (), statement.loc)
                arguments = state.calltypes.pop(value).args
                state.calltypes[call] = state.typemap[function.name].get_call_type(state.typingctx, arguments, {})
                statement.value = call
                changed = True
            body.append(statement)
        block.body = body
    return changed


def _divides_complex(state: Any, value: Any) -> bool:
    if not isinstance(value, ir.Expr) or value.op not in ("binop", "inplace_binop"):
        return False
    function = value.immutable_fn if value.op == "inplace_binop" else value.fn
    return function is operator.truediv and isinstance(state.calltypes[value].return_type, types.Complex)


@register_pass(mutates_CFG=False, analysis_only=False)
class DivideComplex(FunctionPass):  # type: ignore[misc]
    """Divide complex numbers as IEEE has it, if that is asked for. Runs when types are known."""

    _name = "tmapad_divide_complex"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace divisions."""
        helpers = state.pipeline.helpers
        return helpers.ieee and replace_complex_divisions(state, lambda: helpers.replacement(quotient))
