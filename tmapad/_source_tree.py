"""Which tmapad runs when Python is started in a source tree.

``python -m`` puts the current folder first on the path. In a checkout `import tmapad` therefore finds the
folder of sources, not the package that ``pip install .`` put into the environment, and the sources cannot
run: their extensions are compiled elsewhere. So:

- Extensions compiled in place, for this very Python: the source tree runs.
- Otherwise the installed package takes over whole: every module, Python or compiled, is the installed one.
- But only if it was built from exactly these sources, compiled ones included. Else tests would pass or fail
  for code other than the code in view: an ImportError says what to do.

In an installed package this costs a look for one file.
"""

import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

EXTENSIONS = ("_core", "_tmap")
SOURCE_SUFFIXES = {".h", ".pxd", ".pxi", ".py", ".pyi", ".pyx"}
# Written by setup.py beside the extensions: names and digests of the files that the package was made from.
MANIFEST = "_built_from.json"


def hand_over(package: ModuleType) -> None:
    """Make `package`, being imported, the installed one if it is a source tree that is not compiled.

    Raises
    ------
    ImportError
        If no compiled tmapad is installed, or one that was built from other sources.
    """
    here = Path(str(package.__file__)).parent
    if not (here / "_core.pyx").exists() or _is_compiled(package.__name__, package.__path__):
        return
    installed = _find_installed(package.__name__, here, sys.path)
    found = f"tmapad in {here} is a source tree without extensions compiled for this Python"
    remedy = (
        f"install it with 'python -m pip install {here.parent}', or compile it in place with "
        f"'python setup.py build_ext --inplace'"
    )
    if installed is None or installed.origin is None:
        raise ImportError(f"{found}, and no tmapad is installed: {remedy}")
    there = Path(installed.origin).parent
    changed = _changed(here, there)
    if changed:
        names = ", ".join(changed[:3]) + (", ..." if changed[3:] else "")
        raise ImportError(
            f"{found}, and the tmapad installed in {there} was built from other sources ({names}): {remedy}"
        )
    # What is left of __init__.py runs from here, but it is the same text. All else is looked up in __path__.
    package.__path__[:] = installed.submodule_search_locations or ()
    package.__file__ = installed.origin
    package.__loader__ = installed.loader
    if package.__spec__ is not None:
        package.__spec__.origin = installed.origin
        package.__spec__.loader = installed.loader


def digests(package: Path) -> dict[str, str]:
    """Return the digest of every source file of `package`, by its name relative to it."""
    from hashlib import sha256

    return {
        path.relative_to(package).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(package.rglob("*"))
        if path.suffix in SOURCE_SUFFIXES
    }


def _is_compiled(name: str, path: Iterable[str]) -> bool:
    """Tell whether all extensions are in `path` for this Python: their file names say for which they are."""
    folders = list(path)
    return all(PathFinder.find_spec(f"{name}.{module}", folders) is not None for module in EXTENSIONS)


def _find_installed(name: str, here: Path, search: Iterable[str]) -> ModuleSpec | None:
    """Return the first compiled package called `name` in `search` that is not `here`."""
    for entry in search:
        spec = PathFinder.find_spec(name, [entry])
        if spec is None or spec.origin is None or Path(spec.origin).parent.resolve() == here.resolve():
            continue
        if _is_compiled(name, spec.submodule_search_locations or ()):
            return spec
    return None


def _changed(here: Path, there: Path) -> list[str]:
    """Return the names of the source files of `here` that are not those `there` was built from."""
    import json

    manifest = there / MANIFEST
    old = json.loads(manifest.read_text()) if manifest.exists() else {}
    new = digests(here)
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
