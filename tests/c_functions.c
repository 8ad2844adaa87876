/* C functions that tests need and no library has: see c_library.py. */
#include <Python.h>
#include <complex.h>
#include <errno.h>
#include <stdint.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* ---- numbers */

double product(double x, double y, double z) { return x * y * z; }
double product_x(double x, double y, double z) { return y * z; }
double product_y(double x, double y, double z) { return x * z; }
double product_z(double x, double y, double z) { return x * y; }

double six(double a, double b, double c, double d, double e, double f) { return a * b + c * c * d + e / f; }
void six_all(double a, double b, double c, double d, double e, double f, double *y,
             double *da, double *db, double *dc, double *dd, double *de, double *df)
{
    *y = a * b + c * c * d + e / f;
    *da = b; *db = a; *dc = 2 * c * d; *dd = c * c; *de = 1 / f; *df = -e / (f * f);
}

float square_times(float a, float x) { return a * x * x; }
float square_times_a(float a, float x) { return x * x; }
float square_times_x(float a, float x) { return 2 * a * x; }

double hypot_x(double y, double a, double b) { return a / y; }
double hypot_y(double y, double a, double b) { return b / y; }

double reciprocal_square(double x) { return 1 / (x * x); }
double reciprocal_square_derivative(double x) { return -2 / (x * x * x); }

double complex cubic(double complex z, double complex w) { return z * w * w; }
double complex cubic_z(double complex z, double complex w) { return w * w; }
double complex cubic_w(double complex z, double complex w) { return 2 * z * w; }

float complex square_c64(float complex z) { return z * z; }
float complex twice_c64(float complex z) { return 2 * z; }

double minus_one(double x) { return -1.0; }
double minus_two(double x) { return -2.0; }
double zero(double x) { return 0.0; }
double nan_of(double x) { return NAN; }
double infinity_of(double x) { return INFINITY; }

/* ---- functions that say how they were called */

typedef struct { int64_t calls, microseconds, threads; uintptr_t thread[256]; } record;

static void note(void *p)
{
    record *r = p;
    uintptr_t self = (uintptr_t)pthread_self();
    int known = 0;
    __atomic_fetch_add(&r->calls, 1, __ATOMIC_SEQ_CST);
    int64_t n = __atomic_load_n(&r->threads, __ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < n && i < 256; i++)
        known |= __atomic_load_n(&r->thread[i], __ATOMIC_SEQ_CST) == self;
    if (!known) {
        n = __atomic_fetch_add(&r->threads, 1, __ATOMIC_SEQ_CST);
        if (n < 256) __atomic_store_n(&r->thread[n], self, __ATOMIC_SEQ_CST);
    }
    if (r->microseconds) usleep((useconds_t)r->microseconds);
}
double noted(double a, double x, void *p) { note(p); return a * x; }
double noted_a(double a, double x, void *p) { note(p); return x; }
double noted_x(double a, double x, void *p) { note(p); return a; }
double user_data_times(double x, void *p) { return x * *(double *)p; }

/* ---- a function that sets a Python exception, as Cython's `except? -1` */

double not_negative(double x)
{
    if (x < 0) {
        PyGILState_STATE state = PyGILState_Ensure();
        PyObject *number = PyFloat_FromDouble(x);
        PyErr_Format(PyExc_ArithmeticError, "%S is negative", number);
        Py_XDECREF(number);
        PyGILState_Release(state);
        return -1.0;
    }
    return x == 1 ? -1.0 : 2 * x;
}
double not_negative_derivative(double x) { return not_negative(x) == 7 ? 0 : 2; }
void not_negative_both(double x, double *y, double *dy_dx) { *y = not_negative(x); *dy_dx = 2; }
double not_negative_times(double a, double x) { return a * (not_negative(x) + x - x); }
double not_negative_times_a(double a, double x) { return not_negative(x); }
double not_negative_times_x(double a, double x) { return not_negative(x) == 7 ? 0 : 2 * a; }

/* ---- a loop of tmapad's own kind: adds up its elements, and fails at the one number `fail` that it is given */

typedef struct { int64_t elements, sum, fail; } tally;
typedef struct chunk_state chunk_state;
struct chunk_state { Py_ssize_t index; const int *stop; int (*poll)(chunk_state *state); };

