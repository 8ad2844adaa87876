"""What a sanitizer must report: ``provoke.py address`` or ``thread``. Exits with 0 if nobody stops it.

Asked of tmapad is what no caller may ask: to read beyond an array, and to write one array from two threads.
"""

import ctypes
import sys
import threading

import numpy as np

from tmapad import tmap

sin = ctypes.CDLL(None).sin
sin.argtypes, sin.restype = [ctypes.c_double], ctypes.c_double


def address() -> None:
    """Read an element that is not there."""
    tmap(sin, np.lib.stride_tricks.as_strided(np.ones(1000), (1001,)))


def thread() -> None:
    """Write where another thread does."""
    x = np.linspace(0.0, 1.0, 100_000)
    y = np.empty_like(x)
    threads = [threading.Thread(target=tmap, args=(sin, x), kwargs={"out": y, "num_threads": 1}) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


if __name__ == "__main__":
    {"address": address, "thread": thread}[sys.argv[1]]()
