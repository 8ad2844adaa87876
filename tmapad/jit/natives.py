"""Registered C functions, for the Python functions that call them."""

import ctypes
from collections.abc import Callable
from typing import Any

from tmapad._protocol import Registered

# Cython's functions that have a Python twin take an int that says not to look for it: 0.
WITH_INT: dict[int, Callable[[Any], Any]] = {
    1: lambda f: lambda a: f(a, 0),
    2: lambda f: lambda a, b: f(a, b, 0),
    3: lambda f: lambda a, b, c: f(a, b, c, 0),
    4: lambda f: lambda a, b, c, d: f(a, b, c, d, 0),
    5: lambda f: lambda a, b, c, d, e: f(a, b, c, d, e, 0),
    6: lambda f: lambda a, b, c, d, e, g: f(a, b, c, d, e, g, 0),
}
NUMBERS = {"d": ctypes.c_double, "f": ctypes.c_float}


def as_function(given: Registered) -> Any:
    """Give what Numba can call: a ufunc, a ctypes function, or a Python function round one.

    Raises
    ------
    TypeError
        It has no real type, gets user data, may raise, or is not threadsafe.
    """
    implementation = given.implementation
    if (ufunc := getattr(implementation, "ufunc", None)) is not None:
        return ufunc
    native: Callable[[str], tuple[int, str] | None] = getattr(implementation, "native", lambda char: None)
    found = next(((char, *place) for char in NUMBERS if (place := native(char)) is not None), None)
    if found is None or not given.threadsafe:
        raise TypeError(f"{implementation.name} cannot be called from a compiled Python function")
    char, address, trailing = found
    kinds = [NUMBERS[char]] * implementation.nin
    if trailing == "int":
        function = ctypes.CFUNCTYPE(NUMBERS[char], *kinds, ctypes.c_int)(address)
        return WITH_INT[implementation.nin](function)
    return ctypes.CFUNCTYPE(NUMBERS[char], *kinds)(address)
