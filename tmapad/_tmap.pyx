# cython: language_level=3, binding=True
"""tmap and its rule: the compiled entry points.

Most calls are alike: the same function, plain arrays of the same types and of one shape. The first such call
goes the long way (`_call`, `_pullback`) and leaves a shortcut in the function: a program ready to be launched
on arrays of these types. Anything a shortcut cannot take, it declines, and the long way is taken; so
shortcuts decide nothing. Of an element that fails, what the long way would raise is raised.
"""

from functools import partial

cimport numpy as cnp
from tmapad._core cimport Elementwise

from tmapad._call import Frame, as_options, map_elements, raise_known, tangent_of_captures
from tmapad._core import SCHEDULES
from tmapad._find import find
from tmapad._function import call_with
from tmapad._pullback import Pull, forward, placeholder
from tmapad._targets import KEEP_TERMS, Input, Target, total_of
from tmapad._rules import register_rule
from tmapad._tangents import NO_TANGENT
from tmapad._threads import get_num_threads

cnp.import_array()

cdef object NOTHING = NO_TANGENT

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


cdef tuple take_shortcut(
    f, tuple xs, Elementwise shortcut, tuple captured, object schedule, object options, object out
):
    """Results of a shortcut, if there is one, or None. `captured` is what `captured_now` gives.

    Without `options` the number of threads and the chunks are the usual ones.
    """
    number = KNOWN_SCHEDULES.get(schedule) if type(schedule) is str else None
    if shortcut is None or number is None:
        return None
    inputs, read = (*xs, *captured[0]), captured[1].values()
    if options is None:
        results = shortcut.launch(inputs, get_num_threads, number, 0, out, read)
    else:
        threads, chunk_size = options.num_threads, options.chunk_size or 0
        results = shortcut.launch(inputs, threads, number, chunk_size, out, read)
    if results is not None and results[len(results) - 1] is not None:
        raise_known(f, xs, shortcut.program, results[len(results) - 1])
        return None
    return results


def tmap(f, *xs, out=None, dtype=None, num_threads=None, schedule="dynamic", chunk_size=None, progress=False):
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
    progress : bool or callable, optional
        True: show a bar (tqdm, in notebooks too) if the call lasts more than half a second. A function is called
        as ``progress(done, total)``, numbers of elements, on the calling thread: every 50 ms or so, as far as
        elements let it, and at the end with ``(total, total)``. What it raises ends the call.

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
        What a Python function `f` raises, or one registered with ``raises=True``, for the lowest element at which
        it does, with a note that names it; or what `progress` raises. Arrays given as `out` are then in an
        unspecified state.
    FloatingPointError
        If `numpy.errstate` asks for it; `out` has its values then. By default there is a RuntimeWarning.
    ImportError
        A Python function must be compiled and there is no Numba, or ``progress=True`` and there is no tqdm.

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
    if progress is not False:
        return map_elements(f, xs, out, dtype, as_options(num_threads, schedule, chunk_size, progress))[0]
    options = None if plain(num_threads, chunk_size) else as_options(num_threads, schedule, chunk_size)
    function = find(f) if dtype is None and type(f) is not partial else None
    if function is None or function.may_complain():
        return map_elements(f, xs, out, dtype, options or as_options(num_threads, schedule, chunk_size))[0]
    captured = captured_now(function)
    key, shortcuts = type_key(xs), function._shortcuts
    # A captured array may be what is written to: the long way sees to that.
    if key is not None and captured is not None and (out is None or not captured[1]):
        results = take_shortcut(f, xs, shortcuts.get(key), captured, schedule, options, out)
        if results is not None:
            return results[0] if len(results) == 2 else results[:len(results) - 1]
    y, call = map_elements(f, xs, out, None, options or as_options(num_threads, schedule, chunk_size))
    # Unless the function was compiled anew meanwhile, for another value of what it captured.
    if (key is not None and call.kind == "array" and only_arrays(xs, call.mapped, call.frame.kernel)
            and function._shortcuts is shortcuts):
        chars, kernel = chars_of(xs, call.frame), call.frame.kernel
        planned = kernel.map(chars, kernel.results)
        shortcuts[key] = Elementwise(planned.program, "".join(chars), "".join(kernel.results),
                                     range(len(xs), len(chars)), planned.reads)
    return y


