"""Which values of a function depend on what it is differentiated in.

A lane is one partial derivative. Every value gets the set of lanes, as the bits of an int, on which its tangent may be
other than zero. Nothing is computed for the others: a tangent that is not there is exactly 0, also beside an infinity.

Memory is followed as sites. A site is what one ``alloca`` or one call of an allocator gives, or what an argument that
is an address points to. Where a site may hold values with tangents it gets shadows, one for each lane: memory of the
same shape that holds the tangents at the same places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tmapad.jit.ir import Function, Instruction, is_constant
from tmapad.jit.scalar import OPAQUE, REGISTERED

REALS = ("double", "float")
NOWHERE = ("null", "undef", "poison")
"""Addresses of no memory at all."""

ALLOCATORS = frozenset(
    {"NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned", "NRT_MemInfo_alloc", "NRT_Allocate"}
)
COPIES = ("llvm.memcpy.", "llvm.memmove.")
# What computes an address from another one: done for the shadow's address as well.
ADDRESSES = frozenset({"getelementptr", "bitcast", "inttoptr", "ptrtoint", "freeze", "add", "sub", "and"})

_ARITHMETIC = frozenset({"fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fptrunc", "fpext", "bitcast", "freeze"})
# What makes an integer of another one and does not simply pass it on.
_INTEGER = frozenset(
    {"add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "trunc", "zext", "sext"}
    | {"bitcast", "phi", "select", "sdiv", "udiv", "srem", "urem"}
)

# LLVM's functions of real numbers that have the derivative 0.
_STEPS = frozenset({"floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven"})
# And elementary functions, by their names in the table of derivatives.
_FLAT_ROWS = frozenset({"floor", "ceil", "trunc", "rint", "sign", "floor_divide", "spacing", "math_ulp"})


def intrinsic(callee: str) -> str:
    """The name of one of LLVM's functions without what it says of types; empty for others."""
    return callee.removeprefix("llvm.").partition(".")[0] if callee.startswith("llvm.") else ""


def is_flat(one: Instruction) -> bool:
    """Whether a call is of a function that is constant between its steps."""
    if one.callee.startswith(OPAQUE):
        return one.callee.rpartition(":")[0].removeprefix(OPAQUE).rpartition(".")[2] in _FLAT_ROWS
    return intrinsic(one.callee) in _STEPS


def _is_sign(one: Instruction) -> bool:
    """Whether an instruction leaves nothing of an integer but its highest bit."""
    return one.opcode == "lshr" and one.operands[1] == str(int(one.type[1:]) - 1)


