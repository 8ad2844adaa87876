"""What a Python function reads from outside: code is never run that was made from values of the past."""

import math
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from run_loop import run

from tmapad.jit import PythonFunction, as_inputs, frontend, python_function
from tmapad.jit.references import References
from tmapad.jit.tokens import Address, token

F8 = np.dtype("f8")


def made(f: Any) -> PythonFunction:
    result = python_function(f)
    assert result is not None
    return result


def value(p: PythonFunction, x: float = 1.0) -> float:
    captured = [part for capture, now in p.captured() for part in as_inputs(now, capture.type)[0]]
    return float(run(p.loop((F8,)), x, *captured)[0])


def functions(**names: Any) -> dict[str, Any]:
    """Functions in a namespace of their own, which read what `names` binds."""
    text = """
def reads_a_global(x):
    return x * rate

def helper(x):
    return x + shift

def calls(x):
    return helper(x) * rate

def calls_a_decorated_one(x):
    return decorated(x) * rate

def reads_from_a_module(x):
    return x * settings.rate

def reads_from_a_module_that_it_renames(x):
    s = settings
    return x * s.rate

def reads_from_a_module_in_a_module(x):
    return x * settings.inner.rate

def reads_from_an_argument(x, module):
    return x * module.rate

def hands_a_module_on(x):
    return reads_from_an_argument(x, settings)

def calls_from_a_module(x):
    return settings.function(x)

def reads_in_a_lambda(x):
    return (lambda y: y * rate)(x)

def reads_in_a_comprehension(x):
    return sum([i * rate for i in range(3)]) * x

def reads_a_builtin(x):
    return abs(x)

def reads_a_tuple(x):
    return table[0] * x

def raises_with_a_list(x):
    if x < 0:
        raise ValueError(names[0], x)
    return x
"""
    exec(text, names)
    return names


def module(**names: Any) -> ModuleType:
    made_here = ModuleType("settings")
    made_here.__dict__.update(names)
    return made_here


def other(x: float) -> float:
    return x + 100.0


# Functions, what they read, and how that is changed; the values before and after at 1. Another value of a number that
# has a derivative is no reason to compile again; one of another type is.
CHANGES: list[tuple[str, dict[str, Any], Callable[[dict[str, Any]], object], float, float]] = [
    ("reads_a_global", {"rate": 2.0}, lambda n: n.update(rate=3.0), 2.0, 3.0),
    ("reads_a_global", {"rate": 0.0}, lambda n: n.update(rate=-0.0), 0.0, -0.0),
    ("reads_a_global", {"rate": 2}, lambda n: n.update(rate=2.5), 2.0, 2.5),
    ("reads_a_global", {"rate": np.float32(2)}, lambda n: n.update(rate=np.float32(4)), 2.0, 4.0),
    ("calls", {"rate": 2.0, "shift": 1.0}, lambda n: n.update(shift=3.0), 4.0, 8.0),
    ("calls", {"rate": 2.0, "shift": 1.0}, lambda n: n.update(helper=other), 4.0, 202.0),
    ("reads_from_a_module", {"settings": module(rate=2.0)}, lambda n: setattr(n["settings"], "rate", 5.0), 2.0, 5.0),
    ("reads_from_a_module", {"settings": module(rate=2.0)}, lambda n: n.update(settings=module(rate=7.0)), 2.0, 7.0),
    ("reads_from_a_module_that_it_renames", {"settings": module(rate=2.0)},
     lambda n: setattr(n["settings"], "rate", 5.0), 2.0, 5.0),
    ("reads_from_a_module_in_a_module", {"settings": module(inner=module(rate=2.0))},
     lambda n: setattr(n["settings"].inner, "rate", 5.0), 2.0, 5.0),
    ("hands_a_module_on", {"settings": module(rate=2.0)}, lambda n: setattr(n["settings"], "rate", 5.0), 2.0, 5.0),
    ("calls_from_a_module", {"settings": module(function=abs)}, lambda n: setattr(n["settings"], "function", other),
     1.0, 101.0),
    ("reads_in_a_lambda", {"rate": 2.0}, lambda n: n.update(rate=3.0), 2.0, 3.0),
    ("reads_in_a_comprehension", {"rate": 2.0}, lambda n: n.update(rate=3.0), 6.0, 9.0),
    ("reads_a_builtin", {}, lambda n: n.update(abs=other), 1.0, 101.0),
    ("reads_a_tuple", {"table": (2.0, 3.0)}, lambda n: n.update(table=(4.0, 3.0)), 2.0, 4.0),
    ("helper", {"shift": 1.0}, lambda n: setattr(n["helper"], "__code__", other.__code__), 2.0, 101.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "names", "change", "before", "after"), CHANGES)
def test_a_change_is_seen(
    name: str, names: dict[str, Any], change: Callable[[dict[str, Any]], object], before: float, after: float
) -> None:
    namespace = functions(**names)
    p = made(namespace[name])
    version = p.fingerprint()
    assert value(p) == before
    assert p.fingerprint() == version
    captures = list(p.captures())
    change(namespace)
    assert (p.fingerprint() != version) == (not captures or p.captures() != captures)
    changed = value(p)
    assert (changed, math.copysign(1, changed)) == (after, math.copysign(1, after))


def test_a_number_of_another_type_is_compiled_again() -> None:
    namespace = functions(rate=2.0)
    p = made(namespace["reads_a_global"])
    seen = set()
    for rate in (2.0, 3, np.float32(4), np.float64(5), True, 6.0):
        namespace["rate"] = rate
        assert value(p) == float(rate)
        seen.add(p.fingerprint())
    assert len(seen) == 6


