/* The loops that tmapad brings itself: casts, the product of a partial derivative with a cotangent, sums.
 *
 * They follow the kernel ABI of _abi.h, take contiguous arguments only (steps are not looked at), cannot fail, and are
 * listed in tables at the end: one row for each combination of types, by NumPy's type characters.
 */
#ifndef TMAPAD_BUILTIN_LOOPS_H
#define TMAPAD_BUILTIN_LOOPS_H

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "_abi.h"

/* IEEE 754 binary16, stored as NumPy stores it. */
typedef struct { uint16_t bits; } tmapad_half;
typedef struct { float parts[2]; } tmapad_cfloat;
typedef struct { double parts[2]; } tmapad_cdouble;

static inline float tmapad_float_from_bits(uint32_t bits) { float x; memcpy(&x, &bits, sizeof x); return x; }
static inline uint32_t tmapad_float_bits(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }

static inline float tmapad_half_to_float(tmapad_half half) {
    const uint32_t sign = (uint32_t)(half.bits & 0x8000u) << 16, magnitude = half.bits & 0x7fffu;
    uint32_t bits;
    if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude & 0x03ffu) << 13;        /* infinity, NaN */
    else if (magnitude >= 0x0400u) bits = (magnitude << 13) + (112u << 23);            /* exponents are biased by 15 and 127 */
    else bits = tmapad_float_bits((float)magnitude * 0x1p-24f);                        /* subnormal: exact in a float */
    return tmapad_float_from_bits(sign | bits);
}

static inline tmapad_half tmapad_float_to_half(float x) {       /* to nearest, ties to even */
    const uint32_t all = tmapad_float_bits(x), sign = all >> 16 & 0x8000u, bits = all & 0x7fffffffu;
    uint32_t half;
    if (bits > 0x7f800000u) half = 0x7e00u | (bits >> 13 & 0x03ffu);                   /* NaN, made quiet */
    else if (bits >= 0x477ff000u) half = 0x7c00u;                                      /* 65520 and above round to infinity */
    else if (bits >= 0x38800000u) half = (bits + 0x0fffu + (bits >> 13 & 1u) - (112u << 23)) >> 13;
    else half = tmapad_float_bits(tmapad_float_from_bits(bits) + 0.5f) - 0x3f000000u;  /* a unit of 0.5f is 2**-24, the half's */
    tmapad_half result;
    result.bits = (uint16_t)(sign | half);
    return result;
}

static inline tmapad_half tmapad_double_to_half(double x) {
    /* Rounding twice is right if the first rounding is to odd: the float keeps a trace of what was cut off. */
    float f = (float)x;
    uint32_t bits = tmapad_float_bits(f);
    if ((double)f != x && x == x && (bits & 1u) == 0 && (bits & 0x7f800000u) != 0x7f800000u)
        f = tmapad_float_from_bits(((double)f < x) == (x > 0) ? bits + 1 : bits - 1);
    return tmapad_float_to_half(f);
}

/* The flags of this, which is done on integers. (No comparison here is of NaN: one of order would raise a flag.) */
static inline int tmapad_half_raises(tmapad_half half, double x) {
    if ((half.bits & 0x7c00u) == 0) return (double)tmapad_half_to_float(half) != x ? FE_UNDERFLOW : 0;
    if ((half.bits & 0x7fffu) == 0x7c00u) return x != HUGE_VAL && x != -HUGE_VAL ? FE_OVERFLOW : 0;
    return 0;
}

#define SAME(x) (x)
#define LOOP(NAME) static int NAME(char **args, npy_intp n, const npy_intp *steps, void *data, tmapad_chunk_state *state)
#define UNUSED_ARGUMENTS (void)steps; (void)data; (void)state

/* Casts. Complex numbers are pairs of reals here: no arithmetic is done on them. */
#define CAST(NAME, FROM, TO, CONVERT) \
    LOOP(cast_##NAME) { \
        const FROM *x = (const FROM *)args[0]; TO *y = (TO *)args[1]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) y[i] = (TO)CONVERT(x[i]); \
        return 0; \
    }
#define CAST_TO_COMPLEX(NAME, FROM, TO, CONVERT) \
    LOOP(cast_##NAME) { \
        const FROM *x = (const FROM *)args[0]; TO *y = (TO *)args[1]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { y[2 * i] = (TO)CONVERT(x[i]); y[2 * i + 1] = 0; } \
        return 0; \
    }
