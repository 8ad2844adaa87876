# Part of _core.pyx: loops, and where they come from (its note, A).

cdef class Loop:
    """A loop with the kernel ABI, its data, and its types.

    Parameters
    ----------
    address, data : int
        Of the C function and of what it gets as ``data``.
    types : str
        Its arguments in NumPy's form, ``"dd->d"``; their number before the arrow is `nin`.
    group : int
        Results do not depend on position only if it is called with a multiple of this many elements.
    dense : bool
        It takes no uniform arguments (step 0).
    can_fail : bool
        It may stop at an element.
    raises : bool
        It may set a Python exception, and then stops at that element.
    speculates : bool
        Its code may compute what no branch asked for, so that a flag of the processor alone says nothing.
    keep : object
        What must live as long as the loop.
    """

    def __init__(self, address, data, str types, int nin, *, int group=1, bint dense=False, bint can_fail=False,
                 bint raises=False, bint speculates=False, keep=None):
        cdef uintptr_t function = address, pointer = data
        before, arrow, after = types.partition("->")
        if not arrow or len(before) != nin or not after or len(before) + len(after) > MAX_ARGS:
            raise ValueError(f"types must be {nin} type characters, '->' and those of the outputs: {types!r}")
        if group < 1 or group > BLOCK or BLOCK % group:
            raise ValueError(f"group must divide {BLOCK}: {group}")
        if function == 0:
            raise ValueError(f"the loop for {types} is at address 0")
        self.function = <loop_t><void *>function
        self.call_data = <void *>pointer
        self.types, self.nin, self.nout = types, nin, len(after)
        self.group, self.dense = group, dense or group > 1
        self.can_fail, self.raises, self.speculates, self.keep = can_fail, raises, speculates, keep

    @property
    def address(self):
        return <uintptr_t><void *>self.function

    @property
    def data(self):
        return <uintptr_t>self.call_data

    @property
    def in_chars(self):
        return self.types[:self.nin]

    @property
    def out_chars(self):
        return self.types[self.nin + 2:]

    def __repr__(self):
        return f"<Loop {self.types}>"


ctypedef void (*ufunc_function)(char **args, const npy_intp *n, const npy_intp *steps, void *data) noexcept nogil


cdef struct ufunc_call:
    ufunc_function function
    void *data
    int nargs


cdef int run_ufunc_loop(
    char **args, npy_intp n, const npy_intp *steps, void *data, chunk_state *state
) noexcept nogil:
    cdef ufunc_call *call = <ufunc_call *>data
    call.function(args, &n, steps, call.data)
    return 0


cdef int run_ufunc_loop_in_parts(
    char **args, npy_intp n, const npy_intp *steps, void *data, chunk_state *state
) noexcept nogil:
    """The same where elements may take long: in parts, small enough for that and large enough to cost nothing."""
    cdef ufunc_call *call = <ufunc_call *>data
    cdef char *at[MAX_ARGS]
    cdef npy_intp lo = 0, part
    cdef int k
    while lo < n:
        if n >= POLL_EVERY and state.poll(state):
            state.index = lo
            return 1
        for k in range(call.nargs):
            at[k] = args[k] + lo * steps[k]
        part = min(n - lo, <npy_intp>BLOCK)
        call.function(at, &part, steps, call.data)
        lo += part
    return 0


cdef class _Memory:
    """A few bytes that loops point to, freed with the last of them."""
    cdef void *data
    cdef object keep

    def __cinit__(self, size_t size):
        self.data = PyMem_RawMalloc(size)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_RawFree(self.data)


