"""The gate for foreign function pointers: whatever holds one becomes a `Pointer`, which gives loops.

Who says what about a pointer is read in `_foreign`, and checked in `_signatures`.
"""

import importlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from tmapad._core import Loop, pointer_loop
from tmapad._errors import SignatureError
from tmapad._foreign import read, user_data_address
from tmapad._protocol import ArgType, computation_type, described, numbered
from tmapad._signatures import MAX_INPUTS, NUMBERS, Signature, accept, refuse, shown

__all__ = ["Pointer", "cython_pointers", "pointer", "user_data_address"]

# For each type of computation, the types of functions that hold it without loss, the best first: itself, then
# the smallest, and real ones before complex ones. Python's scalars are weak: alone, they take double where
# they can, else what there is.
_HOLDING = {"f": "fdFD", "d": "dD", "F": "FD", "D": "D"}
_HOLDING_WEAK = {"real": "dfDF", "complex": "DF"}


class _Native(NamedTuple):
    signature: Signature
    address: int
    keep: object


class Pointer:
    """A scalar function in native code; the `Implementation` that foreign pointers have.

    Immutable, and hashable by what it points to. Holds whatever keeps the function and its user data alive.

    Attributes
    ----------
    name : str
        For messages.
    nin, nout : int
        Numbers that go in, and that come out: 1, or as many as there are pointers to write through.
    writer : bool
        True for ``void f(T x, ..., T *y, ...)``, false for a function that returns its value.
    parameters : tuple of str
        Names of what goes in.
    signatures : tuple of Signature
        One, or several for a fused Cython function.
    python : None
        There is no Python function behind it.
    """

    __slots__ = (
        "_key", "_loops", "_natives", "_origin", "_user_data",
        "name", "nin", "nout", "parameters", "python", "raises", "signatures", "writer",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        natives: Sequence[_Native],
        user_data: tuple[int, object],
        *,
        raises: bool = False,
        origin: tuple[Callable[..., "Pointer"], tuple[object, ...]] | None = None,
    ) -> None:
        first = natives[0].signature
        self.name = name
        self.nin = first.nin
        self.nout = first.nout or 1
        self.writer = first.nout > 0
        self.parameters = first.parameters or numbered(first.nin)
        self.signatures = tuple(native.signature for native in natives)
        self.python = None
        self._natives = {native.signature.char: native for native in natives}
        self._user_data = user_data
        self.raises = raises
        self._origin = origin
        self._loops: dict[str, Loop] = {}
        self._key = (frozenset((n.signature.char, n.address) for n in natives), user_data[0], raises)

    @property
    def takes_user_data(self) -> bool:
        """Whether it has a last ``void *`` that nothing was given for yet."""
        return self._user_data == (0, None) and all(s.trailing == "void *" for s in self.signatures)

    def native(self, char: str) -> tuple[int, str] | None:
        """Return address and last parameter ("" or "int") of the function of this type, if it can be called alone."""
        found = self._natives.get(char)
        if found is None or self.writer or self.raises or found.signature.trailing == "void *":
            return None
        return found.address, found.signature.trailing

    def with_data_of(self, other: "Pointer") -> "Pointer":
        """Return the same function, which gets the user data of another one."""
        return type(self)(self.name, tuple(self._natives.values()), other._user_data, raises=self.raises)

    def loop(self, inputs: tuple[ArgType, ...]) -> Loop:
        """Choose the loop for arguments of these types: dtypes, or Python's own types for weak scalars.

        Raises
        ------
        TypeError
            If the function has no type that holds them.
        """
        char = _best(inputs, self._natives)
        if char is None:
            raise TypeError(
                f"{self.name} has no loop for {described(inputs)}: its numbers are "
                f"{' or '.join(str(np.dtype(char)) for char in self._natives)}, and arguments are converted "
                "only to a type that holds them without loss; convert them first"
            )
        if char not in self._loops:
            native = self._natives[char]
            signature = native.signature
            address, kept = self._user_data
            self._loops[char] = pointer_loop(
                native.address,
                char,
                signature.nin,
                signature.nout,
                signature.trailing,
                address,
                (native.keep, kept),
                raises=self.raises,
            )
        return self._loops[char]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {'; '.join(s.text for s in self.signatures)}>"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Pointer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __copy__(self) -> "Pointer":
        return self

    def __deepcopy__(self, memo: object) -> "Pointer":
        return self

    def __reduce__(self) -> tuple[Callable[..., "Pointer"], tuple[object, ...]]:
        if self._origin is None:
            raise TypeError(
                f"cannot pickle {self.name}: an address means nothing to another process. What is found by "
                "name can be pickled: from_cython('package.module', 'name') of an importable module, "
                "without user_data"
            )
        return self._origin


def _best(inputs: tuple[ArgType, ...], available: Collection[str]) -> str | None:
    """Character of the type to compute in, among the available ones; None if none will do."""
    strong = [given for given in inputs if not isinstance(given, type)]
    if any(dtype.kind not in "biufc" for dtype in strong):
        return None
    if strong:
        candidates = _HOLDING.get(computation_type(inputs).char, "")
    else:
        candidates = _HOLDING_WEAK["complex" if complex in inputs else "real"]
    return next((char for char in candidates if char in available), None)


