"""python -m tmapad, as a user runs it: in a process of its own, from any folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tmapad

ROOT = Path(__file__).parent.parent
# Where the package was imported from, for processes that are started elsewhere. Without a cache: from one a compiled
# function runs without Numba.
ENV = {**os.environ, "PYTHONPATH": str(Path(tmapad.__path__[0]).parent), "TMAPAD_CACHE": "0"}

# The main job on fewer elements, and without Numba.
SMALL = "import sys, tmapad.__main__ as main; main.ANOMALIES = 5000; "
HIDDEN = "import sys; sys.modules['numba'] = None; "
WRONG = "partial = lambda E, M, e: (1.0, 0.0); "


def run(*arguments: str, cwd: Path) -> tuple[int, str]:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=cwd, env=ENV, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def run_json(code: str, call: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    status, output = run("-c", f"{code}sys.exit(main.main({call}))", cwd=cwd)
    return status, json.loads(output)


@pytest.mark.slow
def test_from_another_folder(tmp_path: Path) -> None:
    status, output = run("-m", "tmapad", cwd=tmp_path)
    assert status == 0
    assert output.endswith("All checks passed.\n")
    assert "FAILED" not in output
    words = " ".join(output.split())
    for part in ("Kepler's equation", "1P/Halley", "JPL Horizons", "1 thread", "forward", "backward", "OpenMP"):
        assert part in words


@pytest.mark.slow
def test_from_the_checkout_as_json() -> None:
    status, output = run("-m", "tmapad", "--json", cwd=ROOT)
    report = json.loads(output)
    assert (status, report["passed"], report["missing"]) == (0, True, None)
    assert report["versions"]["tmapad"] == tmapad.__version__
    assert report["orbit"]["eccentricity"] == 0.9679221169240834
    assert [timing["name"] for timing in report["timings"]] == ["forward", "backward"]
    assert all(seconds > 0 for timing in report["timings"] for seconds in timing["seconds"].values())
    assert set(report["timings"][0]["seconds"]) == {"1", str(report["threads"]["number"])}


def test_the_checks_of_the_main_job(tmp_path: Path) -> None:
    status, report = run_json(SMALL, "['--json']", tmp_path)
    assert status == 0
    assert len(report["checks"]) == 5
    assert all(check["passed"] and check["error"] <= check["bound"] for check in report["checks"])


def test_a_wrong_derivative_fails(tmp_path: Path) -> None:
    """With a wrong derivative in the place of the automatic one checks fail, and then the exit status tells."""
    status, report = run_json(SMALL + WRONG, "['--json'], lambda: main.kepler(partial)", tmp_path)
    assert (status, report["passed"]) == (1, False)
    failed = [check["name"] for check in report["checks"] if not check["passed"]]
    assert failed == [
        "gradient in M, relative to the theorem's",
        "gradient in e, relative to the theorem's",
        "gradient in e, from -1/2",
    ]
    status, output = run("-c", f"{SMALL}{WRONG}sys.exit(main.main([], lambda: main.kepler(partial)))", cwd=tmp_path)
    assert status == 1
    assert output.count("FAILED") == 4
    assert output.endswith("A check FAILED.\n")


@pytest.mark.parametrize("error", ["float('nan')", "float('inf')", "1.5"])
def test_a_check_fails_on_what_is_no_number(error: str, tmp_path: Path) -> None:
    job = f"lambda: main.Job('', [main.Check('', {error}, 1.0)])"
    status, report = run_json(SMALL, f"['--json'], {job}", tmp_path)
    assert (status, report["passed"], report["checks"][0]["passed"]) == (1, False, False)


def test_without_numba(tmp_path: Path) -> None:
    status, report = run_json(HIDDEN + SMALL, "['--json']", tmp_path)
    assert (status, report["passed"]) == (0, True)
    assert "needs Numba" in report["missing"]
    assert "python -m pip install" in report["missing"]
    assert "libm" in report["description"]
    assert [timing["name"].split(",")[0] for timing in report["timings"]] == ["sin", "sin", "hypot", "hypot"]
    status, output = run("-c", f"{HIDDEN}{SMALL}sys.exit(main.main([]))", cwd=tmp_path)
    assert status == 0
    assert "Not tried: eccentric_anomaly is a Python function" in output


def test_another_import_error_is_not_swallowed(tmp_path: Path) -> None:
    code = f"{SMALL}\ndef job():\n    import no_such_module\nmain.run(job)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "No module named 'no_such_module'" in done.stderr


def test_nothing_optional_is_imported_for_versions(tmp_path: Path) -> None:
    code = (
        "import sys, tmapad; report = tmapad.show_versions(mode='dicts'); "
        "print(sorted({'numba', 'llvmlite', 'scipy', 'cython'} & sys.modules.keys()), report['versions']['tmapad'])"
    )
    assert run("-c", code, cwd=tmp_path) == (0, f"[] {tmapad.__version__}\n")


def test_show_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert tmapad.show_versions() is None
    shown = capsys.readouterr().out
    report = tmapad.show_versions(mode="dicts")
    assert report is not None
    assert set(report["versions"]) == {"tmapad", "Python", "NumPy", "Cython", "numba", "llvmlite", "scipy"}
    assert all(str(version) in shown for version in report["versions"].values() if version)
    assert report["threads"]["number"] == tmapad.get_num_threads()
    assert json.loads(json.dumps(report)) == report


def test_show_versions_without_a_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tmapad._versions.OPTIONAL", ("numba", "no-such-package"))
    monkeypatch.setattr("tmapad._versions.built_with_cython", lambda: None)
    monkeypatch.setattr("tmapad._versions.installed", {"numba": None, "no-such-package": "1.0"}.get)
    tmapad.show_versions()
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1].strip() for line in shown[3:6]] == ["unknown", "not installed", "1.0"]


def test_show_versions_in_no_mode() -> None:
    with pytest.raises(ValueError, match="mode must be one of 'stdout', 'dicts', not 'html'"):
        tmapad.show_versions("html")


def test_the_version_of_cython_is_known() -> None:
    from tmapad._versions import built_with_cython, installed

    assert built_with_cython() is not None
    assert installed("no-such-package") is None
