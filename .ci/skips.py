"""Fail if a test was skipped in every run, or never ran: ``python skips.py RESULTS.xml ...``, one file a run.

A test that one run leaves out or skips is fine as long as another runs it. The last line is a summary.
"""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path


def read_run(path: Path) -> tuple[dict[str, str], int]:
    """Return the tests of a run, each with the reason why it was skipped or "", and how many failed.

    A module skipped while it was collected is one entry: the module's name.
    """
    tests: dict[str, str] = {}
    failed = 0
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 - written by the pytest that this script follows
        name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
        skipped = case.find("skipped")
        # A test expected to fail is reported as skipped, but it ran.
        ran = skipped is None or skipped.get("type") == "pytest.xfail"
        tests[name] = "" if skipped is None or ran else skipped.get("message") or "no reason"
        failed += case.find("failure") is not None or case.find("error") is not None
    return tests, failed


def never_ran(runs: Iterable[dict[str, str]]) -> dict[str, str]:
    """Return the tests that no run has run, with the reason one of them gave."""
    skipped: dict[str, str] = {}
    ran: set[str] = set()
    for run in runs:
        skipped |= {name: reason for name, reason in run.items() if reason}
        ran |= {name for name, reason in run.items() if not reason}

    def has_run(name: str) -> bool:
        return name in ran or any(other.startswith((f"{name}::", f"{name}.")) for other in ran)

    return {name: reason for name, reason in sorted(skipped.items()) if not has_run(name)}


def main(paths: list[str]) -> int:
    """Print the verdict, and return the exit status."""
    runs = []
    passed = failed = skipped = 0
    for path in map(Path, paths):
        tests, failures = read_run(path)
        out = sum(1 for reason in tests.values() if reason)
        print(f"{path.stem}: {len(tests) - out - failures} passed, {failures} failed, {out} skipped")
        if len(tests) == out:
            print(f"{path.stem}: no test ran")
            return 1
        runs.append(tests)
        passed, failed, skipped = passed + len(tests) - out - failures, failed + failures, skipped + out
    unseen = never_ran(runs)
    for name, reason in unseen.items():
        print(f"skipped in every run: {name} ({reason})")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if unseen or failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
