"""Forward mode on LLVM IR, written by hand: what Numba makes of Python now, and what it might make of it."""

import llvmlite.binding as llvm
import numpy as np
import pytest
from run_loop import run

from tmapad import NoDerivativeError
from tmapad._core import Loop
from tmapad.jit import elementary, forward, loop
from tmapad.jit.canonical import canonical
from tmapad.jit.engine import Engine
from tmapad.jit.scalar import LOOP, SCALAR, ScalarIR

DECLARATIONS = """
declare double @llvm.fabs.f64(double)
declare double @llvm.floor.f64(double)
declare double @llvm.copysign.f64(double, double)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.maxnum.f64(double, double)
declare double @llvm.powi.f64.i32(double, i32)
declare double @"tmapad.sin:d->d"(double)
declare double @"tmapad.sqrt:d->d"(double)
declare double @"tmapad.floor_divide:dd->d"(double, double)
declare double @"tmapad.power:dd->d"(double, double)
declare { double, double } @"tmapad.exp:D->D"(double, double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare double @unknown(double)
declare ptr @somewhere()
declare void @sink(ptr)
declare void @writes(double, ptr)
@table = internal constant [3 x double] [double 1.0, double 2.0, double 4.0]
@slot = internal global double 0.0
"""


def scalar(body: str, in_chars: str = "d") -> ScalarIR:
    """A function of x, y, ... (integers i, j, ...) that gives ``%r`` of a body whose first block is ``entry``."""
    types = ["double" if char == "d" else "i64" for char in in_chars]
    names = [f"{type_} %{name}" for type_, name in zip(types, "xyzw", strict=False)]
    end = "ok = insertvalue { i32, double } zeroinitializer, double %r, 1\n  ret { i32, double } %ok"
    text = f"{DECLARATIONS}\ndefine {{ i32, double }} @{SCALAR}({', '.join(names)}) {{\nentry:\n{body}\n  %{end}\n}}\n"
    module = llvm.parse_assembly(text)
    module.verify()
    elementary.define(module)
    return ScalarIR("f", str(module), in_chars, "d", can_raise=False)


def compiled(ir: ScalarIR) -> Loop:
    code = loop.loop_code(ir)
    memory = Engine(code.code, ir.name)
    return Loop(memory.address(LOOP), 0, f"{ir.in_chars}->{ir.out_chars}", len(ir.in_chars), keep=memory)


