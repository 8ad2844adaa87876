"""Let assignment expressions be compiled: ``if (n := f(x)) > 0``.

CPython copies the value and stores one of both. Numba takes the copy for the variable itself when it simplifies
assignments, and then has a name without a value. Stored, and loaded again, it is the same to Python and clear to Numba.
The instructions keep their places.
"""

import dis
from types import CodeType, FunctionType

_STORE, _LOAD, _COPY = dis.opmap["STORE_FAST"], dis.opmap["LOAD_FAST"], dis.opmap["COPY"]
# Of CPython 3.13: stores the first of two variables, named by the halves of a byte, and loads the second.
_STORE_AND_LOAD = dis.opmap.get("STORE_FAST_LOAD_FAST")
_LOAD_TWO = dis.opmap.get("LOAD_FAST_LOAD_FAST")
_HALF = 16
_UNIT = 2  # bytes of an instruction


def stored_first(function: FunctionType) -> FunctionType:
    """Make a function that stores where `function` copies and stores; itself if it does not."""
    code = _stored_first(function.__code__)
    return function if code is function.__code__ else _with_code(function, code)


def _stored_first(code: CodeType) -> CodeType:
    constants = tuple(_stored_first(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    changed = bytearray(code.co_code)
    for at in range(0, len(changed) - _UNIT, _UNIT):
        operation, argument, following, variable = changed[at : at + 2 * _UNIT]
        if (operation, argument) != (_COPY, 1):
            continue
        if following == _STORE:
            changed[at : at + 2 * _UNIT] = bytes([_STORE, variable, _LOAD, variable])
        elif following == _STORE_AND_LOAD and _LOAD_TWO is not None:
            changed[at : at + 2 * _UNIT] = bytes([_STORE, variable // _HALF, _LOAD_TWO, variable])
    if bytes(changed) == code.co_code and all(a is b for a, b in zip(constants, code.co_consts, strict=True)):
        return code
    return code.replace(co_code=bytes(changed), co_consts=constants)


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    copy.__qualname__ = function.__qualname__
    return copy
