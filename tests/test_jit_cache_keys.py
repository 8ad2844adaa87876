"""The keys of the cache: another one whenever other machine code would be compiled, and none when nobody can tell."""

import builtins
import ctypes
import enum
import fractions
import math
import re
import struct
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import llvmlite.binding
import numba
import numpy as np
import pytest
from numba.extending import overload

import tmapad
from tmapad.jit import keys
from tmapad.jit.references import References


def made(text: str, file: str = "<string>", **names: Any) -> FunctionType:
    """The function `f` that `text` defines in a namespace of its own, where also `names` are."""
    namespace: dict[str, Any] = {"math": math, "np": np, **names}
    exec(compile(text, file, "exec"), namespace)
    function = namespace["f"]
    assert isinstance(function, FunctionType)
    return function


def key(f: FunctionType, **request: str) -> str | None:
    return keys.key(References(f), **(request or {"inputs": "d"}))


def module(name: str, **values: Any) -> ModuleType:
    result = ModuleType(name)
    vars(result).update(values)
    return result


def closure(k: Any) -> FunctionType:
    def f(x: float) -> float:
        return x * k  # type: ignore[no-any-return]

    return f


def helper_of(k: Any) -> FunctionType:
    return made("def helper(x): return x * k\ndef f(x): return helper(x)", k=k)


def defaulted(default: Any, **names: Any) -> FunctionType:
    f = made("def f(x, n=0): return x * n", **names)
    f.__defaults__ = (default,)
    return f


def keyword_defaulted(default: Any) -> FunctionType:
    f = made("def f(x, *, n=0): return x * n")
    f.__kwdefaults__ = {"n": default}
    return f


def reading(value: Any, text: str = "def f(x): return x * k") -> FunctionType:
    return made(text, k=value)


def test_a_key() -> None:
    found = key(closure(2))
    assert found is not None
    assert re.fullmatch("[0-9a-f]{64}", found)
    assert len({key(closure(2)) for _ in range(3)}) == 1


SAME: list[tuple[str, Callable[[], FunctionType], Callable[[], FunctionType]]] = [
    (
        "another file, other lines",
        lambda: made("def f(x): return x + 1"),
        lambda: made("\n\n\ndef f(x):\n    # so\n    return x + 1", file="other.py"),
    ),
    ("captured floats", lambda: closure(1.0), lambda: closure(2.0)),
    ("captured float32", lambda: closure(np.float32(1)), lambda: closure(np.float32(2))),
    ("captured arrays", lambda: closure(np.ones(3)), lambda: closure(np.zeros(5))),
    ("global floats", lambda: reading(1.0), lambda: reading(2.0)),
    ("equal tuples", lambda: reading((1, (2.5, "a"))), lambda: reading((1, (2.5, "a")))),
    ("equal helpers", lambda: helper_of(2), lambda: helper_of(2)),
    (
        "a module by another path",
        lambda: reading(module("m", n=1), "def f(x): return x * k.n"),
        lambda: reading(module("m", n=1), "def f(x): return x * k.n"),
    ),
    ("a decorated helper", lambda: calling(numba.njit(one_more)), lambda: calling(numba.njit(one_more))),
    (
        "attributes of objects",
        lambda: reading(SimpleNamespace(n=1, r=2.0), "def f(x): return x * k.n + k.r"),
        lambda: reading(SimpleNamespace(n=1, r=3.0), "def f(x): return x * k.n + k.r"),
    ),
]


def one_more(x: float) -> float:
    return x + 1


def two_more(x: float) -> float:
    return x + 2


def calling(helper: Any) -> FunctionType:
    return made("def f(x): return helper(x)", helper=helper)


@pytest.mark.parametrize(("one", "other"), [pytest.param(*pair, id=name) for name, *pair in SAME])
def test_the_same_code_has_the_same_key(one: Callable[[], FunctionType], other: Callable[[], FunctionType]) -> None:
    assert key(one()) == key(other()) is not None


