"""What `ScalarFunction.explain` says: what would run for given arguments, on how many threads, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tmapad._arrays import as_argument
from tmapad._errors import NoDerivativeError
from tmapad._protocol import described
from tmapad._threads import thread_report

if TYPE_CHECKING:
    from tmapad._function import ScalarFunction
    from tmapad._kernel import Kernel


@dataclass(frozen=True)
class Explanation:
    """What would run, line by line."""

    loop: str
    vectorized: str
    derivative: str
    residuals: str
    threads: str

    def __str__(self) -> str:
        return "\n".join(f"{name}: {getattr(self, name)}" for name in self.__dataclass_fields__)


def _derivative(function: ScalarFunction, argument: int, kernel: Kernel) -> str:
    """Whether there is a derivative in an argument. One that is taken of code is, to see whether that has one."""
    state = function.differentiable(argument, kernel)
    if state == "known" and kernel.active:
        try:
            kernel.forward(tuple(kernel.loop.in_chars), kernel.results, (argument,), save=True)
        except NoDerivativeError as error:
            return f"none ({error})"
    return state


def explain(function: ScalarFunction, xs: tuple[Any, ...]) -> Explanation:
    """Explain a call of the function with these arguments."""
    if not function.min_nin <= len(xs) <= function.nin:
        raise TypeError(
            f"{function.name} takes {function.nin} argument{'s' * (function.nin > 1)}; {len(xs)} were given"
        )
    types = tuple(as_argument(x, name).type for x, name in zip(xs, function.parameters, strict=False))
    kernel = function.kernel(types, None)
    known = {name: _derivative(function, i, kernel) for i, name in enumerate(function.parameters[: len(xs)])}
    saved = function.saves("auto", kernel)
    report = thread_report()
    loop = kernel.loop
    return Explanation(
        loop=f"{function.name}: {loop.types} for arguments {described(types)}; results {''.join(kernel.results)}",
        vectorized=(
            f"as the ufunc's own loop is, in groups of {loop.group} elements so that no value depends on its position"
            if loop.group > 1
            else "no: a loop that calls the function element by element"
        ),
        derivative=", ".join(f"{name}: {state}" for name, state in known.items()),
        residuals="partial derivatives are saved" if saved else "computed again from the inputs",
        threads=f"1: {function.runs_serially}"
        if function.runs_serially
        else f"{report.number}: {report.why}; 1 for little work",
    )
