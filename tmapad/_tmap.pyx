# cython: language_level=3, binding=True
"""tmap and its rule: the compiled entry points.

Most calls are alike: the same function, plain arrays of the same types and of one shape. The first such call
goes the long way (`_call`, `_pullback`) and leaves a shortcut in the function: a program ready to be launched
on arrays of these types. Anything a shortcut cannot take, it declines, and the long way is taken; so
shortcuts decide nothing. An element that fails fails again on the long way, which knows how to say so.
"""

from functools import partial

cimport numpy as cnp
from tmapad._core cimport Elementwise

from tmapad._call import Frame, as_options, map_elements
from tmapad._core import SCHEDULES
from tmapad._find import find
from tmapad._function import call_with
from tmapad._kernel import Sink
from tmapad._pullback import Pull, forward, placeholder
from tmapad._targets import Input
from tmapad._rules import register_rule
from tmapad._tangents import NO_TANGENT
from tmapad._threads import get_num_threads

cnp.import_array()

cdef object NOTHING = NO_TANGENT

cdef enum:
    AHEAD = 0        # of a gradient's two shortcuts
    BACK = 1
cdef dict KNOWN_SCHEDULES = dict(SCHEDULES)


cdef object type_key(tuple xs):
    """A number for the types of arrays; None if one is not simply an array."""
    cdef unsigned long long key = 1
    if not 0 < len(xs) <= 8:
        return None
    for x in xs:
        if not cnp.PyArray_CheckExact(x):
            return None
        key = key << 6 | <unsigned long long>(cnp.PyArray_TYPE(x) & 63)
    return key


cdef bint plain(object num_threads, object chunk_size):
    return num_threads is None and chunk_size is None


cdef tuple take_shortcut(dict shortcuts, object key, tuple arrays, object schedule, object options, object out):
    """Results of a shortcut, or None. Without `options` the number of threads and the chunks are the usual ones."""
    shortcut = shortcuts.get(key)
    number = KNOWN_SCHEDULES.get(schedule) if type(schedule) is str else None
    if shortcut is None or number is None:
        return None
    if options is None:
        results = (<Elementwise>shortcut).launch(arrays, get_num_threads, number, 0, out)
    else:
        results = (<Elementwise>shortcut).launch(arrays, options.num_threads, number, options.chunk_size or 0, out)
    return results if results is not None and results[len(results) - 1] is None else None


