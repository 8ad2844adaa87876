# OpenMP as far as tmapad asks it anything; every function also exists in a build without OpenMP.

cdef extern from "_openmp.h" nogil:
    bint openmp_enabled "tmapad_openmp_enabled"() noexcept
    # Threads that a region started by this thread would have: OMP_NUM_THREADS, a limit set in this thread, or
    # the processors. 1 without OpenMP.
    int openmp_max_threads "tmapad_openmp_max_threads"() noexcept
    # Threads of the region that this is called from; 1 outside of one.
    int team_size "tmapad_team_size"() noexcept
    # Whether this is called from a region of more than one thread. Never without OpenMP.
    bint in_parallel "tmapad_in_parallel"() noexcept
    # The number of this thread in its region: 0 outside of one.
    int thread_num "tmapad_thread_num"() noexcept
    # Run all workers on plain threads, and say so: never but in a build for the thread sanitizer.
    ctypedef void (*worker "tmapad_worker")(void *run, int number) noexcept nogil
    bint on_plain_threads "tmapad_on_plain_threads"(worker worker, void *run, int workers) noexcept
