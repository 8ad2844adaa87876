/* The only place that names omp.h. setup.py defines TMAPAD_OPENMP: 1 with OpenMP, 0 without, where nothing of
 * OpenMP may be named. */
#ifndef TMAPAD_OPENMP_H
#define TMAPAD_OPENMP_H

#ifndef TMAPAD_OPENMP
#error "setup.py defines TMAPAD_OPENMP as 1 or 0"
#endif

#if TMAPAD_OPENMP
#ifndef _OPENMP
#error "TMAPAD_OPENMP is 1, but the compiler was not asked for OpenMP"
#endif
#include <omp.h>
#define TMAPAD_OMP(call, otherwise) (call)
#else
#define TMAPAD_OMP(call, otherwise) (otherwise)
#endif

#ifdef TMAPAD_PLAIN_THREADS
#include "_plain_threads.h"
static inline int tmapad_team_size(void) { return tmapad_team; }
static inline int tmapad_in_parallel(void) { return tmapad_team > 1; }
#else
typedef void (*tmapad_worker)(void *run, int number);
static inline int tmapad_on_plain_threads(tmapad_worker worker, void *run, int workers) { return 0; }
static inline int tmapad_team_size(void) { return TMAPAD_OMP(omp_get_num_threads(), 1); }
static inline int tmapad_in_parallel(void) { return TMAPAD_OMP(omp_in_parallel(), 0); }
#endif

static inline int tmapad_openmp_enabled(void) { return TMAPAD_OPENMP; }
static inline int tmapad_openmp_max_threads(void) { return TMAPAD_OMP(omp_get_max_threads(), 1); }
static inline int tmapad_thread_num(void) { return TMAPAD_OMP(omp_get_thread_num(), 0); }

#endif
