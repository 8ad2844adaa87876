/* Loops round scalar C functions: one small loop for every signature.
 *
 *     value functions   T    f(T x1, ..., T xk [, void * | int])                k = 1..7 (7: y and 6 x)
 *     writers           void f(T x1, ..., T xk, T *o1, ..., T *om [, void *])   k = 1..6, m = 1..8
 *
 * T is float, double, float complex or double complex. tmapad_scalar_loop() picks the loop once, when a
 * function is registered; a loop has no branch on type, arity or stride. Its `data` is a tmapad_scalar_call,
 * which must outlive it. Arguments are aligned; a step of 0 means uniform. Every element is one call of its
 * own, so no result depends on an element's position.
 *
 * Include after NumPy's headers and "_abi.h". NumPy's complex types are C's own (structs under MSVC, as
 * MSVC's are), so passing them by value is passing `double complex`.
 */
#ifndef TMAPAD_SCALAR_LOOPS_H
#define TMAPAD_SCALAR_LOOPS_H

#include <stddef.h>

#include "_atomics.h"
#include "_exceptions.h"

typedef struct {
    void *function;
    void *user_data;
    int raises;     /* it may set a Python exception: the loop stops at the element that does */
} tmapad_scalar_call;

/* What follows the numbers in a function's parameter list: the `trailing` of tmapad_scalar_loop. */
enum { TMAPAD_TRAILING_NONE, TMAPAD_TRAILING_POINTER, TMAPAD_TRAILING_INT };

#define TMAPAD_PARAMETER_none
#define TMAPAD_ARGUMENT_none
#define TMAPAD_PARAMETER_pointer , void *
#define TMAPAD_ARGUMENT_pointer , call->user_data
#define TMAPAD_PARAMETER_int , int  /* Cython's __pyx_skip_dispatch */
#define TMAPAD_ARGUMENT_int , 0

/* Argument number `at` of an element, as the loops below see it. */
#define TMAPAD_TYPE(T, at) T
#define TMAPAD_POINTER(T, at) T *
#define TMAPAD_READ(T, at) *(const T *)(args[at] + i * steps[at])
#define TMAPAD_WRITE(T, at) (T *)(args[at] + i * steps[at])

/* M(T, at), M(T, at + 1), ...: so many of them, separated by commas. */
#define TMAPAD_LIST_1(M, T, at) M(T, at)
#define TMAPAD_LIST_2(M, T, at) TMAPAD_LIST_1(M, T, at), M(T, at + 1)
#define TMAPAD_LIST_3(M, T, at) TMAPAD_LIST_2(M, T, at), M(T, at + 2)
#define TMAPAD_LIST_4(M, T, at) TMAPAD_LIST_3(M, T, at), M(T, at + 3)
#define TMAPAD_LIST_5(M, T, at) TMAPAD_LIST_4(M, T, at), M(T, at + 4)
#define TMAPAD_LIST_6(M, T, at) TMAPAD_LIST_5(M, T, at), M(T, at + 5)
#define TMAPAD_LIST_7(M, T, at) TMAPAD_LIST_6(M, T, at), M(T, at + 6)
#define TMAPAD_LIST_8(M, T, at) TMAPAD_LIST_7(M, T, at), M(T, at + 7)

/* Elements between two polls. One costs a nanosecond or a second, and nothing says which: so few that Ctrl-C is seen soon
 * where they take a millisecond, so many that a poll, 10 ns, costs little where they take no time. */
enum { TMAPAD_POLL_EVERY = 128 };

