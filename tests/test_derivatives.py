"""How rules become graphs, and graphs steps of a program."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special

from tmapad import _derivatives, rrule, tmap
from tmapad._derivatives import Node, derivative, f, rule, trace
from tmapad._ufuncs import TableForm, ufunc

# ---- graphs


def test_a_rule_becomes_a_graph() -> None:
    ((d,),) = trace(lambda y, x: 1 - y * y, 1)
    assert d is not None
    assert (d.op, [operand.op for operand in d.operands]) == ("subtract", ["constant", "multiply"])
    assert d.operands[0].value == 1
    assert [operand.op for operand in d.operands[1].operands] == ["y", "y"]


def test_what_is_equal_is_one_node() -> None:
    (a, b), (c, d) = trace(lambda ys, p, q: ((p * q + 1, f.cos(p * q)), (ys[0], None)), 2, 2)
    assert a is not None
    assert b is not None
    assert a.operands[0] is b.operands[0]
    assert (c.op, c.value, d) == ("y", 0, None)  # type: ignore[union-attr]


def test_constants_that_compare_equal_are_told_apart() -> None:
    ((a, b, c, d, e),) = trace(lambda y, *xs: (0.0, -0.0, 0, float("nan"), float("nan")), 5)
    assert len({a, b, c, d}) == 4
    assert d is e


def test_all_operators() -> None:
    def each(y: Node, a: Node, b: Node) -> Any:
        yield from (-a, a + 1, 1 + a, a - 1, 1 - a, a * 2, 2 * a, a / 2, 2 / a)
        yield from (a < b, a <= b, a > b, a >= b, (a < b) & (a > b), (a < b) | (a > b))

    ((*nodes,),) = trace(lambda y, a, b, *rest: tuple(each(y, a, b)), 15)
    ops = "negative add subtract multiply divide less less_equal greater greater_equal logical_and logical_or"
    assert " ".join(dict.fromkeys(node.op for node in nodes if node is not None)) == ops
    assert [node.operands[0].op for node in nodes[1:9] if node is not None] == ["x", "constant"] * 4


def test_rules_do_not_branch() -> None:
    with pytest.raises(TypeError, match=r"a rule is recorded, not run: write f.select\(condition, a, b\)"):
        trace(lambda y, x: 1 if x > 0 else 0, 1)


@pytest.mark.parametrize(
    ("given", "nin", "nout"), [(lambda y, a, b: a, 2, 1), (lambda y, x: (x, x), 1, 1), (lambda ys, x: (x,), 1, 2)]
)
def test_a_rule_gives_all_partials(given: Any, nin: int, nout: int) -> None:
    with pytest.raises(TypeError, match=f"a rule of {nout} outputs and {nin} arguments returned"):
        trace(given, nin, nout)


def test_a_function_has_one_rule() -> None:
    with pytest.raises(ValueError, match="exp has two rules for real types"):
        rule("exp", lambda y, x: y)
    assert ("exp", False) in _derivatives._rules


def test_whether_the_value_is_needed() -> None:
    for name, types, pair, needed in [
        ("exp", "d->d", (0, 0), True),
        ("sin", "d->d", (0, 0), False),
        ("add", "dd->d", (0, 1), False),
        ("divide", "dd->d", (0, 0), False),
        ("divide", "dd->d", (0, 1), True),
        ("divmod", "dd->dd", (1, 1), True),
        ("divmod", "dd->dd", (1, 0), False),
    ]:
        found = derivative(name, types)
        assert found is not None
        assert found.uses_value([pair]) is needed, (name, pair)


def test_the_kind_of_types_decides() -> None:
    assert derivative("tanh", "d->d") is not derivative("tanh", "D->D")
    assert derivative("tanh", "d->d") != derivative("tanh", "D->D")
    assert derivative("no such function", "d->d") is None
    assert derivative("hypot", "DD->D") is None


# ---- steps of a program


@dataclass(eq=False)
class Slot:
    char: str
    name: str


@dataclass
class Recorder:
    """A builder of programs that writes down what it was told."""

    steps: list[str] = field(default_factory=list)

    def slot(self, char: str, text: str) -> Slot:
        self.steps.append(f"{char}{len(self.steps)} = {text}")
        return Slot(char, f"{char}{len(self.steps) - 1}")

    def call(self, loop: Any, arguments: list[Slot], source: object = None) -> list[Slot]:
        assert "".join(slot.char for slot in arguments) == loop.in_chars
        text = f"loop {loop.types} {' '.join(a.name for a in arguments)}"
        return [self.slot(char, text) for char in loop.out_chars]

    def constant(self, value: Any, char: str) -> Slot:
        return self.slot(char, repr(value))

    def cast(self, slot: Slot, char: str) -> Slot:
        return slot if slot.char == char else self.slot(char, f"cast {slot.name}")


def steps(given: np.ufunc, types: str, *wanted: tuple[int, int]) -> tuple[list[str], list[str]]:
    """Steps added for the partials wanted, and the types of these."""
    found = ufunc(given)
    assert found is not None
    inputs, _, outputs = types.partition("->")
    builder = Recorder()
    asked: list[list[Slot]] = []

    class Call:
        value_loop = SimpleNamespace(types=types)
        xs = [Slot(char, f"x{i}") for i, char in enumerate(inputs)]  # noqa: RUF012

        @property
        def ys(self) -> list[Slot]:
            asked.append([Slot(char, f"y{j}") for j, char in enumerate(outputs)])
            return asked[-1]

        def __init__(self) -> None:
            self.builder = builder

    partials = TableForm(found, types).emit(Call(), wanted)
    assert list(partials) == list(wanted)
    assert len(asked) <= 1
    return builder.steps, [partials[pair][0][0].char for pair in wanted]


@pytest.mark.parametrize(
    ("given", "types", "wanted", "expected", "chars"),
    [
        (np.exp, "d->d", [(0, 0)], [], ["d"]),
        (np.add, "ff->f", [(0, 0), (0, 1)], ["f0 = 1.0"], ["f", "f"]),
        (np.sin, "f->f", [(0, 0)], ["f0 = loop f->f x0"], ["f"]),
        (np.multiply, "DD->D", [(0, 1)], [], ["D"]),
        (np.sqrt, "F->F", [(0, 0)], ["F0 = 0.5", "F1 = loop FF->F F0 y0"], ["F"]),
        (np.divide, "dd->d", [(0, 0)], ["d0 = 1", "d1 = loop dd->d d0 x1"], ["d"]),
        (np.ldexp, "fl->f", [(0, 0)], ["f0 = 1.0", "f1 = loop fl->f f0 x1"], ["f"]),
        (np.rint, "d->d", [(0, 0)], ["d0 = 0.0"], ["d"]),
        (np.spacing, "e->e", [(0, 0)], ["f0 = 0.0"], ["f"]),
        (
            np.fabs,
            "f->f",
            [(0, 0)],
            ["f0 = loop f->f x0"],
            ["f"],
        ),
        (
            np.maximum,
            "dd->d",
            [(0, 0)],
            [
                "?0 = loop dd->? x0 x1",
                "?1 = loop d->? x0",
                "?2 = loop ??->? ?0 ?1",
                "d3 = 1.0",
                "d4 = 0.0",
                "d5 = loop ?dd->d ?2 d3 d4",
            ],
            ["d"],
        ),
        (
            scipy.special.jv,
            "dD->D",
            [(0, 1)],
            [
                "d0 = 1",
                "d1 = loop dd->d x0 d0",
                "D2 = loop dD->D d1 x1",
                "d3 = loop dd->d x0 d0",
                "D4 = loop dD->D d3 x1",
                "D5 = loop DD->D D2 D4",
                "D6 = 0.5",
                "D7 = loop DD->D D6 D5",
            ],
            ["D"],
        ),
        (
            scipy.special.kn,
            "ld->d",
            [(0, 1)],
            ["l0 = 1", "l1 = loop ll->l x0 l0", "d2 = loop ld->d l1 x1"],
            ["d"],
        ),
    ],
)
def test_steps(given: np.ufunc, types: str, wanted: Any, expected: list[str], chars: list[str]) -> None:
    got, types_of_partials = steps(given, types, *wanted)
    assert got[: len(expected)] == expected
    assert len(got) == len(expected) or given is scipy.special.kn
    assert types_of_partials == chars


def test_a_real_function_of_complex_numbers_has_a_complex_derivative() -> None:
    got, chars = steps(np.absolute, "D->d", (0, 0))
    assert chars == ["D"]
    # The real size is compared with real constants, and divides as a complex number.
    assert "d1 = loop dd->" not in got[1]
    assert any("cast" in step and step.startswith("D") for step in got)
    assert not any(step.startswith("d") and "cast" in step for step in got)


def test_what_partials_share_is_computed_once() -> None:
    one, _ = steps(np.logaddexp, "dd->d", (0, 0))
    both, _ = steps(np.logaddexp, "dd->d", (0, 0), (0, 1))
    assert len(both) == len(one) + 1


@pytest.mark.parametrize(("given", "xs"), [(np.exp, 1), (np.sin, 1), (np.hypot, 2), (scipy.special.erfinv, 1)])
@pytest.mark.parametrize("char", "fd")
def test_partials_have_the_types_of_the_function(given: np.ufunc, xs: int, char: str) -> None:
    x = np.linspace(0.1, 0.9, 5).astype(char)
    y, back = rrule(tmap, given, *[x] * xs)
    assert y.dtype == char
    assert [dx.dtype for dx in back(np.ones_like(y))[2:]] == [np.dtype(char)] * xs
