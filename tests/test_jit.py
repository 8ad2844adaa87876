"""Python functions compiled to loops: values, types, where a loop stops, and when anything is compiled."""

import cmath
import ctypes
import gc
import math
import operator
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import random_programs
from numba.core import config
from numba.core.registry import cpu_target
from run_loop import Bound, call, run

from tmapad.jit import PythonFunction, frontend, function, python_function

F4, F8, C8, C16 = map(np.dtype, ("f4", "f8", "c8", "c16"))
I8 = np.dtype(np.int64)
LONG = I8.char

functions = sys.modules[__name__]
RATE = 2.5
TABLE = (1.0, 4.0, 9.0)


def made(f: Any, **options: Any) -> PythonFunction:
    result = python_function(f, **options)
    assert result is not None
    return result


def loop(f: Any, *inputs: Any, **options: Any) -> Any:
    p = made(f, **options)
    return Bound(p.loop(inputs or (F8,) * p.nin), p)


def kepler(m: float) -> float:
    e = m
    for _ in range(50):
        d = (e - 0.3 * math.sin(e) - m) / (1.0 - 0.3 * math.cos(e))
        e = e - d
        if abs(d) < 1e-14:
            break
    return e


def collatz(x: float) -> int:
    n, steps = int(abs(x) * 10) + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def helper(x: float) -> float:
    return x * RATE


@numba.njit(fastmath=True)
def decorated_helper(x: float) -> float:
    return helper_of_helper(x) + x * 0.1 + x * 0.2


def helper_of_helper(x: float) -> float:
    return math.exp(-x * x)


def factorial(x: float) -> float:
    return 1.0 if x < 1 else x * factorial(x - 1)


def horner(x: float) -> float:
    result = 0.0
    for c in TABLE:
        result = result * x + c
    return result


def allocating(x: float) -> float:
    a = np.zeros(3)
    a[0] = x
    values = [x]
    values.append(2.0)
    return a.sum() + values[1]


def nested(x: float) -> float:
    def inner(y: float) -> float:
        return helper(y) + x

    return inner(x) + sum([helper(i * x) for i in range(3)])


def keyword(x: float, n: float = 3.0, *, scale: float = 2.0) -> float:
    return scale * x**n


# Functions of one real number that Numba can compile by itself.
ALONE = [
    lambda x: x * x * x - 2 * x,
    lambda x: math.sin(x) * math.exp(-x * x),
    lambda x: -x if x < 0 else math.sqrt(x),
    lambda x: divmod(x, 0.7)[1] + x // 0.3 + x % 0.3 + x**3 + abs(x) ** 0.5,
    lambda x: min(x, 1.0) + max(x, 0.5) + math.copysign(2.0, x) + (x >= 0.5) * 3,
    lambda x: np.sin(x) + np.where(x > 0, 1.0, 2.0),
    lambda x: math.gamma(abs(x) + 1) + math.erf(x) + math.atan2(x, 2.0),
    lambda x: abs(cmath.sqrt(complex(x, 1.0)) ** 3),
    kepler,
    horner,
    allocating,
]
# Functions that call others, and the same in one piece.
CALLING = [
    (helper, lambda x: x * 2.5),
    (lambda x: decorated_helper(x), lambda x: math.exp(-x * x) + x * 0.1 + x * 0.2),
    (factorial, lambda x: float(np.prod(np.arange(x, 0.999, -1)))),
    (keyword, keyword),
    (nested, lambda x: x * 2.5 + x + 7.5 * x),
    (lambda x: functions.helper(x), lambda x: x * 2.5),
]

X = np.linspace(-4, 4, 501)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, -1e308, 1.0])


@pytest.mark.parametrize(("f", "reference"), [*((f, f) for f in ALONE), *CALLING])
def test_value(f: Callable[[float], float], reference: Callable[[float], float]) -> None:
    expected = [reference(float(x)) for x in X]
    np.testing.assert_allclose(run(loop(f, F8), X), expected, rtol=1e-13, atol=1e-300)


def assert_same_bits(y: Any, expected: Any) -> None:
    y, expected = np.asarray(y), np.asarray(expected)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    valid = ~np.isnan(expected)
    np.testing.assert_array_equal(y[valid].view("u1"), expected[valid].view("u1"))


@pytest.mark.parametrize("f", ALONE)
def test_bits_are_those_of_numba(f: Callable[[float], float]) -> None:
    alone = numba.njit(error_model="numpy")(f)
    x = np.concatenate([X, SPECIAL])
    assert_same_bits(run(loop(f, F8), x), [alone(one) for one in x])


