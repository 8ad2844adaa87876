# Part of _core.pyx: programs, and the short way for arrays of one shape (its note, A).

_ROLES = {"input": INPUT, "output": OUTPUT, "scratch": SCRATCH, "constant": CONSTANT, "block_sum": BLOCK_SUM}


cdef class Program:
    """A list of loops run on each chunk, one after another.

    Parameters
    ----------
    slots : sequence of (role, itemsize, value)
        What the arguments of loops are. The role is "input", "output" (arrays given to `run`, in the order of
        their slots), "scratch", "constant" (`value` is a 0-d array) or "block_sum" (an array given to `run`
        that gets one item for each block of 512 elements).
    steps : sequence of (Loop, slot numbers)
    serial : bool
        To be run by the calling thread alone.
    name : str
        Of the function, for reports of floating-point errors.
    reports : sequence of (kind, Loop, outputs), optional
        For each step what its flags stand for: the "flags" of the function, the "results" in its first outputs, which
        the Loop gives for the first of its arguments, the "cast" of an argument, or nothing (None).
    """

    def __cinit__(self, slots, steps, *, bint serial=False, str name="", reports=None):
        cdef int i, k, total = 0
        cdef Loop loop
        if len(slots) > MAX_SLOTS:
            raise ValueError(f"a program has at most {MAX_SLOTS} slots, not {len(slots)}")
        self.nslots, self.nsteps = len(slots), len(steps)
        for loop, numbers in steps:
            if len(numbers) != loop.nin + loop.nout:
                raise ValueError(f"{loop!r} takes {loop.nin + loop.nout} slots, not {len(numbers)}")
            total += len(numbers)
        self.slots = <slot_t *>PyMem_RawMalloc(max(self.nslots, 1) * sizeof(slot_t))
        self.steps = <step_t *>PyMem_RawMalloc(max(self.nsteps, 1) * sizeof(step_t))
        self.step_slots = <int *>PyMem_RawMalloc(max(total, 1) * sizeof(int))
        if self.slots == NULL or self.steps == NULL or self.step_slots == NULL:
            raise MemoryError
        self.serial, self.group = serial, 1
        self.loops = tuple([step[0] for step in steps])
        self.constants = [slot[2] for slot in slots]
        for i, (role, itemsize, value) in enumerate(slots):
            self.slots[i].role, self.slots[i].itemsize, self.slots[i].dense = _ROLES[role], itemsize, False
            self.slots[i].constant = <char *>cnp.PyArray_DATA(value) if role == "constant" else NULL
            self.narrays += role in ("input", "output", "block_sum")
            self.sums_blocks = self.sums_blocks or role == "block_sum"
            self.has_scratch = self.has_scratch or role in ("scratch", "constant")
        total = 0
        for i, (loop, numbers) in enumerate(steps):
            self.steps[i] = step_t(loop.function, loop.call_data, loop.nin, loop.nin + loop.nout, loop.group,
                                   self.step_slots + total, 0, 0, NULL, NULL, NULL, 0, 0, 0, NULL)
            self.group = max(self.group, loop.group)      # both divide 512: the larger is a multiple of the smaller
            self.raises = self.raises or loop.raises
            self.can_fail = self.can_fail or loop.can_fail
            for k in numbers:
                if not 0 <= k < self.nslots:
                    raise ValueError(f"slot {k} of {self.nslots}")
                self.slots[k].dense = self.slots[k].dense or loop.dense
                self.step_slots[total] = k
                total += 1
        if self.group & (self.group - 1):
            raise ValueError("groups must be powers of two")
        self.name = name
        set_reports(self, steps, reports)

    def __dealloc__(self):
        PyMem_RawFree(self.slots)
        PyMem_RawFree(self.steps)
        PyMem_RawFree(self.step_slots)

    def run(self, tuple arrays, tuple shape, *, num_threads=1, str schedule="dynamic", chunk_size=None,
            bint watch=False, tuple captured=(), int cast=0, progress=None):
        """Run on arrays that broadcast to `shape`.

        Parameters
        ----------
        arrays : tuple of ndarray
            One for each slot that is an array. None may overlap another, except that an output may be an
            input.
        num_threads : int or callable
            How many threads; or a function that says how many, called only if the work is worth more than
            one.
        schedule, chunk_size
            How elements are handed to threads; no result depends on it.
        watch : bool
            Any loop may set exceptions: run on the calling thread, an element at a time.
        captured : tuple of ndarray
            What loops read besides: what is not finite there explains what is not in a result.
        cast : int
            Flags (NumPy's numbers) that the conversion of arguments raised before.
        progress : callable, optional
            Called now and then, on this thread, with the number of elements that are done. What it raises ends
            the run.

        Returns
        -------
        None, or (step, index, error)
            The lowest element at which a loop stopped, counted in C order, and in which step. `error` is the
            exception that a loop which `raises` had set, or None.
        """
        cdef void *pointers[MAX_SLOTS]
        cdef npy_intp dims[MAX_DIMS]
        cdef int i
        if len(arrays) != self.narrays or len(shape) > MAX_DIMS:
            raise ValueError(f"the program takes {self.narrays} arrays, not {len(arrays)}")
        for i in range(self.narrays):
            if not cnp.PyArray_Check(arrays[i]):
                raise TypeError("arrays must be NumPy arrays")
            pointers[i] = <void *>arrays[i]
        for i in range(len(shape)):
            dims[i] = shape[i]
        return self.execute(pointers, len(shape), dims, num_threads, SCHEDULES[schedule],
                            0 if chunk_size is None else chunk_size, watch, False, captured, cast, progress)

    cdef object execute(self, void **arrays, int ndim, npy_intp *shape, object num_threads, int schedule,
                        npy_intp chunk_size, bint watch, bint c_order, object captured, int cast, object progress):
        cdef run_t r
        cdef bint again, serial = self.serial or watch
        r.memory = r.region_memory = NULL
        r.failures = NULL
        try:
            if self.sums_blocks and watch:
                raise ValueError("what is watched is run an element at a time, and cannot be summed by blocks")
            # A run that fails may be repeated in C order, but not once inputs have been written to.
            in_place = (self.can_fail or watch) and shares_data(self, <array_t **>arrays)
            c_order = c_order or self.sums_blocks or in_place
            r.raises, r.watched = self.raises or watch, watch
            bind(&r, self, <array_t **>arrays, ndim, shape, c_order)
            r.schedule, r.chunk = schedule, chunk_size
            r.raised = <int64_t>cast << shift_of(OF_CAST) if self.reports else 0
            follow(&r, progress)
            if r.n:
                if self.raises and not WORKERS_RAISE:
                    serial = True
                launch_apart(&r, 1 if serial else num_threads)
            if load(&r.failed) >= r.n:
                raise_pending()        # by a loop that was not known to raise: the element is not known either
                if r.raised:
                    report(self, r.raised, captured)
                return None
            other = None
            try:
                raise_pending()
            except BaseException as exception:
                other = exception
            again, (step, index, error) = r.reordered, lowest_failure(&r)
        finally:
            drop_exceptions(&r)
            PyMem_RawFree(r.memory)
            PyMem_RawFree(r.region_memory)
        if again:
            return self.execute(arrays, ndim, shape, num_threads, schedule, chunk_size, watch, True, captured, cast,
                                progress)
        return step, index, other if error is None else error


