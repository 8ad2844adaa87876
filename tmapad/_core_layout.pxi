# Part of _core.pyx: the order of a run, and how the elements of each array are reached in it (its note, B).

cdef enum access_t:
    DIRECT          # contiguous in the order of the run: loops get the array itself
    UNIFORM         # one element, which loops read with step 0
    EXPANDED        # one element, copied through a scratch once for each worker
    STAGED          # copied into scratch before the steps, or out of it after them
    LOCAL           # scratch, and nothing else
    BLOCKWISE       # one item for each block


cdef struct operand_t:
    access_t access
    role_t role
    npy_intp itemsize
    char *data
    npy_intp *strides        # one for each axis of the run
    copy_t copy              # between the array and scratch
    npy_intp offset          # of its scratch in a worker's


cdef struct failure_t:
    npy_intp index
    int step
    PyObject *error          # the exception that was set there


cdef struct run_t:
    # Set before the workers start, and only read by them.
    step_t *steps
    operand_t *operands
    npy_intp *shape
    int nsteps
    int nslots
    int ndim
    int group
    int schedule
    int workers
    bint raises              # after a step an exception may be set
    bint watched             # by loops that do not stop there: strips are of one element
    bint counts              # elements that are done
    bint reordered
    bint reports             # whether the flags of some step are reported
    bint judges              # and by the results
    npy_intp alone           # where in its scratch a worker runs an element again
    npy_intp n
    npy_intp first           # the region's first element
    npy_intp strip           # elements of a strip, at most
    npy_intp capacity        # elements for which there is scratch
    npy_intp grain           # chunks are multiples of it
    npy_intp chunk
    double cost              # of an element, in seconds; 0 if not known
    npy_intp scratch_size    # of one worker
    char *scratch
    failure_t *failures      # one for each worker, written by that one alone
    modes_t modes            # of the calling thread: rounding, and whether subnormal numbers are flushed
    void *memory
    void *region_memory
    # Written by all workers.
    int64_t next             # the first element that nobody has taken
    int64_t failed           # the lowest element known to have failed; n: none
    int64_t busy             # workers that have not ended
    int64_t raised           # flags that will be reported
    int64_t done             # elements, if they are counted
    int stop                 # set by the calling thread
    PyObject *interrupt      # what a signal handler raised there
    # Used by the calling thread alone.
    PyObject *progress       # called now and then
    double tell_at           # the next time


cdef inline bint wholly_contiguous(array_t *array, int ndim, npy_intp *shape) noexcept nogil:
    """An array of exactly this shape, C-contiguous, aligned and native."""
    cdef int axis
    if ndim_of(array) != ndim or not is_c_contiguous(array):
        return False
    if not is_aligned(array) or not is_native(array):
        return False
    for axis in range(ndim):
        if shape_of(array)[axis] != shape[axis]:
            return False
    return True


cdef int bind(run_t *r, Program program, array_t **arrays, int ndim, npy_intp *shape, bint c_order) except -1:
    """Find the order of the run and how each slot's elements are reached in it."""
    cdef npy_intp *axis_strides
    cdef array_t *array
    cdef operand_t *o
    cdef int i, axis, taken = 0, axes = max(ndim, 1), outputs = 0
    cdef bint simple = True
    cdef size_t size = program.nslots * (sizeof(operand_t) + axes * sizeof(npy_intp)) + axes * sizeof(npy_intp)
    r.memory = PyMem_RawMalloc(size)
    if r.memory == NULL:
        raise MemoryError
    r.operands = <operand_t *>r.memory
    r.shape = <npy_intp *>(r.operands + program.nslots)
    axis_strides = r.shape + axes
    r.steps, r.nsteps, r.nslots = program.steps, program.nsteps, program.nslots
    r.group = program.group
    r.grain = BLOCK if program.sums_blocks else program.group
    r.busy, r.stop, r.interrupt, r.failures, r.scratch, r.reordered = 0, 0, NULL, NULL, NULL, False
    r.n = 1
    for axis in range(ndim):
        r.n *= shape[axis]
    r.next, r.failed, r.first, r.cost = 0, r.n, 0, 0
    r.reports, r.judges, r.raised = program.reports, program.judges, 0

    for i in range(program.nslots):
        o = &r.operands[i]
        o.role, o.itemsize = program.slots[i].role, program.slots[i].itemsize
        o.copy, o.strides = NULL, axis_strides + i * axes
        if o.role == SCRATCH:
            o.access, o.data = LOCAL, NULL
        elif o.role == CONSTANT:
            o.access, o.data = EXPANDED if program.slots[i].dense else UNIFORM, program.slots[i].constant
            o.copy = copy_for(o.itemsize, 0)
        else:
            array = arrays[taken]
            taken += 1
            if itemsize_of(array) != o.itemsize:
                raise TypeError(f"array {taken - 1} has items of {itemsize_of(array)} bytes, not {o.itemsize}")
            o.data = <char *>data_of(array)
            if o.role == BLOCK_SUM:
                o.access = BLOCKWISE
                if not is_c_contiguous(array) or shape_of(array)[0] * BLOCK < r.n:
                    raise ValueError(f"array {taken - 1} must be contiguous, with an item for each block")
            else:
                o.access = DIRECT
                outputs += o.role == OUTPUT
                simple = simple and wholly_contiguous(array, ndim, shape)
    if simple:
        r.ndim, r.shape[0] = 1, r.n
        for i in range(program.nslots):
            r.operands[i].strides[0] = r.operands[i].itemsize
    else:
        reach(r, program, arrays, ndim, shape, c_order)
    stage_outputs_near_inputs(r, outputs)
    lay_out_scratch(r, program)
    return 0


