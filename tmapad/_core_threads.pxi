# Part of _core.pyx: chunks, and how many workers there are (its note, E).

cdef inline npy_intp grains(run_t *r, npy_intp n) noexcept nogil:
    """n, rounded up to what chunks are multiples of."""
    return (max(n, 1) + r.grain - 1) // r.grain * r.grain


cdef npy_intp take(run_t *r, npy_intp *hi) noexcept nogil:
    """The next chunk. Chunks are handed out in ascending order, each once."""
    cdef int64_t lo = load(&r.next), size
    if r.schedule != GUIDED:
        lo = fetch_add(&r.next, r.chunk)
        size = r.chunk
    else:
        while True:
            size = max(r.chunk, grains(r, (r.n - lo) // (2 * r.workers)))
            if lo >= r.n or swap(&r.next, &lo, lo + size):
                break
    hi[0] = <npy_intp>min(lo + size, <int64_t>r.n)
    return <npy_intp>lo


cdef void work(run_t *r, int number) noexcept nogil:
    """One worker: takes chunks until there are none, or none that matters."""
    cdef worker_t w
    cdef guest_t guest
    cdef modes_t own
    cdef npy_intp lo, hi = 0, end
    cdef int team
    enter_python(&guest, r.raises)
    if number:        # worker 0 is run by the calling thread
        get_modes(&own)
        set_modes(&r.modes)
        feclearexcept(FE_ALL_EXCEPT)
    start(r, &w, number, number == 0)
    while not load_int(&r.stop):
        lo = take(r, &hi)
        if lo >= load(&r.failed):
            break
        end = run_range(r, &w, lo, hi)
        if w.failed:
            r.failures[number].index, r.failures[number].step = end, w.failed_step
            fetch_min(&r.failed, end)
            break
    r.failures[number].error = w.error
    count(r, &w)
    if number:
        set_modes(&own)
    else:
        team = _openmp.team_size()        # if there are fewer threads than workers, this one has others to run
        wait_for_others(r, &w, (r.workers + team - 1) // team)
    leave_python(&guest)
    fetch_add(&r.busy, -1)


cdef void region(run_t *r) noexcept nogil:
    """All workers at once."""
    cdef int number
    # Shared: r. Its counter and its minimum change atomically, the stop flag is a word that only the calling
    # thread writes, and failures[number] belongs to one worker. Private: number, and what `work` has on its
    # stack. Every element of an output belongs to one chunk, and every chunk to one worker. OpenMP may give
    # fewer threads than asked for: a thread then runs several workers, one after the other, and the first of
    # them has done everything.
    if _openmp.on_plain_threads(<_openmp.worker>work, r, r.workers):
        return
    for number in prange(r.workers, num_threads=r.workers, schedule="static", chunksize=1):
        work(r, number)


cdef int launch(run_t *r, object num_threads) except -1:
    """Run all elements: first some on the calling thread, the rest as the work deserves."""
    cdef worker_t w
    cdef npy_intp done = 0
    cdef bint asks = not isinstance(num_threads, int)
    cdef int threads = 1 if asks else num_threads
    allocate_scratch(r, 1)
    if threads > 1 and _openmp.in_parallel():
        threads = 1
    if threads == 1:
        with nogil:
            start(r, &w, 0, True)
            done = trial(r, &w) if asks else run_range(r, &w, 0, r.n)
        if done < r.n and not w.failed and not r.stop and not exception_pending():
            threads = 1 if _openmp.in_parallel() else num_threads()
            clear_flags()
            if threads == 1:
                with nogil:
                    done = run_range(r, &w, done, r.n)
        r.failures[0].error = w.error
        if w.failed:
            r.failures[0].index, r.failures[0].step = done, w.failed_step
            r.failed = done
        if threads == 1 or done == r.n or w.failed or r.stop or exception_pending():
            return raise_interrupt(r)
    r.first = r.next = r.done = done
    get_modes(&r.modes)
    size_chunks(r, threads)
    allocate_scratch(r, r.workers)
    limit_workers(r)
    r.busy = r.workers
    if r.workers == 1:
        with nogil:
            work(r, 0)
    elif forked:
        region_on_new_thread(r)
    else:
        with nogil:
            region(r)
    return raise_interrupt(r)


cdef npy_intp trial(run_t *r, worker_t *w) noexcept nogil:
    """Run elements on the calling thread, a few at first, until threads would pay. Returns where it stopped."""
    cdef npy_intp lo = 0, hi, size = 1, end
    cdef double began = seconds(), spent
    while lo < r.n:
        hi = min(lo + grains(r, size), r.n)
        end = run_range(r, w, lo, hi)
        if end < hi:
            return end
        lo = hi
        spent = seconds() - began
        r.cost = spent / lo
        if spent > TRIAL and r.cost * (r.n - lo) > WORTH_THREADS:
            return lo
        size = min(size * 8, <npy_intp>BLOCK)
    return lo


cdef void size_chunks(run_t *r, int threads):
    """Chunks of the size asked for, or such that there are a few for each worker."""
    cdef npy_intp left = r.n - r.first
    if r.chunk == 0:
        if r.schedule == STATIC:
            r.chunk = left // threads + (left % threads != 0)
        else:
            r.chunk = left // (threads * 64)
            if r.cost > 0:
                r.chunk = max(r.chunk, min(<npy_intp>min(CHUNK / r.cost, 1e9), left // (threads * 4)))
    r.chunk = grains(r, min(r.chunk, left))
    r.workers = <int>min(<npy_intp>threads, left // r.chunk + (left % r.chunk != 0))


cdef int allocate_scratch(run_t *r, int workers) except -1:
    """Scratch and a place for a failure for each worker, before any thread starts: nothing in a region allocates."""
    cdef size_t size = workers * (<size_t>r.scratch_size + sizeof(failure_t)) + 64
    cdef int i
    r.failures = NULL
    PyMem_RawFree(r.region_memory)
    r.region_memory = PyMem_RawMalloc(size)
    if r.region_memory == NULL:
        raise MemoryError(f"no memory for the scratch of {workers} threads")
    r.scratch = <char *>((<uintptr_t>r.region_memory + 63) & ~<uintptr_t>63)
    r.failures = <failure_t *>(r.scratch + workers * r.scratch_size)
    for i in range(workers):
        r.failures[i].index, r.failures[i].error = r.n, NULL
    r.workers = workers
    return 0


cdef void limit_workers(run_t *r):
    """Have no more workers than there can be threads."""
    if not _openmp.openmp_enabled():
        return
    with nogil:
        if not forked:
            r.workers = startable_team(r.workers)
        elif r.workers > 1 and startable(r.workers) < r.workers:     # one of them starts the others
            r.workers = 1


cdef class _Region:
    """Runs a region in a thread of its own."""
    cdef run_t *run
    cdef object done

    def __call__(self):
        with nogil:
            set_modes(&self.run.modes)      # of the thread that made this one; worker 0 runs here
            region(self.run)
        self.done.release()


cdef int region_on_new_thread(run_t *r) except -1:
    """In a forked child OpenMP's threads are gone, but a thread made after the fork starts its own.

    If there can be none, the calling thread does the work.
    """
    cdef _Region job = _Region()
    cdef bint running = True
    cdef PyObject *progress = r.progress
    r.progress = NULL        # the new thread is not the one to call it
    try:
        job.run, job.done = r, _thread.allocate_lock()
        job.done.acquire()
        _thread.start_new_thread(job, ())
    except RuntimeError:      # there is no memory for a lock, or no thread to be had
        r.workers = r.busy = 1
        r.progress = progress
        with nogil:
            work(r, 0)
        return 0
    # The thread works in this frame's memory. Whatever a signal handler raises: stop it, and wait until it has stopped.
    interrupt = None
    while running:
        try:
            wait_and_tell(r, job.done, progress if interrupt is None else NULL)
            running = False
        except BaseException as error:
            store_int(&r.stop, 1)
            interrupt = error
    if interrupt is not None:
        raise interrupt
    return 0