# Of each row any two differ.
DIFFERENT: dict[str, list[Callable[[], FunctionType]]] = {
    "constants": [
        lambda: made("def f(x): return x * 1"),
        lambda: made("def f(x): return x * 1.0"),
        lambda: made("def f(x): return x * True"),
        lambda: made("def f(x): return x * 0.0"),
        lambda: made("def f(x): return x * -0.0"),
        lambda: made("def f(x): return x * 1j"),
        lambda: made("def f(x): return x * (1 if x in (1, 2) else 2)"),
        lambda: made("def f(x): return x * (1 if x in {1, 2} else 2)"),
        lambda: made("def f(x): return x * (1 if x in {1, 3} else 2)"),
        lambda: made("def f(x): return 1 if x is ... else 2"),
        lambda: made("def f(x): return (x, x, x)[0:2]"),
        lambda: made("def f(x): return (x, x, x)[0:3]"),
    ],
    "operations": [
        lambda: made("def f(x): return x + 1"),
        lambda: made("def f(x): return x - 1"),
        lambda: made("def f(x):\n try:\n  y = 1 / x\n  z = 2\n except Exception:\n  z = 3\n return z"),
        lambda: made("def f(x):\n try:\n  y = 1 / x\n except Exception:\n  z = 3\n else:\n  z = 2\n return z"),
    ],
    "functions inside": [
        lambda: made("def f(x): return (lambda y: y + 1)(x)"),
        lambda: made("def f(x): return (lambda y: y + 2)(x)"),
    ],
    "captured": [
        lambda: closure(1),
        lambda: closure(2),
        lambda: closure(True),
        lambda: closure(1.0),
        lambda: closure(np.float64(1)),
        lambda: closure(np.float32(1)),
        lambda: closure(np.int32(1)),
        lambda: closure(1j),
        lambda: closure(np.ones(3)),
        lambda: closure(np.ones((3, 3))),
        lambda: closure(np.ones(3, np.float32)),
        lambda: closure(None),
    ],
    "globals": [
        lambda: reading(1),
        lambda: reading(2),
        lambda: reading(10**5000),
        lambda: reading("a"),
        lambda: reading(b"a"),
        lambda: reading((1,)),
        lambda: reading((1.0,)),
        lambda: reading((2.0,)),
        lambda: reading(((1,),)),
        lambda: made("def f(x): return x * k"),
        lambda: made("def f(x): return x * other", other=1),
    ],
    "functions called": [
        lambda: reading(math.sin, "def f(x): return k(x)"),
        lambda: reading(math.cos, "def f(x): return k(x)"),
        lambda: reading(np.sin, "def f(x): return k(x)"),
        lambda: reading(np.sum, "def f(x): return k(x)"),
        lambda: reading(abs, "def f(x): return k(x)"),
        lambda: reading(float, "def f(x): return k(x)"),
        lambda: reading(np.float32, "def f(x): return k(x)"),
        lambda: reading(one_more, "def f(x): return k(x)"),
        lambda: reading(two_more, "def f(x): return k(x)"),
        lambda: reading(calling(one_more), "def f(x): return k(x)"),
        lambda: reading(calling(two_more), "def f(x): return k(x)"),
        lambda: reading(numba.njit(one_more), "def f(x): return k(x)"),
        lambda: reading(numba.njit("f4(f4)")(one_more), "def f(x): return k(x)"),
        lambda: reading(numba.njit("f8(f8)")(one_more), "def f(x): return k(x)"),
        lambda: reading(numba.cfunc("f4(f4)")(one_more), "def f(x): return k(x)"),
        lambda: reading((one_more, two_more), "def f(x): return k[0](x)"),
        lambda: reading((two_more, one_more), "def f(x): return k[0](x)"),
        lambda: helper_of(1),
        lambda: helper_of(2),
    ],
    "defaults": [
        lambda: defaulted(1),
        lambda: defaulted(2),
        lambda: defaulted(1.0),
        lambda: defaulted(2.0),
        lambda: keyword_defaulted(1),
        lambda: keyword_defaulted(1.5),
        lambda: keyword_defaulted(2.5),
    ],
    "what is read from modules": [
        lambda: reading(math, "def f(x): return x * k.pi"),
        lambda: reading(np, "def f(x): return x * k.pi"),
        lambda: reading(module("m", pi=3), "def f(x): return x * k.pi"),
        lambda: reading(module("m", pi=4), "def f(x): return x * k.pi"),
        lambda: reading(module("m", pi=one_more), "def f(x): return x * k.pi(x)"),
        lambda: reading(module("m", pi=two_more), "def f(x): return x * k.pi(x)"),
    ],
    "attributes of objects": [
        lambda: reading(SimpleNamespace(n=1), "def f(x): return x * k.n"),
        lambda: reading(SimpleNamespace(n=2), "def f(x): return x * k.n"),
        lambda: reading(SimpleNamespace(n=2.0), "def f(x): return x * k.n"),
    ],
}


