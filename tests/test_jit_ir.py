"""The stages of the compiler one by one: byte code, scalar IR, loop, object code."""

import math
import random
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
import random_programs

from tmapad.jit import engine, objects
from tmapad.jit.frontend import Omitted, scalar_ir
from tmapad.jit.loop import loop_code
from tmapad.jit.raises import with_bare_raises
from tmapad.jit.scalar import OPAQUE, SCALAR, ScalarIR, always_inline, slots

LONG = np.dtype(np.int64).char
TABLE = (1.0, 2.0, 3.0)


def power(x: float, n: float = 3.0) -> float:
    return x**n


def checked(x: float) -> float:
    if x < 0:
        raise ValueError(f"{x:.3f}")
    return math.sqrt(x)


def searched(x: float) -> float:
    low, high = 0.0, 10.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle * middle > x:
            high = middle
        else:
            low = middle
    return low


# Functions, types of their arguments, the signature of the IR, and whether its status may be other than 0.
SCALARS: list[tuple[Any, tuple[Any, ...], str, bool]] = [
    (lambda x: x * x, ("d",), "{ i32, double } @scalar(double", False),
    (power, ("d", Omitted(3.0)), "{ i32, double } @scalar(double", False),
    (power, ("d", "d"), "{ i32, double } @scalar(double , double", False),
    (searched, ("d",), "{ i32, double } @scalar(double", False),
    (checked, ("d",), "{ i32, double } @scalar(double", True),
    (lambda z: z * z, ("D",), "{ i32, double, double } @scalar(double , double", False),
    (lambda x, n: x * n if n > 0 else -x, ("d", LONG), "{ i32, double } @scalar(double , i64", False),
    (lambda x, up: (x if up else -x, up, x > 0), ("d", "?"), "{ i32, double, i8, i8 } @scalar(double , i8", False),
    (lambda x: (x, complex(x, 1), 3), ("d",), "{ i32, double, double, double, i64 } @scalar(double", False),
    (lambda x: TABLE[int(x)], ("d",), "{ i32, double } @scalar(double", True),
]


@pytest.mark.parametrize(("f", "arguments", "signature", "can_raise"), SCALARS)
def test_scalar_ir(f: Any, arguments: tuple[Any, ...], signature: str, can_raise: bool) -> None:
    scalar = scalar_ir(f, arguments)
    module = llvm.parse_assembly(scalar.llvm)
    module.verify()
    (defined,) = (one for one in module.functions if not (one.is_declaration or one.name.startswith(OPAQUE)))
    header = next(line for line in scalar.llvm.splitlines() if line.startswith("define") and f"@{SCALAR}(" in line)
    for argument in defined.arguments:
        header = header.replace(f"%{argument.name}", "")
    assert header.startswith(f"define {signature}")
    assert scalar.can_raise is can_raise
    assert {one.name for one in module.functions if one.is_declaration} <= {
        "llvm.experimental.noalias.scope.decl", "llvm.pow.f64", "llvm.sqrt.f64", "llvm.fabs.f64", "sqrt",
    }  # fmt: skip
    instructions = [one for block in defined.blocks for one in block.instructions]
    assert not {one.opcode for one in instructions} & {"alloca", "load", "store", "invoke"}
    assert [one.opcode for one in instructions].count("ret") == 1
    assert all(one.name for one in instructions if str(one.type) != "void")


def test_nothing_is_optimised_by_value() -> None:
    """A derivative is taken of what is written: here it is 2, and would be 0 of ``return 1.0``."""
    scalar = scalar_ir(lambda x: x * x if x == 1.0 else 2.0 * x, ("d",))
    assert scalar.llvm.count("fmul double") == 2


def test_arguments_and_results() -> None:
    scalar = scalar_ir(lambda x, z: (z * x, x > 0), ("d", "D"))
    assert (scalar.name, scalar.in_chars, scalar.out_chars) == ("<lambda>", "dD", "D?")
    assert scalar_ir(power, ("d", Omitted(2.0))).in_chars == "d"
    assert scalar_ir(lambda x: x, ("f",), out_char="d").out_chars == "d"
    assert [slots(char) for char in "dFD?bl"] == [
        ("double",), ("float", "float"), ("double", "double"), ("i8",), ("i8",), (f"i{8 * np.dtype('l').itemsize}",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("f", "can_fail"),
    [(checked, True), (searched, False), (lambda x: TABLE[1] * x, False), (lambda x: np.zeros(2)[0] + x, True)],
)
def test_loop_code(f: Any, can_fail: bool) -> None:
    code = loop_code(scalar_ir(f, ("d",)))
    assert code.can_fail is can_fail
    assert engine.Engine(code.code, "f").address("loop") > 0


def test_no_vector_code() -> None:
    """Not even where the compiler could tell that it makes no difference: the tail would be other code."""
    scalar = scalar_ir(lambda x, y: math.sin(x) * y + math.sin(y) * x, ("d", "d"))
    assembly = assembly_of(scalar)
    assert "sin" in assembly
    assert not [line for line in assembly.splitlines() if "mulpd" in line or "addpd" in line or "fmadd" in line]
    assert not [name for name in objects.undefined_symbols(loop_code(scalar).code) if "sv" in name or "ZGV" in name]


def assembly_of(scalar: ScalarIR) -> str:
    module = llvm.parse_assembly(scalar.llvm)
    engine.optimise(module, level=3)
    return str(engine.target_machine().emit_assembly(module))


def test_the_loop_is_not_unrolled() -> None:
    """One copy of the function, so that no two elements can be computed by different code."""
    scalar = scalar_ir(lambda x: math.sin(x), ("d",))
    assert objects.undefined_symbols(loop_code(scalar).code) == ["sin"]
    small = loop_code(scalar_ir(lambda x: x * x, ("d",))).code
    large = loop_code(scalar_ir(lambda x: x * x * x * x * x + x, ("d",))).code
    assert len(small) <= len(large) < len(small) + 200


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("define void @f() {", "define void @f() alwaysinline {"),
        ("define internal { i32, double } @f(ptr captures(none) %a, double %b) #0 {",
         "define internal { i32, double } @f(ptr captures(none) %a, double %b) alwaysinline #0 {"),
        ('define void @"f"(i32 %"a)") local_unnamed_addr #0 {',
         'define void @"f"(i32 %"a)") local_unnamed_addr alwaysinline #0 {'),
        ("define void @f() #1 {", "define void @f() #1 {"),
        ("define void @f() noinline {", "define void @f() noinline {"),
        ("define void @g() {", "define void @g() {"),
        ("declare void @f()", "declare void @f()"),
    ],
)  # fmt: skip
def test_always_inline(definition: str, expected: str) -> None:
    rest = "\nattributes #0 = { nounwind }\nattributes #1 = { nounwind noinline }\n"
    assert always_inline(definition + rest, ["f"]) == expected + rest


