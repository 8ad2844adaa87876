# Part of _core.pyx: what one worker does with its chunks (its note, B to D and F).

cdef struct worker_t:
    chunk_state state            # comes first: `poll_as_caller` finds the worker by it
    run_t *run
    char *at[MAX_SLOTS]          # where a slot's elements are, in the strip at hand
    npy_intp steps[MAX_SLOTS]    # and how far apart
    char *scratch
    bint failed
    int failed_step
    PyObject *error              # that was set by the lowest element that failed
    bint on_calling_thread
    npy_intp strip
    npy_intp countdown           # elements until the next look at the clock
    npy_intp elements            # done since the last one
    double looked
    double signals               # when it last looked for them, by the coarse clock


cdef void start(run_t *r, worker_t *w, int number, bint on_calling_thread) noexcept nogil:
    cdef operand_t *o
    cdef int i
    w.scratch = r.scratch + number * r.scratch_size
    w.state.index, w.state.stop, w.run = 0, &r.stop, r
    w.state.poll = poll_as_caller if on_calling_thread else poll_as_worker
    w.failed, w.failed_step, w.on_calling_thread, w.error = False, 0, on_calling_thread, NULL
    for i in range(r.nslots):
        o = &r.operands[i]
        w.at[i], w.steps[i] = w.scratch + o.offset, o.itemsize
        if o.access == UNIFORM:
            w.at[i], w.steps[i] = o.data, 0
        elif o.access == EXPANDED:
            o.copy(w.at[i], o.itemsize, o.data, 0, r.capacity)
    # A short strip first, to see what an element costs. Sums of blocks have no choice.
    w.strip = r.strip if r.grain == BLOCK else 1 if r.watched else min(r.strip, <npy_intp>r.group)
    w.countdown, w.elements = 1, 0
    w.looked, w.signals = seconds(), coarse_seconds()


cdef void stage(run_t *r, operand_t *o, char *scratch, npy_intp lo, npy_intp n, bint inwards) noexcept nogil:
    """Copy elements lo to lo + n between an array of any layout and contiguous scratch."""
    cdef npy_intp at[MAX_DIMS]
    cdef npy_intp run, position = lo
    cdef char *data = o.data
    cdef int axis, inner = r.ndim - 1
    for axis in range(inner, -1, -1):
        at[axis] = position % r.shape[axis]
        position //= r.shape[axis]
        data += at[axis] * o.strides[axis]
    while n > 0:
        run = min(n, r.shape[inner] - at[inner])
        if inwards:
            o.copy(scratch, o.itemsize, data, o.strides[inner], run)
        else:
            o.copy(data, o.strides[inner], scratch, o.itemsize, run)
        scratch += run * o.itemsize
        n -= run
        at[inner] += run
        data += run * o.strides[inner]
        axis = inner
        while axis > 0 and at[axis] == r.shape[axis]:
            data += o.strides[axis - 1] - at[axis] * o.strides[axis]
            at[axis] = 0
            axis -= 1
            at[axis] += 1


cdef npy_intp run_strip(run_t *r, worker_t *w, npy_intp lo, npy_intp n, bint all_in_scratch) noexcept nogil:
    """Run all steps on elements lo to lo + n. Returns how many were done: n, unless one failed."""
    cdef char *args[MAX_ARGS]
    cdef npy_intp steps[MAX_ARGS]
    cdef operand_t *o
    cdef step_t *step
    cdef int i, k, s, up
    cdef npy_intp total = n, count
    cdef bint stopped
    for i in range(r.nslots):
        o = &r.operands[i]
        if o.access == DIRECT:
            w.at[i] = o.data + lo * o.itemsize
            if all_in_scratch:
                w.at[i] = w.scratch + o.offset
                if o.role == INPUT:
                    memcpy(w.at[i], o.data + lo * o.itemsize, n * o.itemsize)
        elif o.access == STAGED:
            if o.role == INPUT:
                stage(r, o, w.at[i], lo, n, True)
        elif o.access == BLOCKWISE:
            w.at[i] = o.data + lo // BLOCK * o.itemsize
    for s in range(r.nsteps):
        step = &r.steps[s]
        if r.watched:
            feclearexcept(FE_ALL_EXCEPT)     # SciPy's loops raise by the flags, also by those of earlier steps
        # Below a failure found by an earlier step; a vectorized loop still goes through the whole strip.
        count = n if step.group == 1 else (total + step.group - 1) & -step.group
        for k in range(step.nargs):
            i = step.slots[k]
            args[k], steps[k] = w.at[i], w.steps[i]
            if count > total and k < step.nin and r.operands[i].access != EXPANDED:
                pad(w.at[i], r.operands[i].itemsize, total, count)
        stopped = step.loop(args, count, steps, step.data, &w.state) and w.state.index < n
        if r.watched and exception_pending():
            stopped, w.state.index = True, 0
        if stopped:
            n, w.failed_step = w.state.index, s
            if w.error != NULL or (r.raises and exception_pending()):
                keep_exception(w)
            if n == 0:
                return 0
        if r.reports and n == total:     # a run that fails reports nothing: no element of it is run again
            up = flags_up()
            if up:
                note_flags(r, w, step, args, steps, n, up)
    for i in range(r.nslots):
        o = &r.operands[i]
        if o.role == OUTPUT and o.access == STAGED:
            stage(r, o, w.at[i], lo, n, False)
        elif o.role == OUTPUT and all_in_scratch:
            memcpy(o.data + lo * o.itemsize, w.at[i], n * o.itemsize)
    return n