@pytest.mark.parametrize("functions", DIFFERENT.values(), ids=DIFFERENT)
def test_other_code_has_another_key(functions: list[Callable[[], FunctionType]]) -> None:
    found = [key(make()) for make in functions]
    assert None not in found
    assert len(set(found)) == len(found)


def test_another_request_has_another_key() -> None:
    requests = [
        {"inputs": "d", "division": "ieee"},
        {"inputs": "d", "division": "python"},
        {"inputs": "dd", "division": "ieee"},
        {"inputs": "d", "division": "ieee", "wrt": "0"},
    ]
    assert len({key(closure(1), **request) for request in requests}) == 4
    assert key(closure(1), a="1", b="2") == key(closure(1), b="2", a="1")


class Number(int):
    pass


class Color(enum.Enum):
    RED = 1


class Truth(tuple):
    __slots__ = ()


NATIVE = (
    ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("cos", ctypes.CDLL(None))) if sys.platform != "win32" else 0
)


def tripled(x: float) -> float:
    return 3 * x


REGISTERED = tmapad.register(tripled, derivative=lambda x: 3.0)


def told_otherwise(x: float) -> float:
    return x


@overload(told_otherwise)
def told(x: Any) -> Any:
    return lambda x: x + 1


NAMELESS: dict[str, Any] = {
    "an object": object(),
    "a subclass of int": Number(1),
    "a subclass of tuple": Truth((1,)),
    "an enumeration": Color.RED,
    "an object of the standard library": fractions.Fraction(1, 2),
    "a class": Number,
    "a function with an address": NATIVE,
    "a registered function": tripled,
    "what stands for it": REGISTERED,
    "a ufunc of the user's": np.frompyfunc(one_more, 1, 1),
    "a ufunc that Numba made": numba.vectorize(one_more),
    "a method of an object in C": np.random.default_rng(0).random,
    "a function that Numba compiles otherwise": told_otherwise,
    "one of these in a tuple": (1, (object(),)),
}


@pytest.mark.parametrize("value", NAMELESS.values(), ids=NAMELESS)
def test_what_has_no_name_is_not_cached(value: Any) -> None:
    assert key(reading(value)) is None
    assert key(reading(1)) is not None


def test_what_claims_another_name_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    def false(x: float) -> float:
        return x

    false.__module__, false.__qualname__ = "math", "sin"
    assert key(reading(false)) is None
    fake = module("math", sin=one_more)
    assert key(reading(fake, "def f(x): return k.sin(x)")) is None
    text = "def f(x): return math.tan(x)"
    assert key(made(text)) is not None
    monkeypatch.setattr(math, "tan", one_more)
    assert key(made(text)) is None


def test_other_builtins_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(x): return abs(x)"
    assert key(made(text)) is not None
    assert key(made(text, __builtins__={"abs": math.sin})) is None
    monkeypatch.setattr(builtins, "abs", one_more)
    assert key(made(text)) is None


