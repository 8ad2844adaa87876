"""Where compiled kernels are kept on disk, and whether that is safe.

The files hold code that is executed. So nobody but the user and the system's administrator may be able to put
one there, or to put another directory in its place.
"""

import os
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_OFF = frozenset({"0", "off", "false", "no"})
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # on the way to a file, as Linux has it
_warned: set[Path] = set()


class Place(NamedTuple):
    """Where the cache is, as of now.

    Attributes
    ----------
    directory : Path
        It need not exist.
    problem : str
        Why it is not used; empty if it is.
    """

    directory: Path
    problem: str


def place() -> Place:
    """Find the cache's directory. The environment is read at each use.

    A directory that the user named and that is not used is warned of, once.
    """
    named = os.environ.get("TMAPAD_CACHE_DIR")
    directory = Path(os.path.expanduser(named or _default_directory()))  # noqa: PTH111 - Path's raises
    if os.environ.get("TMAPAD_CACHE", "").strip().lower() in _OFF:
        return Place(directory, "it is switched off by TMAPAD_CACHE")
    if not directory.is_absolute():
        if not named:
            return Place(directory, "this user has no home")
        directory = directory.absolute()
    why = problem(directory)
    if named and why and directory not in _warned:
        _warned.add(directory)
        warnings.warn(f"TMAPAD_CACHE_DIR is {named!r}, which is not used: {why}", stacklevel=2)
    return Place(directory, why)


def problem(directory: Path) -> str:
    """Say why a directory is not to be used, if it is not: others could write to it, or replace it."""
    if os.name != "posix":
        return ""  # it is in the user's profile, which Windows keeps for the user
    trusted = (os.geteuid(), 0)
    path, mode = directory, 0
    try:
        for path, status in _way(directory):
            mode = status.st_mode
            if status.st_uid not in trusted:
                return f"{path} belongs to another user"
            if stat.S_ISLNK(mode):
                continue
            if not stat.S_ISDIR(mode):
                return f"{path} is not a directory"
            # In a sticky directory, such as /tmp, others can only add what was not there.
            if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
                return _written_by_others(path)
    except FileNotFoundError:
        return ""  # it can be made, and then it is looked at again
    except OSError as error:
        return f"{directory}: {error.strerror}"
    return _written_by_others(path) if mode & _OTHERS_WRITE else ""


def make(directory: Path) -> None:
    """Make a directory, and those above it, for this user alone."""
    if not directory.is_dir():
        make(directory.parent)
        directory.mkdir(0o700, exist_ok=True)


def _written_by_others(path: Path) -> str:
    return f"others can write to {path}, and the cache holds code that is executed"


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every directory and symbolic link on the way to an absolute path, from the root to the path itself."""
    here, *ahead = Path(path.anchor), *reversed(path.parts[1:])
    yield here, here.lstat()
    links = 0
    while ahead:
        name = ahead.pop()
        if name == os.pardir:
            here = here.parent
            continue
        found = here / name
        status = found.lstat()
        yield found, status
        if not stat.S_ISLNK(status.st_mode):
            here = found
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(0, "too many symbolic links")
        target = found.readlink()
        if target.is_absolute():
            here = Path(target.anchor)
        ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _default_directory() -> Path:
    """The platform's directory for the user's caches, and ours in it; relative if there is none."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path's raises
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData/Local") / "tmapad/cache"
    if sys.platform == "darwin":
        return home / "Library/Caches/tmapad"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else home / ".cache") / "tmapad"
