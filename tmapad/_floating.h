/* The floating-point environment: the modes, which all workers share with the calling thread, and the flags of
 * exceptional results.
 *
 * The flags are those of fenv.h, of all units that a processor computes with (x87 and SSE on x86-64), as NumPy reads
 * them, and have NumPy's numbers. "Inexact" is nobody's concern, and is left as it is. */
#ifndef TMAPAD_FLOATING_H
#define TMAPAD_FLOATING_H

#include <fenv.h>
#include <stdint.h>
#include <string.h>
#include <numpy/npy_common.h>

enum { TMAPAD_DIVIDE = 1, TMAPAD_OVERFLOW = 2, TMAPAD_UNDERFLOW = 4, TMAPAD_INVALID = 8 };
#define TMAPAD_WATCHED (FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID)

static inline int tmapad_flags_up(void) {
    const int up = fetestexcept(TMAPAD_WATCHED);
    if (up == 0) return 0;
    return (up & FE_DIVBYZERO ? TMAPAD_DIVIDE : 0) | (up & FE_OVERFLOW ? TMAPAD_OVERFLOW : 0) |
           (up & FE_UNDERFLOW ? TMAPAD_UNDERFLOW : 0) | (up & FE_INVALID ? TMAPAD_INVALID : 0);
}

/* To clear them takes many times as long as to look at them. */
static inline void tmapad_clear_flags(void) {
    if (fetestexcept(TMAPAD_WATCHED)) feclearexcept(TMAPAD_WATCHED);
}

typedef struct { int up; fexcept_t flags; } tmapad_flags;
static inline void tmapad_put_aside(tmapad_flags *kept) {
    kept->up = fetestexcept(TMAPAD_WATCHED);
    if (kept->up) {
        fegetexceptflag(&kept->flags, TMAPAD_WATCHED);
        feclearexcept(TMAPAD_WATCHED);
    }
}
static inline void tmapad_put_back(const tmapad_flags *kept) {
    tmapad_clear_flags();
    if (kept->up) fesetexceptflag(&kept->flags, TMAPAD_WATCHED);
}

/* The modes: how results are rounded, and whether subnormal numbers are flushed to zero. Those of SSE are part of
 * fenv_t everywhere but in Microsoft's library. */
#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
#include <xmmintrin.h>
typedef struct { fenv_t environment; unsigned int sse; } tmapad_modes;
static inline void tmapad_get_modes(tmapad_modes *m) { fegetenv(&m->environment); m->sse = _mm_getcsr(); }
static inline void tmapad_set_modes(const tmapad_modes *m) { fesetenv(&m->environment); _mm_setcsr(m->sse); }
#else
typedef struct { fenv_t environment; } tmapad_modes;
static inline void tmapad_get_modes(tmapad_modes *m) { fegetenv(&m->environment); }
static inline void tmapad_set_modes(const tmapad_modes *m) { fesetenv(&m->environment); }
#endif

/* Whether numbers are finite, from their bits: no flag is raised, and no compiler takes it for granted. */
enum { TMAPAD_INFINITE = 1, TMAPAD_NAN = 2 };
static inline int tmapad_not_finite_half(const char *item) {
    uint16_t bits;
    memcpy(&bits, item, sizeof bits);
    bits &= 0x7fffu;
    return bits < 0x7c00u ? 0 : bits == 0x7c00u ? TMAPAD_INFINITE : TMAPAD_NAN;
}
static inline int tmapad_not_finite_float(const char *item) {
    uint32_t bits;
    memcpy(&bits, item, sizeof bits);
    bits &= 0x7fffffffu;
    return bits < 0x7f800000u ? 0 : bits == 0x7f800000u ? TMAPAD_INFINITE : TMAPAD_NAN;
}
static inline int tmapad_not_finite_double(const char *item) {
    uint64_t bits;
    memcpy(&bits, item, sizeof bits);
    bits &= 0x7fffffffffffffffu;
    return bits < 0x7ff0000000000000u ? 0 : bits == 0x7ff0000000000000u ? TMAPAD_INFINITE : TMAPAD_NAN;
}

/* What a number of a type (NumPy's character) is: of a complex one both parts; integers are finite. */
static inline int tmapad_not_finite(char type, const char *item) {
    switch (type) {
    case 'e': return tmapad_not_finite_half(item);
    case 'f': return tmapad_not_finite_float(item);
    case 'd': return tmapad_not_finite_double(item);
    case 'F': return tmapad_not_finite_float(item) | tmapad_not_finite_float(item + 4);
    case 'D': return tmapad_not_finite_double(item) | tmapad_not_finite_double(item + 8);
    default: return 0;
    }
}

/* The first of elements i to n that is not finite; n if all are. */
static inline npy_intp tmapad_next_not_finite(char type, const char *items, npy_intp step, npy_intp i, npy_intp n) {
#define TMAPAD_SEEK(CHAR, NOT_FINITE) \
    case CHAR: \
        while (i < n && !(NOT_FINITE)) i++; \
        return i
    switch (type) {
    TMAPAD_SEEK('e', tmapad_not_finite_half(items + i * step));
    TMAPAD_SEEK('f', tmapad_not_finite_float(items + i * step));
    TMAPAD_SEEK('d', tmapad_not_finite_double(items + i * step));
    TMAPAD_SEEK('F', tmapad_not_finite('F', items + i * step));
    TMAPAD_SEEK('D', tmapad_not_finite('D', items + i * step));
    default: return n;
    }
#undef TMAPAD_SEEK
}

#endif
