"""The files of the cache: what is read back, what is not trusted, what is removed, and where they are."""

import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tmapad
from tmapad.jit import cache, place
from tmapad.jit.cache import Record

KEY = "0" * 64
RECORD = Record({"types": "dd->d", "can_fail": True, "captures": ["a", None, 1.5]}, bytes(range(256)) * 4)

posix = pytest.mark.skipif(os.name != "posix", reason="about owners and modes of files, which Windows does not have")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMAPAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entry(directory: Path, number: int = 0) -> Path:
    return directory / f"{number:064x}.kernel"


def store(number: int, code: bytes = b"code") -> None:
    cache.store(f"{number:064x}", Record({}, code))


def stored(directory: Path) -> list[int]:
    return sorted(int(path.stem, 16) for path in directory.glob(f"{'?' * 64}.kernel"))


def test_what_was_stored_is_loaded(directory: Path) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, RECORD)
    assert cache.load(KEY) == RECORD
    assert cache.load("1" * 64) is None
    cache.store(KEY, Record({}, b""))
    assert cache.load(KEY) == Record({}, b"")
    assert [path.name for path in directory.iterdir()] == [f"{KEY}.kernel"]


@posix
def test_nobody_else_can_read_or_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMAPAD_CACHE_DIR", str(tmp_path / "some/where"))
    old = os.umask(0)
    try:
        cache.store(KEY, RECORD)
    finally:
        os.umask(old)
    for path, mode in (
        (tmp_path / "some", 0o700),
        (tmp_path / "some/where", 0o700),
        (entry(tmp_path / "some/where"), 0o600),
    ):
        assert stat.S_IMODE(path.stat().st_mode) == mode


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "another format": lambda content: b"tmapad kernel 0" + content[15:],
    "no header": lambda content: content[:90],
    "the end is missing": lambda content: content[:-1],
    "something follows": lambda content: content + b"\0",
    "a bit of the code": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    "a bit of the header": lambda content: content.replace(b"dd->d", b"dd->f"),
    "something else": lambda content: bytes(1000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_none(directory: Path, damage: str) -> None:
    cache.store(KEY, RECORD)
    path = entry(directory)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert cache.load(KEY) is None
    cache.store(KEY, RECORD)
    assert cache.load(KEY) == RECORD


def test_an_entry_under_another_name_is_none(directory: Path) -> None:
    cache.store(KEY, RECORD)
    entry(directory).rename(entry(directory, 1))
    assert cache.load(f"{1:064x}") is None


def as_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@posix
@pytest.mark.parametrize(
    "change",
    [
        as_link,
        as_directory,
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: path.chmod(0o620),
        lambda path: path.chmod(0o602),
    ],
    ids=["link", "directory", "pipe", "group can write", "others can write"],
)
def test_what_others_may_have_put_there_is_none(directory: Path, change: Callable[[Path], Any]) -> None:
    cache.store(KEY, RECORD)
    change(entry(directory))
    assert cache.load(KEY) is None


@posix
def test_the_entry_of_another_user_is_none(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, RECORD)
    monkeypatch.setattr(cache, "place", lambda: place.Place(directory, ""))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert cache.load(KEY) is None


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("owner", "name"), [(os, "open"), (os, "fdopen"), (Path, "replace"), (Path, "mkdir")])
def test_what_cannot_be_written_is_not(directory: Path, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, refuse)
        cache.store(KEY, RECORD)
    assert not directory.exists() or not list(directory.iterdir())
    cache.store(KEY, RECORD)
    assert cache.load(KEY) == RECORD


@pytest.mark.parametrize("name", ["open", "fstat", "read", "utime"])
def test_what_cannot_be_read_is_none(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, RECORD)
    os.utime(entry(directory), (0, 0))
    with monkeypatch.context() as patched:
        patched.setattr(os, name, refuse)
        loaded = cache.load(KEY)
    assert loaded == (RECORD if name == "utime" else None)


def test_what_is_no_literal_is_a_fault_of_ours(directory: Path) -> None:
    with pytest.raises(SyntaxError, match="invalid syntax"):
        cache.store(KEY, Record({"types": object()}, b""))