class Activity:
    """The lanes of every value of a function, and of the memory it uses.

    Parameters
    ----------
    function : Function
    seeds : mapping
        For arguments, by name, the lanes on which they are perturbed; for an address those on which there are shadows
        of the memory there.
    addresses : iterable of str
        The arguments that are addresses.

    Attributes
    ----------
    lanes : mapping of str to int
        By the name of a value.
    uncertain : mapping of str to int
        The lanes on which a value may turn out not to depend on anything, by the way that was taken to it: a local that
        begins as a constant, say.
    mangled : set of str
        Integers that were computed from the bits of a number with a tangent.
    """

    def __init__(self, function: Function, seeds: Mapping[str, int], addresses: Iterable[str]) -> None:
        self.lanes: dict[str, int] = defaultdict(int, seeds)
        self.uncertain: dict[str, int] = defaultdict(int)
        self.mangled: set[str] = set()
        self._sites: dict[str, frozenset[str]] = {name: frozenset({name}) for name in addresses}
        self._held: dict[str, frozenset[str]] = {}  # what pointers in a site may point to
        self._of_site: dict[str, int] = defaultdict(int, {name: seeds.get(name, 0) for name in self._sites})
        self._numbers = self._of_site.copy()  # the lanes of the numbers in a site: there may be shadows for pointers
        self._mangled_sites: set[str] = set()
        instructions = list(function.instructions())
        for update in (self._update, self._doubt, self._mangle):
            while sum(map(update, instructions)):  # all of them, each time
                pass

    def of_memory(self, pointer: str) -> int:
        """The lanes on which the memory at this address has shadows."""
        return self._union(self._of_site, self._sites.get(pointer, ()))

    def _of_numbers(self, pointer: str) -> int:
        return self._union(self._numbers, self._sites.get(pointer, ()))

    def is_known(self, pointer: str) -> bool:
        """Whether it is known where an address points to."""
        return bool(self._sites.get(pointer))

    def holds_mangled(self, pointer: str) -> bool:
        """Whether integers that are `mangled` may be in the memory at this address."""
        return not self._mangled_sites.isdisjoint(self._sites.get(pointer, ()))

    @property
    def has_shadows(self) -> bool:
        """Whether any memory has."""
        return any(self._of_site.values())

    @staticmethod
    def _union(lanes: Mapping[str, int], names: Iterable[str]) -> int:
        total = 0
        for name in names:
            total |= lanes.get(name, 0)
        return total

    def _update(self, one: Instruction) -> bool:
        """Take account of one instruction; whether that told anything new."""
        if one.opcode == "store":
            value, pointer = one.operands
            targets, lanes = self._sites.get(value, frozenset()), self.lanes.get(value, 0)
            return self._put(pointer, lanes, 0 if targets else lanes, targets)
        if one.callee.startswith(COPIES):
            target, source = one.operands[:2]
            return self._put(target, self.of_memory(source), self._of_numbers(source), self._content(source))
        if not one.name:
            return False
        targets = self._targets(one)
        new = not targets <= self._sites.get(one.name, frozenset())
        if new:
            self._sites[one.name] = targets | self._sites.get(one.name, frozenset())
        if targets:  # whatever an address may point to has the same shadows
            new |= self._mark(self._sites[one.name], self.of_memory(one.name))
        lanes = self._lanes(one)
        if lanes & ~self.lanes[one.name]:
            self.lanes[one.name] |= lanes
            new = True
        return new

    def _put(self, pointer: str, lanes: int, numbers: int, targets: frozenset[str]) -> bool:
        """Values with these lanes are written there, among them numbers with those, or pointers to these sites."""
        sites = self._sites.get(pointer, frozenset())
        new = self._mark(sites, lanes)
        new |= self._mark(sites, numbers, self._numbers)
        for site in sites:
            if not targets <= self._held.get(site, frozenset()):
                self._held[site] = self._held.get(site, frozenset()) | targets
                new = True
        # The shadow of a pointer in memory with shadows must point to a shadow.
        return self._mark(targets, self._union(self._of_site, sites)) or new

    def _mark(self, sites: Iterable[str], lanes: int, of_site: dict[str, int] | None = None) -> bool:
        of_site = self._of_site if of_site is None else of_site
        new = False
        for site in sites:
            if lanes & ~of_site[site]:
                of_site[site] |= lanes
                new = True
        return new

    def _content(self, pointer: str) -> frozenset[str]:
        """What pointers in memory at this address may point to."""
        sites = self._sites.get(pointer, frozenset())
        return frozenset().union(*(self._held.get(site, frozenset()) for site in sites))

    def _targets(self, one: Instruction) -> frozenset[str]:
        """The sites that the result, as an address, may point to."""
        if one.opcode == "alloca" or one.callee in ALLOCATORS:
            return frozenset({one.name})
        if one.opcode == "load" and one.type == "ptr":
            # The descriptor of an allocation holds the address of its data: both are one site.
            return self._sites.get(one.operands[0], frozenset()) | self._content(one.operands[0])
        if one.opcode in ADDRESSES or one.opcode in ("phi", "select"):
            globals_ = frozenset(operand for operand in one.operands if "@" in operand and is_constant(operand))
            return globals_.union(*(self._sites.get(operand, frozenset()) for operand in one.operands))
        return frozenset()

    def _lanes(self, one: Instruction) -> int:
        if self._sites.get(one.name):
            return self.of_memory(one.name)
        if one.opcode == "load":
            return self._of_numbers(one.operands[0])
        if one.opcode == "extractvalue" and one.type.startswith("i"):
            return 0  # of what a call gives
        if one.opcode in ("phi", "extractvalue") or (one.opcode in _ARITHMETIC and one.types[0] != "ptr"):
            return self._union(self.lanes, one.operands)
        if one.opcode == "select":
            return self._union(self.lanes, one.operands[1:])
        if one.opcode == "call" and not is_flat(one):
            # A registered function is given what it captured: arrays are addresses.
            is_registered = one.callee.startswith(REGISTERED)
            given = zip(one.operands, one.types, strict=True)
            return self._union(self.lanes, (operand for operand, type_ in given if type_ in REALS or is_registered))
        return 0

    def _doubt(self, one: Instruction) -> bool:
        """Mark the lanes on which a number may depend on nothing."""
        if not self.lanes.get(one.name) or self._sites.get(one.name) or one.opcode == "load":
            return False
        if one.opcode in ("phi", "select"):  # one of these, which may be one without a tangent
            operands = one.operands if one.opcode == "phi" else one.operands[1:]
            certain = self.lanes[one.name]
            for operand in operands:
                certain &= self.lanes.get(operand, 0) & ~self.uncertain.get(operand, 0)
        else:
            certain = 0
            for operand in one.operands:
                certain |= self.lanes.get(operand, 0) & ~self.uncertain.get(operand, 0)
        new = self.lanes[one.name] & ~certain & ~self.uncertain[one.name]
        self.uncertain[one.name] |= new
        return bool(new)

    def _mangle(self, one: Instruction) -> bool:
        if one.opcode == "store" or one.callee.startswith(COPIES):
            value, pointer = one.operands[:2] if one.opcode == "store" else one.operands[1::-1]
            if value not in self.mangled and (one.opcode == "store" or not self.holds_mangled(value)):
                return False
            new = self._sites.get(pointer, frozenset()) - self._mangled_sites
            self._mangled_sites |= new
            return bool(new)
        if one.opcode == "load" and one.type not in (*REALS, "ptr") and one.name not in self.mangled:
            if bad := self.holds_mangled(one.operands[0]):
                self.mangled.add(one.name)
            return bad
        if one.name in self.mangled or one.opcode not in _INTEGER or one.type in (*REALS, "ptr"):
            return False
        if self.lanes.get(one.name) or _is_sign(one):  # passed on as it is, or a step
            return False
        bad = any(
            operand in self.mangled or (self.lanes.get(operand) and not self._sites.get(operand))
            for operand in one.operands
            if not is_constant(operand)
        )
        if bad:
            self.mangled.add(one.name)
        return bad
