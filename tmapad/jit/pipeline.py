"""What tmapad changes in Numba's compilation: which functions are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
from numba.core import compiler, errors, ir, types
from numba.core.ccallback import CFunc
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering, NopythonTypeInference, PreLowerStripPhis
from numba.core.untyped_passes import InlineClosureLikes, IRProcessing, MakeFunctionToJitFunction

from tmapad._protocol import Registered
from tmapad.jit import special
from tmapad.jit.composite import OF_TWO, UNKNOWN
from tmapad.jit.division import DivideIEEE
from tmapad.jit.given import is_whole
from tmapad.jit.helping import Helper, Written
from tmapad.jit.lifting import LiftCaptures, Lifting
from tmapad.jit.marking import LowerWithMarkers, pretend
from tmapad.jit.natives import registered_function
from tmapad.jit.opaque import CallOpaque, opaque_function, special_function
from tmapad.jit.raises import with_bare_raises
from tmapad.jit.references import References, python_code_of
from tmapad.jit.refusals import RefuseEarly, owner, refuse_instructions
from tmapad.jit.scalar import OPAQUE
from tmapad.jit.unassigned import CheckAssigned
from tmapad.jit.walrus import stored_first
from tmapad.jit.written import FORMS, form_of


class Helpers:
    """The functions that one compiled function calls, compiled along with it and by the same options.

    What the user made of them with ``@njit`` is left alone: it may have been compiled with other semantics,
    and with other values of its globals. Plain functions, which Numba refuses to call, come for free.

    Parameters
    ----------
    options : dict
        What one would give ``numba.njit``.
    opaque : bool, optional
        Whether elementary functions are called as a whole.
    references : References, optional
        What the compiled function reads. Without it all of that is constant.
    marks : bool, optional
        Whether the instructions tell which lines they come from: see `lines`.

    Attributes
    ----------
    options : dict
        As given.
    pipeline : type
        The pipeline to compile with.
    ieee : bool
        Whether divisions by zero give infinities and NaNs.
    opaque, marks : bool
        As given.
    lifting : Lifting or None
        What stands for what the function reads.
    """

    def __init__(
        self,
        options: dict[str, Any],
        *,
        opaque: bool = True,
        references: References | None = None,
        marks: bool = False,
    ) -> None:
        self.options = options
        self.opaque = opaque
        self.marks = marks
        self.lifting = (
            None
            if references is None
            else Lifting(references, self.replacement, cpu_target.typing_context.resolve_value_type)
        )
        self.ieee = options.get("error_model") == "numpy"
        self._dispatchers: dict[tuple[FunctionType, tuple[Any, ...]], Any] = {}
        self._written: dict[Any, Written] = {}
        self.pipeline = type("Pipeline", (_Pipeline,), {"helpers": self})

    @contextmanager
    def compiling(self, function: FunctionType) -> Iterator[FunctionType]:
        """Say that `function` is being compiled, so that a call of itself is seen to be recursive.

        Gives the function to compile in its place.
        """
        dispatcher = self._dispatcher(function)
        with dispatcher._compiling_counter:
            yield dispatcher.py_func

    def replacement(self, value: Any, count: int | None = None) -> Any:
        """What is to be called, with `count` arguments, instead of `value`; `value` itself if that will do."""
        if type(value) is tuple:
            parts = tuple(map(self.replacement, value))
            return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
        if (given := self._whole(value)) is not None:
            return registered_function(given, None if self.lifting is None else self.lifting.references)
        if (
            isinstance(value, FunctionType)
            and value not in FORMS
            and (_is_array_function(value) or _is_known_to_numba(value))
        ):
            return value
        if (form := form_of(value, is_called=count is not None)) is not None:
            return self._written.setdefault(value, Written(value, form, self._dispatcher))
        function = python_code_of(value)
        if function is None and isinstance(value, Registered):
            return self.replacement(value.implementation.ufunc)  # type: ignore[attr-defined]
        if (name := special.name_of(value)) is not None:
            return special_function(name)
        if isinstance(value, BuiltinFunctionType | np.ufunc):
            if value in UNKNOWN:
                return opaque_function(OPAQUE + UNKNOWN[value])
            if count == 2 and value in OF_TWO:
                return self._dispatcher(OF_TWO[value])
        return value if function is None else self._dispatcher(function, _declared(value))

    def _whole(self, value: Any) -> Registered | None:
        """The registered function that is called as a whole where `value` is called.

        What is compiled without references defines the functions that others are registered for.
        """
        if self.lifting is not None:
            return self.lifting.references.stands_for(value)
        return value if isinstance(value, Registered) and is_whole(value) else None

    def compiled(self) -> list[tuple[str, Any]]:
        """Names of all functions that were compiled along, with the libraries they are in."""
        results = [one for dispatcher in self._dispatchers.values() for one in dispatcher.overloads.values()]
        return [(one.fndesc.llvm_func_name, one.library) for one in results]

    def _dispatcher(self, function: FunctionType, signatures: tuple[Any, ...] = ()) -> Any:
        key = function, signatures
        if key not in self._dispatchers:
            read = function if self.lifting is None else self.lifting.applied(function)
            dispatcher = Helper(
                refuse_instructions(stored_first(with_bare_raises(read))),
                {},
                dict(self.options),
                pipeline_class=self.pipeline,
            )
            self._dispatchers[key] = dispatcher
            for signature in signatures:
                dispatcher.compile(signature)
            if signatures:
                dispatcher.disable_compile()
        return self._dispatchers[key]


def _is_replaced(value: Any) -> bool:
    """Whether something else may be called in the place of what a module has."""
    if python_code_of(value) is not None or form_of(value, is_called=False) is not None:
        return True
    return isinstance(value, Registered | np.ufunc | BuiltinFunctionType)


def _declared(value: Any) -> tuple[Any, ...]:
    """The signatures, if any, that the user limited a function to: arguments are cast to them."""
    if isinstance(value, CFunc):
        return (value._sig,)
    if isinstance(value, Dispatcher) and not value._can_compile:
        return tuple(value.nopython_signatures)
    return ()


def _is_array_function(function: FunctionType) -> bool:
    """Whether it is NumPy's or SciPy's. Numba says which it does not know; their source says nothing to it."""
    return (function.__module__ or "").partition(".")[0] in {"numpy", "scipy"}


def _is_known_to_numba(function: FunctionType) -> bool:
    """Whether Numba, or an extension of it, has its own implementation: as for most of NumPy."""
    try:
        known = cpu_target.typing_context.resolve_value_type(function)
    except (ValueError, errors.NumbaError):
        return False
    return isinstance(known, types.Callable)


@register_pass(mutates_CFG=False, analysis_only=False)
class ReplaceHelpers(FunctionPass):  # type: ignore[misc]
    """Call the functions as `Helpers` compiles them."""

    _name = "tmapad_replace_helpers"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Replace functions where they are read from a global, a closure cell or a module."""
        replacement = state.pipeline.helpers.replacement
        blocks = state.func_ir.blocks.values()
        counts = {call.func.name: len(call.args) for block in blocks for call in block.find_exprs("call")}
        changed = False
        for block in blocks:
            for statement in block.find_insts(ir.Assign):
                value, count = statement.value, counts.get(statement.target.name)
                if isinstance(value, ir.Expr) and value.op == "getattr":
                    old = getattr(owner(state.func_ir, value.value), value.attr, None)
                    if not _is_replaced(old) or (new := replacement(old, count)) is old:
                        continue
                    # In place of the old value: the definitions that Numba keeps of a variable refer to it.
                    definitions = state.func_ir._definitions[statement.target.name]
                    statement.value = ir.Global(value.attr, new, value.loc)
                    definitions[:] = [statement.value if old is value else old for old in definitions]
                elif isinstance(value, ir.Global | ir.FreeVar):
                    new = replacement(value.value, count)
                    if new is value.value:
                        continue
                    value.value = new
                else:
                    continue
                changed = True
        return changed


