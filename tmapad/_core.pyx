# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The core: chunk programs, run on arrays by worker threads. It knows loops, arrays and chunks, and nothing else.

A. A *loop* (``_abi.h``) applies one function to contiguous or uniform elements. A *program* is a list of loops whose
   arguments are *slots*: arrays given to the run, scratch, constants. Everything tmapad computes is a program: a map is
   one loop; a pullback is the loop of the derivative, into scratch, and the loop that multiplies it by the cotangent.

B. A run visits all elements in one order, cut into *chunks* that workers take from a shared counter; a chunk is cut
   into *strips*, short enough for their scratch to stay in the cache. On each strip the steps of the program follow one
   another. Arrays that are contiguous in that order are used where they lie; others are copied, strip by strip, into
   scratch and out of it, whatever their strides, alignment and byte order. No array is ever copied whole.

C. Nothing about chunks, strips, workers or layouts may show in a result. Elements are independent, so only three things
   could show: where a vectorized loop ends (a strip whose length is no multiple of the loop's `group` is padded in
   scratch); another code path for uniform arguments (they are expanded for loops that are `dense`); and the order of
   additions. Sums are taken over blocks of 512 elements in C order, one result for each block; such a program is run in
   C order, and its chunks are whole blocks.

D. A loop that fails says at which element. No chunk above the lowest failure known so far is begun, those below are
   run; within a strip the later steps still run on the elements before the failure. So the failure reported is the
   lowest one, whatever the threads did. It is to be the lowest in C order: a failed run in another order is repeated.
   Loops that `raise` set a Python exception in the thread that runs them, where it is seen without the GIL. So a worker
   that Python does not know gets a thread state for as long as it works; the exception is kept with its element.

E. How many threads: elements are first run on the calling thread until a few microseconds have passed. If the rest is
   worth it, the number of threads is asked for, and the rest runs in a parallel region. One worker never enters the
   OpenMP runtime. There are fewer workers where the system has no more threads to give.

F. A run can be interrupted. The calling thread looks for signals now and then: between strips, and within one where
   loops `poll`, be it from inside an element that never ends. If a handler raises, the stop flag is set, all workers
   give up, which is no failure of an element, and the exception is raised.

G. A run ends with a report, as `numpy.errstate` says, if a flag of the processor ("divide by zero", "overflow",
   "underflow", "invalid") stands for something that the user asked for. Flags are looked at after each step, cleared if
   any is up, and gathered from all workers. For loops whose compiler computes what no branch asked for they count only
   where a result shows why: an element that is not finite though its arguments are is run again, alone. Workers compute
   in the modes of the calling thread, whose own flags are in the end as they were. A run that fails reports nothing.

H. Whoever wants to know how far a run has come is called where signals are looked for. Workers count the elements that
   they have done when they look at the clock.

The parts of this file, which are compiled as one: ``_core_loops.pxi`` (A), ``_core_layout.pxi`` (B),
``_core_workers.pxi`` (B to D, F), ``_core_raising.pxi`` (D), ``_core_flags.pxi`` (G), ``_core_progress.pxi`` (H),
``_core_threads.pxi`` (E), ``_core_programs.pxi`` (what Python calls).
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, PyObject
from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint32_t, uintptr_t
from libc.string cimport memcpy

cimport numpy as cnp
from numpy cimport npy_intp

from tmapad cimport _openmp

import _thread
import sys
import threading
import warnings

import numpy as np

cnp.import_array()
cnp.import_ufunc()

cdef extern from "_atomics.h" nogil:
    int64_t load "tmapad_load"(int64_t *p) noexcept
    int64_t fetch_add "tmapad_fetch_add"(int64_t *p, int64_t value) noexcept
    bint swap "tmapad_swap"(int64_t *p, int64_t *seen, int64_t value) noexcept
    void fetch_min "tmapad_fetch_min"(int64_t *p, int64_t value) noexcept
    void fetch_or "tmapad_fetch_or"(int64_t *p, int64_t value) noexcept
    int load_int "tmapad_load_int"(const int *p) noexcept
    void store_int "tmapad_store_int"(int *p, int value) noexcept

