"""When the code of compiled functions polls: seldom enough not to cost, often enough never to run on unheard."""

import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from run_loop import Polls, call

from tmapad import from_cython
from tmapad._core import Loop
from tmapad.jit import loop as loops
from tmapad.jit.engine import Engine, target_machine
from tmapad.jit.flow import MOST_TURNS, cycles, turns
from tmapad.jit.frontend import scalar_ir
from tmapad.jit.ir import Module
from tmapad.jit.polls import with_polls
from tmapad.jit.scalar import ScalarIR

j1 = from_cython("scipy.special.cython_special", "j1")


def cubic(x: float) -> float:
    return x * x * x - 2.0 * x


def kepler(m: float) -> float:
    e = m
    for _ in range(50):
        d = (e - 0.3 * math.sin(e) - m) / (1.0 - 0.3 * math.cos(e))
        e = e - d
        if abs(d) < 1e-14:
            break
    return e


def few_turns(x: float) -> float:
    total = 0.0
    for i in range(20):
        total = total * x + i
    return total


def as_many_turns(x: float) -> float:
    total = 0.0
    for i in range(int(x)):
        total = total * 0.5 + i
    return total


def many_by_many(x: float) -> float:
    total = x
    for i in range(1000):
        for j in range(1000):
            total = total * 0.5 + i * j
    return total


def stays(x: float) -> float:
    while x < 0.0:
        x = 0.5 * x - 1.0
    return x


def stays_at_once(x: float) -> float:
    while x < 0.0:
        pass
    return x


def in_short_loops(x: float) -> float:
    while x < 0.0:
        for _ in range(3):
            for _ in range(int(-x) % 5):
                x = 0.5 * x - 1.0
    return x


def or_raises(x: float) -> float:
    while x < 0.0:
        x = 0.5 * x - 1.0
        if x > 5.0:
            raise ValueError(x)
    return x


def compiled(scalar: ScalarIR) -> Loop:
    code = loops.loop_code(scalar)
    memory = Engine(code.code, scalar.name)
    types = f"{scalar.in_chars}->{scalar.out_chars}"
    return Loop(memory.address("loop"), 0, types, len(scalar.in_chars), can_fail=code.can_fail, keep=memory)


# Functions, their arguments, and about how many polls there are.
COUNTS: list[tuple[Callable[[float], float], Any, float]] = [
    (cubic, np.ones(8192), 0),
    (few_turns, np.ones(1000), 0),
    (as_many_turns, np.full(1000, 3.0), 0),
    (as_many_turns, np.full(100_000, 3.0), 2),
    (as_many_turns, np.full(1, 1e6), 5),
    (as_many_turns, np.full(100, 1e4), 5),
    (kepler, np.linspace(0.1, 4.0, 8192), 5),
    (many_by_many, np.ones(1), 5),
    (lambda x: j1(x), np.ones(8192), 8192 / 128),
    (lambda x: j1(x) if x > 2.0 else x, np.ones(8192), 8192 / 128),
]


@pytest.mark.parametrize(("f", "x", "about"), COUNTS)
def test_how_often(f: Any, x: Any, about: float) -> None:
    polls = Polls()
    stopped, _, (y,) = call(compiled(scalar_ir(f, ["d"])), x, poll=polls)
    assert not stopped
    assert about / 4 <= polls.count <= about * 4
    assert y[0] == pytest.approx(f(x[0]), rel=1e-14)


@pytest.mark.parametrize("f", [stays, stays_at_once, in_short_loops, or_raises])
@pytest.mark.parametrize("stop_at", [1, 3])
def test_an_endless_element_is_given_up(f: Any, stop_at: int) -> None:
    polls = Polls(stop_at)
    loop = compiled(scalar_ir(f, ["d"]))
    stopped, index, _ = call(loop, [1.0, -1.0, 2.0], poll=polls)
    assert (stopped, polls.count) == (1, stop_at)
    assert index <= 1
    stopped, _, (y,) = call(loop, [1.0, 3.0])
    assert stopped == 0
    np.testing.assert_array_equal(y, [1.0, 3.0])


@pytest.mark.parametrize(("f", "fails"), [(cubic, False), (stays, False), (kepler, False), (or_raises, True)])
def test_to_be_interrupted_is_no_failure(f: Any, fails: bool) -> None:
    assert compiled(scalar_ir(f, ["d"])).can_fail is fails


