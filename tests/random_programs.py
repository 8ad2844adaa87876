"""Random scalar functions with nested control flow, as source text: most of Python that compiles is in them.

Values stay moderate, so that comparing derivatives means something: what is assigned in a loop is squashed.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numba
import numpy as np

ARGUMENTS = ("x", "a", "b")
LOCALS = ("u", "v", "w")

# Expressions with 0, 1, 2 and more expressions in them. All are floats.
_LEAVES = ("x", "x", "u", "v", "w", "float(k)", "pair[0]", "pair[1]", "t[k % 3]", "t[int(flag)]", "t[-1]")
_UNARY = (
    "abs({})", "-({})", "math.sin({})", "math.cos({})", "math.exp(-abs({}))", "math.sqrt(0.01 + abs({}))",
    "math.atan({})", "math.tanh({})", "math.log(1.0 + abs({}))", "math.log1p(abs({}))", "math.erf({})", "math.fabs({})",
    "np.sin({})", "np.sqrt(abs({}) + 0.1)", "np.floor({})", "({}) ** 2", "({}) ** 3", "(0.3 + abs({})) ** -1.5",
    "({}) ** n", "(0.4 + abs({})) ** -2", "(0.01 + abs({})) ** 0.5", "1.0 / (0.7 + ({}) ** 2)",
    "math.expm1(math.sin({}))", "math.sinh(math.atan({}))", "float(int(math.atan({}) * 3.0))",
    "float(round(math.atan({}) * 3.0))", "float(math.floor(math.atan({}) * 2.0))",
    "divmod({}, 0.9)[1]", "(1.0 if math.sin({}) > 0.3 else -0.5)",
    "helper({})", "inner({})",
)  # fmt: skip
_BINARY = (
    "{} + {}", "{} - {}", "{} * {}", "{} + {}", "{} - {}", "{} * {}", "{} / (1.5 + abs({}))", "min({}, {})",
    "max({}, {})", "{} % (0.5 + abs({}))", "{} // (0.5 + abs({}))", "math.atan2({}, 1.5 + abs({}))",
    "math.hypot({}, {})", "math.copysign({}, {})", "(0.5 + abs({})) ** math.atan({})", "np.fmod({}, 0.5 + abs({}))",
    "math.pow(1.2 + math.sin({}), math.cos({}))", "helper({}, {})", "both({}, {})[1]", "max({}, {}, 0.2)",
)  # fmt: skip
_COMPARED = (
    "{} < {}", "{} >= {}", "({} > {}) or x < 0.0", "not ({} < {})", "{} < 0.5 <= {}", "flag and {} > {}",
    "k % 2 == 0 and {} < {}", "{} == {}", "u == v or {} != {}", "{} < {} != flag",
)  # fmt: skip
_SQUASHED = ("math.sin({})", "2.0 * math.atan({})", "({}) % 4.0", "({0}) / (1.0 + abs({0}))", "min(max({}, -2.0), 3.0)")
_HEAD = """\
    u = v = x
    w = 0.0
    k = 0
    flag = x > 0.5
    pair = (x, 1.5)
    t = np.zeros(3)
"""
# Only where it is called: Numba cannot compile an inner function that nobody calls.
_INNER = """\

    def inner(p):
        return p * shift + x

"""
_HELPERS = """\
@jit
def both(p, q):
    if p < q:
        return q, math.sin(p) * q
    return p * p, q

def make({captured}):
    n = {n}
    factor = {factor}
    shift = {shift}

    @jit
    def helper(p, q=0.75):
        first, second = both(p, q)
        return first * factor - second

