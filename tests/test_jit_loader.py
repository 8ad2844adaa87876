"""Object code that is loaded without LLVM: it computes what it does when LLVM loads it, or it is left to LLVM."""

import ctypes
import gc
import math
import mmap
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tmapad._core import Loop, Program
from tmapad.jit import loader
from tmapad.jit.engine import Engine, target_machine
from tmapad.jit.forward import forward
from tmapad.jit.frontend import scalar_ir
from tmapad.jit.loop import loop_code
from tmapad.jit.scalar import LOOP

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64",
    reason="everywhere else LLVM loads all code",
)
X = np.linspace(-3.0, 3.0, 1001)


def kepler(x: float) -> float:
    anomaly = x
    for _ in range(50):
        step = (anomaly - 0.3 * math.sin(anomaly) - x) / (1.0 - 0.3 * math.cos(anomaly))
        anomaly = anomaly - step
        if abs(step) < 1e-14:
            break
    return anomaly


def chosen(x: float) -> float:
    """As a table of addresses, or of numbers."""
    n = int(x) + 3
    if n == 0:
        return x
    if n == 1:
        return x * x
    if n == 2:
        return math.exp(x)
    if n == 3:
        return math.cos(x)
    if n == 4:
        return 1.0 - x
    return math.tan(x) + math.atan2(x, 2.0)


def code_of(f: Callable[[float], float]) -> tuple[bytes, str]:
    scalar = forward(scalar_ir(f, ("d",)), (0,), None)
    return loop_code(scalar).code, f"{scalar.in_chars}->{scalar.out_chars}"


def run(code: Any, types: str) -> bytes:
    nin, outputs = types.index("->"), [np.empty_like(X) for _ in types.partition("->")[2]]
    loop = Loop(code.address(LOOP), 0, types, nin, keep=code)
    slots = [("input", 8, None), *[("output", 8, None)] * len(outputs)]
    assert Program(slots, [(loop, range(len(slots)))]).run((X, *outputs), X.shape) is None
    return b"".join(output.tobytes() for output in outputs)


@pytest.mark.parametrize(
    "f", [kepler, chosen, lambda x: x * x, lambda x: math.exp(x) if x > 0.5 else math.log1p(x * x)]
)
def test_the_same_bits(f: Callable[[float], float]) -> None:
    code, types = code_of(f)
    image = loader.load(code)
    assert image is not None
    assert run(image, types) == run(Engine(code, "f"), types)


SIMPLE = "define double @f(double %x) { %y = call double @sin(double %x) ret double %y }\ndeclare double @sin(double)"


def compiled(text: str, machine: Any = None) -> bytes:
    module = llvm.parse_assembly(text)
    machine = machine or target_machine()
    module.triple = machine.triple
    return bytes(machine.emit_object(module))


def other_machine(triple: str, **options: Any) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(**options)


LEFT: dict[str, Callable[[], bytes]] = {
    "a function that is not there": lambda: compiled(SIMPLE.replace("@sin", "@no_such_function")),
    "a variable": lambda: compiled(SIMPLE + "\n@v = global double 1.0"),
    "a variable in common": lambda: compiled(
        SIMPLE + "\n@v = common global double 0.0\ndefine double @g() { %y = load double, ptr @v ret double %y }"
    ),
    "a variable of each thread": lambda: compiled(SIMPLE + "\n@v = thread_local global double 1.0"),
    "addresses of 32 bits": lambda: compiled(
        SIMPLE, other_machine(llvm.get_process_triple(), reloc="pic", codemodel="small")
    ),
    "another processor": lambda: compiled(SIMPLE, other_machine("aarch64-unknown-linux-gnu")),
    "another format": lambda: compiled(SIMPLE, other_machine("x86_64-apple-darwin")),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("make", LEFT.values(), ids=LEFT)
def test_what_is_left_to_llvm(make: Callable[[], bytes]) -> None:
    assert loader.load(compiled(SIMPLE)) is not None
    assert loader.load(make()) is None


def test_elsewhere_all_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_LINUX", False)
    assert loader.load(compiled(SIMPLE)) is None


def test_without_the_library_that_unwinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_process", lambda: None)
    assert loader.load(compiled(SIMPLE)) is None


def maps() -> Iterator[tuple[int, int, str]]:
    """Where memory begins and ends that is no file's, and how it may be used."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, use, _, _, inode, *_ = line.split()
        if inode == "0":
            yield *(int(end, 16) for end in place.split("-")), use


def executable() -> int:
    """Bytes that may be executed: the kernel joins what lies side by side, so the number of places says little."""
    return sum(end - start for start, end, use in maps() if "x" in use)


def test_memory_is_executed_or_written_and_freed() -> None:
    code = code_of(kepler)[0]
    first = loader.load(code)
    assert first is not None
    (use,) = (use for start, end, use in maps() if start <= first.address(LOOP) < end)
    assert use == "r-xp"
    gc.collect()
    before = executable()
    kept = [loader.load(code) for _ in range(200)]
    assert executable() >= before + 200 * mmap.PAGESIZE
    del kept
    assert executable() <= before


def test_how_the_stack_is_unwound_is_known_as_long_as_the_code_is_there() -> None:
    """To debuggers, and to what ends a thread wherever it is."""
    find, bases = ctypes.CDLL("libgcc_s.so.1")["_Unwind_Find_FDE"], (ctypes.c_void_p * 3)()
    find.restype = ctypes.c_void_p
    image = loader.load(code_of(kepler)[0])
    assert image is not None
    inside = ctypes.c_void_p(image.address(LOOP) + 1)
    assert find(inside, bases) is not None
    del image
    assert find(inside, bases) is None


def test_code_from_the_cache_needs_no_llvmlite(tmp_path: Path) -> None:
    code = "import sys, numpy, tmapad; tmapad.tmap(lambda x: x * x, numpy.ones(3)); print('llvmlite' in sys.modules)"
    environment = {**os.environ, "TMAPAD_CACHE_DIR": str(tmp_path / "cache")}
    imported = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
        ).stdout
        for _ in range(2)
    ]
    assert imported == ["True\n", "False\n"]
