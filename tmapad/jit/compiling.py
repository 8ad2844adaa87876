"""Compilations that no signal handler interrupts."""

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def undisturbed(work: Callable[[], T]) -> T:
    """Run `work` where signal handlers cannot raise, and return what it returns.

    Handlers run on the main thread, between any two instructions. An exception there would leave Numba half
    imported, or llvmlite with memory that it frees twice. So the main thread has the work done by another one and
    waits: what a handler raises ends the waiting at once, and the work in its own time.
    """
    if threading.current_thread() is not threading.main_thread() or holds_compiler_lock():
        return work()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failure.append(error)

    thread = threading.Thread(target=run, name="tmapad compiler")
    try:
        thread.start()
    except RuntimeError:  # there are no new threads while the interpreter ends
        return work()
    thread.join()
    if failure:
        raise failure.pop()
    return outcome.pop()


def holds_compiler_lock() -> bool:
    """Whether this thread is compiling already, so that another one would wait for it."""
    module = sys.modules.get("numba.core.compiler_lock")
    lock = getattr(module, "global_compiler_lock", None)
    return lock is not None and bool(lock.is_locked())