@pytest.mark.parametrize("seed", range(12))
def test_bits_of_random_programs(seed: int) -> None:
    f = random_programs.program(seed)
    alone = numba.njit(error_model="numpy")(f)
    x, a = np.random.default_rng(seed).normal(size=(2, 300)) * 3
    x[:8] = a[8:16] = SPECIAL
    assert_same_bits(run(loop(f, F8, F8), x, a), [alone(*one) for one in zip(x, a, strict=True)])


def test_bits_do_not_depend_on_position() -> None:
    """Neither on what is done at once, nor on alignment, nor on whether the result is written over the input."""
    sine = loop(lambda x, a: math.sin(a * x) * a + x**1.5, F8, F8)
    x, a = np.random.default_rng(0).uniform(0.1, 9, (2, 1003))
    whole = run(sine, x, a)
    for start, stop in ((0, 1), (1, 2), (3, 700), (500, 1003), (998, 1003)):
        np.testing.assert_array_equal(run(sine, x[start:stop], a[start:stop]), whole[start:stop])
    np.testing.assert_array_equal(run(sine, x, a[7]), [run(sine, one, a[7])[0] for one in x])


def test_nothing_is_contracted() -> None:
    """With a fused multiply-add the rounding error of the product would be left."""
    x = np.random.default_rng(0).uniform(1, 2, 1000)
    product = x * x
    np.testing.assert_array_equal(run(loop(lambda x, y: x * x - y), x, product), 0.0)
    assert any(math.fsum([a * a, -b]) == 0 for a, b in zip(x, product, strict=True))


def test_own_rules_of_arithmetic() -> None:
    """Helpers are not run as the user compiled them: neither fast, nor with Python's division."""

    @numba.njit(fastmath=True)
    def subtract_and_add(x: float, y: float) -> float:
        return (x + y) - y

    @numba.njit
    def reciprocal(x: float) -> float:
        return 1.0 / x

    f = loop(lambda x, y: subtract_and_add(x, y) + reciprocal(y - y))
    assert run(f, 1e-20, 1.0)[0] == np.inf
    assert run(loop(lambda x, y: subtract_and_add(x, y)), 1e-20, 1.0)[0] == 0.0
    assert not subtract_and_add.overloads
    assert not reciprocal.overloads


# Types given, those of the loop, and keywords of `loop`.
@pytest.mark.parametrize(
    ("f", "inputs", "types", "integer"),
    [
        (lambda x: x + 1, (F8,), "d->d", ""),
        (lambda x: x + 1, (F4,), "f->f", ""),
        (lambda x: x + 1, (np.dtype("f2"),), "f->f", ""),
        (lambda x: x + 1, (np.dtype("u1"),), "d->d", ""),
        (lambda x: x + 1, (np.dtype("?"),), "d->d", ""),
        (lambda x: x + 1, (np.dtype(">f8"),), "d->d", ""),
        (lambda x: x + 1, (C8,), "F->F", ""),
        (lambda x, y: x + y, (float, int), "dd->d", ""),
        (lambda x, y: x + y, (complex, bool), "Dd->D", ""),
        (lambda z, a: z * a if a > 0 else z, (C16, F8), "Dd->D", ""),
        (lambda x, n: x * n, (F8, np.dtype("i2")), f"d{LONG}->d", "n"),
        (lambda x, n: x * n, (F8, int), f"d{LONG}->d", "n"),
        (lambda x, n: x * n, (F8, np.dtype("u8")), f"d{np.dtype('u8').char}->d", "n"),
        (lambda x, n: x * n, (F8, F4), "dd->d", "n"),
        (lambda x, n: x if n else -x, (F8, np.dtype("?")), "d?->d", "n"),
        (lambda x, n: n, (F8, bool), "d?->?", "n"),
        (lambda x: 3, (F8,), f"d->{LONG}", ""),
        (lambda x: x > 0, (F8,), "d->?", ""),
        (lambda x: 3 if x > 0 else 2.5, (F8,), "d->d", ""),
        (lambda x: (x, 1, x > 0, complex(x, 1)), (F8,), f"d->d{LONG}?D", ""),
        (lambda x: (x, -x), (F8,), "d->dd", ""),
        (lambda z: (z.real, z * 1j), (C16,), "D->dD", ""),
        (keyword, (F8,), "d->d", ""),
        (keyword, (F8, F8), "dd->d", ""),
    ],
)
def test_types(f: Any, inputs: tuple[Any, ...], types: str, integer: str) -> None:
    p = made(f)
    compiled = p.loop(inputs, integer=frozenset(integer))
    assert (compiled.types, compiled.nin) == (types, len(inputs))
    assert p.nout == compiled.nout