cdef int reach(run_t *r, Program program, array_t **arrays, int ndim, npy_intp *shape, bint c_order) except -1:
    """`bind` for arrays of any layout: sort and join axes, and see which arrays are contiguous in that order."""
    cdef operand_t *o
    cdef array_t *array
    cdef int i, axis, taken = 0
    cdef npy_intp swapped
    r.ndim = 0
    for axis in range(ndim):
        if shape[axis] != 1:
            r.shape[r.ndim] = shape[axis]
            r.ndim += 1
    for i in range(r.nslots):
        o = &r.operands[i]
        if o.role == INPUT or o.role == OUTPUT:
            array = arrays[taken]
            broadcast_strides(array, ndim, shape, o.strides)
            swapped = 0
            if not is_native(array):
                swapped = o.itemsize // 2 if is_complex(array) else o.itemsize
            o.copy = copy_for(o.itemsize, swapped)
        taken += o.role == INPUT or o.role == OUTPUT or o.role == BLOCK_SUM
    if not c_order:
        sort_axes(r)
    join_axes(r)
    if r.ndim == 0:
        r.ndim, r.shape[0] = 1, r.n
        for i in range(r.nslots):
            r.operands[i].strides[0] = r.operands[i].itemsize

    taken = 0
    for i in range(r.nslots):
        o = &r.operands[i]
        if o.role == INPUT or o.role == OUTPUT:
            array = arrays[taken]
            behaved = is_aligned(array) and is_native(array)
            if behaved and contiguous(r, o):
                o.access = DIRECT
            elif uniform(r, o):
                o.access = UNIFORM if behaved and not program.slots[i].dense else EXPANDED
            else:
                o.access = STAGED
            if o.access != DIRECT and o.copy == NULL:
                raise TypeError(f"array {taken} has items of {o.itemsize} bytes, which must be contiguous")
        taken += o.role == INPUT or o.role == OUTPUT or o.role == BLOCK_SUM
    return 0


cdef int broadcast_strides(array_t *array, int ndim, npy_intp *shape, npy_intp *strides) except -1:
    """Strides of the array along the axes of `shape` that are longer than 1; 0 where it is broadcast."""
    cdef int axis, own, k = 0, missing = ndim - ndim_of(array)
    cdef npy_intp *dims = shape_of(array)
    if missing < 0:
        raise ValueError("an array has more axes than the run")
    for axis in range(ndim):
        own = axis - missing
        if own >= 0 and dims[own] != shape[axis] and dims[own] != 1:
            raise ValueError("an array does not broadcast to the shape of the run")
        if shape[axis] != 1:
            strides[k] = strides_of(array)[own] if own >= 0 and dims[own] == shape[axis] else 0
            k += 1
    return 0


cdef inline npy_intp distance(npy_intp stride) noexcept nogil:
    return -stride if stride < 0 else stride


cdef enum vote_t:
    UNDECIDED
    KEEP
    EXCHANGE


cdef vote_t first_to_tell(operand_t *operands, int count, int outer, int inner) noexcept nogil:
    """Whether two axes should change places: by the first output, or else the first input, that tells them apart."""
    cdef operand_t *o
    cdef int i, turn
    for turn in range(2):
        for i in range(count):
            o = &operands[i]
            if o.role != (INPUT if turn else OUTPUT) or not o.strides[outer] or not o.strides[inner]:
                continue
            if distance(o.strides[inner]) != distance(o.strides[outer]):
                return EXCHANGE if distance(o.strides[inner]) > distance(o.strides[outer]) else KEEP
    return UNDECIDED


cdef vote_t as_numpy(operand_t *operands, int count, int outer, int inner) noexcept nogil:
    """The same by NumPy's rule for the order "K" of results: if arrays disagree, C order wins."""
    cdef vote_t vote = UNDECIDED
    cdef operand_t *o
    cdef int i
    for i in range(count):
        o = &operands[i]
        if o.strides[outer] and o.strides[inner]:
            if distance(o.strides[inner]) <= distance(o.strides[outer]):
                return KEEP
            vote = EXCHANGE
    return vote


ctypedef vote_t (*voters)(operand_t *operands, int count, int outer, int inner) noexcept nogil