cdef tuple captured_now(function):
    """What the function's loops are given after the arguments; None if that is not certain."""
    if not function._python:
        return [], {}
    function.refresh()
    return function.inputs_of_captures()


cdef bint only_arrays(tuple xs, list mapped, kernel):
    """Whether all arguments of a function are mapped: none is bound or has its default."""
    return len(xs) == kernel.nin and mapped == list(range(len(xs)))


cdef tuple chars_of(tuple xs, frame):
    """Types of the arrays, and of what comes after them."""
    return (*[x.dtype.char for x in xs], *frame.chars[len(xs):])


@register_rule(tmap)
def tmap_rrule(f, *xs, wrt=None, residuals="auto", out=None, dtype=None, num_threads=None, schedule="dynamic",
               chunk_size=None, progress=False):
    """The rule of `tmap`: see `rrule`."""
    usual = (out is None and dtype is None and wrt is None and type(residuals) is str and residuals == "auto"
             and plain(num_threads, chunk_size) and progress is False and type(f) is not partial)
    function = find(f) if usual else None
    key = type_key(xs) if usual and not function.may_complain() else None
    if key is None:
        options = as_options(num_threads, schedule, chunk_size, progress)
        y, pull = forward(f, xs, wrt, residuals, out, dtype, options)
        return y, make_pullback(pull)
    captured = captured_now(function)
    shortcuts = function._shortcuts
    cdef cnp.npy_intp size = xs[0].size
    # What is done with the terms of captured numbers' cotangents depends on how many there are.
    key = key, min(size, 2) + (size > KEEP_TERMS)
    cdef Known known = shortcuts.get(key)
    if captured is not None and known is not None:
        results = take_shortcut(f, xs, known.ahead, captured, schedule, None, None)
        if results is not None:
            inputs = (*xs, *captured[0])
            return results[0], make_short_pullback(function, known, inputs, captured[1], results, schedule)
    y, pull = forward(f, xs, None, "auto", None, None, as_options(None, schedule, None))
    kernel = pull.frame.kernel
    if (pull.kind == "array" and only_arrays(xs, pull.mapped, kernel) and len(kernel.results) == 1
            and pull.wanted and kernel.active and not pull.arrays
            and all([x.shape == pull.frame.shape for x in xs]) and function._shortcuts is shortcuts
            and (pull.wanted[-1] < len(xs) or 0 < size <= KEEP_TERMS)):
        leave_shortcut(shortcuts, key, chars_of(xs, pull.frame), pull, len(xs), size)
    return y, make_pullback(pull)


cdef leave_shortcut(dict shortcuts, key, tuple chars, pull, int count, cnp.npy_intp size):
    """Programs for `count` arrays of these types and one shape: forward, and back with a cotangent of y's own type."""
    cdef tuple wanted = pull.wanted
    cdef Known known = Known.__new__(Known)
    kernel, saves = pull.frame.kernel, pull.residuals is not None
    outputs = kernel.results
    ahead = kernel.forward(chars, outputs, wanted, save=saves)
    sinks = tuple([Target(pull.inputs[i], pull.frame.shape, size, (), None, keep_terms=True).sink for i in wanted])
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
    numbers = () if saves else [place for place, k in enumerate(reads) if k >= count]
    written = "".join([sink.char if sink.where == "array" else char for sink, char in zip(sinks, back.chars)])
    known.ahead = Elementwise(ahead.program, "".join(chars), outputs[0] + "".join(ahead.chars),
                              range(count, len(chars)), ahead.reads)
    known.program, known.kernel, known.wanted = Elementwise(back.program, read, written, numbers), kernel, wanted
    known.chars, known.reads, known.saves, known.captures = chars, reads, saves, pull.captures
    known.inputs, known.count = pull.inputs, count
    shortcuts[key] = known


