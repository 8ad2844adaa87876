"""A loop called as the core calls it, but by hand: only what it was given can explain what it did."""

import ctypes
from collections.abc import Callable

import numpy as np

from tmapad._core import Loop
from tmapad.jit import PythonFunction, as_inputs


class State(ctypes.Structure):
    """As tmapad_chunk_state."""


POLL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(State))
State._fields_ = (("index", ctypes.c_ssize_t), ("stop", ctypes.POINTER(ctypes.c_int)), ("poll", POLL))

_LOOP = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class Bound:
    """A loop of a Python function, and what this captured, as of now: its last arguments."""

    def __init__(self, loop: Loop, function: PythonFunction) -> None:
        self.loop, self.types, self.out_chars, self.can_fail = loop, loop.types, loop.out_chars, loop.can_fail
        self.nin, self.nout = loop.nin, loop.nout
        self.captured = [part for one, now in function.captured() for part in as_inputs(now, one.type)[0]]


class Polls:
    """To be polled: counts that, and says stop once."""

    def __init__(self, stop_at: int = 0) -> None:
        self.count = 0
        self.stop_at = stop_at

    def __call__(self) -> int:
        self.count += 1
        return int(self.count == self.stop_at)


def call(
    loop: Loop | Bound, *inputs: object, stop: int = 0, poll: Callable[[], int] = lambda: 0
) -> tuple[int, int, list[np.ndarray]]:
    """Return its status, where it stopped, and its outputs. An input of one element is uniform."""
    if isinstance(loop, Bound):
        loop, inputs = loop.loop, (*inputs, *loop.captured)
    arrays = [np.atleast_1d(np.asarray(x, dtype=char)) for x, char in zip(inputs, loop.in_chars, strict=True)]
    n = max(x.size for x in arrays)
    arrays += [np.full(n, -99, char) for char in loop.out_chars]
    pointers = (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
    steps = (ctypes.c_ssize_t * len(arrays))(*(x.strides[0] if x.size == n else 0 for x in arrays))
    state = State(-1, ctypes.pointer(ctypes.c_int(stop)), POLL(lambda _: poll()))
    stopped = _LOOP(loop.address)(pointers, n, steps, loop.data, ctypes.addressof(state))
    return stopped, state.index, arrays[loop.nin :]


def run(loop: Loop | Bound, *inputs: object) -> np.ndarray:
    """Return the outputs of a loop that is expected to succeed: one array, or a row for each output."""
    stopped, _, outputs = call(loop, *inputs)
    assert stopped == 0
    return outputs[0] if len(outputs) == 1 else np.array(outputs)
