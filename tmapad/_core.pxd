# What the compiled entry points of tmapad._tmap use of the core.

from libc.stdint cimport int64_t

cimport numpy as cnp


cdef extern from "_abi.h" nogil:
    ctypedef struct chunk_state "tmapad_chunk_state":
        cnp.npy_intp index
        const int *stop
        int (*poll)(chunk_state *state) noexcept nogil

    ctypedef int (*loop_t "tmapad_loop")(
        char **args, cnp.npy_intp n, const cnp.npy_intp *steps, void *data, chunk_state *state
    ) noexcept nogil


cdef class Loop:
    cdef loop_t function
    cdef void *call_data
    cdef readonly str types
    cdef readonly int nin
    cdef readonly int nout
    cdef readonly int group
    cdef readonly bint dense
    cdef readonly bint can_fail
    cdef readonly bint raises
    cdef readonly bint speculates
    cdef readonly object keep


# One loop of a program, and the slots that its arguments are.
cdef struct step_t:
    loop_t loop
    void *data
    int nin
    int nargs
    int group
    int *slots
    # What its flags stand for; of how many of its outputs; and what gives these for one element (_core_flags.pxi).
    int report
    int outputs
    const char *types
    loop_t alone
    void *alone_data
    int alone_nin
    int alone_nargs
    int alone_group
    const cnp.npy_intp *alone_steps


# What a loop's argument is: an array given to the run, scratch between two loops, a constant, or the sum of a block.
cdef enum role_t:
    INPUT
    OUTPUT
    SCRATCH
    CONSTANT
    BLOCK_SUM


cdef struct slot_t:
    role_t role
    cnp.npy_intp itemsize
    bint dense
    char *constant


cdef class Program:
    cdef slot_t *slots
    cdef step_t *steps
    cdef int *step_slots
    cdef int nslots
    cdef int nsteps
    cdef int narrays
    cdef int group
    cdef bint sums_blocks
    cdef bint has_scratch
    cdef bint can_fail
    cdef readonly bint raises
    cdef readonly bint serial
    cdef bint reports
    cdef bint judges
    cdef cnp.npy_intp alone_size
    cdef readonly str name
    cdef readonly tuple loops
    cdef object constants
    cdef list kept_reports

    cdef object execute(
        self, void **arrays, int ndim, cnp.npy_intp *shape, object num_threads, int schedule,
        cnp.npy_intp chunk_size, bint watch, bint c_order, object captured, int cast, object progress,
    )


cdef class Elementwise:
    cdef readonly Program program
    cdef int *inputs
    cdef int *outputs
    cdef int *numbers     # of each input, whether it is one,
    cdef int *reads       # and whether the program takes it
    cdef int nin
    cdef int nout

    cdef tuple launch(
        self, tuple arrays, object num_threads, int schedule, cnp.npy_intp chunk_size, object out, object captured,
    )
    cdef bint accepts(self, object out, tuple arrays)
