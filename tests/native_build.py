"""Build of the compiled functions for the tests of pointers: once a session, with the installed Cython."""

import functools
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import plain_c

import tmapad

SOURCES = Path(__file__).parent / "cython_fixtures"


@functools.cache
def native_functions(folder: Path) -> ModuleType:
    """Build and import the module in a new folder; the C functions of `plain_c` are in its file."""
    shutil.copytree(SOURCES, folder)
    (folder / "plain_functions.c").write_text(plain_c.source())
    # Where `cimport tmapad` finds the package: site-packages, or a source tree compiled in place.
    env = {**os.environ, "PYTHONPATH": str(Path(tmapad.__path__[0]).parent)}
    build = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(build, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Left on the path for the session, so that functions pickled by name are found again.
    sys.path.append(str(folder))
    return importlib.import_module("native_functions")
