"""Markers of lines in what Numba lowers: see `lines`."""

import ctypes
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering

from tmapad.jit.lines import Place, marker

_OWN = Path(__file__).parent
_ANY_ADDRESS = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value


def pretend(symbol: str) -> None:
    """Give an address to a function without definition: its caller may be compiled, though it never runs.

    Numba itself has its ways to compile what calls a helper, and where LLVM's loader does not find a symbol it ends the
    process.
    """
    llvm.add_symbol(symbol, _ANY_ADDRESS)


class _LowerWithMarkers(Lower):  # type: ignore[misc]
    """Lowers each statement with a call before it."""

    def lower_inst(self, inst: Any) -> None:
        """Lower one statement."""
        if _OWN not in Path(self.loc.filename).parents:  # what it stands for was written elsewhere
            name = marker(Place(self.loc.filename, self.loc.line))
            declared = self.module.globals.get(name)
            if declared is None:
                declared = ir.Function(self.module, ir.FunctionType(ir.VoidType(), []), name)
                pretend(name)
            self.builder.call(declared, [])
        super().lower_inst(inst)


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerWithMarkers(BaseNativeLowering):  # type: ignore[misc]
    """In place of Numba's own lowering."""

    _name = "tmapad_lower_with_markers"

    @property
    def lowering_class(self) -> Any:
        """What lowers the function."""
        return _LowerWithMarkers