int tally_loop(char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, chunk_state *state)
{
    tally *t = data;
    int64_t sum = 0, before = __atomic_fetch_add(&t->elements, n, __ATOMIC_SEQ_CST);
    if (steps[0] == 0) sum = n * *(uint8_t *)args[0];
    else for (Py_ssize_t i = 0; i < n; i++) sum += ((uint8_t *)args[0])[i];
    __atomic_fetch_add(&t->sum, sum, __ATOMIC_SEQ_CST);
    if (before <= t->fail && t->fail < before + n) { state->index = t->fail - before; return 1; }
    return 0;
}

/* ---- functions that take their time: x seconds, whatever signals arrive meanwhile */

static void sleep_through(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    if (seconds <= 0) return;
    while (nanosleep(&t, &t) == -1 && errno == EINTR) { }
}
double sleeps(double x) { sleep_through(x); return x; }
double sleeps_derivative(double x) { sleep_through(x); return 1; }

/* As `sleeps`, but not on the thread that made the data: that one waits until another thread has begun. */

typedef struct { uintptr_t caller; int64_t begun, patience; } meeting;

void meet(void *p) { ((meeting *)p)->caller = (uintptr_t)pthread_self(); }
double sleeps_elsewhere(double x, void *p)
{
    meeting *m = p;
    if (m->caller != (uintptr_t)pthread_self()) {
        __atomic_store_n(&m->begun, 1, __ATOMIC_SEQ_CST);
        sleep_through(x);
        return x;
    }
    while (!__atomic_load_n(&m->begun, __ATOMIC_SEQ_CST) && m->patience-- > 0) sleep_through(1e-3);
    return x;
}

/* ---- vectorized loops that are as particular as NumPy's: x, or the sum of two, where no input overlaps the output or
   touches it, unless it is the output; NAN where one does. NumPy's then compute on another path, with other bits. */

static int apart(const char *x, const char *y, Py_ssize_t size)
{
    return x == y || x > y + size || y > x + size;
}
int apart_loop(char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, chunk_state *state)
{
    const double *x = (double *)args[0];
    const int good = steps[0] == 0 || apart(args[0], args[1], n * (Py_ssize_t)sizeof(double));
    for (Py_ssize_t i = 0; i < n; i++) ((double *)args[1])[i] = good ? x[steps[0] ? i : 0] : NAN;
    return 0;
}
int apart_add_loop(char **args, Py_ssize_t n, const Py_ssize_t *steps, void *data, chunk_state *state)
{
    const Py_ssize_t size = n * (Py_ssize_t)sizeof(double);
    const double *x = (double *)args[0], *y = (double *)args[1];
    const int good = (steps[0] == 0 || apart(args[0], args[2], size)) && (steps[1] == 0 || apart(args[1], args[2], size));
    for (Py_ssize_t i = 0; i < n; i++) ((double *)args[2])[i] = good ? x[steps[0] ? i : 0] + y[steps[1] ? i : 0] : NAN;
    return 0;
}

/* ---- the processor's flags and modes */

/* By long double, which other registers hold on x86. */
double long_reciprocal(double x) { volatile long double one = 1, y = x; return (double)(one / y); }

double half_of(double x) { return 0.5 * x; }
double half_of_derivative(double x) { return 1e-310 * (x * x + 1); }

/* 1 / 0, but not on the thread that made the data: see `sleeps_elsewhere`. */
double divides_elsewhere(double x, void *p)
{
    meeting *m = p;
    volatile double zero = 0;
    if (m->caller != (uintptr_t)pthread_self()) {
        __atomic_store_n(&m->begun, 1, __ATOMIC_SEQ_CST);
        return 1 / zero;
    }
    while (!__atomic_load_n(&m->begun, __ATOMIC_SEQ_CST) && m->patience-- > 0) sleep_through(1e-3);
    return x;
}

/* Whether subnormal numbers are taken for zero in this thread; and to make it so, which gives -1 where this is not known. */
int subnormals_are_zero(void)
{
    volatile double tiny = 1e-310;
    return tiny * 1.0 == 0;
}
#if defined(__x86_64__)
#include <xmmintrin.h>
int make_subnormals_zero(int on)
{
    _mm_setcsr(on ? _mm_getcsr() | 0x8040u : _mm_getcsr() & ~0x8040u);
    return 0;
}
#elif defined(__aarch64__)
int make_subnormals_zero(int on)
{
    uint64_t modes;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    modes = on ? modes | 1u << 24 : modes & ~(uint64_t)(1u << 24);
    __asm__ volatile("msr fpcr, %0" : : "r"(modes));
    return 0;
}
#else
int make_subnormals_zero(int on) { return -1; }
#endif
