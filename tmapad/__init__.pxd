# C types for `cimport tmapad`: the kernel ABI, and the signatures that a function may have.
#
# A name is what goes in, an underscore, what comes out, in NumPy's characters: f float, d double, F float
# complex, D double complex. With one character after the underscore the function returns its value; with more
# it writes them through pointers, which is the C form of `value_and_derivative`. These are types alone: a
# module that uses them imports nothing at run time, and needs no header when it is compiled.

cdef extern from *:
    """
    /* As in tmapad/_abi.h, which defines the same under the same guard. */
    #ifndef TMAPAD_ABI_H
    #define TMAPAD_ABI_H
    typedef struct tmapad_chunk_state tmapad_chunk_state;
    struct tmapad_chunk_state {
        Py_ssize_t index;
        const int *stop;
        int (*poll)(tmapad_chunk_state *state);
    };
    typedef int (*tmapad_loop)(
        char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, tmapad_chunk_state *state);
    #endif
    """
    # Where a loop stopped, and whether it is to: a flag, to be looked at for every element, and a function to be
    # called now and then where elements take long. If either is not 0, the loop gives up.
    ctypedef struct chunk_state "tmapad_chunk_state":
        Py_ssize_t index
        const int *stop
        int (*poll)(chunk_state *state) noexcept nogil

    # Runs on n elements; args are inputs, then outputs, steps are in bytes. Returns 0, or 1 if it stopped at
    # state.index.
    ctypedef int (*loop "tmapad_loop")(
        char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, chunk_state *state
    ) noexcept nogil


# Functions that return their value.

ctypedef float (*f_f)(float) noexcept nogil
ctypedef float (*ff_f)(float, float) noexcept nogil
ctypedef float (*fff_f)(float, float, float) noexcept nogil
ctypedef float (*ffff_f)(float, float, float, float) noexcept nogil
ctypedef float (*fffff_f)(float, float, float, float, float) noexcept nogil
ctypedef float (*ffffff_f)(float, float, float, float, float, float) noexcept nogil

ctypedef double (*d_d)(double) noexcept nogil
ctypedef double (*dd_d)(double, double) noexcept nogil
ctypedef double (*ddd_d)(double, double, double) noexcept nogil
ctypedef double (*dddd_d)(double, double, double, double) noexcept nogil
ctypedef double (*ddddd_d)(double, double, double, double, double) noexcept nogil
ctypedef double (*dddddd_d)(double, double, double, double, double, double) noexcept nogil

ctypedef float complex (*F_F)(float complex) noexcept nogil
ctypedef float complex (*FF_F)(float complex, float complex) noexcept nogil
ctypedef float complex (*FFF_F)(float complex, float complex, float complex) noexcept nogil
ctypedef float complex (*FFFF_F)(
    float complex, float complex, float complex, float complex
) noexcept nogil
ctypedef float complex (*FFFFF_F)(
    float complex, float complex, float complex, float complex, float complex
) noexcept nogil
ctypedef float complex (*FFFFFF_F)(
    float complex, float complex, float complex, float complex, float complex, float complex
) noexcept nogil

ctypedef double complex (*D_D)(double complex) noexcept nogil
ctypedef double complex (*DD_D)(double complex, double complex) noexcept nogil
ctypedef double complex (*DDD_D)(double complex, double complex, double complex) noexcept nogil
ctypedef double complex (*DDDD_D)(
    double complex, double complex, double complex, double complex
) noexcept nogil
ctypedef double complex (*DDDDD_D)(
    double complex, double complex, double complex, double complex, double complex
) noexcept nogil
ctypedef double complex (*DDDDDD_D)(
    double complex, double complex, double complex, double complex, double complex, double complex
) noexcept nogil


# Functions that write their value and its derivatives: d_dd is void f(double x, double *y, double *dy_dx).

ctypedef void (*f_ff)(float, float *, float *) noexcept nogil
ctypedef void (*ff_fff)(float, float, float *, float *, float *) noexcept nogil
ctypedef void (*fff_ffff)(float, float, float, float *, float *, float *, float *) noexcept nogil

ctypedef void (*d_dd)(double, double *, double *) noexcept nogil
ctypedef void (*dd_ddd)(double, double, double *, double *, double *) noexcept nogil
ctypedef void (*ddd_dddd)(double, double, double, double *, double *, double *, double *) noexcept nogil

ctypedef void (*F_FF)(float complex, float complex *, float complex *) noexcept nogil
ctypedef void (*FF_FFF)(
    float complex, float complex, float complex *, float complex *, float complex *
) noexcept nogil
ctypedef void (*FFF_FFFF)(
    float complex, float complex, float complex, float complex *, float complex *, float complex *,
    float complex *
) noexcept nogil

ctypedef void (*D_DD)(double complex, double complex *, double complex *) noexcept nogil
ctypedef void (*DD_DDD)(
    double complex, double complex, double complex *, double complex *, double complex *
) noexcept nogil
ctypedef void (*DDD_DDDD)(
    double complex, double complex, double complex, double complex *, double complex *, double
    complex *, double complex *
) noexcept nogil
