"""A loop called as the core calls it, but by hand: only what it was given can explain what it did."""

import ctypes

import numpy as np

from tmapad._core import Loop


class State(ctypes.Structure):
    """As tmapad_chunk_state."""

    _fields_ = (("index", ctypes.c_ssize_t), ("stop", ctypes.POINTER(ctypes.c_int)))


_LOOP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


def call(loop: Loop, *inputs: object, stop: int = 0) -> tuple[int, int, list[np.ndarray]]:
    """Return its status, where it stopped, and its outputs. An input of one element is uniform."""
    arrays = [np.atleast_1d(np.asarray(x, dtype=char)) for x, char in zip(inputs, loop.in_chars, strict=True)]
    n = max(x.size for x in arrays)
    arrays += [np.full(n, -99, char) for char in loop.out_chars]
    pointers = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    steps = (ctypes.c_ssize_t * len(arrays))(*(x.strides[0] if x.size == n else 0 for x in arrays))
    state = State(-1, ctypes.pointer(ctypes.c_int(stop)))
    stopped = _LOOP(loop.address)(pointers, n, steps, loop.data, ctypes.addressof(state))
    return stopped, state.index, arrays[loop.nin :]


def run(loop: Loop, *inputs: object) -> np.ndarray:
    """Return the outputs of a loop that is expected to succeed: one array, or a row for each output."""
    stopped, _, outputs = call(loop, *inputs)
    assert stopped == 0
    return outputs[0] if len(outputs) == 1 else np.array(outputs)
