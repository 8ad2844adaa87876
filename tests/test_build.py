"""How the extensions are built, and what an import of the result does to the process."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from runpy import run_path

import pytest
from setuptools.errors import CompileError, LinkError

import tmapad
from tmapad import _version

ROOT = Path(__file__).parent.parent
setup = run_path(str(ROOT / "setup.py"), run_name="setup")
UNIX = setup["OPENMP_UNIX"][0]
APPLE = setup["OPENMP_APPLE"]
MSVC = setup["OPENMP_MSVC"]


class FakeCompiler:
    """A compiler that can do what it is told, and is loud about what it cannot."""

    def __init__(self, kind: str, compiles: Callable[..., bool], links: Callable[..., bool]) -> None:
        self.compiler_type = kind
        self._compiles = compiles
        self._links = links

    def compile(self, sources: list[str], output_dir: str, extra_postargs: list[str]) -> list[str]:
        assert "omp_get_thread_num" in Path(sources[0]).read_text()
        if not self._compiles(extra_postargs):
            os.write(2, b"unknown argument")
            raise CompileError(extra_postargs)
        return ["probe.o"]

    def link_executable(self, objects: list[str], name: str, output_dir: str, extra_postargs: list[str]) -> None:
        assert objects == ["probe.o"]
        if not self._links(extra_postargs):
            os.write(1, b"cannot find the library")
            raise LinkError(extra_postargs)


def anything(args: list[str]) -> bool:
    return True


def nothing(args: list[str]) -> bool:
    return False


def apple(args: list[str]) -> bool:
    return "-Xpreprocessor" in args


def homebrew(args: list[str]) -> bool:
    return any("/usr/local" in arg for arg in args)


@pytest.mark.parametrize(
    ("platform", "kind", "compiles", "links", "expected"),
    [
        ("linux", "unix", anything, anything, UNIX),
        ("linux", "unix", nothing, anything, None),  # the option is unknown
        ("linux", "unix", anything, nothing, None),  # no runtime library: Clang without libomp
        ("linux", "unix", apple, anything, None),  # nothing but -fopenmp is tried
        ("darwin", "unix", anything, anything, UNIX),  # a GCC, or LLVM's Clang
        ("darwin", "unix", apple, anything, APPLE[0]),  # CPPFLAGS and LDFLAGS lead to libomp
        ("darwin", "unix", apple, homebrew, APPLE[2]),
        ("darwin", "unix", apple, nothing, None),
        ("win32", "msvc", anything, anything, MSVC[0]),
        ("win32", "msvc", lambda args: args == ["/openmp:llvm"], anything, MSVC[1]),
        ("win32", "msvc", nothing, anything, None),
        ("win32", "mingw32", anything, anything, UNIX),
    ],
)
def test_probe(
    capfd: pytest.CaptureFixture[str],
    platform: str,
    kind: str,
    compiles: Callable[..., bool],
    links: Callable[..., bool],
    expected: tuple[list[str], list[str]] | None,
) -> None:
    compiler = FakeCompiler(kind, compiles, links)
    assert setup["find_openmp"](compiler, platform) == expected
    # The compiler's own complaints are not shown; what we say is one line, and only if nothing was found.
    assert capfd.readouterr() == ("", "")
    found = setup["openmp_arguments"](compiler, {}, platform)
    out, err = capfd.readouterr()
    assert out == ""
    if expected:
        assert (found, err) == ((1, *expected), "")
    else:
        assert (found, err) == ((0, [], []), setup["NO_OPENMP_FOUND"] + "\n")
        assert err.count("WARNING") == 1


@pytest.mark.parametrize(("value", "asked"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_no_openmp_asked_for(capfd: pytest.CaptureFixture[str], value: str, asked: bool) -> None:
    compiler = None if asked else FakeCompiler("unix", anything, anything)  # None: it must not be asked
    found = setup["openmp_arguments"](compiler, {"TMAPAD_NO_OPENMP": value}, "linux")
    assert found == ((0, [], []) if asked else (1, *UNIX))
    assert capfd.readouterr().err == (setup["NO_OPENMP_ASKED"] + "\n" if asked else "")


def test_sanitizers_asked_for() -> None:
    asked = setup["sanitizer_arguments"]
    assert asked({}) == asked({"TMAPAD_SANITIZE": ""}) == ([], [])
    arguments, macros = asked({"TMAPAD_SANITIZE": "thread"})
    assert "-fsanitize=thread" in arguments
    assert macros == [("TMAPAD_PLAIN_THREADS", "1")]
    assert "-fsanitize=address,undefined" in asked({"TMAPAD_SANITIZE": "address"})[0]
    with pytest.raises(SystemExit, match="tmapad: TMAPAD_SANITIZE is 'memory'; it must be address or thread"):
        asked({"TMAPAD_SANITIZE": "memory"})


def test_no_option_changes_arithmetic() -> None:
    """-ffast-math and its kin change results; -march=native makes them depend on the machine of the build."""
    candidates = [*setup["OPENMP_UNIX"], *APPLE, *MSVC]
    options = {arg for pair in candidates for args in pair for arg in args}.union(*setup["COMPILE_ARGS"].values())
    assert {"-O3", "-ffp-contract=off", "/O2", "-fopenmp", "/openmp"} <= options
    wrong = (
        "-Ofast",
        "-ffast-math",
        "-funsafe",
        "-fassociative",
        "-ffinite",
        "-freciprocal",
        "-march",
        "-mtune",
    )
    assert not [option for option in options if option.startswith((*wrong, "-mfpmath", "/fp:", "/arch"))]


# A stand-in for the package that compiles in seconds, with the real setup.py and the real use of OpenMP.
STUB_CORE = """
from tmapad._openmp cimport in_parallel, openmp_enabled, openmp_max_threads, thread_num
from cython.parallel cimport prange
cdef extern from "stub.h":
    int VALUE