cdef bint shares_data(Program program, array_t **arrays) noexcept:
    """Whether an output is also an input."""
    cdef int i, k, output = 0, inputs
    for i in range(program.nslots):
        if program.slots[i].role == OUTPUT:
            inputs = 0
            for k in range(program.nslots):
                if program.slots[k].role == INPUT and data_of(arrays[inputs]) == data_of(arrays[output]):
                    return True
                inputs += program.slots[k].role in (INPUT, OUTPUT, BLOCK_SUM)
        output += program.slots[i].role in (INPUT, OUTPUT, BLOCK_SUM)
    return False


cdef int raise_pending() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


cdef class Elementwise:
    """A program whose inputs all have one shape, and whose outputs are new arrays of that shape.

    The short way from arrays to results, for arguments that need no conversion: `launch` finds that out
    itself. Those of its inputs that `numbers` has, by position, are arrays without axes instead. The program
    takes those that `reads` has, in ascending order.
    """

    def __cinit__(self, Program program, str inputs, str outputs, numbers=(), reads=None):
        cdef int i
        self.program, self.nin, self.nout = program, len(inputs), len(outputs)
        self.inputs = <int *>PyMem_RawMalloc((3 * self.nin + self.nout) * sizeof(int))
        if self.inputs == NULL:
            raise MemoryError
        self.outputs = self.inputs + self.nin
        self.numbers = self.outputs + self.nout
        self.reads = self.numbers + self.nin
        for i in range(self.nin):
            self.numbers[i], self.reads[i] = i in numbers, reads is None or i in reads
        for i, char in enumerate(inputs + outputs):
            self.inputs[i] = np.dtype(char).num

    def __dealloc__(self):
        PyMem_RawFree(self.inputs)

    def __call__(self, tuple arrays, num_threads=1, str schedule="dynamic", chunk_size=None):
        """The outputs followed by what `Program.run` returns; None if the arrays are not as they must be."""
        return self.launch(arrays, num_threads, SCHEDULES[schedule], 0 if chunk_size is None else chunk_size,
                           None, ())

    cdef tuple launch(self, tuple arrays, object num_threads, int schedule, npy_intp chunk_size, object out,
                      object captured):
        # `out` is an array for the one output, or None; `captured` are arrays as `Program.run` takes them.
        cdef void *pointers[MAX_SLOTS]
        cdef array_t *array
        cdef array_t *first
        cdef int i, axis, ndim, count = 0
        cdef npy_intp *shape
        if len(arrays) != self.nin:
            return None
        first = NULL
        for i in range(self.nin):
            array = <array_t *>arrays[i]
            if not cnp.PyArray_CheckExact(<object>array) or type_of(array) != self.inputs[i]:
                return None
            if self.reads[i]:
                pointers[count] = array
                count += 1
            if self.numbers[i]:
                if ndim_of(array):
                    return None
                continue
            if first == NULL:
                first = array
            if ndim_of(array) != ndim_of(first) or not is_c_contiguous(array):
                return None
            for axis in range(ndim_of(first)):
                if shape_of(array)[axis] != shape_of(first)[axis]:
                    return None
        if first == NULL or ndim_of(first) == 0:
            return None
        ndim, shape = ndim_of(first), shape_of(first)
        results = []
        if out is None:
            # Not a comprehension: if its list cannot grow, Cython 3.3 counts the item twice.
            for i in range(self.nout):
                results.append(cnp.PyArray_EMPTY(ndim, shape, self.outputs[i], 0))
        elif self.accepts(out, arrays):
            results = [out]
        else:
            return None
        for i in range(self.nout):
            pointers[count + i] = <void *>results[i]
        results.append(self.program.execute(pointers, ndim, shape, num_threads, schedule, chunk_size, False, False,
                                            captured, 0, None))
        return tuple(results)

    cdef bint accepts(self, object out, tuple arrays):
        """Whether the output can be written to `out`, which lies apart from every input, or just where it lies."""
        cdef array_t *y
        cdef array_t *x
        cdef char *lo
        cdef char *start
        cdef int i, axis
        if self.nout != 1 or not cnp.PyArray_CheckExact(out) or self.program.can_fail:
            return False
        y, x = <array_t *><PyObject *>out, <array_t *><PyObject *>arrays[0]
        if type_of(y) != self.outputs[0] or ndim_of(y) != ndim_of(x) or not is_c_contiguous(y):
            return False
        if not is_native(y) or not is_aligned(y) or not cnp.PyArray_ISWRITEABLE(out):
            return False
        for axis in range(ndim_of(y)):
            if shape_of(y)[axis] != shape_of(x)[axis]:
                return False
        lo = <char *>data_of(y)
        for i in range(self.nin):
            x = <array_t *><PyObject *>arrays[i]
            start = <char *>data_of(x)
            if start == lo and itemsize_of(x) == itemsize_of(y):
                continue
            if start < lo + cnp.PyArray_NBYTES(out) and lo < start + cnp.PyArray_NBYTES(arrays[i]):
                return False
        return True