cdef class Known:
    """The shortcut of a gradient, and what its pullback must know."""

    cdef Elementwise ahead     # the forward pass
    cdef Elementwise program   # and the other one
    cdef object kernel
    cdef tuple wanted          # the arguments that get a cotangent
    cdef int count             # of the arguments that are mapped; others are captured
    cdef tuple chars           # types of all arguments
    cdef list inputs           # what a pullback must know of them; shapes of those mapped are other ones here
    cdef dict captures         # names of the captured ones
    cdef tuple reads           # which arguments the program starts from, unless partials are saved
    cdef bint saves


cdef class MapPullback:
    """The pullback of `tmap`: ``back(dy, out=None)`` returns ``(NoTangent(), df, dx1, ..., dxk)``.

    Made by ``rrule(tmap, ...)``. It may be called many times, and from several threads.

    Attributes
    ----------
    nbytes : int
        Bytes of the partial derivatives that it keeps; inputs are held by reference and not counted.
    """

    cdef object _pull          # the long way; made when first needed if there is a shortcut
    cdef Known short           # the shortcut, and what the long way would start from
    cdef object function
    cdef tuple held            # the arrays that the program starts from
    cdef dict arrays           # captured arrays, whose addresses are among these
    cdef tuple shape
    cdef object schedule

    def __init__(self):
        raise TypeError("a pullback is made by rrule(tmap, ...)")

    def __call__(self, dy, out=None):
        cdef tuple results
        if (self.short is not None and out is None and cnp.PyArray_CheckExact(dy) and dy.shape == self.shape
                and not self.function.may_complain()):
            results = self.short.program.launch((*self.held, dy), get_num_threads, KNOWN_SCHEDULES[self.schedule], 0,
                                                None, ())
            if results is not None and results[len(results) - 1] is not None:
                self.pull.raise_known(self.short.program.program, results[len(results) - 1])
            elif results is not None:
                return self.cotangents(results)
        return self.pull(dy, out)

    cdef tuple cotangents(self, tuple results):
        cdef Known known = self.short
        cdef list found = [NOTHING] * (2 + known.count)
        cdef dict captured = {}
        cdef int k
        for k, i in enumerate(known.wanted):
            if i < known.count:
                found[2 + i] = results[k]
            else:
                captured[known.captures[i]] = total_of(results[k], known.inputs[i])
        if captured:
            found[1] = tangent_of_captures(captured)
        return tuple(found)

    @property
    def pull(self):
        cdef Known known = self.short
        if self._pull is None:
            saved, held = (self.held, ()) if known.saves else (None, known.reads)
            arrays = [placeholder(char, self.shape if k < known.count else ()) for k, char in enumerate(known.chars)]
            for k, array in zip(held, self.held):
                arrays[k] = array
            frame = Frame(self.function, known.kernel, self.shape, tuple(arrays), self.arrays)
            mapped = [Input(self.shape, "array", to.dtype) for to in known.inputs[:known.count]]
            self._pull = Pull(frame, [*mapped, *known.inputs[known.count:]], list(range(known.count)), known.captures,
                              "array", known.wanted, saved, as_options(None, self.schedule, None))
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


cdef MapPullback make_short_pullback(function, Known known, tuple inputs, dict arrays, tuple results, schedule):
    cdef MapPullback back = MapPullback.__new__(MapPullback)
    cdef int count = known.count
    back.short, back.function, back.schedule = known, function, schedule
    if known.saves:
        back.held, back.arrays = results[1:len(results) - 1], {}
    else:
        back.arrays = {count + place: array for place, array in arrays.items() if count + place in known.reads}
        # Views: the shapes and types of the user's own arrays may be changed in place.
        held = []
        for k in known.reads:      # not a comprehension: see Elementwise.launch
            held.append(inputs[k].view() if k < count else inputs[k])
        back.held = tuple(held)
    back.shape = results[0].shape
    return back


call_with(tmap)
