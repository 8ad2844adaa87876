"""Python functions of as many arguments as are asked for: Numba, and whoever reads a signature, wants them named."""

from collections.abc import Callable
from functools import cache
from typing import Any


def calling(f: Callable[..., Any], count: int, *, before: tuple[str, ...] = ()) -> Any:
    """Make a Python function of `count` arguments, by position, that calls another one with them.

    Parameters
    ----------
    f : callable
    count : int
        Of any size.
    before : tuple of str, optional
        Names of arguments that come before these, and are not passed on.
    """
    return _maker(count, before)(f)


@cache
def _maker(count: int, before: tuple[str, ...]) -> Callable[[Callable[..., Any]], Any]:
    passed = [f"x{number}" for number in range(count)]
    names: dict[str, Any] = {"__name__": __name__}
    exec(f"make = lambda f: lambda {', '.join([*before, *passed])}: f({', '.join(passed)})", names)  # noqa: S102
    make: Callable[[Callable[..., Any]], Any] = names["make"]
    return make
