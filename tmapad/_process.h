/* What the core asks of the process: the time, whether it was forked, and whether a Python exception is pending.
 *
 * tmapad_coarse_seconds() is another clock, read in a fraction of the time: it ticks every few milliseconds. */
#ifndef TMAPAD_PROCESS_H
#define TMAPAD_PROCESS_H

#include <fenv.h>
#include <Python.h>

#if defined(_WIN32)
#include <windows.h>
static inline double tmapad_seconds(void) {
    LARGE_INTEGER ticks, rate;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&rate);
    return (double)ticks.QuadPart / (double)rate.QuadPart;
}
static inline double tmapad_coarse_seconds(void) { return 1e-3 * (double)GetTickCount64(); }
static inline void tmapad_nap(double seconds) { Sleep((DWORD)(1000 * seconds)); }
static int tmapad_forked = 0;
static inline void tmapad_watch_forks(void) { }
#else
#include <pthread.h>
#include <time.h>
static inline double tmapad_read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static inline double tmapad_seconds(void) { return tmapad_read_clock(CLOCK_MONOTONIC); }
#if defined(CLOCK_MONOTONIC_COARSE)              /* Linux */
static inline double tmapad_coarse_seconds(void) { return tmapad_read_clock(CLOCK_MONOTONIC_COARSE); }
#elif defined(CLOCK_MONOTONIC_RAW_APPROX)        /* macOS */
static inline double tmapad_coarse_seconds(void) { return tmapad_read_clock(CLOCK_MONOTONIC_RAW_APPROX); }
#else
static inline double tmapad_coarse_seconds(void) { return tmapad_seconds(); }
#endif
static inline void tmapad_nap(double seconds) {       /* less than a second */
    struct timespec t = {0, (long)(1e9 * seconds)};
    nanosleep(&t, NULL);
}
static int tmapad_forked = 0;
static void tmapad_in_child(void) { tmapad_forked = 1; }
/* The OpenMP runtime's threads do not survive a fork: a parallel region entered from the thread that forked waits for them forever. */
static inline void tmapad_watch_forks(void) { pthread_atfork(NULL, NULL, tmapad_in_child); }
#endif

/* A Python exception is set in this thread: asked without the GIL, which only the thread itself may do. */
static inline int tmapad_exception_pending(void) {
    PyThreadState *state = PyGILState_GetThisThreadState();
    if (state == NULL) return 0;
#if PY_VERSION_HEX >= 0x030C0000
    return state->current_exception != NULL;
#else
    return state->curexc_type != NULL;
#endif
}

#endif
