"""What a call reports to `numpy.errstate`, as a list of texts that does not depend on how it is reported."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

ACTIONS = ("ignore", "warn", "raise", "call", "log", "print")


class Log:
    """A file for errstate."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, text: str) -> None:
        self.lines.append(text.removeprefix("Warning: ").rstrip("\n"))


def reports(run: Callable[[], Any], action: str = "warn", *, capfd: Any = None, under: str = "ignore") -> list[str]:
    """Run something; return what it reported. `capfd`, pytest's, is needed where NumPy prints."""
    log, calls = Log(), []
    handler: Any = log if action == "log" else lambda kind, bits: calls.append(f"{kind} {bits}")
    with warnings.catch_warnings(record=True) as caught, np.errstate(all=action, call=handler):  # type: ignore[call-overload]
        np.seterr(under=under)  # type: ignore[arg-type]
        warnings.simplefilter("always")
        try:
            run()
        except FloatingPointError as error:
            return [str(error)]
    printed = "".join(capfd.readouterr()) if action == "print" else ""
    texts = [str(warning.message) for warning in caught]
    assert not caught or action == "warn"
    return [*texts, *calls, *log.lines, *(line.removeprefix("Warning: ") for line in printed.splitlines())]