def report():
    cdef int i, most = 0, inside = 0
    for i in prange(4, num_threads=2, schedule="static"):
        most += thread_num()
        inside += in_parallel()
    return openmp_enabled(), openmp_max_threads(), most, inside, in_parallel(), thread_num(), VALUE
"""
REPORT = "from tmapad import _core, _tmap; print(*(int(n) for n in _core.report()))"
SERIAL = "0 1 0 0 0 0"
PARALLEL = "1 3 2 4 0 0"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    package = tmp_path / "tmapad"
    package.mkdir()
    for name in ("setup.py", "tmapad/_openmp.pxd", "tmapad/_openmp.h", "tmapad/_source_tree.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (package / "__init__.py").write_text("")
    (package / "_core.pyx").write_text(STUB_CORE)
    (package / "_tmap.pyx").write_text("")
    (package / "stub.h").write_text("#define VALUE 1\n")
    return tmp_path


def build(project: Path, **environ: str) -> tuple[str, str]:
    """Build in place; return what the build said of OpenMP, and the report of the built module."""
    env = {**os.environ, "OMP_NUM_THREADS": "3", "PYTHONPATH": "", **environ}
    command = [sys.executable, "-W", "ignore", "setup.py", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=True)
    report = subprocess.run(
        [sys.executable, "-c", REPORT], cwd=project, env=env, capture_output=True, text=True, check=True
    )
    said = [line for line in done.stderr.splitlines() if line.startswith("tmapad:")]
    return "\n".join(said), report.stdout.strip()


def make_older(folder: Path) -> None:
    """Set all file times back: builds compare them in whole seconds."""
    for path in folder.rglob("*"):
        os.utime(path, (path.stat().st_mtime - 10,) * 2)


@pytest.mark.compiler
@pytest.mark.slow
def test_builds(project: Path) -> None:
    """One folder, built again and again: each build is what was asked for, not what an earlier one left."""
    assert build(project, TMAPAD_NO_OPENMP="1") == (setup["NO_OPENMP_ASKED"], f"{SERIAL} 1")
    compiled = {path.name for path in project.rglob("*.c")}
    assert compiled == {"_core.c", "_tmap.c"}
    assert not list((project / "tmapad").glob("*.c"))

    # A compiler without OpenMP: built, with the one warning.
    make_older(project)
    cc = project / "cc"
    real = sysconfig.get_config_var("CC")
    cc.write_text(f'#!/bin/sh\ncase "$*" in *-fopenmp*) echo "no such option" >&2; exit 1;; esac\nexec {real} "$@"\n')
    cc.chmod(0o755)
    assert build(project, CC=str(cc)) == (setup["NO_OPENMP_FOUND"], f"{SERIAL} 1")

    # And one with it, found by the real probe.
    make_older(project)
    assert build(project) == ("", f"{PARALLEL} 1")

    # A changed header is enough.
    make_older(project)
    (project / "tmapad" / "stub.h").write_text("#define VALUE 2\n")
    assert build(project) == ("", f"{PARALLEL} 2")


@pytest.mark.compiler
def test_header_wants_to_be_told(tmp_path: Path) -> None:
    """_openmp.h compiles as what setup.py says it is, and as nothing else."""
    source = tmp_path / "x.c"
    source.write_text('#include "_openmp.h"\nint main(void) { return tmapad_thread_num(); }\n')
    cc = str(sysconfig.get_config_var("CC")).split()

    def compile_with(*args: str) -> str:
        command = [*cc, "-c", "x.c", "-o", "x.o", f"-I{ROOT / 'tmapad'}", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stderr

    assert compile_with("-DTMAPAD_OPENMP=0") == ""
    assert "setup.py defines TMAPAD_OPENMP as 1 or 0" in compile_with()
    assert "TMAPAD_OPENMP is 1, but the compiler was not asked for OpenMP" in compile_with("-DTMAPAD_OPENMP=1")


# What an import must leave alone: the environment as Python and as C see it, threads, arithmetic. NumPy's own
# import comes before.
QUIET_IMPORT = """
import ctypes, os, sys, threading
import numpy
def state():
    environ = dict(os.environ)
    c_environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    entries = []
    while c_environ[len(entries)] is not None:
        entries.append(c_environ[len(entries)])
    tasks = sorted(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else []
    arithmetic = numpy.geterr(), numpy.float64(5e-324) * 1 > 0
    return environ, sorted(entries), threading.active_count(), tasks, arithmetic
before = state()
{extra}
import tmapad
assert state() == before, "the import changed the process"
optional = {{"_cffi_backend", "cffi", "llvmlite", "numba", "scipy", "tqdm"}} & sys.modules.keys()
assert not optional, f"imported {{sorted(optional)}}"
"""


@pytest.mark.parametrize(
    ("extra", "fault"),
    [
        ("", ""),
        ("import numba", "'llvmlite', 'numba'"),
        ("os.environ['X'] = '1'", "the import changed the process"),
        ("ctypes.CDLL(None).setenv(b'X', b'1', 1)", "the import changed the process"),
        (
            "threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "the import changed the process",
        ),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the C environment is read as POSIX has it")
def test_import_is_silent(extra: str, fault: str) -> None:
    code = QUIET_IMPORT.format(extra=extra)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    if fault:
        assert fault in done.stderr
    else:
        assert done.stderr == ""


SUBNORMAL = """
import sys
import numpy as np
import tmapad
x = np.linspace(0.0, 1.0, 100_000)
assert (tmapad.tmap(np.sin, x, num_threads=2) == np.sin(x)).all()
tiny = np.full(8, 5e-324)
assert (np.multiply(tiny, 1) != 0).all() and 5e-324 * 1.0 != 0, "subnormal numbers were switched off"
assert (tmapad.tmap(np.negative, tiny, num_threads=2) == -5e-324).all()
"""


def test_subnormal_numbers_stay() -> None:
    """Code linked with -ffast-math switches them off for the whole process."""
    exec(SUBNORMAL, {})
    subprocess.run([sys.executable, "-c", SUBNORMAL], cwd=ROOT, check=True)


def test_metadata() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert tmapad.__version__ == _version.__version__
    assert project["requires-python"] == ">=3.11"
    assert {"numpy>=2.0", "threadpoolctl>=3"} == set(project["dependencies"])


def test_metadata_of_the_installed() -> None:
    try:
        installed = metadata.distribution("tmapad")
    except metadata.PackageNotFoundError:
        pytest.skip("compiled in place, not installed")
    assert installed.version == tmapad.__version__
    names = ("License", "License-Expression")
    assert [text for name in names for text in installed.metadata.get_all(name) or []] == ["MIT"]
    extras = installed.metadata.get_all("Provides-Extra") or []
    assert {"numba", "test", "lint", "dev"} <= set(extras)