# Bodies, arguments, and the value and the partial derivatives there.
BODIES: dict[str, tuple[str, tuple[float, ...], tuple[float, ...]]] = {
    "an index beside numbers": (
        """
  %m = alloca { i64, [3 x double] }
  %place = getelementptr { i64, [3 x double] }, ptr %m, i32 0, i32 1, i64 2
  store double %x, ptr %place
  store i64 2, ptr %m
  %i = load i64, ptr %m
  %again = getelementptr { i64, [3 x double] }, ptr %m, i32 0, i32 1, i64 %i
  %a = load double, ptr %again
  %r = fmul double %a, %y""",
        (3.0, 2.0),
        (6.0, 2.0, 3.0),
    ),
    "a table or another": (
        """
  %m = alloca double
  store double %x, ptr %m
  %i = fptosi double %y to i64
  %p = getelementptr [3 x double], ptr @table, i64 0, i64 %i
  %a = load double, ptr %p
  %b = load double, ptr %m
  %r = fmul double %a, %b""",
        (3.0, 2.0),
        (12.0, 4.0, 0.0),
    ),
    "a sign as a number": (
        """
  %b = bitcast double %x to i64
  %s = lshr i64 %b, 63
  %t = uitofp i64 %s to double
  %u = fmul double %t, %y
  %r = fadd double %u, %x""",
        (-3.0, 2.0),
        (-1.0, 1.0, 1.0),
    ),
    "arithmetic": (
        """
  %a = fmul double %x, %y
  %b = fsub double %a, %x
  %c = fdiv double %b, %y
  %d = fneg double %c
  %e = fadd double %d, %x
  %r = freeze double %e""",
        (3.0, 4.0),
        (3.0 - 9.0 / 4.0, 1 - 3.0 / 4.0, -3.0 / 16.0),
    ),
    "a remainder": ("  %r = frem double %x, %y", (7.5, 2.0), (1.5, 1.0, -3.0)),
    "conversions": (
        """
  %a = fptrunc double %x to float
  %b = fmul float %a, 3.0
  %r = fpext float %b to double""",
        (2.0,),
        (6.0, 3.0),
    ),
    "an integer of a number is flat": (
        """
  %i = fptosi double %x to i64
  %f = sitofp i64 %i to double
  %g = call double @llvm.floor.f64(double %x)
  %h = fadd double %f, %g
  %r = fadd double %h, %x""",
        (2.5,),
        (6.5, 1.0),
    ),
    "intrinsics": (
        """
  %a = call double @llvm.fabs.f64(double %x)
  %b = call double @llvm.copysign.f64(double %a, double %y)
  %c = call double @llvm.fma.f64(double %b, double %y, double %x)
  %r = call double @llvm.maxnum.f64(double %c, double -100.0)""",
        (-3.0, -2.0),
        (3.0, -1.0, -3.0),
    ),
    "an integer power": ("  %r = call double @llvm.powi.f64.i32(double %x, i32 3)", (2.0,), (8.0, 12.0)),
    "a zeroth power": ("  %r = call double @llvm.powi.f64.i32(double %x, i32 0)", (0.0,), (1.0, 0.0)),
    "a row of the table": (
        '  %r = call double @"tmapad.power:dd->d"(double %x, double %y)',
        (2.0, 3.0),
        (8.0, 12.0, 8.0 * np.log(2.0)),
    ),
    "a complex row": (
        """
  %a = call { double, double } @"tmapad.exp:D->D"(double %x, double %y)
  %b = extractvalue { double, double } %a, 0
  %c = extractvalue { double, double } %a, 1
  %r = fadd double %b, %c""",
        (0.0, 0.0),
        (1.0, 1.0, 1.0),
    ),
    "a loop, and a value that begins as a constant": (
        """
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %s = phi double [ 0.0, %entry ], [ %t, %loop ]
  %t = fadd double %s, %x
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, 5
  br i1 %again, label %loop, label %end
end:
  %r = fmul double %t, %t""",
        (2.0,),
        (100.0, 100.0),
    ),
    "a branch that looks at the value": (
        """
  %one = fcmp oeq double %x, 1.0
  br i1 %one, label %first, label %second
first:
  %a = fmul double %x, %x
  br label %end
second:
  br label %end
end:
  %r = phi double [ %a, %first ], [ 7.0, %second ]""",
        (1.0,),
        (1.0, 2.0),
    ),
    "a selection": (
        """
  %less = fcmp olt double %x, %y
  %a = fmul double %x, %x
  %r = select i1 %less, double %a, double 3.0""",
        (2.0, 3.0),
        (4.0, 4.0, 0.0),
    ),
    "nothing comes from the side not taken": (
        """
  %a = fdiv double 1.0, %x
  %positive = fcmp ogt double %x, 0.0
  %r = select i1 %positive, double %a, double 0.0""",
        (0.0,),
        (0.0, 0.0),
    ),
    "an array on the stack": (
        """
  %m = alloca [4 x double]
  %i = fptosi double %y to i64
  %p = getelementptr [4 x double], ptr %m, i64 0, i64 %i
  %q = getelementptr [4 x double], ptr %m, i64 0, i64 1
  store double %y, ptr %q
  %a = fmul double %x, %x
  store double %a, ptr %p
  %b = load double, ptr %q
  %r = fmul double %b, %x""",
        (3.0, 1.0),
        (27.0, 27.0, 0.0),
    ),
    "memory filled and copied": (
        """
  %m = alloca [4 x double]
  %n = alloca [4 x double]
  store double %x, ptr %m
  %second = getelementptr double, ptr %m, i64 1
  store double %x, ptr %second
  call void @llvm.memcpy.p0.p0.i64(ptr %n, ptr %m, i64 16, i1 false)
  call void @llvm.memset.p0.i64(ptr %m, i8 0, i64 8, i1 false)
  %i = fptosi double %y to i64
  %p = getelementptr double, ptr %m, i64 %i
  %q = getelementptr double, ptr %n, i64 %i
  %a = load double, ptr %p
  %b = load double, ptr %q
  %r = fadd double %a, %b""",
        (3.0, 0.0),
        (3.0, 1.0, 0.0),
    ),
    "a number copied as an integer": (
        """
  %m = alloca [2 x double]
  %n = alloca [2 x double]
  %i = fptosi double %y to i64
  %p = getelementptr double, ptr %m, i64 %i
  %q = getelementptr double, ptr %n, i64 %i
  store double %x, ptr %p
  %bits = load i64, ptr %p
  store i64 %bits, ptr %q
  %a = load double, ptr %q
  %r = fmul double %a, %a""",
        (3.0, 1.0),
        (9.0, 6.0, 0.0),
    ),
    "an address chosen and kept in memory": (
        """
  %m = alloca [2 x double]
  %n = alloca [2 x double]
  %h = alloca [2 x ptr]
  store double %x, ptr %m
  store double %y, ptr %n
  %less = fcmp olt double %x, %y
  %p = select i1 %less, ptr %m, ptr %n
  %i = fptosi double %y to i64
  %at = getelementptr ptr, ptr %h, i64 %i
  store ptr %p, ptr %at
  %q = load ptr, ptr %at
  %a = load double, ptr %q
  %r = fmul double %a, %a""",
        (3.0, 1.0),
        (1.0, 0.0, 2.0),
    ),
    "a step is no variable": (
        """
  %a = call double @"tmapad.floor_divide:dd->d"(double %x, double 1.0)
  %b = call double @"tmapad.sqrt:d->d"(double %a)
  %r = fadd double %b, %x""",
        (0.5,),
        (0.5, 1.0),
    ),
    "a table of constants": (
        """
  %i = fptosi double %x to i64
  %p = getelementptr [3 x double], ptr @table, i64 0, i64 %i
  %a = load double, ptr %p
  %r = fmul double %a, %x""",
        (2.5,),
        (10.0, 4.0),
    ),
    "the bits of a number compared": (
        """
  %bits = bitcast double %x to i64
  %sign = lshr i64 %bits, 63
  %negative = icmp eq i64 %sign, 1
  %minus = fneg double %x
  %r = select i1 %negative, double %minus, double %x""",
        (-2.0,),
        (2.0, -1.0),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_value_and_partial_derivatives(name: str) -> None:
    body, xs, expected = BODIES[name]
    ir = scalar(body, "d" * len(xs))
    differentiated = forward.forward(ir, range(len(xs)))
    results = run(compiled(differentiated), *xs)
    np.testing.assert_allclose(np.ravel(results), expected, rtol=1e-15, atol=0)
    for argument in range(len(xs)):  # a lane does not depend on what else is asked for
        alone = run(compiled(forward.forward(ir, (argument,))), *xs)
        np.testing.assert_array_equal(alone, results[[0, 1 + argument]])


@pytest.mark.parametrize("name", BODIES)
def test_the_value_keeps_its_instructions(name: str) -> None:
    body, xs, _ = BODIES[name]
    ir = scalar(body, "d" * len(xs))
    with_partials = run(compiled(forward.forward(ir, (0,))), *xs)
    np.testing.assert_array_equal(np.ravel(run(compiled(ir), *xs))[0], np.ravel(with_partials)[0])


REFUSED: dict[str, tuple[str, str]] = {
    "a call of an unknown function": ("  %r = call double @unknown(double %x)", "a call of unknown, whose derivative"),
    "a function it is given": (
        "  %f = inttoptr i64 %y to ptr\n  %r = call double %f(double %x)",
        "a call of a C function that no derivative is registered for",
    ),
    "memory that is not its own": (
        "  store double %x, ptr @slot\n  %r = load double, ptr @slot",
        "a number written to memory that is not the function's own",
    ),
    "arithmetic on bits": (
        "  %b = bitcast double %x to i64\n  %c = xor i64 %b, -9223372036854775808\n  %r = bitcast i64 %c to double",
        "arithmetic on the bits of a number",
    ),
    "memory given away": (
        """
  %m = alloca double
  store double %x, ptr %m
  call void @sink(ptr %m)
  %r = load double, ptr %m""",
        "a call of sink",
    ),
    "memory that a call writes": (
        """
  %m = alloca double
  store double 0.0, ptr %m
  call void @writes(double %x, ptr %m)
  %a = load double, ptr %m
  %r = fadd double %a, %x""",
        "a call of writes",
    ),
    "memory that is not known": (
        """
  %m = alloca double
  store double %x, ptr %m
  %p = call ptr @somewhere()
  %a = load double, ptr %p
  %b = load double, ptr %m
  %r = fadd double %a, %b""",
        "memory of which is not known what it is",
    ),
    "a copy of what is not known": (
        """
  %m = alloca [2 x double]
  store double %x, ptr %m
  %n = alloca double
  %p = call ptr @somewhere()
  call void @llvm.memcpy.p0.p0.i64(ptr %n, ptr %p, i64 8, i1 false)
  %a = load double, ptr %n
  %b = load double, ptr %m
  %r = fadd double %a, %b""",
        "memory of which is not known what it is",
    ),
    "its own memory or other": (
        """
  %m = alloca double
  store double %x, ptr %m
  %c = fcmp ogt double %x, 0.0
  %p = select i1 %c, ptr %m, ptr @slot
  %r = load double, ptr %p""",
        "an address that may be of memory with and without derivatives",
    ),
    "bits in memory": (
        """
  %b = bitcast double %x to i64
  %c = and i64 %b, -2
  %m = alloca i64
  %n = alloca i64
  store i64 %c, ptr %m
  call void @llvm.memcpy.p0.p0.i64(ptr %n, ptr %m, i64 8, i1 false)
  %r = load double, ptr %n""",
        "arithmetic on the bits of a number",
    ),
    "bits in memory, as an integer": (
        """
  %b = bitcast double %x to i64
  %c = and i64 %b, -2
  %m = alloca i64
  store i64 %c, ptr %m
  %d = load i64, ptr %m
  %r = bitcast i64 %d to double""",
        "arithmetic on the bits of a number",
    ),
    "bits in memory that is not its own": (
        """
  %b = bitcast double %x to i64
  %c = and i64 %b, -2
  store i64 %c, ptr @slot
  %r = load double, ptr @slot""",
        "a number written to memory that is not the function's own",
    ),
    "bits as an integer": (
        "  %b = bitcast double %x to i64\n  %r = sitofp i64 %b to double",
        "arithmetic on the bits of a number",
    ),
    "vectors": (
        """
  %v = insertelement <2 x double> zeroinitializer, double %x, i32 0
  %w = fmul <2 x double> %v, %v
  %r = extractelement <2 x double> %w, i32 0""",
        "the instruction 'insertelement'",
    ),
    "a function without a row": (
        '  %r = call double @"tmapad.spence:d->d"(double %x)',
        "spence, which is not in the table of derivatives",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, reason = REFUSED[name]
    declarations = f'{DECLARATIONS}declare double @"tmapad.spence:d->d"(double)\n'
    monkeypatch.setitem(globals(), "DECLARATIONS", declarations)
    ir = scalar(body, "dq" if "%y" in body else "d")
    with pytest.raises(NoDerivativeError, match=r"f cannot be differentiated: its result depends on") as caught:
        forward.forward(ir, (0,))
    assert reason in str(caught.value)


def test_it_can_be_differentiated_again() -> None:
    ir = scalar('  %a = call double @"tmapad.sin:d->d"(double %x)\n  %r = fmul double %a, %y', "dd")
    first = forward.derivative(ir, 0)
    assert first.out_chars == "d"
    second = forward.forward(first, (0, 1))
    x, y = 0.7, 3.0
    expected = [y * np.cos(x), -y * np.sin(x), np.cos(x)]
    np.testing.assert_allclose(np.ravel(run(compiled(second), x, y)), expected, rtol=1e-15)
    third = forward.derivative(forward.derivative(first, 0), 0)
    np.testing.assert_allclose(run(compiled(third), x, y), -y * np.cos(x), rtol=1e-15)


@pytest.mark.parametrize("width", [1, 3, 8])
def test_elements_of_an_array(width: int) -> None:
    """Of an array that is an argument, by its address: each partial derivative in as many passes as it takes."""
    body = """
  %p = inttoptr i64 %y to ptr
  %q = getelementptr double, ptr %p, i64 %z
  %a = load double, ptr %p
  %b = load double, ptr %q
  %c = fmul double %a, %b
  %r = fmul double %c, %x"""
    window = forward.Window(1, "d", width)
    differentiated = forward.forward(scalar(body, "dqq"), (0,), window)
    assert differentiated.in_chars == "dqqq"
    function = compiled(differentiated)
    table = np.arange(1.0, 12.0)
    unit = np.zeros(2 * table.size + width)
    unit[width + table.size - 1] = 1.0
    found = np.zeros(table.size)
    for first in range(0, table.size, width):
        shadow = unit.ctypes.data + 8 * (width + table.size - 1 - first)
        y, dx, *partials = run(function, 2.0, table.ctypes.data, 6, shadow)[:, 0]
        assert (y, dx) == (14.0, 7.0)
        found[first : first + width] = partials[: table.size - first]
    expected = np.zeros(table.size)
    expected[[0, 6]] = 2.0 * table[6], 2.0 * table[0]
    np.testing.assert_array_equal(found, expected)


def test_structs_are_taken_apart() -> None:
    """Also where they meet in a phi or a select, in a loop, nested, and where a part is a struct itself."""
    text = """
define { i32, double } @scalar(double %x) {
entry:
  %a = insertvalue { double, { double, i64 } } { double undef, { double, i64 } { double 7.0, i64 0 } }, double %x, 0
  %b = insertvalue { double, { double, i64 } } %a, double 2.0, 1, 0
  br label %loop
loop:
  %s = phi { double, { double, i64 } } [ %b, %entry ], [ %e, %loop ]
  %first = extractvalue { double, { double, i64 } } %s, 0
  %inner = extractvalue { double, { double, i64 } } %s, 1
  %second = extractvalue { double, i64 } %inner, 0
  %count = extractvalue { double, i64 } %inner, 1
  %next = add i64 %count, 1
  %product = fmul double %first, %second
  %c = insertvalue { double, { double, i64 } } poison, double %product, 0
  %d = insertvalue { double, { double, i64 } } %c, double %second, 1, 0
  %m = insertvalue { double, { double, i64 } } %d, i64 %next, 1, 1
  %odd = icmp eq i64 %count, 1
  %e = select i1 %odd, { double, { double, i64 } } %m, { double, { double, i64 } } %m
  %again = icmp slt i64 %next, 3
  br i1 %again, label %loop, label %end
end:
  %r = extractvalue { double, { double, i64 } } %e, 0
  %out = insertvalue { i32, double } zeroinitializer, double %r, 1
  ret { i32, double } %out
}
"""
    module = canonical(llvm.parse_assembly(text))
    body = str(module)
    assert "phi { " not in body
    assert "select i1 %odd, { " not in body
    ir = ScalarIR("f", body, "d", "d", can_raise=False)
    np.testing.assert_array_equal(np.ravel(run(compiled(forward.forward(ir, (0,))), 5.0)), [40.0, 8.0])
