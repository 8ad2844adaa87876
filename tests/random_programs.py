"""Random scalar functions of two real numbers, with nested control flow, as source text."""

import math
import random
from types import FunctionType
from typing import Any

_UNARY = ("abs({})", "math.sin({})", "math.exp(-abs({}))", "math.sqrt(abs({}))", "-({})", "math.atan({})")
_BINARY = ("{} + {}", "{} - {}", "{} * {}", "{} / (1.5 + abs({}))", "min({}, {})", "{} % (0.5 + abs({}))")
_COMPARED = ("{} < {}", "{} >= {}", "({} > {}) or x < 0", "not ({} < {})")


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0

    def expression(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(("x", "a", "u", "v", repr(round(self.random.uniform(-3, 3), 3))))
        if self.random.random() < 0.4:
            return "(" + self.random.choice(_UNARY).format(self.expression(depth - 1)) + ")"
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        return "(" + self.random.choice(_BINARY).format(left, right) + ")"

    def condition(self) -> str:
        return self.random.choice(_COMPARED).format(self.expression(1), self.expression(1))

    def block(self, indent: int, depth: int, in_loop: bool) -> None:
        space = "    " * indent
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice(("assign", "assign", "if", "for", "while", "leave")) if depth else "assign"
            if kind == "assign":
                self.lines.append(f"{space}{self.random.choice('uv')} = {self.expression(2)}")
            elif kind == "if":
                self.lines.append(f"{space}if {self.condition()}:")
                self.block(indent + 1, depth - 1, in_loop)
                if self.random.random() < 0.5:
                    self.lines.append(f"{space}else:")
                    self.block(indent + 1, depth - 1, in_loop)
            elif kind == "leave":
                leave = self.random.choice(("break", "continue")) if in_loop else f"return {self.expression(1)}"
                self.lines += [f"{space}if {self.condition()}:", f"{space}    {leave}"]
            else:
                self.loops += 1
                counter = f"i{self.loops}"
                if kind == "for":
                    self.lines.append(f"{space}for {counter} in range({self.random.randint(1, 5)}):")
                else:
                    self.lines.append(f"{space}{counter} = 0")
                    self.lines.append(f"{space}while {counter} < 6 and ({self.condition()}):")
                    self.lines.append(f"{space}    {counter} += 1")
                self.block(indent + 1, depth - 1, True)


def program(seed: int) -> FunctionType:
    """A function ``f(x, a)``, always the same for a seed."""
    writer = _Writer(seed)
    writer.block(1, 3, False)
    text = "\n".join(["def f(x, a):", "    u = v = x", *writer.lines, "    return u - 0.5 * v"])
    names: dict[str, Any] = {"math": math}
    exec(text, names)
    return names["f"]  # type: ignore[no-any-return]
