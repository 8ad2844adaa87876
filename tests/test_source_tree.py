"""Started in a source tree, Python runs that tree if it is compiled, else the package installed from it."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tmapad import _source_tree

INIT = """\
import sys
from tmapad import _source_tree
_source_tree.hand_over(sys.modules[__name__])
from tmapad import _part
"""
MAIN = """\
import importlib.resources
from pathlib import Path
import tmapad
files = [tmapad.__file__, tmapad.__spec__.origin, tmapad._part.__file__, __file__]
folders = [*tmapad.__path__, importlib.resources.files("tmapad"), *(Path(file).parent for file in files)]
print(*folders, sep="\\n")
"""
FILES = {"__init__.py": INIT, "__main__.py": MAIN, "_part.py": "", "_core.pyx": "# core", "sub/_x.h": "// x"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with a small package of sources, called tmapad as the real one."""
    package = tmp_path / "checkout" / "tmapad"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    shutil.copy(str(_source_tree.__file__), package)
    return package.parent


@pytest.fixture
def site(checkout: Path, tmp_path: Path) -> Path:
    """Return a folder with the package as `pip install` would leave it."""
    package = tmp_path / "site" / "tmapad"
    shutil.copytree(checkout / "tmapad", package, ignore=shutil.ignore_patterns("*.pyx"))
    (package / _source_tree.MANIFEST).write_text(json.dumps(_source_tree.digests(checkout / "tmapad")))
    compile_into(package, EXTENSION_SUFFIXES[0])
    return package.parent


def compile_into(package: Path, suffix: str) -> None:
    for name in _source_tree.EXTENSIONS:
        (package / f"{name}{suffix}").write_text("")


def run(checkout: Path, site: Path | None = None) -> tuple[set[Path], str]:
    """Run `python -m tmapad` in `checkout`; return the folders it ran from and its last error message."""
    # -S: the environment's own packages, where a real tmapad may be, are out of the way.
    env = {**os.environ, "PYTHONPATH": "" if site is None else str(site)}
    command = [sys.executable, "-S", "-m", "tmapad"]
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == bool(done.stdout)
    return set(map(Path, done.stdout.splitlines())), (done.stderr.strip().splitlines() or [""])[-1]


def test_compiled_in_place_it_runs_itself(checkout: Path, site: Path) -> None:
    compile_into(checkout / "tmapad", EXTENSION_SUFFIXES[0])
    assert run(checkout, site) == ({checkout / "tmapad"}, "")


def test_the_installed_package_takes_over_whole(checkout: Path, site: Path) -> None:
    assert run(checkout, site) == ({site / "tmapad"}, "")


@pytest.mark.parametrize("suffix", [".cpython-36m-x86_64-linux-gnu.so", ".cp36-win_amd64.pyd"])
def test_extensions_for_another_python_do_not_count(checkout: Path, site: Path, suffix: str) -> None:
    compile_into(checkout / "tmapad", suffix)
    assert run(checkout, site)[0] == {site / "tmapad"}
    compile_into(checkout / "tmapad", EXTENSION_SUFFIXES[0])
    (checkout / "tmapad" / f"_core{EXTENSION_SUFFIXES[0]}").unlink()
    assert run(checkout, site)[0] == {site / "tmapad"}


def test_elsewhere_the_installed_package_runs(checkout: Path, site: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert run(tmp_path / "elsewhere", site) == ({site / "tmapad"}, "")


def test_nothing_installed(checkout: Path) -> None:
    folders, error = run(checkout)
    assert not folders
    assert error == (
        f"ImportError: tmapad in {checkout / 'tmapad'} is a source tree without extensions compiled for this "
        f"Python, and no tmapad is installed: install it with 'python -m pip install {checkout}', or compile "
        f"it in place with 'python setup.py build_ext --inplace'"
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"_part.py": "changed"}, "_part.py"),
        ({"_core.pyx": "changed"}, "_core.pyx"),
        ({"sub/_x.h": "changed"}, "sub/_x.h"),
        ({"_new.py": ""}, "_new.py"),
        ({"_part.py": None}, "_part.py"),
        ({f"_{n}.py": "" for n in range(5)}, "_0.py, _1.py, _2.py, ..."),
    ],
)
def test_installed_from_other_sources(checkout: Path, site: Path, change: dict[str, str | None], named: str) -> None:
    for name, text in change.items():
        path = checkout / "tmapad" / name
        path.unlink() if text is None else path.write_text(text)
    folders, error = run(checkout, site)
    assert not folders
    assert f"the tmapad installed in {site / 'tmapad'} was built from other sources ({named}): install it" in error


def test_installed_without_a_word_of_its_sources(checkout: Path, site: Path) -> None:
    (site / "tmapad" / _source_tree.MANIFEST).unlink()
    assert "was built from other sources (__init__.py, __main__.py, _core.pyx, ...)" in run(checkout, site)[1]
