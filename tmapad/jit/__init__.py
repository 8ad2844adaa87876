"""From a Python function to a loop: typed and lowered by Numba, compiled by LLVM.

Nothing here imports Numba or llvmlite before a function is compiled.

=================  ============================================================================
`function`         what the rest of the package uses: a Python function as an implementation
`arguments`        its arguments, and the types they are given as
`references`       what it reads from outside itself, and whether that is still the same
`compiling`        a thread to compile on, which no signal interrupts
`frontend`         Python function -> scalar IR, with Numba
`pipeline`         what is changed in Numba's compilation
`division`         complex division as IEEE has it
`natives`          registered C functions that it calls
`errors`           what Numba cannot compile, in one sentence
`scalar`           the scalar IR, which is what the stages have in common
`loop`             scalar IR -> loop -> object code
`engine`           LLVM's optimiser, and object code in memory
`objects`          what symbols an object file needs
=================  ============================================================================
"""

from tmapad.jit.compiling import undisturbed
from tmapad.jit.function import PythonFunction, python_function

__all__ = ["PythonFunction", "python_function", "undisturbed"]
