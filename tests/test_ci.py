"""The scripts of .ci themselves: one that never fails would go unnoticed."""

import subprocess
import sys
import zipfile
from pathlib import Path
from runpy import run_path

import pytest

CI = Path(__file__).parent.parent / ".ci"
skips = run_path(str(CI / "skips.py"))
promises = run_path(str(CI / "promises.py"))
check_wheel = run_path(str(CI / "check_wheel.py"))

SAMPLE = """
import os, pytest
def test_always(): pass
@pytest.mark.skipif("FIRST" in os.environ, reason="not in the first")
def test_second(): pass
@pytest.mark.skipif("FIRST" not in os.environ, reason="not in the second")
def test_first(): pass
@pytest.mark.xfail
def test_known_fault(): assert False
"""
NEVER = """
import pytest
@pytest.mark.parametrize("n", [0, 1])
def test_never(n):
    if n: pytest.skip("no such machine")
"""
MODULE = """
import os, pytest
if "FIRST" in os.environ: pytest.skip("not in the first", allow_module_level=True)
def test_in_module(): pass
"""
MODULE_NEVER = "import pytest\npytest.importorskip('no_such_package')\ndef test_unseen(): pass"
FAILING = "def test_wrong(): assert False"
NOTHING = "import pytest\ndef test_nothing(): pytest.skip('always')"


def run_twice(folder: Path, *modules: str) -> list[str]:
    """Run pytest on test modules with these texts, twice; return the files with the results."""
    files = []
    for number, text in enumerate(modules):
        (folder / f"test_sample{number}.py").write_text(text)
    for run in ("first", "second"):
        out = folder / f"{run}.xml"
        env = {"FIRST": "1"} if run == "first" else {}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={out}", "."]
        subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
        files.append(str(out))
    return files


@pytest.mark.parametrize(
    ("modules", "status", "said"),
    [
        ([SAMPLE], 0, ["first: 3 passed, 0 failed, 1 skipped", "6 passed, 0 failed, 2 skipped"]),
        ([SAMPLE, MODULE], 0, ["7 passed, 0 failed, 3 skipped"]),
        ([SAMPLE, NEVER], 1, ["skipped in every run: test_sample1::test_never[1] (no such machine)"]),
        ([SAMPLE, MODULE_NEVER], 1, ["skipped in every run: test_sample1 ("]),
        ([SAMPLE, FAILING], 1, ["first: 3 passed, 1 failed, 1 skipped", "6 passed, 2 failed, 2 skipped"]),
        ([NOTHING], 1, ["first: no test ran"]),
    ],
)
def test_skips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], modules: list[str], status: int, said: list[str]
) -> None:
    assert skips["main"](run_twice(tmp_path, *modules)) == status
    out = capsys.readouterr().out
    for words in said:
        assert words in out


def test_no_results_is_a_failure() -> None:
    assert skips["main"]([]) == 1


@pytest.mark.parametrize(("test", "status"), [("test_seen", 0), ("test_skipped", 1), ("test_failing_to_be_there", 1)])
def test_promises(tmp_path: Path, capsys: pytest.CaptureFixture[str], test: str, status: int) -> None:
    case = '<testcase classname="tests.test_a" name="{}">{}</testcase>'.format
    cases = case("test_seen[1]", ""), case("test_skipped", '<skipped message="no"/>')
    (tmp_path / "run.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
    (tmp_path / "promises.md").write_text(f"| It works | `tests/test_a.py::{test}` |")
    assert promises["main"](str(tmp_path / "promises.md"), [str(tmp_path / "run.xml")]) == status
    assert (f"what did not run: tests.test_a::{test}" in capsys.readouterr().out) == bool(status)


GOOD = {
    **dict.fromkeys(check_wheel["NEEDED"], ""),
    "tmapad/__init__.pxd": 'cdef extern from "_abi.h" nogil:\n    pass\ncdef extern from "stdlib.h":\n',
    "tmapad/_core.cpython-311-x86_64-linux-gnu.so": "",
    "tmapad/_tmap.cp311-win_amd64.pyd": "",
    "tmapad-0.1.0.dist-info/licenses/LICENSE": "",
    "tmapad/stdlib.h": "",
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"tmapad/py.typed": None}, "lacks tmapad/py.typed"),
        ({"tmapad/_core.pyi": None}, "lacks tmapad/_core.pyi"),
        ({"tmapad/_abi.h": None}, "lacks tmapad/_abi.h"),
        ({"tmapad/_tmap.cp311-win_amd64.pyd": None}, "lacks tmapad/_tmap.*"),
        ({"tmapad/x.pxd": '  cdef extern from "_x.h":'}, "lacks tmapad/_x.h, which tmapad/x.pxd names"),
        ({"tmapad-0.1.0.dist-info/licenses/LICENSE": None}, "lacks the license"),
        ({"tmapad/_core.c": ""}, "holds tmapad/_core.c"),
        ({"tmapad/_core.pyx": ""}, "holds tmapad/_core.pyx"),
        ({"tmapad/_core.pxi": ""}, "holds tmapad/_core.pxi"),
        ({"tests/test_x.py": ""}, "holds tests/test_x.py"),
    ],
)
def test_check_wheel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str | None], fault: str | None
) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**GOOD, **change}.items():
            if text is not None:
                archive.writestr(name, text)
    assert check_wheel["main"](str(wheel)) == (fault is not None)
    out = capsys.readouterr().out
    assert f"{wheel} {fault}\n" in out or fault is None