def pointer(
    obj: object,
    *,
    name: str | None = None,
    user_data: object = None,
    raises: bool = False,
    max_inputs: int = MAX_INPUTS,
) -> Pointer | None:
    """Make a `Pointer` of whatever holds a function pointer.

    Parameters
    ----------
    obj : object
        A PyCapsule whose name is the signature, a ``scipy.LowLevelCallable``, or a ctypes or cffi function
        pointer; a `Pointer` is returned as it is.
    name : str, optional
        Name for messages.
    user_data : object, optional
        What a function with a last ``void *`` gets there; see `user_data_address`.
    raises : bool, optional
        Whether the function may set a Python exception.
    max_inputs : int, optional
        Numbers that it may take.

    Returns
    -------
    Pointer or None
        None if `obj` is nothing of the kind.

    Raises
    ------
    SignatureError
        If there is no loop for its signature, or none is known.
    TypeError
        If it is a Python function in disguise, needs the GIL, or takes no user data but was given some.
    ValueError
        If it is NULL.
    """
    if isinstance(obj, Pointer):
        return obj
    foreign = read(obj, name)
    if foreign is None:
        return None
    signature = accept(foreign.declared, foreign.name, max_inputs)
    data = _user_data(foreign.name, [signature], user_data, foreign.user_data)
    return Pointer(foreign.name, [_Native(signature, foreign.address, foreign.keep)], data, raises=raises)


def _user_data(
    who: str, signatures: Sequence[Signature], given: object, own: tuple[int, object] | None
) -> tuple[int, object]:
    """Address that a function gets as its user data, and what keeps it alive."""
    if given is None and own is None:
        return 0, None
    if given is not None and own is not None:
        raise TypeError(f"{who}: user_data is given twice, here and by scipy.LowLevelCallable; leave one out")
    without = next((s for s in signatures if s.trailing != "void *"), None)
    if without is not None:
        raise TypeError(f"{who} was given user_data, but its signature {shown(without.text)} has no last void * for it")
    return own if own is not None else user_data_address(given)


def cython_pointers(
    module: ModuleType | str,
    name: str,
    *,
    user_data: object = None,
    raises: bool = False,
    max_inputs: int = MAX_INPUTS,
) -> Pointer:
    """Find a Cython function by name in the ``__pyx_capi__`` of a module.

    Parameters
    ----------
    module : module or str
        The module, or its dotted name, which is imported.
    name : str
        The function; ``"other.module:name"`` for one elsewhere. A fused function gives one `Pointer` with all
        its signatures that there are loops for.
    user_data, raises, max_inputs
        As for `pointer`.

    Raises
    ------
    AttributeError
        If the module exports no such function.
    SignatureError
        If there is no loop for its signature, or for any of those of a fused function.
    """
    elsewhere, _, function = name.rpartition(":")
    if elsewhere:
        module = elsewhere
    if isinstance(module, str):
        module = importlib.import_module(module)
    natives = []
    refused: dict[str, SignatureError] = {}
    for capsule in _exported(module, function):
        found = read(capsule, function)
        if found is None:
            raise TypeError(f"__pyx_capi__ of {module.__name__} holds {capsule!r:.80} for {function!r}, no capsule")
        try:
            signature = accept(found.declared, function, max_inputs)
        except SignatureError as error:
            refused[found.declared.text] = error
        else:
            natives.append(_Native(signature, found.address, (module, capsule)))
    if not natives:
        if len(refused) == 1:
            raise next(iter(refused.values()))
        raise refuse(function, " or ".join(map(shown, refused)), "it is fused, and none will do", max_inputs)
    data = _user_data(function, [native.signature for native in natives], user_data, None)
    by_name = (_again, (module.__name__, function, raises, max_inputs)) if user_data is None else None
    return Pointer(function, _one_of_each(natives), data, raises=raises, origin=by_name)


def _again(module: str, name: str, raises: bool, max_inputs: int) -> Pointer:
    """Unpickle."""
    return cython_pointers(module, name, raises=raises, max_inputs=max_inputs)


def _exported(module: ModuleType, name: str) -> list[object]:
    """Capsules of a plain function, or of all variants of a fused one, in no order that means anything.

    Cython spells the variants ``__pyx_fuse_0name``, ``__pyx_fuse_0_1name`` and, since 3.3, ``name[double]``,
    ``name[double,float]``. The numbers depend on the order in a declaration, so nothing here reads them.
    """
    exports: dict[str, object] | None = getattr(module, "__pyx_capi__", None)
    if exports is None:
        raise AttributeError(
            f"module {module.__name__!r} exports no Cython functions (it has no __pyx_capi__): "
            f"declare {name!r} in its .pxd, or as cdef api"
        )
    if name in exports:
        return [exports[name]]
    pattern = rf"__pyx_fuse_\d+(_\d+)*{re.escape(name)}|{re.escape(name)}\[.*\]"
    variants = [capsule for key, capsule in exports.items() if re.fullmatch(pattern, key)]
    if not variants:
        import difflib

        names = {re.sub(r"^__pyx_fuse_\d+(_\d+)*|\[.*$", "", key) for key in exports}
        close = difflib.get_close_matches(name, names, n=5) or sorted(names)[:5]
        raise AttributeError(
            f"module {module.__name__!r} exports no Cython function {name!r}; it has {', '.join(close)}"
            f"{', ...' if len(names) > len(close) else ''}"
        )
    return variants


def _one_of_each(natives: Iterable[_Native]) -> list[_Native]:
    """One function per type: Cython may export a variant under two names. Doubles come first."""
    by_char: dict[str, _Native] = {}
    for native in natives:
        by_char.setdefault(native.signature.char, native)
    return [by_char[char] for char in NUMBERS.values() if char in by_char]
