"""Progress of a call: who is told how far it has come, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import numpy as np

Report = Callable[[int, int], object]
"""What is called with the number of elements that are done, and with that of all."""

BAR_AFTER = 0.5  # seconds
NO_TQDM = "progress=True shows a bar of tqdm, which cannot be imported: python -m pip install 'tmapad[progress]'"


def as_progress(given: Any) -> Callable[[], Report] | None:
    """Check ``progress=``. Returns what makes a `Report` for one pass; None if nobody is to be told.

    Raises
    ------
    ImportError
        If a bar is asked for, and tqdm is not there.
    TypeError
        If it is neither a bool nor callable.
    """
    if isinstance(given, np.bool_ | bool):
        if not given:
            return None
        try:
            import tqdm.auto  # noqa: F401 - only to know that it is there
        except ImportError as error:
            raise ImportError(NO_TQDM) from error
        return Bar
    if callable(given):
        return lambda: given
    raise TypeError(f"progress must be True, False or a function that is called with (done, total), not {given!r:.60}")


class Bar:
    """A bar of tqdm's, in a notebook a widget, which appears when a pass has taken half a second."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._due = time.monotonic() + BAR_AFTER

    def __call__(self, done: int, total: int) -> None:
        """Show how far the pass has come."""
        if self._bar is None and time.monotonic() >= self._due:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, initial=done, desc="tmapad", unit="", unit_scale=True)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


class Pass:
    """One pass over all elements, which may take several runs: what the core calls while it runs.

    Attributes
    ----------
    total : int
        Elements of the pass.
    runs : int
        How many runs it takes; each goes through all elements, and counts for its share of them.
    finished : int
        How many of them are over.
    """

    def __init__(self, report: Report, total: int) -> None:
        self.total, self.runs, self.finished = total, 1, 0
        self._report = report
        self._told = -1

    def __call__(self, done: int) -> None:
        """Tell that so many elements of a run are done, unless as much was said already, or it is all."""
        share = (self.finished * self.total + done) // self.runs
        if self._told < share < self.total:
            self._told = share
            self._report(share, self.total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self._report(self.total, self.total)
        finally:
            if isinstance(self._report, Bar):
                self._report.close()