def age(directory: Path, number: int, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(entry(directory, number), (then, then))


def test_what_was_not_used_for_longest_is_removed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_sample", lambda: 0.0)
    monkeypatch.setenv("TMAPAD_CACHE_SIZE", "0.01")
    for number in range(8):
        store(number, bytes(1000))
        age(directory, number, 7200 - number)
    assert stored(directory) == list(range(8))
    assert cache.load(f"{0:064x}") is not None  # and so it was used
    others = [directory / "notes.txt", directory / "0.kernel"]
    for path in others:
        path.write_text("mine")
        os.utime(path, (0, 0))
    store(8, bytes(1000))  # now there are more than 10 kB: 8.75 kB are kept, seven entries
    assert stored(directory) == [0, *range(3, 9)]
    assert all(path.exists() for path in others)


def test_what_a_process_left_unfinished_is_removed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_sample", lambda: 0.0)
    store(0)
    old, new = (entry(directory).with_name(f"{KEY}.kernel.{name}") for name in ("1-2", "3-4"))
    for path in (old, new):
        path.write_bytes(b"tmapad")
    os.utime(old, (0, 0))
    store(1)
    assert (old.exists(), new.exists()) == (False, True)


def test_the_directory_is_looked_through_now_and_then(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(cache, "_evict", lambda path, limit: looked.append(path))
    monkeypatch.setenv("TMAPAD_CACHE_SIZE", "1")
    for sample, code, looks in [(0.5, b"", 0), (0.1, bytes(4000), 1), (0.5, bytes(4000), 0), (0.5, bytes(40_000), 1)]:
        monkeypatch.setattr(cache, "_sample", lambda sample=sample: sample)
        looked.clear()
        store(0, code)
        assert len(looked) == looks
    assert 0 <= cache._sample() < 1


@pytest.mark.parametrize(
    ("size", "limit"), [(None, 256e6), ("", 256e6), ("1.5", 1.5e6), ("a lot", 256e6), ("0", 0.0), ("inf", float("inf"))]
)
def test_the_limit(size: str | None, limit: float, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if size is None:
        monkeypatch.delenv("TMAPAD_CACHE_SIZE", raising=False)
    else:
        monkeypatch.setenv("TMAPAD_CACHE_SIZE", size)
    assert cache._limit() == limit
    store(0)
    assert (cache.load(KEY) is None) == (limit == 0)


@pytest.mark.parametrize("value", ["0", "off", "False", " no "])
def test_switched_off(value: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, RECORD)
    monkeypatch.setenv("TMAPAD_CACHE", value)
    assert cache.load(KEY) is None
    store(1)
    assert stored(directory) == [0]
    assert cache.report() == {"directory": str(directory), "state": "not used: it is switched off by TMAPAD_CACHE"}
    monkeypatch.setenv("TMAPAD_CACHE", "1")
    assert cache.load(KEY) == RECORD


PLACES = [
    ("linux", {}, "home/.cache/tmapad"),
    ("linux", {"XDG_CACHE_HOME": "{}/x"}, "x/tmapad"),
    ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/tmapad"),
    ("linux", {"XDG_CACHE_HOME": "{}/x", "TMAPAD_CACHE_DIR": "{}/y"}, "y"),
    ("linux", {"TMAPAD_CACHE_DIR": "~/y"}, "home/y"),
    ("linux", {"TMAPAD_CACHE_DIR": ""}, "home/.cache/tmapad"),
    ("darwin", {}, "home/Library/Caches/tmapad"),
    ("win32", {"LOCALAPPDATA": "{}/local"}, "local/tmapad/cache"),
    ("win32", {}, "home/AppData/Local/tmapad/cache"),
]


@posix
@pytest.mark.parametrize(("system", "variables", "where"), PLACES)
def test_where_it_is(
    system: str, variables: dict[str, str], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    for name in ("TMAPAD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "{}/home", **variables}.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert place.place() == (tmp_path / where, "")


def test_a_relative_place_is_one_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMAPAD_CACHE_DIR", "here")
    assert place.place() == (tmp_path / "here", "")


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMAPAD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert place.place().problem == "this user has no home"
    cache.store(KEY, RECORD)
    assert cache.load(KEY) is None


def other_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if `path` belonged to another user."""
    lstat = Path.lstat

    def changed(self: Path) -> os.stat_result:
        fields = list(lstat(self))
        if self == path:
            fields[stat.ST_UID] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(Path, "lstat", changed)


def inside_a_shared_folder(tmp_path: Path, _: pytest.MonkeyPatch) -> Path:
    tmp_path.chmod(0o777)
    return tmp_path


def shared(tmp_path: Path, _: pytest.MonkeyPatch, mode: int = 0o777) -> Path:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    return tmp_path / "cache"


def belongs_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cache").mkdir()
    other_user(tmp_path / "cache", monkeypatch)
    return tmp_path / "cache"


def behind_the_link_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "real").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "real")
    other_user(tmp_path / "cache", monkeypatch)
    return tmp_path / "cache"


def behind_a_link_in_a_shared_folder(tmp_path: Path, _: pytest.MonkeyPatch) -> Path:
    for name in ("shared", "real"):
        (tmp_path / name).mkdir()
    (tmp_path / "shared/again").symlink_to("../real")
    (tmp_path / "cache").symlink_to("shared/again")
    (tmp_path / "shared").chmod(0o777)
    return tmp_path / "shared"


def a_file(tmp_path: Path, _: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cache").write_text("")
    return tmp_path / "cache"


def links_in_a_circle(tmp_path: Path, _: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cache").symlink_to("cache")
    return tmp_path / "cache"


UNSAFE: list[tuple[Callable[[Path, pytest.MonkeyPatch], Path], str]] = [
    (inside_a_shared_folder, "others can write to {}, and the cache holds code that is executed"),
    (shared, "others can write to {}, and the cache holds code that is executed"),
    (lambda path, _: shared(path, _, 0o720), "others can write to {}, and the cache holds code that is executed"),
    (lambda path, _: shared(path, _, 0o1777), "others can write to {}, and the cache holds code that is executed"),
    (belongs_to_another, "{} belongs to another user"),
    (behind_the_link_of_another, "{} belongs to another user"),
    (behind_a_link_in_a_shared_folder, "others can write to {}, and the cache holds code that is executed"),
    (a_file, "{} is not a directory"),
    (links_in_a_circle, "{}: too many symbolic links"),
]


@posix
@pytest.mark.parametrize(("make", "why"), UNSAFE)
def test_an_unsafe_directory_is_refused(
    make: Callable[[Path, pytest.MonkeyPatch], Path], why: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user, who named it, is told once; nothing is read from it or written to it."""
    problem = why.format(make(directory.parent, monkeypatch))
    with pytest.warns(UserWarning, match="^TMAPAD_CACHE_DIR is '.*cache', which is not used: ") as warned:
        assert place.place() == (directory, problem)
    assert str(warned[0].message).endswith(problem)
    cache.store(KEY, RECORD)
    assert cache.load(KEY) is None
    assert not list(directory.parent.rglob("*.kernel"))
    assert cache.report()["state"] == f"not used: {problem}"


@posix
def test_nothing_is_read_from_a_directory_that_was_opened_to_others(directory: Path) -> None:
    cache.store(KEY, RECORD)
    directory.chmod(0o777)
    with pytest.warns(UserWarning, match="others can write to"):
        assert cache.load(KEY) is None
    directory.chmod(0o700)
    assert cache.load(KEY) == RECORD


@posix
def test_an_unsafe_directory_that_nobody_named_is_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMAPAD_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared(tmp_path, monkeypatch).rename(tmp_path / "tmapad")
    assert "others can write" in place.place().problem


@posix
def test_safe_ways_to_it(directory: Path) -> None:
    """Through links of one's own, and in a sticky directory, where others can only add."""
    sticky = directory.parent / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "real").mkdir(0o700)
    directory.symlink_to(sticky / ".." / "sticky" / "real")
    cache.store(KEY, RECORD)
    assert cache.load(KEY) == RECORD
    assert entry(sticky / "real").exists()


def test_show_versions_tells(directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("TMAPAD_CACHE_SIZE", raising=False)
    report = tmapad.show_versions("dicts")
    assert report is not None
    assert report["cache"] == {"directory": str(directory), "state": "used, up to 256 MB"}
    tmapad.show_versions()
    assert "used, up to 256 MB" in capsys.readouterr().out
    cache.store(KEY, RECORD)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cache.report()["state"] == "read, but it cannot be written"
