/* What the core asks of the process: the time, whether it was forked, and how many threads it can start.
 *
 * tmapad_coarse_seconds() is another clock, read in a fraction of the time: it ticks every few milliseconds. */
#ifndef TMAPAD_PROCESS_H
#define TMAPAD_PROCESS_H

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
static inline int tmapad_startable(int wanted) { return wanted; }
static inline int tmapad_startable_team(int workers) { return workers; }
#else
#include <pthread.h>
#include <stdlib.h>
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

/* Bytes of the stack that OpenMP's threads were asked to have, 0 if that was left to the system. */
static size_t tmapad_openmp_stack(void) {
    const char *text = getenv("OMP_STACKSIZE");
    char *unit = NULL;
    unsigned long long size = text == NULL ? 0 : strtoull(text, &unit, 10);
    if (size == 0 || size > 1ULL << 40) return 0;
    while (*unit == ' ') unit++;
    switch (*unit) {
    case 'b': case 'B': return (size_t)size;
    case 'm': case 'M': return (size_t)(size << 20);
    case 'g': case 'G': return (size_t)(size << 30);
    default: return (size_t)(size << 10);
    }
}

static void *tmapad_pass(void *gate) {
    pthread_mutex_lock((pthread_mutex_t *)gate);
    pthread_mutex_unlock((pthread_mutex_t *)gate);
    return NULL;
}

/* How many more threads, up to `wanted`, there can be at once: found by starting them. The OpenMP runtime ends the
 * process if it cannot start one, be it for a limit on threads or for want of memory for their stacks. One more is
 * tried than is needed: as much memory is then left for all else that the runtime allocates. */
static int tmapad_startable(int wanted) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attributes;
    pthread_t *threads = (pthread_t *)PyMem_RawMalloc(((size_t)wanted + 1) * sizeof(pthread_t));
    size_t stack = tmapad_openmp_stack();
    int started = 0, i;
    if (threads == NULL) return 0;
    if (pthread_attr_init(&attributes) == 0) {
        if (stack > 0) pthread_attr_setstacksize(&attributes, stack);
        pthread_mutex_lock(&gate);
        while (started <= wanted && pthread_create(&threads[started], &attributes, tmapad_pass, &gate) == 0) started++;
        pthread_mutex_unlock(&gate);
        for (i = 0; i < started; i++) pthread_join(threads[i], NULL);
        pthread_attr_destroy(&attributes);
    }
    pthread_mutex_destroy(&gate);
    PyMem_RawFree(threads);
    return started > wanted ? wanted : started > 0 ? started - 1 : 0;
}

/* How many workers, up to `workers`, the calling thread can have at once, itself included. OpenMP keeps its threads for
 * the next region of the same thread, unless that has fewer: only a team that grows has to start some. */
static int tmapad_startable_team(int workers) {
    static _Thread_local int team = 1;
    if (workers > team) workers = 1 + tmapad_startable(workers - 1);
    team = workers;
    return workers;
}
#endif

#endif
