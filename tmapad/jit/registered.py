"""Registered functions in LLVM IR: calls of functions that are not inlined before the derivative is taken.

Such a function is not differentiated by its code but by what was registered, see `chain`; where nothing was, that is
refused. Its symbol says which it is, and the types: ``tmapad.registered.7:dd->d`` is the function with the number 7 in
this process, ``tmapad.registered.7.2:dd->d`` the second of the functions that its derivative consists of. What it
captured comes after its arguments, and after a semicolon. If its name ends in ``!`` it may raise: its first result is
then the status. With ``~`` before the colon it was given float64, but has float32 only.

Compiled Python functions are linked in. Native code is called by symbols that are bound to addresses in this process.
"""

from __future__ import annotations

import itertools
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from tmapad._protocol import ArgType, GivenDerivative, Implementation, Registered
from tmapad.jit.arity import calling
from tmapad.jit.canonical import to_be_inlined
from tmapad.jit.emit import real
from tmapad.jit.given import inner, python_of, with_parts
from tmapad.jit.scalar import NATIVE, REGISTERED, ScalarIR, renamed, slots

if TYPE_CHECKING:
    from tmapad.jit.captures import Capture

_SYMBOL = re.compile(
    rf"{re.escape(REGISTERED)}(?P<number>\d+)(\.(?P<part>\d+))?(?P<raises>!?)(?P<narrowed>~?)"
    r":(?P<inputs>[^-;]*)(?P<captured>;[^-]*)?->(?P<outputs>.*)"
)
_COUNT = itertools.count(1)
_NUMBERS: weakref.WeakKeyDictionary[Registered, int] = weakref.WeakKeyDictionary()
_NUMBERED: weakref.WeakValueDictionary[int, Registered] = weakref.WeakValueDictionary()
_REAL = {"f": "f", "F": "f", "d": "d", "D": "d"}
_INT = np.dtype(np.intc).char
_UNBOUND = "unbound"
_SINGLE = str.maketrans("dD", "fF")


class Callee(NamedTuple):
    """A function that is called as a whole: the value of a registered function, or a function of its derivative.

    Attributes
    ----------
    given : Registered
    part : int
        0 for its value, else the number of a function of its derivative.
    """

    given: Registered
    part: int = 0

    @property
    def implementation(self) -> Implementation:
        """What runs."""
        return with_parts(self.given)[self.part]

    @property
    def is_inlined(self) -> bool:
        """Whether its own code is differentiated."""
        is_given = not self.part and isinstance(self.given.form, GivenDerivative)
        return python_of(self.implementation) is not None and not is_given


class Code(NamedTuple):
    """What is called for arguments of certain types.

    Attributes
    ----------
    callee : Callee
    inputs, outputs : str
        NumPy's characters for the types of arguments and results.
    raises : bool
        It gives a status first.
    captures : sequence of Capture
        What comes after the arguments.
    bound : mapping
        Arguments that are constants, by position among all.
    body : ScalarIR, tuple or Loop
        What runs: a Python function; address and last parameter of a C function; a loop, for one element.
    narrowed : bool
        The arguments do not fit without loss.
    """

    callee: Callee
    inputs: str
    outputs: str
    raises: bool
    captures: Sequence[Capture]
    bound: dict[int, Any]
    body: Any
    narrowed: bool = False

    @property
    def symbol(self) -> str:
        """How it is called."""
        given, part = self.callee
        if given not in _NUMBERS:
            _NUMBERS[given] = next(_COUNT)
            _NUMBERED[_NUMBERS[given]] = given
        name = f"{REGISTERED}{_NUMBERS[given]}{f'.{part}' if part else ''}{'!' * self.raises}{'~' * self.narrowed}"
        return f"{name}:{self.inputs}{';' if self.captures else ''}{self.captured}->{_INT * self.raises}{self.outputs}"

    @property
    def captured(self) -> str:
        """NumPy's characters for what comes after the arguments."""
        return "".join(capture.chars for capture in self.captures)

    @property
    def result(self) -> str:
        """The type of LLVM that it returns."""
        return struct_of(self.outputs, self.raises)


def struct_of(outputs: str, raises: bool) -> str:
    """The type of LLVM for results: one as it is, several and a status in a struct."""
    results = ["i32"] * raises + [slot for char in outputs for slot in slots(char)]
    return results[0] if len(results) == 1 else f"{{ {', '.join(results)} }}"