def test_a_definition_without_an_end() -> None:
    with pytest.raises(ValueError, match="no end to the parameters of 'define void @f"):
        always_inline("define void @f(i32", ["f"])


IR = """
declare double @needed(double)
declare double @not_called(double)
@common = common global ptr null
define double @defined(double %x) {
  %y = call double @needed(double %x)
  %z = frem double %y, 3.0
  store ptr null, ptr @common
  ret double %z
}
"""


@pytest.mark.parametrize(
    "triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "arm64-apple-darwin"]
)
def test_undefined_symbols(triple: str) -> None:
    """Those of calls, and those that the code generator adds; of both formats, whatever this machine is."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine()
    module = llvm.parse_assembly(IR)
    module.triple = triple
    assert objects.undefined_symbols(machine.emit_object(module)) == ["fmod", "needed"]


def test_an_unknown_format() -> None:
    message = r"object code starts with b'MZ\\x90': neither 64-bit little-endian ELF nor Mach-O"
    with pytest.raises(ValueError, match=message):
        objects.undefined_symbols(b"MZ\x90")


def chained(x: float) -> float:
    try:
        y = 1.0 / x
    except ZeroDivisionError as error:
        raise ValueError(f"{x:.1f}") from error
    return y


def in_a_loop(x: float) -> float:
    for i in range(5):
        while x > 10:
            x -= 1
            if x == 20 + i:
                raise KeyError({i: f"{x!r}"})
        if x < i:
            print("never compiled")
            raise ValueError("%s is less than %d" % (x, i), [i, x])  # noqa: UP031 - byte code of its own
        if x == 30:
            break
    else:
        if x == 7:
            raise StopIteration
    return x


def in_an_inner_function(x: float) -> float:
    def inner(y: float) -> float:
        if y > 3:
            raise OverflowError(f"{y:e}")
        return y

    return inner(x) + sum([inner(x) for _ in range(2)])


def with_conditions(x: float) -> float:
    if not 0 < x < 8:
        raise (ValueError if x < 0 else OverflowError)("low" if x < 0 else "high")
    assert x != 2, f"{x}" if x else None
    return x


@pytest.mark.parametrize(
    "f", [checked, chained, in_a_loop, in_an_inner_function, with_conditions, *map(random_programs.program, range(4))]
)
def test_bare_raises(f: Callable[..., float]) -> None:
    """The same values; an exception where there was one; and nothing compiled for what it says."""
    stripped = with_bare_raises(f)  # type: ignore[arg-type]
    draw = random.Random(0)
    for _ in range(300):
        arguments = [draw.choice([draw.uniform(-3, 12), float(draw.randint(-2, 25))])] * f.__code__.co_argcount
        try:
            expected = f(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is
            kind = AssertionError if stripped is not f else type(error)
            with pytest.raises(kind):
                stripped(*arguments)
        else:
            assert stripped(*arguments) == expected


def test_a_function_that_does_not_raise_is_left_alone() -> None:
    assert with_bare_raises(searched) is searched  # type: ignore[arg-type]


def test_everything_else_is_copied() -> None:
    factor = 2.0

    def f(x: float, n: int = 2, *, m: int = 3) -> float:
        if x < 0:
            raise ValueError
        return x**n * m * factor

    copy = with_bare_raises(f)  # type: ignore[arg-type]
    assert copy is not f
    assert (copy(3.0), copy(3.0, 1, m=1)) == (f(3.0), f(3.0, 1, m=1))
    for name in ("__name__", "__qualname__", "__module__", "__defaults__", "__kwdefaults__"):
        assert getattr(copy, name) == getattr(f, name)
    assert copy.__code__.co_firstlineno == f.__code__.co_firstlineno