def empty_like_all(tuple arrays, tuple shape, dtype):
    """A new array of `shape` whose axes are ordered as those of the arrays (NumPy's order "K")."""
    cdef npy_intp dims[MAX_DIMS]
    cdef npy_intp strides[MAX_DIMS]
    cdef npy_intp array_strides[MAX_ARGS * MAX_DIMS]
    cdef int order[MAX_DIMS]
    cdef operand_t operands[MAX_ARGS]
    cdef int k, axis, ndim = len(shape), count = 0
    cdef npy_intp step
    cdef cnp.dtype descr = dtype
    for array in arrays[:MAX_ARGS]:
        missing = ndim - array.ndim
        operands[count].strides = array_strides + count * MAX_DIMS
        for axis in range(ndim):
            operands[count].strides[axis] = 0
            if axis >= missing and array.shape[axis - missing] > 1:
                operands[count].strides[axis] = array.strides[axis - missing]
        count += 1
    order_axes(operands, count, ndim, as_numpy, order)
    step = descr.itemsize
    for k in range(ndim):
        axis = order[k]
        dims[axis], strides[axis] = shape[axis], step
        step *= max(dims[axis], 1)
    Py_INCREF(descr)      # PyArray_NewFromDescr takes it
    return PyArray_NewFromDescr(cnp.ndarray, descr, ndim, dims, strides, NULL, 0, None)