"""


@dataclass(frozen=True)
class Program:
    """A random function.

    Attributes
    ----------
    seed : int
    source : str
    nin : int
    captured : dict
        Floats that it captured, by path.
    names : tuple of str
        Of those that it captured itself: what ``make`` takes.
    """

    seed: int
    source: str
    nin: int
    captured: dict[str, float]
    names: tuple[str, ...]

    def function(self, jit: Callable[..., Any] = lambda f: f) -> FunctionType:
        """Make the function; `jit` decorates its helpers."""
        namespace: dict[str, Any] = {"math": math, "np": np, "jit": jit}
        exec(self.source, namespace)
        return namespace["make"](*(self.captured[name] for name in self.names))  # type: ignore[no-any-return]


class _Writer:
    def __init__(self, seed: int, nin: int, captured: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        self.nin = nin
        self.leaves = _LEAVES + ARGUMENTS[:nin] * 2 + captured * 2
        self.lines: list[str] = []
        self.loops = 0

    def number(self) -> str:
        return repr(round(self.random.uniform(-3, 3), 3))

    def expression(self, depth: int) -> str:
        if depth == 0:
            return self.number() if self.random.random() < 0.2 else self.random.choice(self.leaves)
        kind = self.random.random()
        if kind < 0.4:
            return "(" + self.random.choice(_UNARY).format(self.expression(depth - 1)) + ")"
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        if kind < 0.5:
            return f"({left} if {self.condition()} else {right})"
        return "(" + self.random.choice(_BINARY).format(left, right) + ")"

    def condition(self) -> str:
        return self.random.choice(_COMPARED).format(self.expression(1), self.expression(1))

    def squashed(self, depth: int, in_loop: bool) -> str:
        text = self.expression(depth)
        return self.random.choice(_SQUASHED).format(text) if in_loop else text

    def assignment(self, in_loop: bool) -> str:
        u, v = self.random.sample(LOCALS, 2)
        new = self.squashed(2, in_loop)
        form = self.random.choice((
            f"{u} = {new}", f"{u} = {new}", f"{u} = {new}", f"{u} += {new}", f"{u} -= {new}", f"{u} *= 0.5",
            f"{u} = {self.squashed(3, True)}", f"{u}, {v} = {v}, {new}", f"{u}, {v} = both({v}, {new})",
            f"pair = ({new}, {u})", f"{u}, {v} = pair",
            f"t[k % 3] = {new}", f"t[int(abs(math.sin({u})) * 2.9) % 3] = {new}",
            f"t[1] += {new}", f"k = int(math.atan({u}) * 4.0)", "k += 1",
            f"k = (k * 3 + {self.random.randint(1, 5)}) % 7",
            f"flag = {self.condition()}", f"{u} = t.sum()", f"{u} = sum((t[0], {v}, pair[1]))",
        ))  # fmt: skip
        # What these produce is bounded only together.
        return f"{form}; {u} = math.sin({u})" if in_loop and form.startswith((f"{u} +=", f"{u} -=", f"{u}, ")) else form

    def result(self) -> str:
        return self.expression(1)

    def block(self, indent: int, depth: int, in_loop: bool) -> None:
        space = "    " * indent
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(("assign", "assign", "if", "for", "while", "leave")) if depth else "assign"
            if kind == "assign":
                self.lines.append(space + self.assignment(in_loop))
            elif kind == "if":
                self.lines.append(f"{space}if {self.condition()}:")
                self.block(indent + 1, depth - 1, in_loop)
                if self.random.random() < 0.3:
                    self.lines.append(f"{space}elif {self.condition()}:")
                    self.block(indent + 1, depth - 1, in_loop)
                if self.random.random() < 0.5:
                    self.lines.append(f"{space}else:")
                    self.block(indent + 1, depth - 1, in_loop)
            elif kind == "leave":
                leave = self.random.choice(("break", "continue")) if in_loop else f"return {self.returned()}"
                if self.random.random() < 0.2:
                    leave = f"return {self.returned()}"
                self.lines += [f"{space}if {self.condition()}:", f"{space}    {leave}"]
            else:
                self.loop(kind, indent, depth)

    def loop(self, kind: str, indent: int, depth: int) -> None:
        space = "    " * indent
        self.loops += 1
        counter = f"i{self.loops}"
        if kind == "for":
            over = self.random.choice(
                ("range({0})", "range({0})", "range({0}, 0, -1)", "range(k % 4)", "(x, 0.5, -1.5)")
            )
            self.lines.append(f"{space}for {counter} in {over.format(self.random.randint(1, 5))}:")
            if self.random.random() < 0.5:
                self.lines.append(f"{space}    t[k % 3] += 0.1 * {counter}")
        else:
            self.lines.append(f"{space}{counter} = 0")
            self.lines.append(f"{space}while {counter} < 6 and ({self.condition()}):")
            self.lines.append(f"{space}    {counter} += 1")
        self.block(indent + 1, depth - 1, True)
        if self.random.random() < 0.2:
            self.lines.append(f"{space}else:")
            self.block(indent + 1, 0, True)

    def returned(self) -> str:
        """What a return statement gives: one number, or two where the function has two results."""
        return self.results.format(self.expression(1), self.expression(1))

    results = "{}"


def written(
    seed: int, nin: int | None = None, ncaptured: int | None = None, nout: int | None = None, depth: int | None = None
) -> Program:
    """A program, always the same for the same arguments; what is not given is random."""
    draw = random.Random(seed)
    drawn = draw.randint(1, 3), draw.randint(0, 2), draw.choice((1, 1, 1, 2)), draw.choice((2, 2, 3))
    nin, ncaptured, nout, depth = (
        one if given is None else given for one, given in zip(drawn, (nin, ncaptured, nout, depth), strict=True)
    )
    names = ("c", "d")[:ncaptured]
    writer = _Writer(seed, nin, names)
    writer.results = "({}, {})" if nout == 2 else "{}"
    writer.block(2, depth, False)
    factor, shift = writer.number(), writer.number()
    used = "".join(f" + {0.3} * {name}" for name in (*ARGUMENTS[1:nin], *names))
    last = (f"u - 0.5 * v + math.sin(w){used}", "v * 0.3 + t[0]")[:nout]
    head = _HEAD + _INNER * any("inner(" in line for line in writer.lines)
    source = "\n".join([
        _HELPERS.format(captured=", ".join(names), n=draw.choice((2, 3, 4, 5)), factor=factor, shift=shift)
        + f"    def f({', '.join(ARGUMENTS[:nin])}):",
        *("    " * bool(line) + line for line in head.splitlines()),
        *writer.lines,
        f"        return {', '.join(last)}",
        "    return f",
        "",
    ])  # fmt: skip
    captured = {name: round(draw.uniform(-2, 2), 3) for name in names}
    if any("inner(" in line for line in writer.lines):
        captured["shift"] = float(shift)
    if any("helper(" in line for line in writer.lines):
        captured["helper.factor"] = float(factor)
    return Program(seed, source, nin, captured, names)


def program(seed: int) -> FunctionType:
    """A function ``f(x, a)`` that Numba can compile too, always the same for a seed."""
    return written(seed, nin=2, ncaptured=0, nout=1, depth=2).function(numba.njit(error_model="numpy"))
