"""Local variables that are read where nothing was assigned to them: an error, as in Python.

Numba takes zero for such a variable. Where it joins the versions of a variable, it says by a null which way nothing was
assigned on; that is noted in another variable, and looked at where the first one is read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from numba.core import ir, types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import mk_unique_var

from tmapad.jit import exact


@register_pass(mutates_CFG=False, analysis_only=False)
class CheckAssigned(FunctionPass):  # type: ignore[misc]
    """Raise where a variable is read that has no value. Runs when versions were joined, and types are known."""

    _name = "tmapad_check_assigned"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Add what notes and checks."""
        blocks = state.func_ir.blocks.values()
        assigned = Counter(one.target.name for block in blocks for one in block.find_insts(ir.Assign))
        unset: dict[str, Any] = {}
        for one in _joins(blocks):
            name = one.target.name
            # A version that is joined from others may be without a value if one of these is.
            if name not in unset and (_is_null(one.value) or one.value.name in unset) and assigned[name] > 1:
                unset[name] = _variable(state, one, "unset", types.boolean)
        if not unset:
            return False
        for block in blocks:
            block.body = [new for one in block.body for new in _checked(state, one, unset)]
        return True


def _joins(blocks: Any) -> Iterator[Any]:
    """Assignments of a null or of a variable, again and again: as often as there may be something new in them."""
    joins = [
        one
        for block in blocks
        for one in block.find_insts(ir.Assign)
        if _is_null(one.value) or isinstance(one.value, ir.Var)
    ]
    for _ in joins:
        yield from joins


def _is_null(value: Any) -> bool:
    return isinstance(value, ir.Expr) and value.op == "null"


def _variable(state: Any, statement: Any, name: str, kind: Any) -> Any:
    variable = ir.Var(statement.target.scope, mk_unique_var(name), statement.loc)
    state.typemap[variable.name] = kind
    return variable


def _checked(state: Any, statement: Any, unset: dict[str, Any]) -> Iterator[Any]:
    """A statement, after what checks the variables that it reads, and before what notes whether it assigns a value."""
    joined = isinstance(statement, ir.Assign) and statement.target.name in unset
    passed_on = statement.value if joined and isinstance(statement.value, ir.Var) else None
    if not isinstance(statement, ir.Del):
        for read in statement.list_vars():
            is_target = isinstance(statement, ir.Assign) and read.name == statement.target.name
            if read.name in unset and not is_target and read is not passed_on:
                yield from _check(state, statement, unset[read.name])
    yield statement
    if joined:
        yield _note(statement, unset, passed_on)


def _note(statement: Any, unset: dict[str, Any], passed_on: Any) -> Any:
    noted = unset[statement.target.name]
    if passed_on is not None and passed_on.name in unset:
        return ir.Assign(unset[passed_on.name], noted, statement.loc)
    return ir.Assign(ir.Const(_is_null(statement.value), statement.loc), noted, statement.loc)


def _check(state: Any, statement: Any, noted: Any) -> Iterator[Any]:
    function = state.pipeline.helpers.replacement(exact.assigned)
    scope = noted.scope
    called = ir.Var(scope, mk_unique_var("assigned"), statement.loc)
    state.typemap[called.name] = state.typingctx.resolve_value_type(function)
    call = ir.Expr.call(called, (noted,), (), statement.loc)
    state.calltypes[call] = state.typemap[called.name].get_call_type(state.typingctx, (types.boolean,), {})
    result = ir.Var(scope, mk_unique_var("checked"), statement.loc)
    state.typemap[result.name] = state.calltypes[call].return_type
    yield ir.Assign(ir.Global("assigned", function, statement.loc), called, statement.loc)
    yield ir.Assign(call, result, statement.loc)
