"""Random work in processes and threads for ``--soak`` seconds; for longer there is ``python tests/soaking.py``."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.soak,
    pytest.mark.compiler,
    pytest.mark.skipif(sys.platform != "linux", reason="processes watch themselves through /proc"),
]


def test_soak(request: pytest.FixtureRequest) -> None:
    """What it prints tells the seed, and the step to do again."""
    seconds = request.config.getoption("--soak")
    command = [sys.executable, str(Path(__file__).parent / "soaking.py"), "--seconds", str(seconds)]
    command.append("--without=forks")  # in the middle of threads that start and end: not yet right for long
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