cdef void pad(char *elements, npy_intp itemsize, npy_intp n, npy_intp padded) noexcept nogil:
    """Repeat the last of n elements: what a vectorized loop then computes beyond them is thrown away."""
    cdef npy_intp i
    for i in range(n, padded):
        memcpy(elements + i * itemsize, elements + (n - 1) * itemsize, itemsize)


cdef npy_intp run_range(run_t *r, worker_t *w, npy_intp lo, npy_intp hi) noexcept nogil:
    """Run elements lo to hi, in strips. Returns hi, or the element at which to stop: one failed, or the run is over."""
    cdef npy_intp n, whole, done
    while lo < hi:
        n = min(w.strip, hi - lo)
        whole = n & -<npy_intp>r.group
        if whole == n or n <= r.capacity:
            done = run_strip(r, w, lo, n, whole != n)
        else:
            n = whole
            done = run_strip(r, w, lo, n, False)
        lo += done
        if load_int(&r.stop):
            return lo
        if done < n:
            w.failed = True
            return lo
        w.elements += n
        w.countdown -= n
        if w.countdown <= 0 and (lo < hi or hi < r.n):
            look_at_the_clock(r, w, n)
    return hi


cdef void look_at_the_clock(run_t *r, worker_t *w, npy_intp n) noexcept nogil:
    """Size strips by what elements cost, to be able to look again soon; on the calling thread look for signals."""
    cdef double now = seconds(), cost = max(now - w.looked, 1e-9) / w.elements, strip
    cdef npy_intp before = w.strip
    # Loops poll every so many elements, but not in strips that are shorter, such as this one of n may have been.
    cdef npy_intp most = 64 * n if n >= POLL_EVERY else POLL_EVERY
    count(r, w)
    if w.on_calling_thread and look_for_signals(r, w):
        now = seconds()
    if r.grain != BLOCK and not r.watched:
        # By steps: what the elements so far have cost says little of the next ones.
        strip = min(LOOK_EVERY / cost, <double>min(r.strip, 8 * before))
        w.strip = max((<npy_intp>strip) & -<npy_intp>r.group, <npy_intp>r.group)
    w.countdown = 1 if w.strip > before else <npy_intp>min(LOOK_EVERY / cost, <double>most)
    w.looked, w.elements = now, 0


cdef int poll_as_worker(chunk_state *state) noexcept nogil:
    """What loops call now and then: whether they are to give up."""
    return load_int(state.stop)


cdef int poll_as_caller(chunk_state *state) noexcept nogil:
    """The same on the calling thread, which finds that out."""
    cdef worker_t *w = <worker_t *>state
    look_for_signals(w.run, w)
    return load_int(state.stop)


cdef bint look_for_signals(run_t *r, worker_t *w) noexcept nogil:
    """Run Python's signal handlers, if it is time for that; what one raises ends the run. Returns whether it was."""
    if coarse_seconds() - w.signals <= SIGNALS_EVERY or load_int(&r.stop):
        return False
    if exception_pending():     # by an element: no Python code can run now, and it is raised when the run is over
        store_int(&r.stop, 1)
        return True
    # Python runs handlers on its main thread alone; another one need not wait for the GIL here again, but to tell.
    w.signals = coarse_seconds() if run_handlers(r) else NEVER
    return True


# A function of its own: one with a `with gil` block takes the GIL whenever it returns.
cdef bint run_handlers(run_t *r) noexcept with gil:
    """Run handlers of signals that have arrived, and tell how far the run has come. Returns whether to come again."""
    cdef kept_flags before
    put_aside(&before)       # a loop that polls is still to be asked for its flags
    try:
        PyErr_CheckSignals()
        tell(r, r.progress)
    except BaseException as error:
        Py_INCREF(error)
        r.interrupt = <PyObject *>error
        store_int(&r.stop, 1)
    put_back(&before)
    return r.progress != NULL or threading.get_ident() == threading.main_thread().ident


cdef void wait_for_others(run_t *r, worker_t *w, int own) noexcept nogil:
    """The calling thread, out of chunks, waits where it can look for signals: the barrier of OpenMP cannot."""
    cdef double began = seconds(), now
    while load(&r.busy) > own and not load_int(&r.stop):
        look_for_signals(r, w)
        now = seconds()
        if now - began > 100e-6:
            nap(50e-6 if now - began < 10e-3 else 1e-3)


cdef int raise_interrupt(run_t *r) except -1:
    """Raise what a signal handler, or who was told of progress, raised while the run went on."""
    if r.interrupt != NULL:
        error = <object>r.interrupt
        Py_DECREF(error)
        r.interrupt = NULL
        raise error
    return 0
