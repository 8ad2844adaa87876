"""A user's Cython project, built against the tmapad that is installed and used through it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tmapad

PROJECT = Path(__file__).parent / "consumer"


@pytest.mark.compiler
@pytest.mark.slow
def test_a_users_extension(tmp_path: Path) -> None:
    project = shutil.copytree(PROJECT, tmp_path / "consumer")
    # The folder that tmapad was imported from: site-packages, or a source tree that is compiled in place.
    env = {**os.environ, "PYTHONPATH": str(Path(tmapad.__path__[0]).parent)}
    build = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(build, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check = [sys.executable, "-W", "error", "check.py"]
    done = subprocess.run(check, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ok relu, cotangent"