#define TMAPAD_LOOP(name, function_type, statement)                                                          \
    static int name(char **args, npy_intp n, const npy_intp *steps, void *data, tmapad_chunk_state *state)   \
    {                                                                                                        \
        const tmapad_scalar_call *call = (const tmapad_scalar_call *)data;                                   \
        const function_type f = (function_type)call->function;                                               \
        const int raises = call->raises, *stop = state->stop;                                                \
        const PyThreadState *own = raises ? tmapad_this_thread() : NULL;                                     \
        for (npy_intp i = 0, hi = 0; i < n;) {                                                               \
            if (i && state->poll(state)) {                                                                   \
                state->index = i;                                                                            \
                return 1;                                                                                    \
            }                                                                                                \
            hi = n - i < TMAPAD_POLL_EVERY ? n : i + TMAPAD_POLL_EVERY;                                      \
            for (; i < hi; i++) {                                                                            \
                if (tmapad_load_int(stop)) {                                                                 \
                    state->index = i;                                                                        \
                    return 1;                                                                                \
                }                                                                                            \
                statement;                                                                                   \
                if (raises && tmapad_exception_in(own)) {                                                    \
                    state->index = i;                                                                        \
                    return 1;                                                                                \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        return 0;                                                                                            \
    }

#define TMAPAD_VALUE_LOOP(code, T, k, last)                                                                  \
    typedef T (*tmapad_function_##code##k##last)(TMAPAD_LIST_##k(TMAPAD_TYPE, T, 0) TMAPAD_PARAMETER_##last);\
    TMAPAD_LOOP(tmapad_loop_##code##k##last, tmapad_function_##code##k##last,                                \
        *(TMAPAD_WRITE(T, k)) = f(TMAPAD_LIST_##k(TMAPAD_READ, T, 0) TMAPAD_ARGUMENT_##last))

#define TMAPAD_WRITER_LOOP(code, T, k, last, m)                                                              \
    typedef void (*tmapad_function_##code##k##last##m)(                                                      \
        TMAPAD_LIST_##k(TMAPAD_TYPE, T, 0), TMAPAD_LIST_##m(TMAPAD_POINTER, T, 0) TMAPAD_PARAMETER_##last);  \
    TMAPAD_LOOP(tmapad_loop_##code##k##last##m, tmapad_function_##code##k##last##m,                          \
        f(TMAPAD_LIST_##k(TMAPAD_READ, T, 0), TMAPAD_LIST_##m(TMAPAD_WRITE, T, k) TMAPAD_ARGUMENT_##last))

/* The same walks over all signatures make the loops and then, in the same order, the tables of them. */
#define TMAPAD_VALUE_NAME(code, T, k, last) tmapad_loop_##code##k##last,
#define TMAPAD_WRITER_NAME(code, T, k, last, m) tmapad_loop_##code##k##last##m,

#define TMAPAD_EACH_TYPE(WALK, DO)                                                                           \
    WALK(DO, f, npy_float) WALK(DO, d, npy_double) WALK(DO, F, npy_cfloat) WALK(DO, D, npy_cdouble)

#define TMAPAD_VALUES_OF(DO, code, T, k) DO(code, T, k, none) DO(code, T, k, pointer) DO(code, T, k, int)
#define TMAPAD_VALUES(DO, code, T)                                                                           \
    TMAPAD_VALUES_OF(DO, code, T, 1) TMAPAD_VALUES_OF(DO, code, T, 2) TMAPAD_VALUES_OF(DO, code, T, 3)       \
    TMAPAD_VALUES_OF(DO, code, T, 4) TMAPAD_VALUES_OF(DO, code, T, 5) TMAPAD_VALUES_OF(DO, code, T, 6)       \
    TMAPAD_VALUES_OF(DO, code, T, 7)

#define TMAPAD_WRITERS_ENDING(DO, code, T, k, last)                                                          \
    DO(code, T, k, last, 1) DO(code, T, k, last, 2) DO(code, T, k, last, 3) DO(code, T, k, last, 4)          \
    DO(code, T, k, last, 5) DO(code, T, k, last, 6) DO(code, T, k, last, 7) DO(code, T, k, last, 8)
#define TMAPAD_WRITERS_OF(DO, code, T, k)                                                                    \
    TMAPAD_WRITERS_ENDING(DO, code, T, k, none) TMAPAD_WRITERS_ENDING(DO, code, T, k, pointer)
#define TMAPAD_WRITERS(DO, code, T)                                                                          \
    TMAPAD_WRITERS_OF(DO, code, T, 1) TMAPAD_WRITERS_OF(DO, code, T, 2) TMAPAD_WRITERS_OF(DO, code, T, 3)    \
    TMAPAD_WRITERS_OF(DO, code, T, 4) TMAPAD_WRITERS_OF(DO, code, T, 5) TMAPAD_WRITERS_OF(DO, code, T, 6)

TMAPAD_EACH_TYPE(TMAPAD_VALUES, TMAPAD_VALUE_LOOP)
TMAPAD_EACH_TYPE(TMAPAD_WRITERS, TMAPAD_WRITER_LOOP)

enum {
    TMAPAD_VALUE_INPUTS = 7, TMAPAD_VALUE_TRAILINGS = 3,
    TMAPAD_WRITER_INPUTS = 6, TMAPAD_WRITER_TRAILINGS = 2, TMAPAD_WRITER_OUTPUTS = 8
};

static const tmapad_loop tmapad_value_loops[] = {TMAPAD_EACH_TYPE(TMAPAD_VALUES, TMAPAD_VALUE_NAME)};
static const tmapad_loop tmapad_writer_loops[] = {TMAPAD_EACH_TYPE(TMAPAD_WRITERS, TMAPAD_WRITER_NAME)};

/* The loop for functions of `nin` numbers of `type` (one of f d F D) that return their value (nout == 0) or
 * write `nout` numbers through pointers; NULL if there is none. */
static inline tmapad_loop tmapad_scalar_loop(char type, int nin, int nout, int trailing)
{
    static const char types[] = {'f', 'd', 'F', 'D'};
    int t = 0;
    while (t < 4 && types[t] != type) {
        t++;
    }
    if (t == 4 || nin < 1 || nout < 0 || trailing < 0) {
        return NULL;
    }
    if (nout == 0) {
        if (nin > TMAPAD_VALUE_INPUTS || trailing >= TMAPAD_VALUE_TRAILINGS) {
            return NULL;
        }
        return tmapad_value_loops[(t * TMAPAD_VALUE_INPUTS + nin - 1) * TMAPAD_VALUE_TRAILINGS + trailing];
    }
    if (nin > TMAPAD_WRITER_INPUTS || nout > TMAPAD_WRITER_OUTPUTS || trailing >= TMAPAD_WRITER_TRAILINGS) {
        return NULL;
    }
    return tmapad_writer_loops[((t * TMAPAD_WRITER_INPUTS + nin - 1) * TMAPAD_WRITER_TRAILINGS + trailing)
                               * TMAPAD_WRITER_OUTPUTS + nout - 1];
}

#endif