@register_pass(mutates_CFG=False, analysis_only=True)
class LeaveUncompiled(AnalysisPass):  # type: ignore[misc]
    """Make a helper known to Numba, so that its IR can be called, without machine code, which nothing would run.

    There could be none: opaque functions have no definition yet.
    """

    _name = "tmapad_leave_uncompiled"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Give the helper, in place of its address, an object that stands for it."""
        for function in state.library._final_module.functions:
            if function.is_declaration and function.name.startswith(OPAQUE):
                pretend(function.name)
        unlike_others: list[Any] = []
        helper = unlike_others.append  # which is of the type that Numba expects
        state.targetctx.insert_user_function(helper, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=helper)
        return False


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's pipeline for ``@njit`` with the passes above. `Helpers` adds itself as an attribute."""

    helpers: Helpers

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(RefuseEarly, IRProcessing)
        passes.add_pass_after(LiftCaptures, InlineClosureLikes)
        passes.add_pass_after(ReplaceHelpers, MakeFunctionToJitFunction)
        passes.add_pass_after(DivideIEEE, NopythonTypeInference)
        passes.add_pass_after(CallOpaque, NopythonTypeInference)
        passes.add_pass_after(CheckAssigned, PreLowerStripPhis)
        if not self.state.flags.no_compile:
            self.state.flags.no_compile = True
            passes.add_pass_after(LeaveUncompiled, NativeLowering)
        if self.helpers.marks:
            passes.passes = [(LowerWithMarkers if one is NativeLowering else one, why) for one, why in passes.passes]
        passes.finalize()
        return [passes]
