# Part of _core.pyx: loops that may set Python exceptions, and what becomes of these (its note, D).

cdef struct raising_call:
    loop_t loop
    void *data
    int nargs


cdef int run_raising_loop(
    char **args, npy_intp n, const npy_intp *steps, void *data, chunk_state *state
) noexcept nogil:
    """Run another loop on one element after another, up to the first that sets an exception."""
    cdef raising_call *call = <raising_call *>data
    cdef PyThreadState *own = this_thread()
    cdef char *at[MAX_ARGS]
    cdef npy_intp i
    cdef int k
    for k in range(call.nargs):
        at[k] = args[k]
    for i in range(n):
        if (i and i % POLL_EVERY == 0 and state.poll(state)) or (
                call.loop(at, 1, steps, call.data, state) or exception_in(own)):
            state.index = i
            return 1
        for k in range(call.nargs):
            at[k] += steps[k]
    return 0


def raising_loop(Loop loop):
    """A loop that may set Python exceptions as one that stops at the element that does."""
    cdef _Memory memory = _Memory(sizeof(raising_call))
    cdef raising_call *call = <raising_call *>memory.data
    call.loop, call.data, call.nargs = loop.function, loop.call_data, loop.nin + loop.nout
    memory.keep = loop
    return Loop(<uintptr_t><void *>run_raising_loop, <uintptr_t>memory.data, loop.types, loop.nin,
                dense=loop.dense, can_fail=True, raises=True, speculates=loop.speculates, keep=memory)


# A function of its own: one with a `with gil` block takes the GIL whenever it returns.
cdef void keep_exception(worker_t *w) noexcept with gil:
    """What is set, if anything, is of the lowest element that failed here; what was kept before of a later one."""
    Py_XDECREF(w.error)
    w.error = take_exception()


cdef void forget_exception() noexcept with gil:
    Py_XDECREF(take_exception())


cdef tuple lowest_failure(run_t *r):
    """(step, element, exception or None) of the lowest failure."""
    cdef int i, lowest = 0
    for i in range(r.workers):
        if r.failures[i].index < r.failures[lowest].index:
            lowest = i
    error = None if r.failures[lowest].error == NULL else <object>r.failures[lowest].error
    return r.failures[lowest].step, r.failures[lowest].index, error


cdef void drop_exceptions(run_t *r) noexcept:
    cdef int i
    if r.failures != NULL:
        for i in range(r.workers):
            Py_XDECREF(r.failures[i].error)