cdef void order_axes(operand_t *operands, int count, int ndim, voters vote, int *order) noexcept nogil:
    """Order axes, the innermost first: an insertion sort from C order that looks past pairs which nothing decides."""
    cdef int i, k, axis, place
    cdef vote_t decision
    for i in range(ndim):
        order[i] = ndim - 1 - i
    for i in range(1, ndim):
        axis, place = order[i], i
        for k in range(i - 1, -1, -1):
            decision = vote(operands, count, axis, order[k])
            if decision == EXCHANGE:
                place = k
            elif decision == KEEP:
                break
        for k in range(i, place, -1):
            order[k] = order[k - 1]
        order[place] = axis


cdef void sort_axes(run_t *r) noexcept nogil:
    """Bring the axes of a run into the order in which memory is walked with the shortest steps."""
    cdef int order[MAX_DIMS]
    cdef npy_intp old[MAX_DIMS]
    cdef int axis, i
    order_axes(r.operands, r.nslots, r.ndim, first_to_tell, order)
    for axis in range(r.ndim):
        r.reordered = r.reordered or order[axis] != r.ndim - 1 - axis
        old[axis] = r.shape[axis]
    for axis in range(r.ndim):
        r.shape[axis] = old[order[r.ndim - 1 - axis]]
    for i in range(r.nslots):
        if r.operands[i].role == INPUT or r.operands[i].role == OUTPUT:
            for axis in range(r.ndim):
                old[axis] = r.operands[i].strides[axis]
            for axis in range(r.ndim):
                r.operands[i].strides[axis] = old[order[r.ndim - 1 - axis]]


cdef void join_axes(run_t *r) noexcept nogil:
    """Make one axis of neighbours through which every array goes with one stride."""
    cdef operand_t *o
    cdef int axis, i, last = 0
    cdef bint one
    if r.ndim == 0:
        return
    for axis in range(1, r.ndim):
        one = True
        for i in range(r.nslots):
            o = &r.operands[i]
            if (o.role == INPUT or o.role == OUTPUT) and o.strides[last] != o.strides[axis] * r.shape[axis]:
                one = False
                break
        if one:
            r.shape[last] *= r.shape[axis]
        else:
            last += 1
            r.shape[last] = r.shape[axis]
        for i in range(r.nslots):
            r.operands[i].strides[last] = r.operands[i].strides[axis]
    r.ndim = last + 1


cdef bint contiguous(run_t *r, operand_t *o) noexcept nogil:
    cdef npy_intp expected = o.itemsize
    cdef int axis
    for axis in range(r.ndim - 1, -1, -1):
        if o.strides[axis] != expected:
            return False
        expected *= r.shape[axis]
    return True


cdef bint uniform(run_t *r, operand_t *o) noexcept nogil:
    cdef int axis
    for axis in range(r.ndim):
        if o.strides[axis] != 0:
            return False
    return True


cdef void stage_outputs_near_inputs(run_t *r, int outputs) noexcept nogil:
    """Write outputs at the end of a strip that must not be written while it is computed.

    These are outputs that are also inputs, unless the program is one loop with one output that writes nothing where it
    fails, and nobody looks at its arguments afterwards; and, for vectorized loops, outputs that a strip of an input
    touches (see `lay_out_scratch`).
    """
    cdef operand_t *o
    cdef operand_t *x
    cdef npy_intp apart
    cdef int i, k
    for i in range(r.nslots):
        o = &r.operands[i]
        for k in range(r.nslots):
            x = &r.operands[k]
            if o.role == OUTPUT and o.access == DIRECT and x.role == INPUT:
                apart = distance(o.data - x.data)
                if (apart == 0 and (r.nsteps > 1 or outputs > 1 or r.raises or r.judges)) or (
                        apart > 0 and r.group > 1 and apart <= VECTOR_STRIP * max(o.itemsize, x.itemsize)):
                    o.access, o.copy = STAGED, copy_for(o.itemsize, 0)


cdef void lay_out_scratch(run_t *r, Program program) noexcept nogil:
    """Give slots whose elements may have to lie in scratch `capacity` elements of it."""
    cdef operand_t *o
    cdef int i
    cdef bint long_strips = not program.has_scratch and not program.sums_blocks
    cdef npy_intp padded = (r.n + r.group - 1) // r.group * r.group
    for i in range(r.nslots):
        long_strips = long_strips and (r.operands[i].access == DIRECT or r.operands[i].access == UNIFORM)
    r.strip = BLOCK if not long_strips else VECTOR_STRIP if r.group > 1 else LONG_STRIP
    # Strips that need no scratch still need it for the group at their end.
    r.capacity = (r.group if r.group > 1 else 0) if long_strips else min(<npy_intp>BLOCK, padded)
    r.scratch_size = 0
    for i in range(r.nslots):
        o = &r.operands[i]
        o.offset = r.scratch_size
        if o.access != UNIFORM and o.access != BLOCKWISE and (o.access != DIRECT or r.group > 1):
            # On cache lines of its own, and apart: NumPy's loops take arrays that touch for arrays that overlap, and
            # then another path, which may give other bits.
            r.scratch_size += (r.capacity * o.itemsize + 63) // 64 * 64 + 64
    r.alone = r.scratch_size
    r.scratch_size += (program.alone_size + 63) // 64 * 64
