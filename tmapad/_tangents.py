"""Tangents that are not numbers or arrays: NoTangent, ZeroTangent, Tangent, and Thunk for one to be computed.

The meaning of each, and of their sums and products, is that of ChainRulesCore.jl.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast, final

import numpy as np

T = TypeVar("T")


class AbstractZero:
    """What NoTangent and ZeroTangent share: one instance each, and the arithmetic of a zero of any shape."""

    __slots__ = ()
    # NumPy's operators then leave the work to ours, instead of making an array of objects.
    __array_ufunc__ = None
    _instance: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        cls._instance = object.__new__(cls)

    def __new__(cls) -> Self:
        return cast("Self", cls._instance)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __bool__(self) -> bool:
        return False

    def __neg__(self) -> Self:
        return self

    # Of the two, NoTangent wins a sum and ZeroTangent a product.
    def __add__(self, other: Any) -> Any:
        return NO_TANGENT if self is NO_TANGENT and isinstance(other, AbstractZero) else other

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: T) -> T:
        return other

    def __mul__(self, other: object) -> AbstractZero:
        return ZERO_TANGENT if other is ZERO_TANGENT else self

    __radd__ = __add__
    __rmul__ = __mul__


@final
class NoTangent(AbstractZero):
    """The tangent of what cannot be perturbed: a function that captured nothing, an integer, a string.

    There is one instance, ``NoTangent() is NoTangent()``, also after pickling and copying: ``is`` tells it
    apart. It is false, adding it changes nothing, and a product with it is ``NoTangent()`` again.

    See Also
    --------
    ZeroTangent : The tangent is defined, and zero.

    Examples
    --------
    >>> from tmapad import NoTangent
    >>> NoTangent() + 1.5, 2.0 * NoTangent()
    (1.5, NoTangent())
    """

    __slots__ = ()


@final
class ZeroTangent(AbstractZero):
    """A tangent that is zero whatever its type and shape, without memory or work.

    There is one instance, as of NoTangent. It is false, adding it changes nothing, and a product with it is
    ``ZeroTangent()`` again. As the cotangent ``dy`` of a pullback it comes back for every argument.

    See Also
    --------
    NoTangent : There is no tangent at all.

    Examples
    --------
    >>> from tmapad import ZeroTangent
    >>> x = [1.0, 2.0]
    >>> ZeroTangent() + x is x
    True
    """

    __slots__ = ()


# The instances, for code that is called often: a name costs less than a call.
NO_TANGENT = NoTangent()
ZERO_TANGENT = ZeroTangent()


@final
class Tangent:
    """The tangent of something with named parts, such as what a function captured: one tangent for each name.

    Parameters
    ----------
    values : mapping, optional
        Tangents by name, for names that cannot be keywords. Positional only.
    **parts
        Tangents by name.

    Notes
    -----
    Parts are read as ``df.a`` or ``df["a"]``. A name that this class uses itself, such as ``_asdict``, is
    reached by ``df["_asdict"]``. Iteration gives the names; ``len`` and ``in`` are about names. A name cannot
    be given another value; arrays are held by reference, and can be written to. ``==`` compares names, shapes
    and every element without tolerance, whatever the order and the dtypes; a NaN is unequal to itself.

    Examples
    --------
    >>> from tmapad import Tangent
    >>> df = Tangent(a=1.5, b=2.0)
    >>> df.a, df["b"], list(df)
    (1.5, 2.0, ['a', 'b'])
    >>> df == Tangent(b=2.0, a=1.5)
    True
    """

    __slots__ = ("_values",)
    # NumPy would take a Tangent for a sequence of its names.
    __array_ufunc__ = None
    _values: dict[str, Any]

    # Not __init__: an instance has its parts from the start, and cannot be given others by a second call.
    def __new__(cls, values: Mapping[str, Any] | None = None, /, **parts: Any) -> Tangent:
        """Make a tangent of its parts."""
        self = super().__new__(cls)
        object.__setattr__(self, "_values", {**(values or {}), **parts})
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(self._missing(name), name=name, obj=self) from None

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(self._missing(name)) from None

    def _missing(self, name: object) -> str:
        return f"this Tangent has no part {name!r}; it has {', '.join(map(repr, self._values)) or 'none'}"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{name!r} of a Tangent cannot be set; make another: Tangent({{**df._asdict(), {name!r}: ...}})"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a Tangent cannot be deleted; make another from df._asdict()")

    def _asdict(self) -> dict[str, Any]:
        """Return the parts by name, in a new dictionary."""
        return dict(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tangent):
            return NotImplemented
        a, b = self._values, other._values
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)

    # Parts may be arrays, which have none.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Tangent({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return Tangent, (self._asdict(),)


def _same(a: Any, b: Any) -> bool:
    """Return whether two parts are equal in every element."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


@final
class Thunk:
    """A tangent that is computed when it is first needed, and at most once.

    Parameters
    ----------
    function : callable
        Called without arguments by the first thread that needs the tangent; others wait for it. It is let go
        of afterwards. An exception is passed on and not remembered: the next ``unthunk`` calls it again.

    See Also
    --------
    unthunk : Return the tangent.

    Examples
    --------
    >>> from tmapad import Thunk, unthunk
    >>> unthunk(Thunk(lambda: 1.5))
    1.5
    """

    __slots__ = ("_function", "_lock", "_value")
    _function: Callable[[], Any] | None
    _value: Any

    def __init__(self, function: Callable[[], Any]) -> None:
        if not callable(function):
            raise TypeError(
                f"Thunk: function is {function!r}, must be callable without arguments; "
                "a tangent that is known already needs no Thunk"
            )
        self._function = function
        # Reentrant: a function that asks for its own thunk is a RecursionError, and does not wait for itself.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        function = self._function
        return f"Thunk({function!r})" if function is not None else f"Thunk(resolved: {self._value!r})"


def unthunk(x: Any) -> Any:
    """Return the tangent that a Thunk stands for, or anything else as it is.

    Parameters
    ----------
    x : object
        A Thunk, which is resolved if it has not been yet, or a tangent.

    Returns
    -------
    object
        The tangent, never a Thunk.

    Examples
    --------
    >>> from tmapad import Thunk, unthunk
    >>> unthunk(2.0), unthunk(Thunk(lambda: 3.0))
    (2.0, 3.0)
    """
    while isinstance(x, Thunk):
        with x._lock:
            function = x._function
            if function is not None:
                x._value = function()
                x._function = None
            x = x._value
    return x