@pytest.mark.parametrize("f", [kepler, few_turns, as_many_turns])
def test_polls_change_no_bit(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scalar = scalar_ir(f, ["d"])
    x = np.linspace(0.1, 40.0, 2000)
    _, _, (y,) = call(compiled(scalar), x)
    monkeypatch.setattr(loops, "with_polls", lambda module, _: module)
    _, _, (expected,) = call(compiled(scalar), x)
    np.testing.assert_array_equal(y, expected)


# ------------------------------------------------------------------------------- control flow of any shape

HEAD = "define i32 @loop(ptr %args, i64 %n, ptr %steps, ptr %data, ptr %state) {"
# Bodies that run for ever.
SHAPES = {
    "a block": """
entry:
  br label %a
a:
  br label %a
""",
    "two ways in": """
entry:
  %up = icmp sgt i64 %n, 5
  br i1 %up, label %a, label %b
a:
  br label %b
b:
  br label %a
""",
    "two latches": """
entry:
  br label %a
a:
  %k = phi i64 [ 0, %entry ], [ %more, %b ], [ %most, %c ]
  %odd = trunc i64 %k to i1
  br i1 %odd, label %b, label %c
b:
  %more = add i64 %k, 1
  br label %a
c:
  %most = add i64 %k, 3
  br label %a
""",
    "a switch that comes back by several ways": """
entry:
  br label %a
a:
  %k = phi i64 [ 0, %entry ], [ %next, %b ], [ %next, %b ]
  br label %b
b:
  %next = add i64 %k, 1
  %rest = and i64 %next, 3
  switch i64 %rest, label %a [
    i64 1, label %a
    i64 2, label %b2
    i64 5, label %out
  ]
b2:
  br label %c
c:
  br label %c
out:
  ret i32 0
""",
    "one latch of two loops": """
entry:
  br label %a
a:
  %k = phi i64 [ 0, %entry ], [ %next, %c ]
  br label %b
b:
  %j = phi i64 [ %k, %a ], [ %next, %c ]
  br label %c
c:
  %next = add i64 %j, 1
  %rest = and i64 %next, 7
  %less = icmp ult i64 %rest, 3
  br i1 %less, label %a, label %b
""",
    "counted to a number that is never met": """
entry:
  br label %a
a:
  %k = phi i64 [ 1, %entry ], [ %next, %a ]
  %next = add i64 %k, 2
  %met = icmp eq i64 %next, 100
  br i1 %met, label %out, label %a
out:
  ret i32 0
""",
}


def loop_of(text: str, types: str = "d->d") -> Loop:
    module = llvm.parse_assembly(f"{HEAD}\n{text}}}\n")
    module.triple = target_machine().triple
    memory = Engine(target_machine().emit_object(with_polls(module, "loop")), "loop")
    return Loop(memory.address("loop"), 0, types, 1, keep=memory)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_loops_of_any_shape_are_given_up(shape: str) -> None:
    polls = Polls(3)
    stopped, index, _ = call(loop_of(shape), [1.0], poll=polls)
    assert (stopped, index, polls.count) == (1, 0, 3)


def test_code_that_cannot_take_long_is_left_as_it_is() -> None:
    module = llvm.parse_assembly(f"{HEAD}\nentry:\n  ret i32 0\n}}\n")
    assert with_polls(module, "loop") is module


COUNTED = """
entry:
  br label %a
a:
  %k = phi i8 [ {start}, %entry ], [ %next, %b ]
  {in_header}
b:
  %next = add i8 %k, {step}
  {in_latch}
out:
  ret i32 0
"""
EXIT = "%ends = icmp {test}\n  br i1 %ends, label {yes}, label {no}"


def counted(start: int, step: int, test: str, *, latch: bool = True, stays: bool = False) -> str:
    """A loop that ends, or stays, when a comparison holds: of ``%next`` in the latch, or of ``%k`` in the header."""
    inside = "%a" if latch else "%b"
    leaves = EXIT.format(test=test, yes=inside if stays else "%out", no="%out" if stays else inside)
    in_header, in_latch = ("br label %b", leaves) if latch else (leaves, "br label %a")
    return COUNTED.format(start=start, step=step, in_header=in_header, in_latch=in_latch)


TURNS = [
    (counted(0, 1, "eq i8 %next, 50"), 50),
    (counted(0, 1, "slt i8 %next, 50", stays=True), 50),
    (counted(50, -1, "eq i8 %k, 0", latch=False), 51),
    (counted(50, -1, "sgt i8 %k, 0", latch=False, stays=True), 51),
    (counted(0, 3, "ult i8 %next, 10", stays=True), 4),
    (counted(0, 3, "uge i8 %next, 10"), 4),
    (counted(100, 10, "slt i8 %next, 0"), 3),
    (counted(100, 10, "ult i8 %next, 100"), 16),
    (counted(0, -1, "ne i8 %next, 0", stays=True), 256),
    (counted(0, 2, "eq i8 %next, 51"), None),
    (counted(0, 1, "eq i8 %next, %next", stays=True), None),
    (counted(0, 1, "eq i64 %n, 51"), None),
    (counted(0, 1, "eq i64 51, %n"), 77),
]


@pytest.mark.parametrize(("text", "expected"), TURNS)
def test_turns_of_loops_that_count(text: str, expected: int | None) -> None:
    function = Module.read(f"{HEAD}\n{text}}}\n", "loop").function
    (cycle,) = cycles(function)
    assert cycle.header == "%a"
    assert turns(cycle, function, {"%n": 77}) == expected
    assert expected is None or expected <= MOST_TURNS


def test_inner_loops_come_first() -> None:
    nested = """
entry:
  br label %a
a:
  br label %b
b:
  %up = icmp sgt i64 %n, 5
  br i1 %up, label %b, label %c
c:
  %down = icmp slt i64 %n, 2
  br i1 %down, label %a, label %out
out:
  ret i32 0
"""
    function = Module.read(f"{HEAD}\n{nested}}}\n", "loop").function
    found = [(cycle.header, cycle.latches, cycle.blocks, cycle.entries) for cycle in cycles(function)]
    assert found == [("%b", ["%b"], {"%b"}, 1), ("%a", ["%c"], {"%a", "%b", "%c"}, 1)]