def test_an_exception_is_known_by_its_name() -> None:
    """Code for a function that raises one is kept: which one is found out by running it in Python."""

    class MyError(Exception):
        pass

    assert key(reading(MyError, "def f(x):\n    raise k(x)")) is not None


ENVIRONMENT: list[tuple[Any, str, Any]] = [
    (keys, "__version__", "9.9"),
    (sys, "version", "9.9"),
    (np, "__version__", "9.9"),
    (sys, "platform", "hurd"),
    (keys, "processor", lambda: b"pentium"),
    (keys, "_llvm_library", lambda: "libllvmlite.so 1 1"),
    (keys, "_version_of", lambda package: "9.9" if package == "llvmlite" else ""),
    (keys, "_version_of", lambda package: "9.9" if package == "numba" else ""),
    (keys, "_version_of", lambda package: "9.9" if package == "scipy" else ""),
    (keys, "_c_library", lambda: "glibc 9.9"),
    (keys, "_sources", lambda: "0"),
]


@pytest.mark.parametrize(("owner", "name", "value"), ENVIRONMENT)
def test_another_environment_has_another_key(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = keys.environment.__wrapped__
    before = find()
    assert before == find() == keys.environment()
    known = key(closure(1))
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, value)
        after = find()
    monkeypatch.setattr(keys, "environment", lambda: after)
    assert after not in (before, None)
    assert key(closure(1)) not in (known, None)


def test_where_the_processor_is_not_asked_llvm_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "processor", lambda: None)
    known = keys._processor()
    for name in ("get_host_cpu_name", "get_process_triple"):
        with monkeypatch.context() as patched:
            patched.setattr(llvmlite.binding, name, lambda: "m68k")
            assert keys._processor() != known
    features = llvmlite.binding.get_host_cpu_features()
    features[next(name for name, present in features.items() if present)] = False
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda: features)
    assert keys._processor() != known


def test_without_llvmlite_nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    origin = keys._origin
    monkeypatch.setattr(keys, "_origin", lambda package: None if package == "llvmlite" else origin(package))
    with pytest.raises(ImportError, match="there is no llvmlite"):
        keys._llvm_library()
    assert keys.environment.__wrapped__() is None


def test_the_library_of_llvmlite_is_found() -> None:
    assert ".so" in keys._llvm_library() or ".dylib" in keys._llvm_library() or ".dll" in keys._llvm_library()


def test_installed_packages_have_versions() -> None:
    assert numba.__version__ in keys._version_of("numba")
    assert keys._version_of("numba") != keys._version_of("scipy") != ""


def test_no_such_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(keys._VERSION_FILES, "no_such_package", "version.py")
    assert keys._version_of("no_such_package") == ""


def test_a_package_without_that_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(keys._VERSION_FILES, "numba", "no_such_file.py")
    assert keys._version_of("numba") == numba.__version__


def test_settings_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    known = key(closure(1))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert key(closure(1)) == known
    monkeypatch.setenv("NUMBA_DISABLE_INTEL_SVML", "1")
    assert key(closure(1)) not in (known, None)


def test_nothing_is_cached_by_sources_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the compiler while a process runs must not find the old one's code under the new one's key."""
    assert keys._sources() is not None
    monkeypatch.setattr(keys, "_IMPORTED", 0.0)
    assert keys._sources() is None
    monkeypatch.setattr(keys, "environment", keys.environment.__wrapped__)
    assert key(closure(1)) is None


@pytest.mark.parametrize(("name", "error"), [("_versions", ImportError), ("_sources", NotADirectoryError)])
def test_nothing_is_cached_where_nobody_can_tell(
    name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(keys, name, fail)
    assert keys.environment.__wrapped__() is None


def test_bits_of_floats() -> None:
    """Of a NaN too all bits count."""
    nans = [struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000000 + n))[0] for n in range(2)]
    assert len({key(defaulted(nan)) for nan in nans}) == 2
