"""What tmapad changes in Numba's compilation: which functions are called."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from numba.core import compiler, errors, ir, ir_utils, types
from numba.core.ccallback import CFunc
from numba.core.compiler_machinery import AnalysisPass, FunctionPass, register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.typed_passes import NopythonTypeInference
from numba.core.untyped_passes import IRProcessing, MakeFunctionToJitFunction

from tmapad._protocol import Registered
from tmapad.jit.division import DivideComplex
from tmapad.jit.natives import as_function
from tmapad.jit.raises import with_bare_raises
from tmapad.jit.references import python_code_of


class Helpers:
    """The functions that one compiled function calls, compiled along with it and by the same options.

    What the user made of them with ``@njit`` is left alone: it may have been compiled with other semantics,
    and with other values of its globals. Plain functions, which Numba refuses to call, come for free.

    Parameters
    ----------
    options : dict
        What one would give ``numba.njit``.

    Attributes
    ----------
    pipeline : type
        The pipeline to compile with.
    ieee : bool
        Whether divisions by zero give infinities and NaNs.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self.ieee = options.get("error_model") == "numpy"
        self._dispatchers: dict[tuple[FunctionType, tuple[Any, ...]], Any] = {}
        self.pipeline = type("Pipeline", (_Pipeline,), {"helpers": self})

    @contextmanager
    def compiling(self, function: FunctionType) -> Iterator[FunctionType]:
        """Say that `function` is being compiled, so that a call of itself is seen to be recursive.

        Gives the function to compile in its place.
        """
        dispatcher = self._dispatcher(function, ())
        with dispatcher._compiling_counter:
            yield dispatcher.py_func

    def replacement(self, value: Any) -> Any:
        """What is to be called instead of `value`; `value` itself if it is no function of the user's."""
        if type(value) is tuple:
            parts = tuple(map(self.replacement, value))
            return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
        if isinstance(value, FunctionType) and (_is_array_function(value) or _is_known_to_numba(value)):
            return value
        function = python_code_of(value)
        if function is None and isinstance(value, Registered):
            return self.replacement(as_function(value))
        return value if function is None else self._dispatcher(function, _declared(value))

    def _dispatcher(self, function: FunctionType, signatures: tuple[Any, ...]) -> Any:
        key = function, signatures
        if key not in self._dispatchers:
            dispatcher = CPUDispatcher(
                with_bare_raises(function), {}, dict(self._options), pipeline_class=self.pipeline
            )
            self._dispatchers[key] = dispatcher
            for signature in signatures:
                dispatcher.compile(signature)
            if signatures:
                dispatcher.disable_compile()
        return self._dispatchers[key]


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
        changed = False
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.Assign):
                value = statement.value
                if isinstance(value, ir.Expr) and value.op == "getattr":
                    module = ir_utils.guard(ir_utils.find_const, state.func_ir, value.value)
                    old = getattr(module, value.attr, None)
                    if python_code_of(old) is None and not isinstance(old, Registered):
                        continue
                    if (new := replacement(old)) is old:
                        continue
                    # In place of the old value: the definitions that Numba keeps of a variable refer to it.
                    definitions = state.func_ir._definitions[statement.target.name]
                    statement.value = ir.Global(value.attr, new, value.loc)
                    definitions[:] = [statement.value if old is value else old for old in definitions]
                elif isinstance(value, ir.Global | ir.FreeVar):
                    new = replacement(value.value)
                    if new is value.value:
                        continue
                    value.value = new
                else:
                    continue
                changed = True
        return changed


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseContexts(AnalysisPass):  # type: ignore[misc]
    """Say what is wrong with a `with` block: Numba knows a few, of which none makes sense here."""

    _name = "tmapad_refuse_contexts"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Raise if there is one."""
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.EnterWith):
                raise errors.UnsupportedError("a function that is mapped has no with blocks", statement.loc)
        return False


class _Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's pipeline for ``@njit`` with the passes above. `Helpers` adds itself as an attribute."""

    helpers: Helpers

    def define_pipelines(self) -> list[Any]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(RefuseContexts, IRProcessing)
        passes.add_pass_after(ReplaceHelpers, MakeFunctionToJitFunction)
        passes.add_pass_after(DivideComplex, NopythonTypeInference)
        passes.finalize()
        return [passes]
