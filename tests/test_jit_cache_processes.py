"""A later process runs what an earlier one compiled, and does not import Numba for it."""

import ctypes
import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_loop import run

import tmapad
from tmapad.jit import PythonFunction, cache, frontend, keys, python_function
from tmapad.jit.cache import Record

FUNCTIONS = '''
"""Functions to be compiled, and what they give."""
import json
import math
import sys

import numpy as np

from tmapad import rrule, tmap

RATE, COUNT = 2.5, 3
X = np.array([0.25, 0.5, 0.75])


def kepler(m, e):
    x = m
    for _ in range(50):
        d = (x - e * math.sin(x) - m) / (1.0 - e * math.cos(x))
        x = x - d
        if abs(d) < 1e-14:
            break
    return x


def helper(x):
    return x * RATE + COUNT


def calls(x):
    return helper(np.sqrt(x))


def closure(k):
    return lambda x: x * k + 1


def raises(x):
    if x > 0.6:
        raise ValueError(f"{x} is too much")
    return x


def allocates(x):
    parts = np.zeros(3)
    for i in range(3):
        parts[i] = x * i
    return parts.sum()


def of_numba(x):
    return math.gamma(x)


namespace = {"math": math}
exec("def without_source(x): return math.exp(-x)", namespace)
PLAIN = {
    "kepler": lambda: tmap(kepler, X, 0.3),
    "gradient": lambda: rrule(tmap, kepler, X, 0.3)[1](X)[2],
    "calls": lambda: tmap(calls, X),
    "two": lambda: tmap(closure(2), X),
    "three": lambda: tmap(closure(3), X),
    "float": lambda: tmap(closure(3.5), X),
    "lambda": lambda: tmap(lambda x, y: x**2 + y, X, X),
    "without source": lambda: tmap(namespace["without_source"], X),
}
NUMBA = {"allocates": lambda: tmap(allocates, X), "of Numba": lambda: tmap(of_numba, X)}


def results(table):
    return {name: call().tobytes().hex() for name, call in table.items()}


def error():
    try:
        return str(tmap(raises, X))
    except ValueError as error:
        return [str(error), *error.__notes__]


def report(**values):
    print(json.dumps({"numba": "numba" in sys.modules, **values}))
'''
COMPILE = "from functions import *; report(plain=results(PLAIN), error=error(), of_numba=results(NUMBA))"
LOAD = "from functions import *; report(plain=results(PLAIN), error=error())"


def python(folder: Path, code: str, **environment: str) -> Any:
    """What a process prints, as JSON."""
    environment = {**os.environ, "TMAPAD_CACHE_DIR": str(folder / "cache"), **environment}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path(__file__).parent.parent)])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions.py").write_text(FUNCTIONS)
    return folder


@pytest.fixture(scope="module")
def first(folder: Path) -> Any:
    """What the process tells that compiles everything."""
    return python(folder, COMPILE)


def test_a_later_process_does_not_import_numba(folder: Path, first: Any) -> None:
    later = python(folder, LOAD)
    assert later == {"numba": False, "plain": first["plain"], "error": first["error"]}
    assert first["error"] == ["0.75 is too much", "tmapad: in raises, at element 2 with arguments (0.75)"]


def test_importing_tmapad_imports_nothing_slow(folder: Path) -> None:
    """Each of these takes as long as a good part of tmapad, or longer."""
    code = (
        "import json, sys, numpy; old = {*sys.modules}; import tmapad; print(json.dumps([*sys.modules.keys() - old]))"
    )
    imported = set(python(folder, code))
    assert "tmapad.jit.keys" in imported
    slow = {"numba", "llvmlite", "scipy", "importlib.metadata", "numpy.ma", "difflib", "hashlib"}
    if Path(tmapad.__path__[0]).parent != Path(__file__).parent.parent:
        slow.remove("hashlib")  # a source tree that hands over to the installed package compares digests
    assert imported.isdisjoint(slow)


def test_that_can_fail(folder: Path, first: Any) -> None:
    """Numba is imported where something else is to be compiled."""
    other = python(folder, "import functions; functions.COUNT = 4; " + LOAD)
    assert other["numba"]
    assert {name for name, value in other["plain"].items() if value != first["plain"][name]} == {"calls"}


def test_switched_off(folder: Path, first: Any) -> None:
    off = python(folder, LOAD, TMAPAD_CACHE="0")
    assert off == {"numba": True, "plain": first["plain"], "error": first["error"]}


def test_code_that_calls_numbas_run_time(folder: Path, first: Any) -> None:
    """It is loaded as well, but Numba is imported for it. Nothing is compiled."""
    refuse = "import tmapad.jit.frontend as f; f.scalar_ir = None; "
    later = python(folder, refuse + "from functions import *; report(of_numba=results(NUMBA))")
    assert later == {"numba": True, "of_numba": first["of_numba"]}


STORE_AND_LOAD = """
import json, sys
from tmapad.jit import cache
found = wrong = 0
for turn in range(60):
    for number in range(6):
        key, code = f"{number:064x}", bytes([number]) * 3000
        record = cache.load(key)
        found += record is not None
        wrong += record is not None and record != ({"types": "d->d"}, code)
        if record is None or turn % 3 == 0:
            cache.store(key, cache.Record({"types": "d->d"}, code))
print(json.dumps([found > 0, wrong]))
"""


