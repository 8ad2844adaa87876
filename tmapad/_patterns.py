"""Regular expressions that are compiled when they are first used: together they take as long as many modules."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, cast


def pattern(text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Return what `re.compile` would, but for the time it takes."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    def __init__(self, text: str, flags: re.RegexFlag) -> None:
        self._text, self._flags = text, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
