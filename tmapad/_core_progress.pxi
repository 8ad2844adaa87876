# Part of _core.pyx: how far a run has come, told on the calling thread (its note, H).

cdef double TELL_EVERY = 50e-3       # seconds


cdef void follow(run_t *r, object progress):
    """Have `progress` called with the number of elements done, unless it is None."""
    r.counts, r.progress, r.done = progress is not None, NULL, 0
    if progress is not None:
        r.progress, r.tell_at = <PyObject *>progress, seconds() + TELL_EVERY


cdef inline void count(run_t *r, worker_t *w) noexcept nogil:
    """Add the elements that a worker has done since it last looked at the clock."""
    if r.counts:
        fetch_add(&r.done, w.elements)


cdef int tell(run_t *r, PyObject *progress) except -1:
    """Call `progress`, if there is one and it is time for that."""
    if progress == NULL or seconds() < r.tell_at:
        return 0
    (<object>progress)(load(&r.done))
    r.tell_at = seconds() + TELL_EVERY
    return 0


cdef int wait_and_tell(run_t *r, object over, PyObject *progress) except -1:
    """Take the lock `over`, which another thread releases at the end of the run; meanwhile call `progress`."""
    if progress == NULL:
        over.acquire()
        return 0
    while not over.acquire(timeout=TELL_EVERY):
        tell(r, progress)
    return 0