def tmap(f, *xs, out=None, dtype=None, num_threads=None, schedule="dynamic", chunk_size=None):
    """Apply a scalar function to every element of arrays, on all cores.

    Parameters
    ----------
    f : callable or pointer
        A registered function, a Python or njit function, a method or callable object, a ufunc, a C function
        pointer: see `register`. What it captured, in a closure or by ``functools.partial``, is the same for all
        elements.
    *xs : array_like
        Its arguments, which broadcast. Elements are real or complex numbers; integers and bools count as
        float64, unless `f` is a ufunc or names them in ``nondiff``. Python scalars are weak: they do not
        widen arrays.
    out : ndarray, or tuple with an ndarray or None for each output, optional
        Where results are written. It may be an argument; partial overlap behaves as if copied.
    dtype : dtype, optional
        The type of the computation: float16 (computed in float32), float32, float64, complex64 or complex128.
    num_threads : int, optional
        How many threads; by default what `get_num_threads` says, and one for little work.
    schedule : {"dynamic", "static", "guided"}, optional
        How elements are handed to threads.
    chunk_size : int, optional
        In elements, at least.

    Returns
    -------
    ndarray, scalar or tuple
        Of the broadcast shape and in the arguments' precision: a NumPy scalar if all arguments are scalars, a
        tuple if all that are not scalars are tuples of numbers. Of a function with several outputs a tuple of
        these. Neither `num_threads` nor `schedule` nor `chunk_size` changes a bit of it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above: before anything is computed.
    Exception
        What a Python function `f` raises, for the lowest element at which it does, with a note that names it.
        Arrays given as `out` are then in an unspecified state.

    Notes
    -----
    The GIL is released. Memory beyond the result is a few kilobytes for each thread.

    Examples
    --------
    >>> import numpy as np
    >>> from tmapad import tmap
    >>> tmap(np.hypot, np.array([3.0, 5.0]), np.array([[4.0], [12.0]]))
    array([[ 5.        ,  6.40312424],
           [12.36931688, 13.        ]])
    """
    options = None if plain(num_threads, chunk_size) else as_options(num_threads, schedule, chunk_size)
    function = find(f) if dtype is None and type(f) is not partial else None
    if function is None or function.may_complain():
        return map_elements(f, xs, out, dtype, options or as_options(num_threads, schedule, chunk_size))[0]
    if function._python:
        function.refresh()
    key, shortcuts = type_key(xs), function._shortcuts
    results = take_shortcut(shortcuts, key, xs, schedule, options, out) if key is not None else None
    if results is not None:
        return results[0] if len(results) == 2 else results[:len(results) - 1]
    y, call = map_elements(f, xs, out, None, options or as_options(num_threads, schedule, chunk_size))
    if key is not None and call.kind == "array" and len(call.arguments) == len(xs):
        chars, kernel = tuple([x.dtype.char for x in xs]), call.frame.kernel
        planned = kernel.map(chars, kernel.results)
        shortcuts[key] = Elementwise(planned.program, "".join(chars), "".join(kernel.results))
    return y


@register_rule(tmap)
def tmap_rrule(f, *xs, wrt=None, residuals="auto", out=None, dtype=None, num_threads=None, schedule="dynamic",
               chunk_size=None):
    """The rule of `tmap`: see `rrule`."""
    usual = (out is None and dtype is None and wrt is None and type(residuals) is str and residuals == "auto"
             and plain(num_threads, chunk_size) and type(f) is not partial)
    function = find(f) if usual else None
    key = type_key(xs) if usual and not function.may_complain() else None
    if key is None:
        y, pull = forward(f, xs, wrt, residuals, out, dtype, as_options(num_threads, schedule, chunk_size))
        return y, make_pullback(pull)
    if function._python:
        function.refresh()
    shortcuts = function._shortcuts
    results = take_shortcut(shortcuts, (key, AHEAD), xs, schedule, None, None)
    if results is not None:
        return results[0], make_short_pullback(function, shortcuts[key, BACK], xs, results, schedule)
    y, pull = forward(f, xs, None, "auto", None, None, as_options(None, schedule, None))
    kernel = pull.frame.kernel
    if (pull.kind == "array" and len(pull.inputs) == len(xs) and len(kernel.results) == 1
            and pull.wanted and kernel.active):
        leave_shortcuts(shortcuts, key, tuple([x.dtype.char for x in xs]), pull)
    return y, make_pullback(pull)


cdef leave_shortcuts(dict shortcuts, key, tuple chars, pull):
    """Programs for arrays of these types and one shape: forward, and back with a cotangent of the result's own type."""
    cdef tuple wanted = pull.wanted
    kernel, saves = pull.frame.kernel, pull.residuals is not None
    outputs = kernel.results
    ahead = kernel.forward(chars, outputs, wanted, save=saves)
    sinks = tuple([Sink("array", pull.inputs[i].dtype.char, pull.inputs[i].dtype.kind != "c") for i in wanted])
    if saves:
        back = kernel.pull_saved(wanted, ahead.chars, outputs, sinks)
        inputs = "".join(ahead.chars)
    else:
        back = kernel.pull(chars, wanted, outputs, sinks)
        inputs = "".join(chars)
    # The cotangent comes after these; it is always read where there is a derivative.
    reads = tuple([k for k in back.reads if k < len(inputs)])
    if len(reads) == len(back.reads):
        return
    read = "".join([inputs[k] for k in reads]) + outputs[0]
    back_program = Elementwise(back.program, read, "".join([sink.char for sink in sinks]))
    shortcuts[key, BACK] = (back_program, kernel, wanted, [to.dtype for to in pull.inputs], reads, saves)
    shortcuts[key, AHEAD] = Elementwise(ahead.program, "".join(chars), outputs[0] + "".join(ahead.chars))