def code_for(callee: Callee, types: Sequence[np.dtype[Any]]) -> Code:
    """Find what is called for arguments of these types.

    Raises
    ------
    TypeError
        There is nothing, or nothing that may be called on a thread of a parallel map.
    """
    given, part = callee.given, callee.implementation
    why = "" if given.threadsafe else "was registered with threadsafe=False, and runs on one thread alone"
    if getattr(inner(part), "raises", False):
        why = "was registered with raises=True, and its exceptions would be lost"
    if why:
        raise TypeError(f"{part.name} cannot be called from a compiled Python function: it {why}")
    bound = dict(getattr(part, "values", {}))
    free = iter(types)
    every = [type(bound[i]) if i in bound else next(free) for i in range(len(types) + len(bound))]
    if python_of(part) is not None:
        return _python(callee, every, bound)
    loop, narrowed = _loop(inner(part), every)
    inputs = "".join(char for i, char in enumerate(loop.in_chars) if i not in bound)
    scalar = _of_ufunc(inner(part).ufunc, loop.types) if hasattr(inner(part), "ufunc") else None
    if scalar is not None:
        return Code(callee, inputs, loop.out_chars, True, (), bound, scalar, narrowed)
    if loop.raises:
        raise TypeError(f"{part.name} cannot be called from a compiled Python function: it may raise for these types")
    native = getattr(inner(part), "native", lambda char: None)
    address = native(loop.in_chars[0]) if loop.in_chars[0] in "fd" else None
    body = loop if address is None else address
    return Code(callee, inputs, loop.out_chars, address is None and loop.can_fail, (), bound, body, narrowed)


def _loop(part: Implementation, types: Sequence[ArgType]) -> tuple[Any, bool]:
    """The loop for these types; that in single precision, if there is no other, and whether it is that."""
    try:
        return part.loop(tuple(types)), False
    except TypeError:
        single = tuple(one if isinstance(one, type) else np.dtype(one.char.translate(_SINGLE)) for one in types)
        try:
            return part.loop(single), True
        except TypeError:
            pass
        raise


def _python(callee: Callee, types: Sequence[ArgType], bound: dict[int, Any]) -> Code:
    part = inner(callee.implementation)
    names = {callee.given.implementation.parameters[i] for i in callee.given.nondiff}
    scalar = _compiled(part, lambda: part.scalar(tuple(types), integer=frozenset(names) & set(part.parameters)))
    inputs = "".join(char for i, char in enumerate(scalar.in_chars[: len(types)]) if i not in bound)
    return Code(callee, inputs, scalar.out_chars, True, scalar.captures, bound, scalar)


@lru_cache(256)
def _of_ufunc(ufunc: np.ufunc, types: str) -> ScalarIR | None:
    """What compiled code runs for a ufunc that is not registered, if it knows that one for these types."""
    from tmapad.jit.frontend import scalar_ir  # which imports Numba

    try:  # a ufunc has no code to compile; what calls one has
        scalar = scalar_ir(calling(ufunc, ufunc.nin), types.partition("->")[0])
    except TypeError:
        return None
    return scalar if f"{scalar.in_chars}->{scalar.out_chars}" == types else None


class _Compiling(threading.local):
    """Functions that are being compiled on this thread."""

    def __init__(self) -> None:
        self.parts: list[Any] = []


_COMPILING = _Compiling()


def _compiled(part: Any, make: Callable[[], ScalarIR]) -> ScalarIR:
    if part in _COMPILING.parts:
        raise TypeError(f"{part.name} calls itself by way of another registered function, which cannot be compiled")
    _COMPILING.parts.append(part)
    try:
        return make()
    finally:
        _COMPILING.parts.pop()


# ------------------------------------------------------------------------------------------------ symbols


class Called(NamedTuple):
    """What a symbol says."""

    callee: Callee
    inputs: str
    outputs: str
    raises: bool
    narrowed: bool


def called(symbol: str) -> Called | None:
    """Read the symbol of a registered function; None for other symbols."""
    found = _SYMBOL.fullmatch(symbol)
    given = _NUMBERED.get(int(found["number"])) if found else None
    if found is None or given is None:
        return None
    raises = bool(found["raises"])
    callee = Callee(given, int(found["part"] or 0))
    return Called(callee, found["inputs"], found["outputs"][raises:], raises, bool(found["narrowed"]))