#define CAST_COMPLEX(NAME, FROM, TO) \
    LOOP(cast_##NAME) { \
        const FROM *x = (const FROM *)args[0]; TO *y = (TO *)args[1]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < 2 * n; i++) y[i] = (TO)x[i]; \
        return 0; \
    }
#define INTEGERS(EACH) \
    EACH(bool, "?", npy_bool, IS_TRUE) EACH(i8, "b", npy_byte, SAME) EACH(u8, "B", npy_ubyte, SAME) \
    EACH(i16, "h", npy_short, SAME) EACH(u16, "H", npy_ushort, SAME) EACH(i32, "i", npy_int, SAME) \
    EACH(u32, "I", npy_uint, SAME) EACH(il, "l", npy_long, SAME) EACH(ul, "L", npy_ulong, SAME) \
    EACH(i64, "q", npy_longlong, SAME) EACH(u64, "Q", npy_ulonglong, SAME)
#define REAL_SOURCES(EACH) \
    INTEGERS(EACH) EACH(half, "e", tmapad_half, tmapad_half_to_float) \
    EACH(float, "f", float, SAME) EACH(double, "d", double, SAME)
#define IS_TRUE(x) ((x) != 0)
#define HALF_IS_TRUE(x) (((x).bits & 0x7fffu) != 0)
#define COMPLEX_IS_TRUE(x) ((x).parts[0] != 0 || (x).parts[1] != 0)
#define INTEGER_CASTS_FROM(NAME, CHAR, FROM, CONVERT) \
    CAST(NAME##_bool, FROM, npy_bool, IS_TRUE) CAST(NAME##_i8, FROM, npy_byte, CONVERT) \
    CAST(NAME##_u8, FROM, npy_ubyte, CONVERT) CAST(NAME##_i16, FROM, npy_short, CONVERT) \
    CAST(NAME##_u16, FROM, npy_ushort, CONVERT) CAST(NAME##_i32, FROM, npy_int, CONVERT) \
    CAST(NAME##_u32, FROM, npy_uint, CONVERT) CAST(NAME##_il, FROM, npy_long, CONVERT) \
    CAST(NAME##_ul, FROM, npy_ulong, CONVERT) CAST(NAME##_i64, FROM, npy_longlong, CONVERT) \
    CAST(NAME##_u64, FROM, npy_ulonglong, CONVERT)
INTEGERS(INTEGER_CASTS_FROM)
#define CAST_TO_HALF(NAME, FROM, CONVERT) \
    LOOP(cast_##NAME) { \
        const FROM *x = (const FROM *)args[0]; tmapad_half *y = (tmapad_half *)args[1]; \
        int raised = 0; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { \
            y[i] = tmapad_double_to_half((double)CONVERT(x[i])); \
            raised |= tmapad_half_raises(y[i], (double)CONVERT(x[i])); \
        } \
        if (raised) feraiseexcept(raised); \
        return 0; \
    }
#define CASTS_FROM(NAME, CHAR, FROM, CONVERT) \
    CAST_TO_HALF(NAME##_half, FROM, CONVERT) \
    CAST(NAME##_float, FROM, float, CONVERT) CAST(NAME##_double, FROM, double, CONVERT) \
    CAST_TO_COMPLEX(NAME##_cfloat, FROM, float, CONVERT) CAST_TO_COMPLEX(NAME##_cdouble, FROM, double, CONVERT)
REAL_SOURCES(CASTS_FROM)
CAST(half_bool, tmapad_half, npy_bool, HALF_IS_TRUE)
CAST(float_bool, float, npy_bool, IS_TRUE)
CAST(double_bool, double, npy_bool, IS_TRUE)
CAST(cfloat_bool, tmapad_cfloat, npy_bool, COMPLEX_IS_TRUE)
CAST(cdouble_bool, tmapad_cdouble, npy_bool, COMPLEX_IS_TRUE)
CAST_COMPLEX(cfloat_cfloat, float, float)
CAST_COMPLEX(cfloat_cdouble, float, double)
CAST_COMPLEX(cdouble_cfloat, double, float)
CAST_COMPLEX(cdouble_cdouble, double, double)
/* Cotangent of an input from the partial derivative d and the cotangent dy of the output: conj(d) * dy for a holomorphic
 * function, d * conj(dy) for an antiholomorphic one, the real part for a real input. The zero is strong: where dy is 0 the
 * product is 0, whatever d is. (Both arms are computed and one is selected, so that compilers can vectorize.) */
#define PULL_REAL(NAME, T) \
    LOOP(pull_##NAME) { \
        const T *d = (const T *)args[0], *dy = (const T *)args[1]; T *dx = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { const T product = d[i] * dy[i]; dx[i] = dy[i] == 0 ? 0 : product; } \
        return 0; \
    }
#define PULL_COMPLEX(NAME, T, REAL_PART, IMAG_PART) \
    LOOP(pull_##NAME) { \
        const T *d = (const T *)args[0], *dy = (const T *)args[1]; T *dx = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { \
            const T dr = d[2 * i], di = d[2 * i + 1], yr = dy[2 * i], yi = dy[2 * i + 1]; \
            const int zero = (yr == 0) & (yi == 0); \
            const T real = REAL_PART, imag = IMAG_PART; \
            dx[2 * i] = zero ? 0 : real; dx[2 * i + 1] = zero ? 0 : imag; \
        } \
        return 0; \
    }
#define PULL_TO_REAL(NAME, T) \
    LOOP(pull_##NAME) { \
        const T *d = (const T *)args[0], *dy = (const T *)args[1]; T *dx = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { \
            const T yr = dy[2 * i], yi = dy[2 * i + 1], real = d[2 * i] * yr + d[2 * i + 1] * yi; \
            dx[i] = (yr == 0) & (yi == 0) ? 0 : real; \
        } \
        return 0; \
    }
#define PULL_FROM_REAL(NAME, T) \
    LOOP(pull_##NAME) { \
        const T *d = (const T *)args[0], *dy = (const T *)args[1]; T *dx = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { \
            const T y = dy[i], real = d[2 * i] * y, imag = -d[2 * i + 1] * y; \
            dx[2 * i] = y == 0 ? 0 : real; dx[2 * i + 1] = y == 0 ? 0 : imag; \
        } \
        return 0; \
    }
#define PULL_REAL_PART(NAME, T) \
    LOOP(pull_##NAME) { \
        const T *d = (const T *)args[0], *dy = (const T *)args[1]; T *dx = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) { const T product = d[2 * i] * dy[i]; dx[i] = dy[i] == 0 ? 0 : product; } \
        return 0; \
    }
#define PULLS(SUFFIX, T) \
    PULL_REAL(real_##SUFFIX, T) \
    PULL_COMPLEX(complex_##SUFFIX, T, dr * yr + di * yi, dr * yi - di * yr) \
    PULL_COMPLEX(conjugate_##SUFFIX, T, dr * yr + di * yi, di * yr - dr * yi) \
    PULL_TO_REAL(to_real_##SUFFIX, T) \
    PULL_REAL_PART(real_part_##SUFFIX, T) \
    PULL_FROM_REAL(from_real_##SUFFIX, T)
PULLS(float, float)
PULLS(double, double)

/* args: two terms and their sum; of complex numbers the parts are added. */
#define ADD(NAME, T, PARTS) \
    LOOP(add_##NAME) { \
        const T *a = (const T *)args[0], *b = (const T *)args[1]; T *sum = (T *)args[2]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < PARTS * n; i++) sum[i] = a[i] + b[i]; \
        return 0; \
    }
ADD(float, float, 1) ADD(double, double, 1) ADD(cfloat, float, 2) ADD(cdouble, double, 2)

/* args: condition, two values, the one selected. */
#define SELECT(NAME, T) \
    LOOP(select_##NAME) { \
        const npy_bool *condition = (const npy_bool *)args[0]; \
        const T *a = (const T *)args[1], *b = (const T *)args[2]; T *y = (T *)args[3]; \
        UNUSED_ARGUMENTS; \
        for (npy_intp i = 0; i < n; i++) y[i] = condition[i] ? a[i] : b[i]; \
        return 0; \
    }
SELECT(float, float) SELECT(double, double) SELECT(cfloat, tmapad_cfloat) SELECT(cdouble, tmapad_cdouble)

/* Sums. Their bits depend on the number of terms alone: terms are added in blocks of TMAPAD_BLOCK, and the sums of blocks in
 * pairs, pairs of pairs and so on, in double precision throughout. The error grows with the logarithm of the number of terms
 * (pairwise summation: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2). */
#define TMAPAD_BLOCK 512
#define TMAPAD_LEAF 128

/* Adds values one after another as the pairs above: sums[k] holds the sum of 2**k values where bit k of count is set. */
typedef struct { double sums[64]; uint64_t count; } tmapad_pairs;
static inline void tmapad_pairs_add(tmapad_pairs *pairs, double value) {
    int level = 0;
    for (uint64_t bits = pairs->count++; bits & 1u; bits >>= 1) value = pairs->sums[level++] + value;
    pairs->sums[level] = value;
}
static inline double tmapad_pairs_total(const tmapad_pairs *pairs) {
    double total = 0;
    int level = 0, empty = 1;
    for (uint64_t bits = pairs->count; bits; bits >>= 1, level++)
        if (bits & 1u) { total = empty ? pairs->sums[level] : pairs->sums[level] + total; empty = 0; }
    return total;
}

/* n terms at a distance of `stride`: 8 sums side by side (which vectorizes), then a tree. */
#define BLOCK_SUM(T) \
    static inline double tmapad_leaf_sum_##T(const T *x, npy_intp n, npy_intp stride) { \
        double s[8] = {0, 0, 0, 0, 0, 0, 0, 0}; \
        npy_intp i = 0; \
        for (; i + 8 <= n; i += 8) \
            for (int lane = 0; lane < 8; lane++) s[lane] += (double)x[(i + lane) * stride]; \
        for (int lane = 0; i < n; i++, lane++) s[lane] += (double)x[i * stride]; \
        return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])); \
    } \
    static inline double tmapad_block_sum_##T(const T *x, npy_intp n, npy_intp stride) { \
        tmapad_pairs pairs; \
        pairs.count = 0; \
        for (npy_intp lo = 0; lo < n; lo += TMAPAD_LEAF) \
            tmapad_pairs_add(&pairs, tmapad_leaf_sum_##T(x + lo * stride, \
                                                         n - lo < TMAPAD_LEAF ? n - lo : TMAPAD_LEAF, stride)); \
        return tmapad_pairs_total(&pairs); \
    } \
    static inline double tmapad_sum_##T(const T *x, npy_intp n, npy_intp stride) { \
        tmapad_pairs pairs; \
        pairs.count = 0; \
        for (npy_intp lo = 0; lo < n; lo += TMAPAD_BLOCK) \
            tmapad_pairs_add(&pairs, tmapad_block_sum_##T(x + lo * stride, \
                                                          n - lo < TMAPAD_BLOCK ? n - lo : TMAPAD_BLOCK, stride)); \
        return tmapad_pairs_total(&pairs); \
    }
BLOCK_SUM(float)
BLOCK_SUM(double)

/* args: the terms of one block, its sum (a double or a complex double). */
#define SUM_BLOCK(NAME, T, PARTS) \
    LOOP(sum_block_##NAME) { \
        UNUSED_ARGUMENTS; \
        for (int part = 0; part < PARTS; part++) \
            ((double *)args[1])[part] = tmapad_block_sum_##T((const T *)args[0] + part, n, PARTS); \
        return 0; \
    }
/* An element is a whole row of *(npy_intp *)data terms. args: the rows, their sums. */
#define SUM_ROWS(NAME, T, PARTS) \
    LOOP(sum_rows_##NAME) { \
        const npy_intp length = *(const npy_intp *)data; \
        (void)steps; (void)state; \
        for (npy_intp i = 0; i < n; i++) \
            for (int part = 0; part < PARTS; part++) \
                ((double *)args[1])[PARTS * i + part] = \
                    tmapad_sum_##T((const T *)args[0] + PARTS * i * length + part, length, PARTS); \
        return 0; \
    }
/* The same, where the terms are already sums of blocks. */
#define SUM_BLOCK_SUMS(NAME, PARTS) \
    LOOP(sum_block_sums_##NAME) { \
        const npy_intp length = *(const npy_intp *)data; \
        (void)steps; (void)state; \
        for (npy_intp i = 0; i < n; i++) \
            for (int part = 0; part < PARTS; part++) { \
                const double *x = (const double *)args[0] + PARTS * i * length + part; \
                tmapad_pairs pairs; \
                pairs.count = 0; \
                for (npy_intp k = 0; k < length; k++) tmapad_pairs_add(&pairs, x[PARTS * k]); \
                ((double *)args[1])[PARTS * i + part] = tmapad_pairs_total(&pairs); \
            } \
        return 0; \
    }
#define SUMS(NAME, T, PARTS) SUM_BLOCK(NAME, T, PARTS) SUM_ROWS(NAME, T, PARTS)
SUMS(float, float, 1) SUMS(double, double, 1) SUMS(cfloat, float, 2) SUMS(cdouble, double, 2)
SUM_BLOCK_SUMS(double, 1) SUM_BLOCK_SUMS(cdouble, 2)

/* All of them by name and types. A sum's result has the type of its second argument. */
typedef struct { const char *name; const char *types; tmapad_loop loop; } tmapad_builtin;
#define CASTS_ROW(NAME, CHAR, FROM, CONVERT) \
    {"cast", CHAR "->e", cast_##NAME##_half}, \
    {"cast", CHAR "->f", cast_##NAME##_float}, \
    {"cast", CHAR "->d", cast_##NAME##_double}, \
    {"cast", CHAR "->F", cast_##NAME##_cfloat}, \
    {"cast", CHAR "->D", cast_##NAME##_cdouble},
#define INTEGER_CASTS_ROW(NAME, CHAR, FROM, CONVERT) \
    {"cast", CHAR "->?", cast_##NAME##_bool}, {"cast", CHAR "->b", cast_##NAME##_i8}, \
    {"cast", CHAR "->B", cast_##NAME##_u8}, {"cast", CHAR "->h", cast_##NAME##_i16}, \
    {"cast", CHAR "->H", cast_##NAME##_u16}, {"cast", CHAR "->i", cast_##NAME##_i32}, \
    {"cast", CHAR "->I", cast_##NAME##_u32}, {"cast", CHAR "->l", cast_##NAME##_il}, \
    {"cast", CHAR "->L", cast_##NAME##_ul}, {"cast", CHAR "->q", cast_##NAME##_i64}, \
    {"cast", CHAR "->Q", cast_##NAME##_u64},
#define TYPED_ROWS(EACH) EACH(float, "f", "d") EACH(double, "d", "d") EACH(cfloat, "F", "D") EACH(cdouble, "D", "D")
#define ADD_ROW(NAME, T, SUM) {"add", T T "->" T, add_##NAME},
#define SELECT_ROW(NAME, T, SUM) {"select", "?" T T "->" T, select_##NAME},
#define SUM_BLOCK_ROW(NAME, T, SUM) {"sum_block", T "->" SUM, sum_block_##NAME},
#define SUM_ROWS_ROW(NAME, T, SUM) {"sum_rows", T "->" SUM, sum_rows_##NAME},
static const tmapad_builtin tmapad_builtins[] = {
    REAL_SOURCES(CASTS_ROW) INTEGERS(INTEGER_CASTS_ROW)
    {"cast", "e->?", cast_half_bool}, {"cast", "f->?", cast_float_bool}, {"cast", "d->?", cast_double_bool},
    {"cast", "F->?", cast_cfloat_bool}, {"cast", "D->?", cast_cdouble_bool},
    {"cast", "F->F", cast_cfloat_cfloat}, {"cast", "F->D", cast_cfloat_cdouble},
    {"cast", "D->F", cast_cdouble_cfloat}, {"cast", "D->D", cast_cdouble_cdouble},
    {"pull", "ff->f", pull_real_float}, {"pull", "dd->d", pull_real_double},
    {"pull", "FF->F", pull_complex_float}, {"pull", "DD->D", pull_complex_double},
    {"pull", "FF->f", pull_to_real_float}, {"pull", "DD->d", pull_to_real_double},
    {"pull", "Ff->F", pull_from_real_float}, {"pull", "Dd->D", pull_from_real_double},
    {"pull", "Ff->f", pull_real_part_float}, {"pull", "Dd->d", pull_real_part_double},
    {"pull_conjugate", "FF->f", pull_to_real_float}, {"pull_conjugate", "DD->d", pull_to_real_double},
    {"pull_conjugate", "FF->F", pull_conjugate_float}, {"pull_conjugate", "DD->D", pull_conjugate_double},
    TYPED_ROWS(ADD_ROW) TYPED_ROWS(SELECT_ROW) TYPED_ROWS(SUM_BLOCK_ROW) TYPED_ROWS(SUM_ROWS_ROW)
    {"sum_block_sums", "d->d", sum_block_sums_double}, {"sum_block_sums", "D->D", sum_block_sums_cdouble},
    {NULL, NULL, NULL}
};

#undef SAME
#undef LOOP
#undef UNUSED_ARGUMENTS
#endif