cdef class MapPullback:
    """The pullback of `tmap`: ``back(dy, out=None)`` returns ``(NoTangent(), df, dx1, ..., dxk)``.

    Made by ``rrule(tmap, ...)``. It may be called many times, and from several threads.

    Attributes
    ----------
    nbytes : int
        Bytes of the partial derivatives that it keeps; inputs are held by reference and not counted.
    """

    cdef object _pull          # the long way; made when first needed if there is a shortcut
    cdef Elementwise short     # the shortcut, and what the long way would start from
    cdef object function
    cdef object kernel
    cdef tuple wanted
    cdef list dtypes           # of the cotangents of all arguments
    cdef tuple reads           # which arguments the program starts from, unless partials are saved
    cdef bint saves
    cdef tuple held            # the arrays that the program starts from
    cdef tuple shape
    cdef object schedule

    def __init__(self):
        raise TypeError("a pullback is made by rrule(tmap, ...)")

    def __call__(self, dy, out=None):
        cdef tuple results
        cdef list cotangents
        cdef int k
        if (self.short is not None and out is None and cnp.PyArray_CheckExact(dy) and dy.shape == self.shape
                and not self.function.may_complain()):
            results = self.short.launch((*self.held, dy), get_num_threads, KNOWN_SCHEDULES[self.schedule], 0, None)
            if results is not None and results[len(results) - 1] is None:
                cotangents = [NOTHING] * (2 + len(self.dtypes))
                for k, i in enumerate(self.wanted):
                    cotangents[2 + i] = results[k]
                return tuple(cotangents)
        return self.pull(dy, out)

    @property
    def pull(self):
        if self._pull is None:
            saved, held = (self.held, ()) if self.saves else (None, self.reads)
            arrays = [placeholder(char, self.shape) for char in self.kernel.loop.in_chars]
            for k, array in zip(held, self.held):
                arrays[k] = array
            frame = Frame(self.function, self.kernel, self.shape, tuple(arrays))
            inputs = [Input(self.shape, "array", dtype) for dtype in self.dtypes]
            self._pull = Pull(frame, inputs, list(range(len(inputs))), {}, "array", self.wanted, saved,
                              as_options(None, self.schedule, None))
        return self._pull

    @property
    def nbytes(self):
        return self.pull.nbytes

    def __reduce__(self):
        raise TypeError("a pullback cannot be pickled or copied: it belongs to its forward pass in this process")

    def __repr__(self):
        pull = self.pull
        kept = f"{pull.nbytes} bytes of partial derivatives" if pull.residuals is not None else "the inputs"
        return f"<pullback of tmap({pull.frame.function.name}) for shape {pull.frame.shape}, keeps {kept}>"


cdef MapPullback make_pullback(pull):
    cdef MapPullback back = MapPullback.__new__(MapPullback)
    back._pull = pull
    return back


cdef MapPullback make_short_pullback(function, tuple known, tuple xs, tuple results, schedule):
    cdef MapPullback back = MapPullback.__new__(MapPullback)
    back.short, back.kernel, back.wanted, back.dtypes, back.reads, back.saves = known
    back.function, back.schedule = function, schedule
    # Views: the shapes and types of the user's own arrays may be changed in place.
    held = []
    for k in back.reads:      # not a comprehension: see Elementwise.launch
        held.append(xs[k].view())
    back.held = results[1:len(results) - 1] if back.saves else tuple(held)
    back.shape = results[0].shape
    return back


call_with(tmap)
