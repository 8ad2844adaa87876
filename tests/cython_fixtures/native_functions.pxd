# Functions of types that a capsule spells in its own way.

cimport numpy as cnp

ctypedef double private_real

ctypedef fused real:
    float
    double
    long double

ctypedef fused number:
    float
    double
    long double
    float complex
    double complex

ctypedef fused integer:
    int
    long

cpdef double with_dispatch(double x, double y) noexcept nogil
cpdef real fused_real(real x) noexcept nogil
cdef number fused_square(number x) noexcept nogil
cdef number fused_product(number x, number y) noexcept nogil
cdef double fused_mixed(integer n, real x) noexcept nogil
cdef long double fused_long(long double x, real y) noexcept nogil

cdef private_real of_typedef(private_real x) noexcept nogil
cdef cnp.float64_t of_numpy(cnp.float64_t x, cnp.npy_float64 y) noexcept nogil
cdef cnp.complex64_t of_numpy_complex(cnp.complex64_t x) noexcept nogil
