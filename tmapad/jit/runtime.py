"""Numba's run time, for code from the cache that calls it: arrays in a function, and what Numba has in C."""

from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

import tmapad.jit.frontend  # noqa: F401 - which sees to it that nobody forks while the lock is held


def initialize() -> None:
    """Make its functions known to LLVM, as Numba does when it compiles something that calls them."""
    with global_compiler_lock:
        rtsys.initialize(cpu_target.target_context)
