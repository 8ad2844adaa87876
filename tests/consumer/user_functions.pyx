# cython: language_level=3, cdivision=True
"""Functions of a user, with derivatives, exported with `cdef api` for tmapad.from_cython."""

from libc.math cimport exp, fabs, log, sin, cos

cimport cython
cimport tmapad


# One argument, derivative beside it: a damped oscillation.
cdef api double wave(double x) noexcept nogil:
    return exp(-0.5 * x) * sin(3.0 * x)


cdef api double wave_derivative(double x) noexcept nogil:
    return exp(-0.5 * x) * (3.0 * cos(3.0 * x) - 0.5 * sin(3.0 * x))


# Two arguments, one derivative for each: the Michaelis-Menten rate at substrate s with constant k.
cdef api double rate(double s, double k) noexcept nogil:
    return s / (k + s)


cdef api double rate_ds(double s, double k) noexcept nogil:
    return k / ((k + s) * (k + s))


cdef api double rate_dk(double s, double k) noexcept nogil:
    return -s / ((k + s) * (k + s))


# Value and derivative at once: Lambert's W for x >= 0 by Halley's method; the derivative is nearly free,
# W' = 1 / (e^W (1 + W)).
cdef api void lambert(double x, double *y, double *d) noexcept nogil:
    cdef double w = log(1.0 + x)
    cdef double e, r, step
    cdef int _
    for _ in range(30):
        e = exp(w)
        r = w * e - x
        step = r / (e * (w + 1.0) - 0.5 * (w + 2.0) * r / (w + 1.0))
        w -= step
        if fabs(step) <= 1e-15 * (1.0 + fabs(w)):
            break
    y[0] = w
    d[0] = 1.0 / (exp(w) * (1.0 + w))


cdef api double lambert_value(double x) noexcept nogil:
    cdef double y, d
    lambert(x, &y, &d)
    return y


# Single precision.
cdef api float square(float x) noexcept nogil:
    return x * x


cdef api float square_derivative(float x) noexcept nogil:
    return x + x


# Complex and holomorphic.
cdef api double complex cube(double complex z) noexcept nogil:
    return z * z * z


cdef api double complex cube_derivative(double complex z) noexcept nogil:
    return 3.0 * z * z


# A ufunc made by Cython, and its derivative as a C function.
@cython.ufunc
cdef double relu(double x) noexcept nogil:
    return x if x > 0.0 else 0.0


cdef api double relu_derivative(double x) noexcept nogil:
    return 1.0 if x > 0.0 else 0.0


# tmapad's names of signatures, by NumPy's type characters: an assignment that compiles proves the signature.
cdef tmapad.d_d one = wave
cdef tmapad.dd_d two = rate
cdef tmapad.f_f single = square
cdef tmapad.D_D holomorphic = cube
cdef tmapad.d_dd both = lambert


# A loop of one's own, as tmapad runs them.
cdef int negate(
    char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, tmapad.chunk_state *state
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        (<double *> (args[1] + i * steps[1]))[0] = -(<double *> (args[0] + i * steps[0]))[0]
    return 0


cdef tmapad.loop own_loop = negate