cdef extern from "_process.h" nogil:
    double seconds "tmapad_seconds"() noexcept
    double coarse_seconds "tmapad_coarse_seconds"() noexcept
    void nap "tmapad_nap"(double seconds) noexcept
    int forked "tmapad_forked"
    void watch_forks "tmapad_watch_forks"() noexcept
    int startable "tmapad_startable"(int wanted) noexcept
    int startable_team "tmapad_startable_team"(int workers) noexcept

cdef extern from "_exceptions.h":
    ctypedef struct PyThreadState:
        pass
    ctypedef struct guest_t "tmapad_guest":
        pass
    enum:
        WORKERS_RAISE "TMAPAD_WORKERS_RAISE"
    PyObject *take_exception "tmapad_take_exception"() noexcept
    PyThreadState *this_thread "tmapad_this_thread"() noexcept nogil
    bint exception_in "tmapad_exception_in"(const PyThreadState *state) noexcept nogil
    bint exception_pending "tmapad_exception_pending"() noexcept nogil
    void enter_python "tmapad_enter_python"(guest_t *guest, bint raises) noexcept nogil
    void leave_python "tmapad_leave_python"(guest_t *guest) noexcept nogil

cdef extern from "_processor.h" nogil:
    enum:
        PROCESSOR_WORDS "TMAPAD_PROCESSOR_WORDS"
    int processor_words "tmapad_processor"(uint32_t *words) noexcept

cdef extern from "<fenv.h>" nogil:
    int feclearexcept(int exceptions) noexcept
    int FE_ALL_EXCEPT

cdef extern from "_floating.h" nogil:
    enum:
        DIVIDE "TMAPAD_DIVIDE"
        OVERFLOW "TMAPAD_OVERFLOW"
        UNDERFLOW "TMAPAD_UNDERFLOW"
        INVALID "TMAPAD_INVALID"
        INFINITE_ITEM "TMAPAD_INFINITE"
        NAN_ITEM "TMAPAD_NAN"
    ctypedef struct kept_flags "tmapad_flags":
        pass
    ctypedef struct modes_t "tmapad_modes":
        pass
    int flags_up "tmapad_flags_up"() noexcept
    void clear_flags "tmapad_clear_flags"() noexcept
    void put_aside "tmapad_put_aside"(kept_flags *kept) noexcept
    void put_back "tmapad_put_back"(const kept_flags *kept) noexcept
    void get_modes "tmapad_get_modes"(modes_t *modes) noexcept
    void set_modes "tmapad_set_modes"(const modes_t *modes) noexcept
    int not_finite "tmapad_not_finite"(char type, const char *item) noexcept
    npy_intp next_not_finite "tmapad_next_not_finite"(
        char type, const char *items, npy_intp step, npy_intp i, npy_intp n
    ) noexcept

cdef extern from "_strided.h" nogil:
    ctypedef void (*copy_t "tmapad_copy")(
        char *to, npy_intp to_step, const char *source, npy_intp from_step, npy_intp n
    ) noexcept nogil
    copy_t copy_for "tmapad_copy_for"(npy_intp size, npy_intp swapped) noexcept

cdef extern from "_builtin_loops.h" nogil:
    ctypedef struct builtin_t "tmapad_builtin":
        const char *name
        const char *types
        loop_t loop
    const builtin_t *builtins "tmapad_builtins"
    enum:
        BLOCK "TMAPAD_BLOCK"

