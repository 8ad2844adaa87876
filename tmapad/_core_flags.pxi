# Part of _core.pyx: the processor's flags of exceptional results, and what is said of them (its note, G).

# What the flags that a step raises stand for.
cdef enum report_t:
    NOTHING = 0        # nobody asked for it: derivatives, their products with cotangents
    OF_FUNCTION        # the function's value
    OF_RESULTS         # the same, but they count only where a result shows why
    OF_CAST            # the conversion of an argument


cdef enum:
    ALONE = 64         # bytes between the arguments of an element that is run again
    ITEM = 16          # the largest of its items

_REPORTS = {None: NOTHING, "flags": OF_FUNCTION, "results": OF_RESULTS, "cast": OF_CAST}
# As NumPy calls them, in its order.
_CATEGORIES = (
    (DIVIDE, "divide", "divide by zero"),
    (OVERFLOW, "over", "overflow"),
    (UNDERFLOW, "under", "underflow"),
    (INVALID, "invalid", "invalid value"),
)


cdef inline int shift_of(int report) noexcept nogil:
    """Where a run keeps the flags of one kind of report."""
    return 4 * (report - 1)


cdef int set_reports(Program program, object steps, object reports) except -1:
    """Note of each step what its flags stand for: see `Program`."""
    cdef step_t *step
    cdef Loop loop, value
    cdef int i
    kept = []
    for i, (loop, _) in enumerate(steps):
        kind, alone, outputs = (None, None, 0) if reports is None else reports[i]
        step = &program.steps[i]
        step.report, step.outputs = _REPORTS[kind], outputs
        program.reports = program.reports or step.report != NOTHING
        if step.report != OF_RESULTS:
            continue
        value = alone
        types = (loop.in_chars + loop.out_chars).encode("ascii")
        sizes = np.array([np.dtype(char).itemsize for char in value.in_chars + value.out_chars], np.intp).tobytes()
        kept.append((value, types, sizes))
        step.types = types
        step.alone = value.function
        step.alone_steps = <const npy_intp *><const char *>sizes
        step.alone_data = value.call_data
        step.alone_group, step.alone_nin, step.alone_nargs = value.group, value.nin, value.nin + value.nout
        program.judges = True
        program.alone_size = max(program.alone_size, step.alone_nargs * (ITEM * value.group + ALONE))
    program.kept_reports = kept
    return 0


cdef int launch_apart(run_t *r, object num_threads) except -1:
    """`launch` with none of the flags up that the calling thread had before; afterwards they are as before."""
    cdef kept_flags before
    put_aside(&before)
    try:
        launch(r, num_threads)
    finally:
        put_back(&before)
    return 0


cdef void note_flags(
    run_t *r, worker_t *w, step_t *step, char **args, npy_intp *steps, npy_intp n, int up
) noexcept nogil:
    """Note what a step raised on n elements. The next step finds no flag up."""
    cdef int raised
    clear_flags()
    if step.report == NOTHING:
        return
    raised = up & ~<int>(load(&r.raised) >> shift_of(step.report))
    if raised and step.report == OF_RESULTS:
        raised = explained(r, w, step, args, steps, n, raised)
    if raised:
        fetch_or(&r.raised, <int64_t>raised << shift_of(step.report))


cdef int explained(
    run_t *r, worker_t *w, step_t *step, char **args, npy_intp *steps, npy_intp n, int up
) noexcept nogil:
    """Those of the flags that a result explains: by an element that, run alone, raises them too.

    Whatever else raised flags in a strip, this depends on its elements alone.
    """
    cdef npy_intp i
    cdef int k, asked, found = 0
    for k in range(step.nin, step.nin + step.outputs):
        i = next_not_finite(step.types[k], args[k], steps[k], 0, n)
        while i < n:
            asked = up & ~found & suspected(step, args, steps, k, i)
            if asked:
                found |= asked & raised_alone(w, step, args, steps, i, w.scratch + r.alone)
            i = next_not_finite(step.types[k], args[k], steps[k], i + 1, n)
    return found


cdef int suspected(step_t *step, char **args, npy_intp *steps, int output, npy_intp i) noexcept nogil:
    """Flags that may be why an element's result is what it is, if its arguments are not."""
    cdef int result = not_finite(step.types[output], args[output] + i * steps[output]), given = 0, k
    for k in range(step.nin):
        given |= not_finite(step.types[k], args[k] + i * steps[k])
    return (INVALID if result & NAN_ITEM and not given & NAN_ITEM else 0) | (
        DIVIDE | OVERFLOW if result & INFINITE_ITEM and not given else 0)


cdef int raised_alone(
    worker_t *w, step_t *step, char **args, npy_intp *steps, npy_intp i, char *scratch
) noexcept nogil:
    """The flags that the function's value raises at one element; scratch is for its arguments and results."""
    cdef char *at[MAX_ARGS]
    cdef npy_intp copy, size
    cdef int k, up
    cdef bint stopped
    for k in range(step.alone_nargs):
        at[k], size = scratch, step.alone_steps[k]
        if k < step.alone_nin:
            for copy in range(step.alone_group):
                memcpy(at[k] + copy * size, args[k] + i * steps[k], size)
        scratch += ITEM * step.alone_group + ALONE
    if exception_pending():
        return 0        # by a loop that was not known to raise: it is raised when the run is over
    stopped = step.alone(at, step.alone_group, step.alone_steps, step.alone_data, &w.state)
    if exception_pending():
        forget_exception()        # the element has its result already, and raised nothing then
        stopped = True
    if stopped:
        clear_flags()
        return 0        # or the run is over
    up = flags_up()
    clear_flags()
    return up


cdef int report(Program program, int64_t raised, object captured) except -1:
    """Say what was raised, as `numpy.errstate` of the calling thread wants it said.

    `captured` are arrays that the function read, besides its arguments.
    """
    cdef int of_results = <int>(raised >> shift_of(OF_RESULTS)) & ANY
    if of_results:
        for array in captured:
            if array.dtype.kind in "fc" and not np.isfinite(array).all():
                of_results &= ~(DIVIDE | OVERFLOW | (INVALID if np.isnan(array).any() else 0))
    complain("cast", <int>(raised >> shift_of(OF_CAST)) & ANY)
    complain(program.name, of_results | (<int>(raised >> shift_of(OF_FUNCTION)) & ANY))
    return 0


cdef int complain(str name, int raised) except -1:
    if not raised:
        return 0
    settings = np.geterr()
    encoded = name.encode()
    if not any([raised & flag and settings[kind] == "warn" for flag, kind, _ in _CATEGORIES]):
        PyUFunc_GiveFloatingpointErrors(encoded, raised)
        return 0
    # NumPy's warning would name the line of this package that ran the loops.
    for flag, kind, words in _CATEGORIES:
        if raised & flag and settings[kind] == "warn":
            warnings.warn(f"{words} encountered in {name}", RuntimeWarning, stacklevel=callers_level())
        elif raised & flag:
            PyUFunc_GiveFloatingpointErrors(encoded, flag)
    return 0


cdef int callers_level() except -1:
    """Which frame called tmapad, for `warnings.warn`. Compiled functions have none."""
    cdef int level = 1
    frame = sys._getframe(0)
    while frame.f_back is not None and (frame.f_globals.get("__name__") or "").partition(".")[0] == "tmapad":
        frame = frame.f_back
        level += 1
    return level
