"""docs/promises.md: each promise names tests, and they exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAME = re.compile(r"`(tests/\w+\.py)::(\w+)`")


def faults(text: str) -> Iterator[str]:
    """Lines of the tables that name no test, or none that there is."""
    for line in text.splitlines():
        promise, _, tests = line.strip(" |").rpartition(" | ")
        if not line.startswith("|") or line.startswith("| ---") or promise == "promise":
            continue
        if not re.fullmatch(rf"{NAME.pattern}(, {NAME.pattern})*", tests):
            yield f"{promise}: names no test"
        for file, name in NAME.findall(tests):
            path = ROOT / file
            tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
            if not any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body):
                yield f"{promise}: there is no {file}::{name}"


def test_each_promise_names_tests_that_there_are() -> None:
    text = (ROOT / "docs/promises.md").read_text()
    assert list(faults(text)) == []
    assert len(NAME.findall(text)) > 50


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        ("`tests/test_promises.py::test_what_is_missing_is_found`", None),
        ("`tests/test_promises.py::test_nothing`", "there is no tests/test_promises.py::test_nothing"),
        ("`tests/test_no_such.py::test_a`", "there is no tests/test_no_such.py::test_a"),
        (
            "`tests/test_promises.py::test_what_is_missing_is_found`, `tests/test_a.py::test_b`",
            "there is no tests/test_a",
        ),
        ("some test", "names no test"),
        ("", "names no test"),
    ],
)
def test_what_is_missing_is_found(tests: str, fault: str | None) -> None:
    found = list(faults(f"| promise | test |\n| --- | --- |\n| It works | {tests} |\n"))
    assert found == [] if fault is None else len(found) == 1 and fault in found[0]