def captured_by(call: Called) -> list[str]:
    """Give for each value that comes after the arguments how its variable is called."""
    code = code_for(call.callee, [np.dtype(char) for char in call.inputs])
    return [capture.path for capture in code.captures for char in capture.chars for _ in slots(char)]


def _code_of(symbol: str) -> Code | None:
    """The code that has exactly this symbol."""
    found = called(symbol)
    if found is None:
        return None
    try:
        code = code_for(found.callee, [np.dtype(char) for char in found.inputs])._replace(narrowed=found.narrowed)
    except TypeError:
        return None
    return code if code.symbol == symbol else None


def narrowed(llvm: str) -> Registered | None:
    """Give a registered function that a module calls with float64 although it has float32 only."""
    calls = (called(found[0]) for found in _SYMBOL.finditer(llvm) if found["narrowed"])
    return next((call.callee.given for call in calls if call is not None), None)


def is_defined(symbol: str) -> bool:
    """Whether it is the symbol of a registered function, and this has code for exactly these types."""
    return symbol.startswith(REGISTERED) and _code_of(symbol) is not None


def in_single(symbol: str) -> str:
    """Give the symbol of the same function for arguments in single precision; what it captured stays what it is."""
    found = _SYMBOL.fullmatch(symbol)
    assert found is not None
    inputs, outputs = (found[group].translate(_SINGLE) for group in ("inputs", "outputs"))
    return f"{symbol[: found.start('inputs')]}{inputs}{found['captured'] or ''}->{outputs}"


def captured_slots(symbol: str) -> list[str]:
    """Give the types in LLVM of what comes after the arguments."""
    found = _SYMBOL.fullmatch(symbol)
    captured = (found["captured"] or ";")[1:] if found else ""
    return [slot for char in captured for slot in slots(char)]


# ------------------------------------------------------------------------------------------------ definitions


def definition(symbol: str) -> Any:
    """Give a module that defines a registered function, to be linked."""
    code = _code_of(symbol)
    assert code is not None
    attributes = "alwaysinline nounwind" if code.callee.is_inlined else "noinline nounwind"
    if isinstance(code.body, ScalarIR):
        body = to_be_inlined(code.body.llvm)
        if not code.bound:
            return llvm.parse_assembly(renamed(body, symbol, attributes))
        text = f"{renamed(body, _UNBOUND, 'alwaysinline nounwind')}\n{_around(code, attributes)}"
        module = llvm.parse_assembly(text)
        module.get_function(_UNBOUND).linkage = "internal"
        return module
    if isinstance(code.body, tuple):
        return llvm.parse_assembly(_around_pointer(code, attributes))
    return llvm.parse_assembly(_around_loop(code, attributes))


def _head(code: Code, attributes: str) -> str:
    kinds = [slot for char in code.inputs + code.captured for slot in slots(char)]
    arguments = ", ".join(f"{kind} %x{number}" for number, kind in enumerate(kinds))
    return f'define {code.result} @"{code.symbol}"({arguments}) {attributes} {{'


def _arguments(code: Code) -> list[tuple[str, str]]:
    """Types and values of the arguments of what runs, the constants among them."""
    given = itertools.count()
    free = iter(code.inputs)
    result = []
    total = len(code.inputs) + len(code.bound)
    every = code.body.in_chars[:total] if not isinstance(code.body, tuple) else code.inputs[:1] * total
    for position, char in enumerate(every):
        if position in code.bound:
            result += list(zip(slots(char), _constant(code.bound[position], char), strict=True))
        else:
            result += [(slot, f"%x{next(given)}") for slot in slots(next(free))]
    return result


def _constant(value: Any, char: str) -> list[str]:
    number = np.array(value).astype(char)
    if char not in _REAL:
        return [str(int(number))]
    type_ = slots(char)[0]
    return [real(float(part), type_) for part in ([number.real, number.imag] if char in "FD" else [number])]


def _around(code: Code, attributes: str) -> str:
    """Call a Python function with the constants that were bound."""
    given = _arguments(code)
    first = sum(len(slots(char)) for char in code.inputs)
    captured = [slot for char in code.captured for slot in slots(char)]
    given += [(slot, f"%x{first + number}") for number, slot in enumerate(captured)]
    arguments = ", ".join(f"{kind} {value}" for kind, value in given)
    call = f'%y = call {code.result} @"{_UNBOUND}"({arguments})'
    return f"{_head(code, attributes)}\n{call}\nret {code.result} %y\n}}\n"


