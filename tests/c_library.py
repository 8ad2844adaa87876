"""C functions that tests need and no library has: compiled once a session, by the compiler that built Python.

Besides functions of many arguments and complex ones there are functions that say how they were called: each
takes a `Record` as user data, counts its calls and notes the threads that made them.
"""

import atexit
import ctypes
import functools
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from foreign import from_capsule, from_ctypes, knows

SOURCE = Path(__file__).parent / "c_functions.c"
SHARED = ["-dynamiclib", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
NUMBERS = {"d": "double", "f": "float", "D": "double complex", "F": "float complex"}


@functools.cache
def library() -> ctypes.CDLL:
    """Build it, and load it."""
    folder = tempfile.mkdtemp(prefix="tmapad-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    built = Path(folder) / "functions.so"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    flags = [
        "-O2",
        "-ffp-contract=off",
        "-fPIC",
        "-pthread",
        *SHARED,
        f"-I{sysconfig.get_paths()['include']}",
    ]
    command = [*compiler, *flags, str(SOURCE), "-o", str(built), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


def address(name: str) -> int:
    return ctypes.cast(library()[name], ctypes.c_void_p).value or 0


def function(name: str, char: str = "d", nin: int = 1, *, user_data: bool = False) -> Any:
    """A pointer of a function of `nin` numbers of one type that returns another."""
    number = NUMBERS[char]
    signature = (number, *[number] * nin, *["void *"] * user_data)
    return (from_ctypes if knows(from_ctypes, signature) else from_capsule)(address(name), *signature)


def writer(name: str, nin: int, nout: int) -> Any:
    """A pointer of a function that writes its results through pointers."""
    return from_ctypes(address(name), "void", *["double"] * nin, *["double *"] * nout)


class Record(ctypes.Structure):
    """User data of the functions that say how they were called."""

    _fields_ = (
        ("calls", ctypes.c_int64),
        ("microseconds", ctypes.c_int64),
        ("known", ctypes.c_int64),
        ("thread", ctypes.c_size_t * 256),
    )

    @property
    def threads(self) -> int:
        """How many threads made calls."""
        return len(set(self.thread[: self.known]))

    def clear(self) -> None:
        self.calls = self.known = 0


class Tally(ctypes.Structure):
    """Data of `tally_loop`."""

    _fields_ = (("elements", ctypes.c_int64), ("sum", ctypes.c_int64), ("fail", ctypes.c_int64))


class Meeting(ctypes.Structure):
    """Data of `sleeps_elsewhere`: of the thread that is not to sleep, but waits so many milliseconds for another."""

    _fields_ = (("caller", ctypes.c_size_t), ("begun", ctypes.c_int64), ("patience", ctypes.c_int64))

    @classmethod
    def of_this_thread(cls, patience: int = 5000) -> "Meeting":
        made = cls(patience=patience)
        library().meet(ctypes.byref(made))
        return made
