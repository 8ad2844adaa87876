"""A C function for every signature that has a loop, each with a result of its own."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

C_TYPES = {"f": "float", "d": "double", "F": "float complex", "D": "double complex"}
TRAILING = {"": "", "void *": ", void *p", "int": ", int p"}


class Plain(NamedTuple):
    """A signature; ``outputs`` 0 for a function that returns its value."""

    char: str
    inputs: int
    outputs: int
    trailing: str

    @property
    def name(self) -> str:
        return f"plain_{self.char}_{self.inputs}_{self.outputs}_{self.trailing.replace(' *', '')}"

    def results(self, inputs: list[np.ndarray], user_data: float) -> list[np.ndarray]:
        """What the function gives: sums in which every argument counts for something else."""
        total = sum((i + 1) * x for i, x in enumerate(inputs))
        last = user_data if self.trailing == "void *" else 0
        return [total + 10 * j + last for j in range(max(self.outputs, 1))]

    def source(self) -> str:
        number = C_TYPES[self.char]
        inputs = ", ".join(f"{number} x{i}" for i in range(self.inputs))
        outputs = "".join(f", {number} *y{j}" for j in range(self.outputs))
        total = " + ".join(f"{i + 1} * x{i}" for i in range(self.inputs))
        last = {"": "0", "void *": "*(float *)p", "int": "p"}[self.trailing]
        results = [f"{total} + {10 * j} + {last}" for j in range(max(self.outputs, 1))]
        body = " ".join(f"*y{j} = {result};" for j, result in enumerate(results))
        return (
            f"{'void' if self.outputs else number} {self.name}({inputs}{outputs}{TRAILING[self.trailing]}) "
            f"{{ {body if self.outputs else f'return {results[0]};'} }}\n"
        )


def signatures() -> Iterator[Plain]:
    for char in C_TYPES:
        for trailing in TRAILING:
            yield from (Plain(char, inputs, 0, trailing) for inputs in range(1, 8))
        for trailing in ("", "void *"):
            yield from (Plain(char, inputs, outputs, trailing) for inputs in range(1, 7) for outputs in range(1, 9))


def source() -> str:
    return "#include <complex.h>\n\n" + "".join(signature.source() for signature in signatures())