def test_values_of_other_types() -> None:
    z = np.array([1 + 2j, -3j, 0.5])
    y = call(loop(lambda x: (x, 1, x > 0, complex(x, 1))), [2.0, -1.0])[2]
    np.testing.assert_array_equal(y[0], [2, -1])
    np.testing.assert_array_equal(y[1], [1, 1])
    np.testing.assert_array_equal(y[2], [True, False])
    np.testing.assert_array_equal(y[3], [2 + 1j, -1 + 1j])
    np.testing.assert_allclose(run(loop(lambda z: cmath.exp(z) * z, C16), z), np.exp(z) * z, rtol=1e-14)
    p = made(lambda x, n, up: x * n if up else x // n)
    mixed = p.loop((F8, np.dtype("i4"), np.dtype("?")), integer=frozenset({"n", "up"}))
    np.testing.assert_array_equal(run(mixed, [7.0, 7.0], [2, 2], [True, False]), [14, 3])
    steps = loop(collatz)
    assert steps.out_chars == LONG
    np.testing.assert_array_equal(run(steps, X[::9]), [collatz(x) for x in X[::9]])


def test_parameters() -> None:
    p = made(keyword)
    assert (p.name, p.parameters, p.nin, p.min_nin, p.nout) == ("keyword", ("x", "n"), 2, 1, None)
    assert p.python is keyword
    assert repr(p) == "<PythonFunction keyword(x, n)>"
    assert run(p.loop((F8,)), 2.0) == 16
    assert run(p.loop((F8, F8)), 2.0, 1.0) == 4


@pytest.mark.parametrize(
    ("signature", "inputs", "types"),
    [
        ("complex64(complex64)", (C8,), "F->F"),
        ("complex64(complex64)", (complex,), "F->F"),
        ("complex64(complex64)", (F4,), "F->F"),
        ("complex128(complex128)", (C8,), "D->D"),
        ("float32(float32)", (np.dtype("f2"),), "f->f"),
        ("float64(float64)", (I8,), "d->d"),
        ("float32(int32)", (np.dtype("i2"),), "i->f"),
        ("float32(int32)", (bool,), "i->f"),
        ("float32(float64)", (F8,), "d->f"),
        ("boolean(float64)", (F8,), "d->?"),
    ],
)
def test_cfunc(signature: str, inputs: tuple[Any, ...], types: str) -> None:
    """Compiled again for the types it was declared with."""
    callback = numba.cfunc(signature)(lambda z: z * z + z)
    p = made(callback)
    assert p.python is callback.__wrapped__
    compiled = p.loop(inputs)
    assert compiled.types == types
    np.testing.assert_array_equal(run(compiled, [1, 3]), np.array([2, 12]).astype(compiled.out_chars))


def test_complex64_of_a_cfunc() -> None:
    """Numba's own pointer takes complex64 in other registers than C does."""
    z = np.array([1 + 2j, -0.5j, 3], C8)
    compiled = loop(numba.cfunc("complex64(complex64)")(lambda z: z * z + 1), C8)
    np.testing.assert_array_equal(run(compiled, z), z * z + 1)


def test_python_function_knows_its_own() -> None:
    assert made(numba.njit(helper)).python is helper
    for other in (math.sin, np.sin, 3, "x", operator.itemgetter(0), ctypes.CDLL(None).abs, PythonFunction):
        assert python_function(other) is None


def raising(x: float) -> float:
    if x < -1:
        label = f"{x:.3f}" if x < -2 else "%s" % x  # noqa: UP031 - byte code of its own
        raise ValueError(f"no {label!r}", {x: [x]}) from None
    return x


def asserting(x: float) -> float:
    assert x > 1, f"{x:.1f} is too small"
    return x


def catching(x: float) -> float:
    try:
        if x < 0:
            raise ValueError(f"{x:.3f}")
        y = x
    except Exception:  # noqa: BLE001 - all that Numba knows
        y = 0.0
    return y


def raising_from_a_helper(x: float) -> float:
    return raising(x) * 2


def choosing(x: float) -> float:
    return TABLE[int(x)]


def indexing(x: float) -> float:
    return np.zeros(3)[int(x)]


def looking_up(x: float) -> float:
    return {1: 2.0}[int(x)]


# Functions, an array, and where in it the loop stops; None: nowhere.
@pytest.mark.parametrize(
    ("f", "x", "index", "error"),
    [
        (raising, [1.0, -1.5, -3.0], 1, ValueError),
        (raising, [1.0, -3.0], 1, ValueError),
        (raising, [1.0, 2.0], None, None),
        (asserting, [2.0, 3.0, 1.0], 2, AssertionError),
        (raising_from_a_helper, [-5.0], 0, ValueError),
        (choosing, [2.0, 3.0], 1, IndexError),
        (choosing, [2.0, -3.0], None, None),
        (indexing, [0.0, 7.0], 1, IndexError),
        (looking_up, [1.0, 2.0], 1, KeyError),
    ],
)
def test_a_loop_stops_where_an_element_raises(f: Any, x: list[float], index: int | None, error: Any) -> None:
    p = made(f)
    compiled = p.loop((F8,))
    assert compiled.can_fail
    stopped, at, (y,) = call(compiled, x)
    done = x if index is None else x[:index]
    assert (stopped, at) == ((0, -1) if index is None else (1, index))
    np.testing.assert_array_equal(y[: len(done)], [f(one) for one in done])
    if index is not None:
        with pytest.raises(error):
            p.python(x[index])


@pytest.mark.parametrize(
    ("f", "division", "fails"),
    [
        (lambda x: 1 / x, "ieee", False),
        (lambda x: 1 / x, "python", True),
        (lambda x: x % 2.0, "python", False),
        (lambda x: TABLE[1] * x, "ieee", False),
        (catching, "ieee", False),
        (kepler, "ieee", False),
    ],
)
def test_only_what_can_raise_is_checked(f: Any, division: str, fails: bool) -> None:
    assert loop(f, division=division).can_fail is fails


def test_division() -> None:
    np.testing.assert_array_equal(run(loop(lambda x: 1 / x), [2.0, 0.0, -0.0]), [0.5, np.inf, -np.inf])
    stopped, index, (y,) = call(loop(lambda x: 1 / x, division="python"), [2.0, 0.0])
    assert (stopped, index, y[0]) == (1, 1, 0.5)
    with pytest.raises(ValueError, match='division must be "ieee" or "python": \'c\''):
        python_function(helper, division="c")


def test_an_exception_that_is_caught() -> None:
    np.testing.assert_array_equal(run(loop(catching), [2.0, -1.0]), [2.0, 0.0])


def test_a_c_function_is_called_and_kept() -> None:
    made_here = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    address = ctypes.cast(ctypes.CDLL(None).fabs, ctypes.c_void_p).value
    assert address
    compiled = loop((lambda magnitude: lambda x: magnitude(x) + 1)(made_here(address)))
    gc.collect()
    np.testing.assert_array_equal(run(compiled, [-2.0, 3.0]), [3.0, 4.0])


def resident() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory use from /proc")


@needs_proc
def test_what_is_allocated_is_freed() -> None:
    compiled = loop(allocating)
    x = np.ones(10**6)
    run(compiled, x)
    before = resident()
    np.testing.assert_array_equal(run(compiled, x), 3.0)
    assert resident() - before < 40  # one array less would be 100 MB


@needs_proc
def test_code_is_freed() -> None:
    def compile_another(k: float) -> None:
        assert run(loop(lambda x: x * k + helper(x)), 2.0) == 2 * k + 5

    for k in range(10):
        compile_another(float(k))
    gc.collect()
    before = resident()
    for k in range(40):
        compile_another(float(k))
    gc.collect()
    assert resident() - before < 6  # Numba itself keeps 700 kB of each, and here 10 kB for the helper


def test_code_lives_as_long_as_its_loop() -> None:
    first = loop(lambda x: math.sin(x) * RATE)
    x = np.linspace(0, 1, 100)
    expected = run(first, x)
    for k in range(40):
        loop(lambda x, k=k: x + k)
    gc.collect()
    np.testing.assert_array_equal(run(first, x), expected)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are compiled during the test, where nothing was compiled before."""
    names = []
    monkeypatch.setenv("TMAPAD_CACHE", "0")
    monkeypatch.setattr(function, "_COMPILED", {})
    compiled = frontend.scalar_ir

    def counting(f: Any, *args: Any, **keywords: Any) -> Any:
        names.append(f.__name__)
        return compiled(f, *args, **keywords)

    monkeypatch.setattr(frontend, "scalar_ir", counting)
    return names


def test_once_for_each_combination_of_types(compilations: list[str]) -> None:
    p = made(kepler)
    assert p.loop((F8,)) is p.loop((I8,)) is p.loop((int,))
    assert compilations == ["kepler"]
    made(kepler).loop((F8,))
    assert compilations == ["kepler"]  # it depends on the same, and the first is still there


def test_once_for_all_threads(compilations: list[str]) -> None:
    p = made(kepler)
    start = threading.Barrier(4)
    loops: list[Any] = []

    def ask() -> None:
        start.wait()
        loops.append(p.loop((F8,)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compilations == ["kepler"]
    assert len(loops) == 4
    assert len(set(map(id, loops))) == 1


def test_settings_of_numba_are_left_alone() -> None:
    def settings() -> tuple[Any, ...]:
        return config.OPT, config.LOOP_VECTORIZE, config.DISABLE_JIT, cpu_target.target_context.cached_internal_func

    before = settings()
    loop(lambda x: x**3)
    with pytest.raises(TypeError):
        loop(lambda x: x + "a")
    assert all(map(operator.is_, settings(), before))


def test_threads_that_compile_with_numba_do_not_deadlock() -> None:
    errors: list[BaseException] = []

    def compile_some(make: Callable[[int], Any]) -> None:
        try:
            for k in range(4):
                make(k)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    ours = threading.Thread(target=compile_some, args=(lambda k: loop(lambda x: x * k),))
    numbas = threading.Thread(target=compile_some, args=(lambda k: numba.njit(lambda x: x + k)(1.0),))
    for thread in (ours, numbas):
        thread.start()
    for thread in (ours, numbas):
        thread.join(60)
        assert not thread.is_alive()
    assert errors == []


FORK = """
import os, threading, time
import numpy as np
from tmapad.jit import python_function

def compile_one(k):
    return python_function(lambda x: x * k + 1).loop((np.dtype("f8"),))

compile_one(0)
stop = False
def busy():
    k = 0
    while not stop:
        k += 1
        compile_one(k)
thread = threading.Thread(target=busy)
thread.start()
for _ in range(5):
    time.sleep(0.03)
    child = os.fork()
    if child == 0:
        compile_one(-1)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
stop = True
thread.join()
print("done")
"""

SILENT = """
import sys
from tmapad.jit import python_function
assert python_function(lambda x: x * x).fingerprint()
assert python_function(3) is None
print([name for name in ("numba", "llvmlite") if name in sys.modules])
"""

SEEN = SILENT + "import numba; print([name for name in ('numba', 'llvmlite') if name in sys.modules])"


def script(text: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning", **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this platform")
def test_a_child_can_compile_whatever_its_parent_was_compiling() -> None:
    assert script(FORK) == "done"


def test_nothing_is_imported_before_it_is_needed() -> None:
    assert script(SILENT) == "[]"
    assert script(SEEN) == "[]\n['numba', 'llvmlite']"


def test_numba_switched_off() -> None:
    """Its variable is for those who debug what they decorated; nothing can be mapped without compiling."""
    compile_and_run = """
import numpy as np
from run_loop import call
from tmapad.jit import python_function
print(call(python_function(lambda x: np.zeros(3)[int(x)] + x**3).loop((np.dtype("f8"),)), [2.0, 3.0])[:2])
"""
    tests = str(Path(__file__).parent)
    assert script(compile_and_run, NUMBA_DISABLE_JIT="1", NUMBA_BOUNDSCHECK="0", PYTHONPATH=tests) == "(1, 1)"


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    p = made(lambda x: x * 2)
    monkeypatch.setitem(sys.modules, "numba", None)
    message = (
        r'<lambda> is a Python function, .* tmapad needs Numba 0\.62 or newer: python -m pip install "tmapad\[numba\]"'
    )
    with pytest.raises(ImportError, match=message):
        p.loop((F8,))


def test_with_an_old_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    p = made(lambda x: x * 2)
    monkeypatch.setattr(numba, "version_info", (0, 59, 1))
    monkeypatch.setattr(numba, "__version__", "0.59.1")
    with pytest.raises(ImportError, match=r'needs Numba 0\.62 .*"tmapad\[numba\]" \(found 0\.59\.1\)'):
        p.loop((F8,))
    assert tuple(numba.version_info[:2]) < function.OLDEST_NUMBA


def test_no_random_state_is_left_over() -> None:
    """The refusal of random numbers is by symbol: a function named `random` is nothing special."""

    def random(x: float) -> float:
        return x / 2

    assert run(loop(lambda x: random(x)), 3.0) == 1.5
