"""Compiled kernels on disk, for later processes.

An entry is one file. It starts with a line that names the format and the digest of the rest; then come a line
of Python literals and the object code. What cannot be read, or is not what was written, counts as absent; what
cannot be written is not. None of this is an error, for without a cache everything works, only more slowly.
"""

import os
import stat
import time
from ast import literal_eval
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tmapad._patterns import pattern
from tmapad.jit.digests import digest
from tmapad.jit.place import make, place, problem

FORMAT = b"tmapad kernel 2"
DEFAULT_SIZE = 256  # MB
MB = 10**6

_SUFFIX = ".kernel"
_OURS = pattern(r"[0-9a-f]{64}\.kernel(?P<temporary>\.[0-9a-f-]+)?")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK  # a pipe by that name must not be waited for
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
_HOUR = 3600
# When there is too much, what was used last is kept, up to this share of the limit.
_KEPT = 7 / 8
# Whether there is too much is looked at each time that this share of the limit was added, on average.
_ADDED = 1 / 32


class Record(NamedTuple):
    """A compiled kernel: its object code, and what else must be known to run it, as literals."""

    header: dict[str, Any]
    code: bytes


def load(key: str) -> Record | None:
    """Give what was stored under `key`; None if there is nothing, or nothing that can be trusted."""
    where = place()
    content = None if where.problem else _read(where.directory / (key + _SUFFIX))
    return None if content is None else _unpacked(key, content)


def store(key: str, record: Record) -> None:
    """Keep `record` under `key`, if that is possible; `key` is 64 hexadecimal digits."""
    where = place()
    if where.problem:
        return
    content = _packed(key, record)
    limit = _limit()
    if len(content) > limit:
        return
    with suppress(OSError):
        make(where.directory)
        if not problem(where.directory):
            _write(where.directory / (key + _SUFFIX), content)
            if _sample() * limit * _ADDED < len(content):
                _evict(where.directory, limit)


def report() -> dict[str, str]:
    """Tell people where the cache is, and whether it is used."""
    where = place()
    state = f"used, up to {_limit() / MB:g} MB"
    if where.problem:
        state = f"not used: {where.problem}"
    elif where.directory.exists() and not os.access(where.directory, os.W_OK):
        state = "read, but it cannot be written"
    return {"directory": str(where.directory), "state": state}


def _limit() -> float:
    """How many bytes the cache may hold."""
    try:
        return float(os.environ.get("TMAPAD_CACHE_SIZE") or DEFAULT_SIZE) * MB
    except ValueError:
        return float(DEFAULT_SIZE * MB)


def _packed(key: str, record: Record) -> bytes:
    # The key is in it too: a file under another name is another entry.
    header = ascii({"key": key, **record.header})
    literal_eval(header)  # which is how it is read
    body = b"%s\n%s" % (header.encode(), record.code)
    return b"%s %s\n%s" % (FORMAT, digest(body).encode(), body)


def _unpacked(key: str, content: bytes) -> Record | None:
    start, _, body = content.partition(b"\n")
    if start != b"%s %s" % (FORMAT, digest(body).encode()):
        return None
    line, _, code = body.partition(b"\n")
    header = literal_eval(line.decode())
    return Record(header, code) if header.pop("key") == key else None


def _read(path: Path) -> bytes | None:
    """The content of a file, if it is the user's own; it then counts as used."""
    try:
        file = os.open(path, _READ)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not _is_ours(status):
            return None
        content = os.read(file, status.st_size)
        if time.time() - status.st_mtime > _HOUR:  # so that most uses write nothing
            with suppress(OSError):
                os.utime(file if os.utime in os.supports_fd else path)
        return content
    except OSError:
        return None
    finally:
        os.close(file)


def _is_ours(status: os.stat_result) -> bool:
    if os.name != "posix":
        return stat.S_ISREG(status.st_mode)
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not others_write


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid():x}-{os.urandom(8).hex()}")
    file = os.open(temporary, _CREATE, 0o600)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sample() -> float:
    """A number from [0, 1), by chance; the user's random numbers stay as they are."""
    return int.from_bytes(os.urandom(4), "little") / 2**32


def _evict(directory: Path, limit: float) -> None:
    """Remove what was not used for longest, if there is too much, and what a process left that was ended.

    Other processes may do the same at the same time: all then remove the same files, and one that is gone
    already makes no difference. On Windows a file that is being read stays.
    """
    found = []
    now = time.time()
    with os.scandir(directory) as entries:
        for entry in entries:
            name = _OURS.fullmatch(entry.name)
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if name and not name["temporary"]:
                    found.append((status.st_mtime, Path(entry), status.st_size))
                elif name and now - status.st_mtime > _HOUR:
                    Path(entry).unlink()
    total = sum(size for *_, size in found)
    if total <= limit:
        return
    for _, path, size in sorted(found):
        if total <= limit * _KEPT:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