def test_a_helper_that_was_decorated() -> None:
    namespace = functions(rate=2.0, shift=1.0)
    namespace["decorated"] = numba.njit(namespace["helper"])
    p = made(namespace["calls_a_decorated_one"])
    assert value(p) == namespace["decorated"](1.0) * 2 == 4
    namespace["shift"] = 5.0
    assert value(p) == 12
    assert namespace["decorated"](1.0) == 2  # what Numba promises: the value it was compiled with


def test_a_captured_variable() -> None:
    factor = 2.0

    def f(x: float) -> float:
        return x * factor

    p = made(f)
    assert value(p) == 2
    factor = 3.0
    assert value(p) == 3


def test_two_closures_of_one_code() -> None:
    def times(k: float) -> Any:
        return lambda x: x * k

    first, second = made(times(2.0)), made(times(3.0))
    assert (value(first), value(second), value(first)) == (2, 3, 2)


def test_a_default() -> None:
    def f(x: float, n: float = 2.0, *, m: float = 1.0) -> float:
        return x * n + m

    p = made(f)
    assert value(p) == 3
    f.__defaults__ = (4.0,)
    assert value(p) == 5
    f.__kwdefaults__ = {"m": 2.0}
    assert value(p) == 6


def test_a_module_as_default() -> None:
    settings = module(rate=2.0)

    def f(x: float, m: Any = settings) -> float:
        return x * m.rate  # type: ignore[no-any-return]

    p = made(f)
    assert value(p) == 2
    settings.__dict__["rate"] = 5.0
    assert value(p) == 5


def test_an_equal_value_changes_nothing() -> None:
    namespace = functions(rate=2.5, table=(1.0, 2.0))
    for name in ("reads_a_global", "reads_a_tuple"):
        p = made(namespace[name])
        before = p.fingerprint(), p.loop((F8,))
        namespace["rate"] = float("2.5")
        namespace["table"] = (float("1"), float("2"))
        assert (p.fingerprint(), p.loop((F8,))) == before


def test_what_only_a_raise_reads_is_no_matter() -> None:
    namespace = functions(names=["a"])
    p = made(namespace["raises_with_a_list"])
    version = p.fingerprint()
    assert value(p) == 1
    namespace["names"] = ["b"]
    assert p.fingerprint() == version


def test_a_change_while_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = functions(rate=17)  # which no other test compiles
    p = made(namespace["reads_a_global"])
    compiled = frontend.scalar_ir

    def changing(*args: Any, **keywords: Any) -> Any:
        result = compiled(*args, **keywords)
        namespace["rate"] = 18
        return result

    monkeypatch.setattr(frontend, "scalar_ir", changing)
    assert value(p) == 18


def test_changes_from_another_thread() -> None:
    """A loop that was asked for after a change never has the value before it."""
    namespace = functions(rate=0.0)
    p = made(namespace["reads_a_global"])
    wrong = []

    def ask() -> None:
        for _ in range(6):
            low = namespace["rate"]
            seen = value(p)
            if not low <= seen <= namespace["rate"]:
                wrong.append((low, seen))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        namespace["rate"] += 1.0
        threading.Event().wait(0.05)
    assert wrong == []


def test_recursion_and_cycles_end() -> None:
    namespace: dict[str, Any] = {}
    for name, other_name, last in (("even", "odd", 1.0), ("odd", "even", 0.0)):
        exec(f"def {name}(n): return {last} if n < 1 else {other_name}(n - 1)", namespace)
    settings = module(rate=1.0)
    settings.__dict__["settings"] = settings
    assert References(namespace["even"]).current()
    assert References(functions(settings=settings)["reads_from_a_module"]).current()


def test_an_empty_cell() -> None:
    if len(sys.argv) < 0:
        later = 1.0

    def f(x: float) -> float:
        return x * later

    references = References(f)
    assert references.current()
    later = 2.0
    assert not references.current()
    assert value(made(f)) == 2


def test_what_is_captured() -> None:
    rate, count, phase, label, table, indices = 2.0, 3, 1j, "a", np.arange(3.0), np.arange(3)
    single = np.float32(1)

    def helper(x: float) -> float:
        return x * rate * single

    def f(x: float) -> Any:
        return helper(x) + count + phase + len(label) + table[0] + indices[0]

    p = made(f)
    assert [(one.path, one.chars, one.constant) for one in p.captures()] == [
        ("indices", "qq", False),
        ("phase", "D", False),
        ("table", "qq", False),
        ("helper.rate", "d", False),
        ("helper.single", "f", False),
    ]
    values = [value for _, value in p.captured()]
    assert all(now is then for now, then in zip(values, (indices, phase, table, rate, single), strict=True))
    rate = 5.0
    assert p.captured()[3][1] == 5.0
    assert made(lambda x: x * math.pi).captures() == []


DISTINCT = [
    *(0.0, -0.0, 0, False, None, "0", b"0", 0j, complex(0.0, -0.0), math.nan, np.float64(0.0), np.float32(0.0)),
    *(np.int64(0), np.bool_(False), (), (0,), (0.0,), (-0.0,), (False,), ((0,),), object(), math, np.sin),
]


def test_tokens_of_constants() -> None:
    """The question is asked in two places, and answered in one: for what is bound, and for what is read."""
    for i, one in enumerate(DISTINCT):
        assert [token(one) == token(other) for other in DISTINCT] == [i == j for j in range(len(DISTINCT))]
    assert token((1.5, ("a", math.nan))) == token((1.5, ("a", math.nan)))
    assert hash(token((0.0, object()))) is not None
    assert isinstance(token(math), Address)
    assert token((math, 1), lambda value: "found" if value is math else None) == (tuple, "found", (int, 1))
