"""What no thread may be in the middle of while another one forks.

A child inherits locks, but not the threads that hold them: it would wait for ever. So whoever forks waits until
the locks are free, and holds them meanwhile.
"""

import concurrent.futures.thread  # noqa: F401 - see the end
import logging  # noqa: F401
import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tmapad.jit.compiling import holds_compiler_lock

_imports = threading.RLock()
# In the order in which they are acquired, after that one. Whoever needs two of them must keep to it.
_locks: list[AbstractContextManager[Any]] = []
_held: list[AbstractContextManager[Any]] = []


def importing() -> AbstractContextManager[Any]:
    """Give what is to be held while a module is imported when it is first needed: Python has a lock for each module.

    Who holds Numba's lock holds what comes after this one, and keeps others from forking by that.
    """
    return nullcontext() if holds_compiler_lock() else _imports


def hold_over_forks(lock: AbstractContextManager[Any]) -> None:
    """Let nobody fork while a thread holds `lock`, which is acquired before those that came earlier."""
    _locks.insert(0, lock)


def _before() -> None:
    _imports.acquire()
    _held.append(_imports)
    for lock in _locks:  # no others are added: that happens where modules are imported
        lock.__enter__()
        _held.append(lock)


def _after() -> None:
    while _held:
        _held.pop().__exit__(None, None, None)


# Hooks run in the reverse order of their registration. Numba imports logging and concurrent.futures, which have locks
# and hooks of their own, while it holds its lock: imported before this, theirs are taken after ours, as there. All of
# this is done on import, since a hook that is registered while another thread forks runs after the fork, not before.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
