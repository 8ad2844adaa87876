"""How many threads Python knows: it keeps a state for each, whether it runs Python code or not."""

import ctypes

_head = ctypes.pythonapi.PyInterpreterState_Head
_first = ctypes.pythonapi.PyInterpreterState_ThreadHead
_next = ctypes.pythonapi.PyThreadState_Next
_head.restype = _first.restype = _next.restype = ctypes.c_void_p
_head.argtypes, _first.argtypes, _next.argtypes = (), (ctypes.c_void_p,), (ctypes.c_void_p,)


def thread_states() -> int:
    """Count them, in the main interpreter."""
    count, state = 0, _first(_head())
    while state:
        count, state = count + 1, _next(state)
    return count
