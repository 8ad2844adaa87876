"""Expression graphs of derivatives evaluated with NumPy, node by node."""

from typing import Any

import numpy as np
import scipy.special

from tmapad._derivatives import Node, derivative

Array = np.ndarray[Any, Any]


def function(name: str) -> np.ufunc:
    """NumPy's or SciPy's ufunc of this name."""
    found = getattr(np, name, None)
    return found if isinstance(found, np.ufunc) else getattr(scipy.special, name)


def partials(name: str, types: str, *xs: Any) -> list[list[Array | None]]:
    """For each output the partial derivatives that the table gives, None where it has none."""
    found = derivative(name, types)
    assert found is not None
    inputs, _, outputs = types.partition("->")
    char = np.result_type(*[c for c in inputs + outputs if c in "fdFD"]).char
    given = [np.asarray(x, c) for x, c in zip(xs, inputs, strict=True)]
    values: dict[Node, Any] = {}

    def value(node: Node) -> Any:
        if node not in values:
            operands = [value(operand) for operand in node.operands]
            if node.op == "select":
                values[node] = np.where(operands[0], *(np.asarray(x, getattr(x, "dtype", char)) for x in operands[1:]))
            elif node.op == "constant":
                values[node] = node.value
            else:
                values[node] = function(node.op)(*operands)
        return values[node]

    with np.errstate(all="ignore"):
        ys = function(name)(*given)
        for kind, arrays in (("x", given), ("y", ys if isinstance(ys, tuple) else (ys,))):
            values |= {node: arrays[int(node.value.real)] for node in leaves(found.partials, kind)}
        shape = np.broadcast_shapes(*(x.shape for x in given))
        return [[None if p is None else np.broadcast_to(value(p), shape) for p in row] for row in found.partials]


def leaves(rows: tuple[tuple[Node | None, ...], ...], kind: str) -> set[Node]:
    """The arguments or outputs that occur in graphs."""
    found, todo = set(), [node for row in rows for node in row if node is not None]
    seen = set(todo)
    while todo:
        node = todo.pop()
        if node.op == kind:
            found.add(node)
        new = [operand for operand in node.operands if operand not in seen]
        seen.update(new)
        todo += new
    return found