def _bind(code: Code, what: str, address: int) -> str:
    """Make an address known by a symbol; no code then has it in itself."""
    symbol = f"{NATIVE}{what}.{code.symbol.removeprefix(REGISTERED)}"
    llvm.add_symbol(symbol, address)
    return f'@"{symbol}"'


def _around_pointer(code: Code, attributes: str) -> str:
    """Call a C function of real numbers."""
    address, trailing = code.body
    name = _bind(code, "function", address)
    given = _arguments(code)
    if trailing:
        given.append(("i32", "0"))  # Cython's last int: do not look for the Python twin
    kinds = ", ".join(kind for kind, _ in given)
    arguments = ", ".join(f"{kind} {value}" for kind, value in given)
    call = f"%y = call {code.result} {name}({arguments})"
    declared = f"declare {code.result} {name}({kinds})"
    return f"{declared}\n{_head(code, attributes)}\n{call}\nret {code.result} %y\n}}\n"


def _around_loop(code: Code, attributes: str) -> str:
    """Run a loop, in the calling convention of ``_abi.h``, for one element."""
    loop = code.body
    name, data = _bind(code, "function", loop.address), _bind(code, "data", loop.data) if loop.data else "null"
    poll = f"@{NATIVE}no_poll"
    allocated: list[str] = []
    stored: list[str] = []
    given = iter(_arguments(code))
    chars = loop.in_chars + loop.out_chars
    for number, char in enumerate(chars):
        kinds = slots(char)
        allocated.append(f"%a{number} = alloca [{len(kinds)} x {kinds[0]}]")
        stored += [f"%p{number} = getelementptr ptr, ptr %args, i64 {number}", f"store ptr %a{number}, ptr %p{number}"]
        for place, kind in enumerate(kinds if number < len(loop.in_chars) else ()):
            _, value = next(given)
            stored += [
                f"%a{number}.{place} = getelementptr {kind}, ptr %a{number}, i64 {place}",
                f"store {kind} {value}, ptr %a{number}.{place}",
            ]
    allocated += [
        f"%args = alloca [{len(chars)} x ptr]",
        f"%steps = alloca [{len(chars)} x i64]",
        "%state = alloca { i64, ptr, ptr }",
        "%stop = alloca i32",
    ]
    stored += [
        f"store [{len(chars)} x i64] zeroinitializer, ptr %steps",
        "store i32 0, ptr %stop",
        "store { i64, ptr, ptr } zeroinitializer, ptr %state",
        "%flag = getelementptr { i64, ptr, ptr }, ptr %state, i32 0, i32 1",
        "store ptr %stop, ptr %flag",
        "%poll = getelementptr { i64, ptr, ptr }, ptr %state, i32 0, i32 2",
        f"store ptr {poll}, ptr %poll",
        f"%status = call i32 {name}(ptr %args, i64 1, ptr %steps, ptr {data}, ptr %state)",
    ]
    results = ["%status"] * code.raises
    for number, char in enumerate(loop.out_chars, len(loop.in_chars)):
        for place, kind in enumerate(slots(char)):
            stored += [
                f"%r{number}.{place} = getelementptr {kind}, ptr %a{number}, i64 {place}",
                f"%y{number}.{place} = load {kind}, ptr %r{number}.{place}",
            ]
            results.append(f"%y{number}.{place}")
    if len(results) == 1:
        returned = results[0]
    else:
        kinds_ = code.result.strip("{ }").split(", ")
        returned = "poison"
        for number, (kind, value) in enumerate(zip(kinds_, results, strict=True)):
            stored.append(f"%s{number} = insertvalue {code.result} {returned}, {kind} {value}, {number}")
            returned = f"%s{number}"
    lines = [
        f"declare i32 {name}(ptr, i64, ptr, ptr, ptr)",
        *([f"{data} = external global i8"] if loop.data else []),
        f"define internal i32 {poll}(ptr %state) {{\nret i32 0\n}}",
        _head(code, attributes),
        *allocated,
        *stored,
        f"ret {code.result} {returned}",
        "}",
    ]
    return "\n".join(lines) + "\n"