cdef extern from "_scalar_loops.h" nogil:
    ctypedef struct scalar_call "tmapad_scalar_call":
        void *function
        void *user_data
        int raises
    enum:
        POLL_EVERY "TMAPAD_POLL_EVERY"
        TRAILING_NONE "TMAPAD_TRAILING_NONE"
        TRAILING_POINTER "TMAPAD_TRAILING_POINTER"
        TRAILING_INT "TMAPAD_TRAILING_INT"
    loop_t scalar_loop "tmapad_scalar_loop"(char type, int nin, int nout, int trailing) noexcept

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    PyObject *PyErr_Occurred()

# NumPy's accessors for borrowed pointers, which are no objects to Cython: asked without the GIL and without
# counting references.
cdef extern from "numpy/arrayobject.h" nogil:
    ctypedef struct array_t "PyArrayObject":
        pass
    void *data_of "PyArray_DATA"(array_t *array)
    int ndim_of "PyArray_NDIM"(array_t *array)
    npy_intp *shape_of "PyArray_DIMS"(array_t *array)
    npy_intp *strides_of "PyArray_STRIDES"(array_t *array)
    int type_of "PyArray_TYPE"(array_t *array)
    npy_intp itemsize_of "PyArray_ITEMSIZE"(array_t *array)
    bint is_aligned "PyArray_ISALIGNED"(array_t *array)
    bint is_native "PyArray_ISNOTSWAPPED"(array_t *array)
    bint is_complex "PyArray_ISCOMPLEX"(array_t *array)
    bint is_c_contiguous "PyArray_IS_C_CONTIGUOUS"(array_t *array)

cdef extern from "numpy/ufuncobject.h":
    int PyUFunc_GiveFloatingpointErrors(const char *name, int flags) except -1

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        type subtype, cnp.dtype descr, int nd, npy_intp *dims, npy_intp *strides, void *data, int flags, object obj
    )

watch_forks()

cdef enum:
    MAX_ARGS = 64             # of one loop
    MAX_SLOTS = 512           # of one program
    MAX_DIMS = 64             # NumPy's own limit
    LONG_STRIP = 8192         # elements of a strip that needs no scratch: large enough for its calls to cost nothing,
    VECTOR_STRIP = 65536      # also where an element costs a nanosecond
    STATIC = 0                # schedules
    DYNAMIC = 1
    GUIDED = 2
    ANY = DIVIDE | OVERFLOW | UNDERFLOW | INVALID

BLOCK_SIZE = BLOCK
LARGEST_LOOP = MAX_ARGS
SCHEDULES = {"static": STATIC, "dynamic": DYNAMIC, "guided": GUIDED}

# Times in seconds. A fork-join of two threads costs 1.5 to 5 us, a look at the clock 25 ns.
cdef double TRIAL = 10e-6            # how long the calling thread runs alone before threads are thought of
cdef double WORTH_THREADS = 20e-6    # work left that is worth a parallel region
cdef double CHUNK = 5e-6             # a chunk takes at least so long, if it is known what an element costs
cdef double LOOK_EVERY = 5e-3        # a worker looks at the clock, and sizes its strips by it
cdef double SIGNALS_EVERY = 30e-3    # the calling thread looks for signals
cdef double NEVER = 1e300

include "_core_loops.pxi"
include "_core_layout.pxi"
include "_core_workers.pxi"
include "_core_raising.pxi"
include "_core_flags.pxi"
include "_core_progress.pxi"
include "_core_threads.pxi"
include "_core_programs.pxi"


def openmp_enabled():
    """Whether this build has OpenMP."""
    return _openmp.openmp_enabled()


def openmp_max_threads():
    """How many threads OpenMP would use for a region started by this thread."""
    return _openmp.openmp_max_threads()


def in_forked_child():
    """Whether this process was forked from one that had imported tmapad."""
    return bool(forked)


def processor():
    """What the processor says of itself, as bytes; None if it is none that is asked."""
    cdef uint32_t words[PROCESSOR_WORDS]
    cdef int count = processor_words(words)
    return (<char *>words)[:count * sizeof(uint32_t)] if count else None
