"""Settings of the whole suite."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

# An example's time says nothing on a busy machine: no deadline.
settings.register_profile("tmapad", deadline=None)
settings.load_profile("tmapad")

# The same examples in every run, so that a failure is there again in the next.
settings.register_profile("repeatable", parent=settings.get_profile("tmapad"), derandomize=True)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--programs", type=int, default=12, help="how many random programs to compile")
    parser.addoption("--registrations", type=int, default=2000, help="how many random registrations to try")
    parser.addoption("--soak", type=float, default=0.0, help="for how many seconds to do random things; 0: not at all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the soak out unless it is asked for."""
    if not config.getoption("--soak"):
        soaks = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if item not in soaks]
        config.hook.pytest_deselected(items=soaks)


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled code in a directory of this session's: the user's is left alone, and what is tested is compiled."""
    directory = os.environ["TMAPAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="tmapad-tests-")
    for name in ("TMAPAD_CACHE", "TMAPAD_CACHE_SIZE"):
        os.environ.pop(name, None)
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


@pytest.fixture
def without_reports() -> Iterator[None]:
    """For tests of infinities and NaN, where a report of how they came about is right but not what is tested."""
    with np.errstate(all="ignore"):
        yield
