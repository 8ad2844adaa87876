/* What worker threads share: a counter, a minimum and flags, updated without locks; and a flag that a fork sets. */
#ifndef TMAPAD_ATOMICS_H
#define TMAPAD_ATOMICS_H

#include <stdint.h>

#if defined(_MSC_VER)
#include <intrin.h>
static inline int64_t tmapad_load(int64_t *p) { return _InterlockedOr64((volatile __int64 *)p, 0); }
static inline int64_t tmapad_fetch_add(int64_t *p, int64_t v) { return _InterlockedExchangeAdd64((volatile __int64 *)p, v); }
static inline int tmapad_swap(int64_t *p, int64_t *seen, int64_t v) {
    int64_t old = _InterlockedCompareExchange64((volatile __int64 *)p, v, *seen);
    int done = old == *seen;
    *seen = old;
    return done;
}
#else
static inline int64_t tmapad_load(int64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline int64_t tmapad_fetch_add(int64_t *p, int64_t v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline int tmapad_swap(int64_t *p, int64_t *seen, int64_t v) {
    return __atomic_compare_exchange_n(p, seen, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#endif

/* A flag that one thread sets and others look at. */
static inline int tmapad_load_int(const int *p) {
#if defined(_MSC_VER)
    return *(const volatile int *)p;
#else
    return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}
static inline void tmapad_store_int(int *p, int v) {
#if defined(_MSC_VER)
    *(volatile int *)p = v;
#else
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
#endif
}

/* *p |= v */
static inline void tmapad_fetch_or(int64_t *p, int64_t v) {
    int64_t seen = tmapad_load(p);
    while ((seen & v) != v && !tmapad_swap(p, &seen, seen | v)) { }
}

/* *p = min(*p, v) */
static inline void tmapad_fetch_min(int64_t *p, int64_t v) {
    int64_t seen = tmapad_load(p);
    while (v < seen && !tmapad_swap(p, &seen, v)) { }
}

#endif