def test_processes_at_the_same_time(tmp_path: Path) -> None:
    """They write and remove the same files: four of six fit."""
    environment = {**os.environ, "TMAPAD_CACHE_DIR": str(tmp_path / "cache"), "TMAPAD_CACHE_SIZE": "0.014"}
    command = [sys.executable, "-W", "error", "-c", STORE_AND_LOAD]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [json.loads(process.communicate(timeout=120)[0]) for process in running] == [[True, 0]] * 3
    assert all(path.suffix == ".kernel" for path in (tmp_path / "cache").iterdir())


FORKS = """
import os, threading, time
from functions import *
from tmapad.jit import function, python_function
D = np.dtype("d")

def load(*functions):
    for f in functions:
        python_function(f).loop((D,))

done = threading.Event()

def churn():
    while not done.is_set():
        function._COMPILED.clear()
        load(closure(2))
        time.sleep(0.001)  # the lock is not fair: somebody else may have it

threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(10):
    if (child := os.fork()) == 0:
        function._COMPILED.clear()
        load(closure(3))
        os._exit(0)
    codes.append(os.waitpid(child, 0)[1])
done.set()
for thread in threads:
    thread.join()
report(codes=sum(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_threads_and_forked_children_load(folder: Path, first: Any) -> None:
    ignored = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)"  # of forks while there are threads
    assert python(folder, ignored + FORKS) == {"numba": False, "codes": 0}


F8 = np.dtype("f8")


def shifted(x: float) -> float:
    return x + 5


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMAPAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are compiled from now on."""
    names: list[str] = []
    scalar_ir = frontend.scalar_ir

    def counting(function: Any, *arguments: Any, **keywords: Any) -> Any:
        names.append(function.__name__)
        return scalar_ir(function, *arguments, **keywords)

    monkeypatch.setattr(frontend, "scalar_ir", counting)
    return names


def again(f: Any) -> PythonFunction:
    """The implementation of `f`, as a new process has it."""
    from tmapad.jit import function

    function._COMPILED.clear()
    made = python_function(f)
    assert made is not None
    return made


def value(f: Any) -> float:
    return float(run(again(f).loop((F8,)), 1.0)[0])


def test_what_was_compiled_is_loaded(directory: Path, compiled: list[str]) -> None:
    assert [value(shifted), value(shifted)] == [6.0, 6.0]
    assert compiled == ["shifted"]


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def needing_what_is_not_there(path: Path) -> None:
    def calls_what_is_not_there(x: float) -> float:
        return x

    import llvmlite.binding as llvm

    from tmapad.jit.engine import target_machine

    module = llvm.parse_assembly(
        "declare void @no_such_symbol()\ndefine i32 @loop() { call void @no_such_symbol() ret i32 0 }"
    )
    record = cache.load(path.stem)
    assert record is not None
    cache.store(path.stem, Record(record.header, target_machine().emit_object(module)))


@pytest.mark.parametrize("change", [damaged, needing_what_is_not_there])
def test_what_cannot_be_used_is_compiled_again(
    change: Callable[[Path], None], directory: Path, compiled: list[str]
) -> None:
    assert value(shifted) == 6.0
    change(next(directory.iterdir()))
    assert value(shifted) == 6.0
    assert value(shifted) == 6.0
    assert compiled == ["shifted", "shifted"]


@contextmanager
def unwritable(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lambda *_, **__: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
        yield


def test_where_nothing_can_be_written_everything_works(
    directory: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = again(shifted)
    with unwritable(directory, monkeypatch):
        loop = made.loop((F8,))
    assert run(loop, 1.0)[0] == 6.0
    assert list(directory.iterdir()) == []


def test_where_the_directory_is_refused_everything_works(directory: Path, compiled: list[str]) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match="which is not used: others can write to"):
        assert value(shifted) == 6.0
    assert value(shifted) == 6.0
    assert compiled == ["shifted", "shifted"]


def test_a_global_that_changes_while_it_is_loaded(
    directory: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code was made from the old value."""
    namespace: dict[str, Any] = {"n": 1}
    exec("def f(x): return x + n", namespace)
    assert value(namespace["f"]) == 2.0
    load = cache.load

    def change_and_load(key: str) -> Record | None:
        namespace["n"] = 2
        return load(key)

    made = again(namespace["f"])
    monkeypatch.setattr(cache, "load", change_and_load)
    assert run(made.loop((F8,)), 1.0)[0] == 3.0
    monkeypatch.undo()
    namespace["n"] = 1
    assert run(made.loop((F8,)), 1.0)[0] == 2.0


def test_methods_and_functions_of_the_same_code(directory: Path) -> None:
    """What is bound of a function is not seen in what it reads."""

    class Box:
        def identity(self, x: Any = 2.0) -> Any:
            return x

    box = Box()
    method, plain = again(box.identity), again(Box.identity)
    assert run(method.loop((F8,)), 1.0)[0] == 1.0
    assert run(plain.loop((F8,)), 1.0)[0] == 2.0
    assert run(again(box.identity).loop((F8,)), 1.0)[0] == 1.0
    assert run(again(Box.identity).loop((F8,)), 1.0)[0] == 2.0


def test_code_with_an_address_in_it_is_not_stored(
    directory: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions that read one have no key. If one had, it would not matter."""
    cosine = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(("cos", ctypes.CDLL(ctypes.util.find_library("m"))))

    def calls(x: float) -> float:
        return cosine(x)  # type: ignore[no-any-return]

    monkeypatch.setattr(keys, "key", lambda *_, **__: "0" * 64)
    assert value(calls) == pytest.approx(0.5403, abs=1e-4)
    assert value(calls) == pytest.approx(0.5403, abs=1e-4)
    assert compiled == ["calls", "calls"]
    assert not directory.exists()
