"""From a Python function to a loop: typed and lowered by Numba, compiled by LLVM.

Nothing here imports Numba or llvmlite before a function is compiled.

=================  ============================================================================
`function`         what the rest of the package uses: a Python function as an implementation
`arguments`        its arguments, and the types they are given as
`references`       what it reads from outside itself, and whether that is still the same
`tokens`           whether two constants are compiled alike
`captures`         what of that is given to its loops as arguments
`lifting`          how the code that Numba compiles reads these
`compiling`        a thread to compile on, which no signal interrupts
`forks`            locks that are free when the process forks
`cache`            compiled code on disk
`place`            the directory for it, and whether that is safe
`keys`             what compiled code depends on, as a key
`digests`          digests of such things
`loader`           object code in memory, of the simplest kind, without llvmlite
`frontend`         Python function -> scalar IR, with Numba
`pipeline`         what is changed in Numba's compilation
`helping`          the functions that a compiled one calls, as Numba knows them
`walrus`           assignment expressions, so that Numba understands them
`arity`            Python functions of as many arguments as are asked for
`division`         complex division as IEEE has it
`unassigned`       local variables that are read without a value
`opaque`           calls of elementary functions as a whole, in Numba's IR
`elementary`       these functions in LLVM IR: their names and definitions
`composite`        those that Numba makes more of than one call
`exact`            those that Numba does not have, as Python functions
`written`          which Python function is compiled for a function that Numba lacks, by types
`special`          SciPy's special functions, by its C entry points
`given`            which registered functions are called as a whole
`natives`          calls of these, for Numba
`registered`       the functions called, in LLVM IR
`chain`            their derivatives: what was registered
`errors`           what Numba cannot compile, in one sentence
`lines`            where in the source instructions come from
`scalar`           the scalar IR, which is what the stages have in common
`canonical`        its form: one function, in registers, nothing changed on account of its value
`aggregates`       structs taken apart for that
`forward`          scalar IR -> scalar IR that gives partial derivatives as well
`activity`         what depends on what it is differentiated in
`tangents`         the tangents of values, and how they are written
`arithmetic`       rules for instructions that compute
`memory`           shadows of memory
`calls`            rules for calls
`rows`             the table of derivatives as instructions
`ir`               LLVM IR as Python objects
`instructions`     functions, blocks and instructions
`parse`            how they are read
`emit`             how they are written
`typenames`        types of LLVM
`single`           scalar IR of float64 -> of float32
`strength`         which of its numbers float32 takes the place of
`loop`             scalar IR -> loop -> object code
`polls`            what makes a loop look for Ctrl-C now and then
`flow`             loops in the code of a function
`engine`           LLVM's optimiser, and object code in memory
`objects`          what symbols an object file needs
`runtime`          Numba's run time, for code from the cache
=================  ============================================================================
"""

from tmapad.jit.captures import Capture, as_inputs, capture_type
from tmapad.jit.compiling import undisturbed
from tmapad.jit.forks import importing
from tmapad.jit.function import PythonFunction, bound_by, call_bound, code_of, python_function
from tmapad.jit.given import python_of

__all__ = [
    "Capture",
    "PythonFunction",
    "as_inputs",
    "bound_by",
    "call_bound",
    "capture_type",
    "code_of",
    "importing",
    "python_function",
    "python_of",
    "undisturbed",
]