def ufunc_loop(ufunc, int index, int group):
    """The loop number `index` of ``ufunc.types``: its function and data are public fields of PyUFuncObject."""
    cdef cnp.ufunc u = ufunc
    if not 0 <= index < u.ntypes:
        raise IndexError(f"{ufunc.__name__} has {u.ntypes} loops: {index}")
    cdef _Memory memory = _Memory(sizeof(ufunc_call))
    cdef ufunc_call *call = <ufunc_call *>memory.data
    call.function = <ufunc_function><void *>u.functions[index]
    call.data = <void *>u.data[index] if u.data != NULL else NULL
    call.nargs = u.nin + u.nout
    memory.keep = ufunc
    # Vectorized ones are NumPy's own, which take nanoseconds.
    cdef loop_t loop = run_ufunc_loop if group > 1 else run_ufunc_loop_in_parts
    return Loop(<uintptr_t><void *>loop, <uintptr_t>memory.data, ufunc.types[index], u.nin,
                group=group, dense=True, keep=memory)


def pointer_loop(address, str char, int nin, int nout, str trailing, user_data, keep, *, bint raises=False):
    """The loop round a C function of `nin` numbers that returns one (nout 0) or writes `nout` through pointers.

    `trailing` is what its parameter list ends with: "", "void *" (which gets `user_data`) or "int" (which
    gets 0).
    """
    kind = {"": TRAILING_NONE, "void *": TRAILING_POINTER, "int": TRAILING_INT}[trailing]
    cdef loop_t loop = scalar_loop(<char>ord(char), nin, nout, kind)
    if loop == NULL:
        raise ValueError(f"no loop for C functions of {nin} {char!r} arguments, {nout} outputs and {trailing!r}")
    cdef uintptr_t function = address, data = user_data
    if function == 0:
        raise ValueError("the C function is a null pointer")
    cdef _Memory memory = _Memory(sizeof(scalar_call))
    cdef scalar_call *call = <scalar_call *>memory.data
    call.function, call.user_data, call.raises = <void *>function, <void *>data, raises
    memory.keep = keep
    return Loop(<uintptr_t><void *>loop, <uintptr_t>memory.data, char * nin + "->" + char * max(nout, 1), nin,
                can_fail=raises, raises=raises, keep=memory)


cdef dict builtin_loops():
    loops = {}
    cdef const builtin_t *row = builtins
    while row.name != NULL:
        types = row.types.decode("ascii")
        name, nin = row.name.decode("ascii"), types.index("-")
        loops[name, types] = Loop(<uintptr_t><void *>row.loop, 0, types, nin, dense=True)
        row += 1
    return loops


_BUILTIN_LOOPS = builtin_loops()


def builtin_loop(str name, str types):
    """One of the loops of ``_builtin_loops.h``; None if there is none for these types."""
    return _BUILTIN_LOOPS.get((name, types))


def select_loop(str char):
    """The loop of ``numpy.where`` for one type."""
    return _BUILTIN_LOOPS["select", f"?{char}{char}->{char}"]


def sum_loop(str name, str char, length):
    """The loop whose elements are rows of `length` terms (``"sum_rows"``) or of block sums (``"sum_block_sums"``)."""
    cdef Loop loop = _BUILTIN_LOOPS[name, f"{char}->{'D' if char in 'FD' else 'd'}"]
    cdef _Memory memory = _Memory(sizeof(npy_intp))
    (<npy_intp *>memory.data)[0] = length
    return Loop(loop.address, <uintptr_t>memory.data, f"V->{loop.out_chars}", 1, dense=True, keep=memory)


def sum_terms(terms, *, bint block_sums=False):
    """The sum of a contiguous array, as the loops of `sum_loop` give it, by the calling thread."""
    char, name = terms.dtype.char, "sum_block_sums" if block_sums else "sum_rows"
    cdef Loop loop = _BUILTIN_LOOPS[name, f"{char}->{'D' if char in 'FD' else 'd'}"]
    total = np.empty((), loop.out_chars)
    cdef array_t *source = <array_t *><PyObject *>terms
    cdef array_t *target = <array_t *><PyObject *>total
    cdef char *args[2]
    cdef npy_intp length = terms.size
    if not is_c_contiguous(source):
        raise ValueError("terms must be contiguous")
    args[0], args[1] = <char *>data_of(source), <char *>data_of(target)
    with nogil:
        loop.function(args, 1, NULL, &length, NULL)
    return total
