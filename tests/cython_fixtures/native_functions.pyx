# cython: language_level=3
"""Functions for the tests of pointers. Built by a session fixture, with the Cython that is installed."""

cimport tmapad
cimport numpy as cnp


cdef api double square(double x) noexcept nogil:
    return x * x


cdef api double scaled(double x, void *factor) noexcept nogil:
    return x * (<double *>factor)[0] if factor != NULL else -1.0


cdef api void square_both(const double x, double *y, double *dy_dx) noexcept nogil:
    y[0] = x * x
    dy_dx[0] = 2 * x


cdef api double seven(double y, double a, double b, double c, double d, double e, double f) noexcept nogil:
    return y + 2 * a + 3 * b + 4 * c + 5 * d + 6 * e + 7 * f


cdef api float complex complex_square(float complex x) noexcept nogil:
    return x * x


cpdef double with_dispatch(double x, double y) noexcept nogil:
    return x - y


cdef api double no_argument() noexcept nogil:
    return 1.0


cdef api void read_only(double x, const double *y) noexcept nogil:
    pass


cdef api double pointed(double x, double *y) noexcept nogil:
    return x


cdef api double counted(double x, int n) noexcept nogil:
    return x * n


cpdef real fused_real(real x) noexcept nogil:
    return x + 1


cdef number fused_square(number x) noexcept nogil:
    return x * x


cdef number fused_product(number x, number y) noexcept nogil:
    return x * y


cdef double fused_mixed(integer n, real x) noexcept nogil:
    return n * <double>x


cdef long double fused_long(long double x, real y) noexcept nogil:
    return x * y


cdef private_real of_typedef(private_real x) noexcept nogil:
    return x


cdef cnp.float64_t of_numpy(cnp.float64_t x, cnp.npy_float64 y) noexcept nogil:
    return x - y


cdef cnp.complex64_t of_numpy_complex(cnp.complex64_t x) noexcept nogil:
    return x * x


# `cimport tmapad`: the types fit the functions, and a loop in C has the kernel ABI.

cdef int squares(
    char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, tmapad.chunk_state *state
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double x
    for i in range(n):
        x = (<double *>(args[0] + i * steps[0]))[0]
        if x < 0 or state.stop[0]:
            state.index = i
            return 1
        (<double *>(args[1] + i * steps[1]))[0] = x * x
    return 0


def loop_address():
    cdef tmapad.loop loop = squares
    return <size_t><void *>loop


def typedefs():
    """Call through the types of `cimport tmapad`."""
    cdef tmapad.d_d one = square
    cdef tmapad.d_dd both = square_both
    cdef tmapad.F_F single = complex_square
    cdef double y, dy
    both(3.0, &y, &dy)
    return one(3.0), y, dy, single(1j)


# Cython checks for an exception after this one wherever it returns -1; a pointer does not show that.
cdef api double minus_one(double x) except? -1 nogil:
    return -1.0


# Functions that set Python exceptions. `Refusal` is what they raise: how many of these live can be counted.

import time
import weakref

alive = weakref.WeakSet()


class Refusal(ArithmeticError):
    def __init__(self, *args):
        super().__init__(*args)
        alive.add(self)


cdef api double checked(double x) except? -1 nogil:
    if x < 0:
        with gil:
            raise Refusal("negative", x)
    return -1.0 if x == 1 else 2 * x


cdef api double checked_always(double x) except * nogil:
    if x < 0:
        with gil:
            raise Refusal("negative", x)
    return -1.0 if x == 1 else 2 * x


cdef api float checked_single(float x) except? -1 nogil:
    if x < 0:
        with gil:
            raise Refusal("negative", x)
    return -1.0 if x == 1 else 2 * x


cdef api void checked_both(double x, double *y, double *dy_dx) except * nogil:
    y[0] = checked(x)
    dy_dx[0] = 2.0


cdef api double checked_derivative(double x) except? -1 nogil:
    if x == 7:
        with gil:
            raise LookupError("seven")
    return 2.0


cdef api double checked_sleep(double x) except? -1 nogil:
    with gil:
        time.sleep(abs(x))
    return checked(x)
