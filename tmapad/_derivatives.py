"""Derivatives of elementary functions, as data: how a rule is written, recorded as a graph, and found by name.

A rule is a function of the output and the arguments that returns the partial derivatives, written with arithmetic
and the functions of `f`::

    rule("arcsin", lambda y, x: 1 / f.sqrt((1 - x) * (1 + x)))
    rule("arctan2", lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)))

It is never run on numbers. It is called once with `Node` objects, which record what is done to them: an expression
graph whose nodes are named by NumPy's and SciPy's functions. From the graph come the steps of a chunk program
(`Emitter`), and whatever else can compute arithmetic. What several partials have in common is one node, and so computed
once.

Conventions: the derivative is 0 at a kink of ``abs``, ``copysign`` and ``hypot``; of equal arguments, ``maximum`` and
its kin take the first; step functions have the derivative 0. Where a function is not defined (``log(-1)``), or has no
derivative (``power(-2, b)`` in b), it is NaN. A real function of a complex argument is given by the d for which
``dx = conj(d) * dy``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np

Operand: TypeAlias = "Node | complex"
NAN = float("nan")


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One value in a graph. Equal nodes are the same object.

    Attributes
    ----------
    op : str
        The name of a NumPy or SciPy ufunc, ``"select"`` (condition, value, other value), ``"x"``, ``"y"`` or
        ``"constant"``.
    operands : tuple of Node
        What it is computed from.
    value : number
        Of a constant; of an argument or output, its position.
    """

    op: str
    operands: tuple[Node, ...] = ()
    value: complex = 0

    def __bool__(self) -> NoReturn:
        raise TypeError("a rule is recorded, not run: write f.select(condition, a, b) instead of a branch")

    def __neg__(self) -> Node:
        return call("negative", self)

    def __add__(self, other: Operand) -> Node:
        return call("add", self, other)

    def __radd__(self, other: complex) -> Node:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Node:
        return call("subtract", self, other)

    def __rsub__(self, other: complex) -> Node:
        return call("subtract", other, self)

    def __mul__(self, other: Operand) -> Node:
        return call("multiply", self, other)

    def __rmul__(self, other: complex) -> Node:
        return call("multiply", other, self)

    def __truediv__(self, other: Operand) -> Node:
        return call("divide", self, other)

    def __rtruediv__(self, other: complex) -> Node:
        return call("divide", other, self)

    def __lt__(self, other: Operand) -> Node:
        return call("less", self, other)

    def __le__(self, other: Operand) -> Node:
        return call("less_equal", self, other)

    def __gt__(self, other: Operand) -> Node:
        return call("greater", self, other)

    def __ge__(self, other: Operand) -> Node:
        return call("greater_equal", self, other)

    def __and__(self, other: Operand) -> Node:
        return call("logical_and", self, other)

    def __or__(self, other: Operand) -> Node:
        return call("logical_or", self, other)


_NUMBERS: dict[str, Callable[[str], complex]] = {"int": int, "float": float, "complex": complex}


@functools.cache
def _node(op: str, operands: tuple[Node, ...], kind: str, text: str) -> Node:
    # Constants are told apart by type and text: 0.0 and -0.0 are equal, nan is not equal to itself.
    return Node(op, operands, _NUMBERS[kind](text))


def as_node(given: Operand) -> Node:
    """Return a node, or the constant node of a number."""
    return given if isinstance(given, Node) else _node("constant", (), type(given).__name__, repr(given))


def call(op: str, *operands: Operand) -> Node:
    """Return the node of a function of other nodes and numbers."""
    return _node(op, tuple(as_node(operand) for operand in operands), "int", "0")


class Functions:
    """All functions that a rule may call, by name: ``f.cos(x)`` records a call of ``cos``."""

    def __getattr__(self, name: str) -> Callable[..., Node]:
        return functools.partial(call, name)


f = Functions()


def where_defined(condition: Node, value: Operand) -> Node:
    """Return the value where the function is defined, NaN elsewhere."""
    return f.select(condition, value, NAN)


def horner(t: Node, coefficients: Sequence[float]) -> Operand:
    """Return the polynomial in t with these coefficients, the constant one first."""
    total: Operand = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * t + c
    return total


