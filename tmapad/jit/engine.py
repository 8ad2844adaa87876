"""LLVM modules -> object code -> memory, through llvmlite alone."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from tmapad.jit.forks import hold_over_forks
from tmapad.jit.objects import undefined_symbols
from tmapad.jit.scalar import NATIVE, OPAQUE
from tmapad.jit.special import ENTRY, bind

hold_over_forks(llvm.ffi.lib._lock)


@cache
def target_machine() -> Any:
    """Describe the machine this runs on to the optimiser and the code generator; shared by all."""
    return _new_target_machine()


def _new_target_machine() -> Any:
    # All that the processor can do. Even so no a*b + c is contracted: the IR does not allow it.
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )


def optimise(module: Any, *, level: int, passes: Any = None) -> None:
    """Run LLVM's passes on a module: `passes`, or all of those for an optimisation level.

    Nothing is vectorised. LLVM's vector code computes elementary functions with other bits, depending on the
    libraries that happen to be loaded, and leaves the last elements of an array to scalar code: a value
    would depend on its position.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(target_machine(), options)
    if passes is None:
        passes = builder.getModulePassManager()
    try:
        passes.run(module, builder)
    finally:
        # llvmlite never frees one by itself: of its two base classes the wrong one comes first.
        NewPassManager._dispose(passes)
        passes.detach()
    module.verify()


class Engine:
    """Object code in executable memory, which is freed with the object.

    Parameters
    ----------
    code : bytes
        An object file.
    name : str
        Of the function it was made from, for messages.

    Raises
    ------
    RuntimeError
        The code needs something that this process does not have. Loading it would end the process, or do so
        when it is called.
    """

    def __init__(self, code: bytes, name: str) -> None:
        empty = llvm.parse_assembly("")
        machine = _new_target_machine()
        empty.triple = machine.triple
        # An engine takes possession of its target machine, and frees it. The first one that is made in a process
        # makes the symbols known that the process has.
        self._engine = llvm.create_mcjit_compiler(empty, machine)
        missing = [symbol for symbol in undefined_symbols(code) if not _is_known(symbol)]
        if missing:
            raise RuntimeError(
                f"the machine code of {name} calls {', '.join(missing)}, which this process does not have: "
                "import the module that provides it before the function is compiled"
            )
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def address(self, symbol: str) -> int:
        """Give the address of a function in the code."""
        return int(self._engine.get_function_address(symbol))


def _is_known(symbol: str) -> bool:
    """Whether LLVM knows where a symbol is, after whoever may provide it was asked to."""
    if symbol.startswith(OPAQUE) and not symbol.startswith((ENTRY, NATIVE)):
        return False  # it should have been inlined; the address it may have is none of its own
    if not llvm.address_of_symbol(symbol):
        for start, provide in _PROVIDERS.items():
            if symbol.startswith(start):
                provide(symbol)
                break
    return bool(llvm.address_of_symbol(symbol))


def _provide_numba(_: str) -> None:
    """Load Numba's run time, and what else it makes known."""
    with suppress(ImportError):
        from tmapad.jit.runtime import initialize

        initialize()


# By how a symbol begins; the first that fits is asked. Code from the cache may need what was there when it was
# compiled, and what nothing in this process has asked for yet.
_PROVIDERS: dict[str, Callable[[str], object]] = {ENTRY: lambda symbol: bind([symbol]), "": _provide_numba}
