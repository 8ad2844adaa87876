"""What is refused before Numba types a function: where the line is still known, and in words of who wrote it."""

import dis
import operator
import random
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core import errors, ir, ir_utils
from numba.core.compiler_machinery import AnalysisPass, register_pass

from tmapad.jit.lifting import Space
from tmapad.jit.written import PRODUCTS

PYTHON = "for which threads would have to wait for each other; leave that out of the function"
RANDOM = (
    "it draws random numbers, so its results would depend on the threads; draw them before and pass them as an argument"
)
WITH = "a function that is mapped has no with blocks"
# By the interpreter's name of an instruction: what it is of, that is not compiled.
_INSTRUCTIONS = {
    "BEFORE_WITH": WITH,
    "LOAD_SPECIAL": WITH,  # of CPython 3.14
    "LOAD_BUILD_CLASS": "a class is made in it: make it outside",
    "IMPORT_NAME": "it imports: do so outside of the function",
    "STORE_GLOBAL": "it assigns a global variable, which threads would do at the same time: return what is computed",
    "DELETE_GLOBAL": "it deletes a global variable, which threads would do at the same time",
    "UNPACK_EX": "a starred variable is not compiled: index the tuple",
    "DICT_MERGE": "arguments by ** are not compiled: name them",
    "MATCH_SEQUENCE": "patterns of match are not compiled, but numbers: write comparisons",
    "MATCH_MAPPING": "patterns of match are not compiled, but numbers: write comparisons",
    "MATCH_CLASS": "patterns of match are not compiled, but numbers: write comparisons",
}
_INTEGERS: dict[Callable[..., Any], Callable[[int, int], int | None]] = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.pow: lambda a, b: a**b if 0 <= b < 128 else None,
    operator.lshift: lambda a, b: a << b if 0 <= b < 128 else None,
}
_GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)


def owner(func_ir: Any, variable: Any) -> Any:
    """What a variable holds that was read from outside, or the module in a module; None for all else."""
    definition = ir_utils.guard(ir_utils.get_definition, func_ir, variable)
    if isinstance(definition, ir.Global | ir.FreeVar):
        return definition.value
    if not isinstance(definition, ir.Expr) or definition.op != "getattr":
        return None
    holder, name = owner(func_ir, definition.value), definition.attr
    value = holder.constant(name) if isinstance(holder, Space) else getattr(holder, name, None)
    return value if isinstance(holder, Space | ModuleType) and isinstance(value, ModuleType) else None


def refuse_instructions(function: FunctionType) -> FunctionType:
    """Give the function back, if Numba knows its statements.

    Raises
    ------
    UnsupportedError
        It does not.
    """
    _refuse(function.__code__)
    return function


def _refuse(code: CodeType) -> None:
    for instruction in dis.get_instructions(code):
        problem = _INSTRUCTIONS.get(instruction.opname)
        if problem is not None:
            line = None if instruction.positions is None else instruction.positions.lineno
            raise errors.UnsupportedError(problem, ir.Loc(code.co_filename, line or code.co_firstlineno))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _refuse(constant)


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseEarly(AnalysisPass):  # type: ignore[misc]
    """Say what is wrong with what Numba has other words for, or compiles although it makes no sense here."""

    _name = "tmapad_refuse_early"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Raise if there is one."""
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                for problem in _problems(state.func_ir, statement):
                    raise errors.UnsupportedError(problem, statement.loc)
        return False


def _problems(func_ir: Any, statement: Any) -> Iterator[str]:
    if isinstance(statement, ir.Print):
        yield f"it prints, {PYTHON}"
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(value, ir.Global | ir.FreeVar):
        yield from _wrong(value.value)
    if not isinstance(value, ir.Expr):
        return
    if value.op in ("yield", "yield_from"):
        yield "a function that is mapped yields nothing"
    if value.op in ("binop", "inplace_binop") and value.fn in (operator.matmul, operator.imatmul):
        yield PRODUCTS
    if value.op == "binop" and value.fn in _INTEGERS:
        yield from _too_large(func_ir, value)
    if value.op == "getattr":
        module = owner(func_ir, value.value)
        if isinstance(module, ModuleType):
            if not hasattr(module, value.attr):
                yield f"module {module.__name__!r} has no attribute {value.attr!r}"
            else:
                yield from _wrong(getattr(module, value.attr))


def _too_large(func_ir: Any, value: Any) -> Iterator[str]:
    """What Python computes of two literals in integers of any size."""
    literals = [ir_utils.guard(ir_utils.find_const, func_ir, one) for one in (value.lhs, value.rhs)]
    if all(type(one) is int for one in literals):
        result = _INTEGERS[value.fn](*literals)
        if result is not None and not -(2**63) <= result < 2**64:
            yield f"{result} is no integer of 64 bits: write it as a float"


def _wrong(value: Any) -> Iterator[str]:
    """What is wrong with what is read from outside."""
    if value is print:
        yield f"it prints, {PYTHON}"
    if isinstance(getattr(value, "__self__", None), _GENERATORS):
        yield RANDOM