@dataclass(frozen=True)
class Derivative:
    """The partial derivatives of a function for one kind of types.

    Attributes
    ----------
    partials : tuple of tuples
        For each output, one `Node` for each argument; None where no derivative is known.
    antiholomorphic : bool
        The function is one of conj(x): ``dx = d * conj(dy)`` in place of ``dx = conj(d) * dy``.
    """

    partials: tuple[tuple[Node | None, ...], ...]
    antiholomorphic: bool = False

    def uses_value(self, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether the function's own value is needed for the partials of these (output, argument)."""
        return any(node.op == "y" for node in reachable(self.partials[j][i] for j, i in pairs))


def reachable(roots: Iterable[Node | None]) -> list[Node]:
    """Return every node that these are computed from, each once, operands first."""
    found: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in found:
            for operand in node.operands:
                visit(operand)
            found[node] = None

    for root in roots:
        if root is not None:
            visit(root)
    return list(found)


def trace(rule: Callable[..., Any], nin: int, nout: int = 1) -> tuple[tuple[Node | None, ...], ...]:
    """Record a rule: for each output its partial derivatives, one for each argument.

    Parameters
    ----------
    rule : callable
        Called as ``rule(y, x1, ..., xk)``, with a tuple of outputs in place of y if there are several. Returns a
        partial for one argument, a tuple of them for several; for several outputs a tuple of that.
    nin, nout : int
        The numbers of arguments and outputs.
    """
    xs = [_node("x", (), "int", str(i)) for i in range(nin)]
    ys = tuple(_node("y", (), "int", str(j)) for j in range(nout))
    returned = rule(ys[0] if nout == 1 else ys, *xs)
    rows = (returned,) if nout == 1 else returned
    rows = [row if isinstance(row, tuple) else (row,) for row in rows]
    if len(rows) != nout or any(len(row) != nin for row in rows):
        raise TypeError(f"a rule of {nout} outputs and {nin} arguments returned {returned!r}")
    return tuple(tuple(None if entry is None else as_node(entry) for entry in row) for row in rows)


# ------------------------------------------------------------------------------------------------ the table

# By name of the function, and whether it is complex: a rule, and whether it is antiholomorphic.
OF_MATH = "math_"
"""How the names of functions begin that are no ufuncs, but Python's."""
_rules: dict[tuple[str, bool], tuple[Callable[..., Any], bool]] = {}
Rule = TypeVar("Rule", bound=Callable[..., Any])


def rule(
    names: str,
    real: Rule | None,
    *,
    holomorphic: bool = False,
    complex_: Callable[..., Any] | None = None,
    antiholomorphic: bool = False,
) -> None:
    """Add a row to the table.

    Parameters
    ----------
    names : str
        The functions it holds for, with spaces between them.
    real : callable or None
        The rule for real types.
    holomorphic : bool, optional
        The same rule holds for complex types.
    complex_ : callable, optional
        The rule for complex types, if it is another. Without either, there is none.
    antiholomorphic : bool, optional
        The complex rule is that of a function of conj(x).
    """
    for name in names.split():
        for is_complex, given in ((False, real), (True, real if holomorphic else complex_)):
            if given is not None:
                if (name, is_complex) in _rules:
                    raise ValueError(f"{name} has two rules for {'complex' if is_complex else 'real'} types")
                _rules[name, is_complex] = (given, antiholomorphic and is_complex)


def names() -> frozenset[str]:
    """Return the names of all ufuncs in the table."""
    return frozenset(name for name, _ in _rules if not name.startswith(OF_MATH))


@functools.cache
def derivative(name: str, types: str) -> Derivative | None:
    """Return the derivative of NumPy's or SciPy's function of this name for types like ``"dd->d"``; None if unknown."""
    inputs, _, outputs = types.partition("->")
    found = _rules.get((name, any(char in "FD" for char in inputs)))
    if found is None:
        return None
    return Derivative(trace(found[0], len(inputs), len(outputs)), found[1])


# ------------------------------------------------------------------------------------------------ programs


class _Slot(Protocol):
    @property
    def char(self) -> str: ...


SlotT = TypeVar("SlotT", bound=_Slot)


class Finder(Protocol):
    """Finds the loop of a function, named as in a graph, for arguments of these types."""

    def __call__(self, name: str, types: tuple[np.dtype[Any], ...], /) -> Any: ...


class Emitter:
    """Turns nodes into steps of a program, each once.

    Parameters
    ----------
    builder : Builder
        Of the program: has ``call(loop, slots)``, ``cast(slot, char)`` and ``constant(value, char)``.
    find : callable
        Gives the loop of a function for types; of ``"select"`` too.
    types : str
        Of the function's own loop, ``"dd->d"``.
    xs : sequence of slots
        The arguments, in the types of the loop.
    ys : callable
        Gives the slots of the outputs; called only if they are needed.
    """

    def __init__(
        self, builder: Any, find: Finder, types: str, xs: Sequence[Any], ys: Callable[[], Sequence[Any]]
    ) -> None:
        self._builder, self._find, self._xs, self._ys = builder, find, xs, ys
        self._inputs, _, self._outputs = types.partition("->")
        self._type = _promoted([char for char in types if char in "efdFD"] + ["f"])
        self._slots: dict[Node, Any] = {}
        self._cast: dict[tuple[Node, str], Any] = {}

    def partial(self, derivative: Derivative, output: int, argument: int) -> Any:
        """Return the slot of a partial derivative: real only if the argument and the output are."""
        node = derivative.partials[output][argument]
        assert node is not None
        char = _promoted([self._inputs[argument], self._outputs[output], "f"])
        return self._as(node, char)

    def _as(self, node: Node, char: str) -> Any:
        if (node, char) not in self._cast:
            self._cast[node, char] = (
                self._builder.constant(node.value, char)
                if node.op == "constant"
                else self._builder.cast(self._slot(node), char)
            )
        return self._cast[node, char]

    def _slot(self, node: Node) -> Any:
        if node not in self._slots:
            self._slots[node] = self._emit(node)
        return self._slots[node]

    def _emit(self, node: Node) -> Any:
        if node.op == "x":
            return self._xs[int(node.value.real)]
        if node.op == "y":
            return self._ys()[int(node.value.real)]
        chars = self._chars(node)
        loop = self._find(node.op, tuple(np.dtype(char) for char in chars))
        arguments = [self._as(operand, char) for operand, char in zip(node.operands, loop.in_chars, strict=True)]
        return self._builder.call(loop, arguments)[0]

    def _chars(self, node: Node) -> list[str]:
        """Types of the operands: constants take that of the others, or that of the whole computation."""
        known = [None if operand.op == "constant" else self._slot(operand).char for operand in node.operands]
        others = [char for char in known if char is not None and char != "?"]
        constants = [operand.value for operand, char in zip(node.operands, known, strict=True) if char is None]
        integers = bool(others) and not any(char in "efdFD" for char in others)
        if not others or (integers and not all(isinstance(value, int) for value in constants)):
            others = [self._type]
        if any(isinstance(value, complex) for value in constants):
            others.append("F")
        common = _promoted(others)
        if node.op == "select":
            return ["?", common, common]
        return [char or common for char in known]


def _promoted(chars: Iterable[str]) -> str:
    return np.result_type(*(np.dtype(char) for char in chars)).char
