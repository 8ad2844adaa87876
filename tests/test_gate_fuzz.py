"""Whatever is registered, there is a function or an error that is promised: never a crash, nor anything else."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import odd_registrations
import pytest

SCRIPT = Path(odd_registrations.__file__)
RUN = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import odd_registrations
"""


def run(code: str, *arguments: str) -> tuple[int, str, str]:
    """Run in a process of its own: return its exit status, the number last tried, and what it said."""
    command = [sys.executable, "-W", "error", "-X", "faulthandler", "-c", RUN + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    return done.returncode, (done.stdout.splitlines() or [""])[-1], done.stderr


def test_random_registrations(request: pytest.FixtureRequest) -> None:
    """If it fails, ``python tests/odd_registrations.py NUMBER 1`` does it again."""
    count = request.config.getoption("--registrations")
    status, last, said = run(f"sys.exit(odd_registrations.main(0, {count}))")
    assert (status, last, said) == (0, str(count - 1), ""), f"registration {last} of {count}: {said[-5000:]}"


def test_they_are_worth_trying() -> None:
    """Many get through, and those that do not fail for many reasons."""
    outcomes = [outcome(number) for number in range(300)]
    made = sum(isinstance(found, odd_registrations.ScalarFunction) for found in outcomes)
    messages = {str(found)[:25] for found in outcomes if isinstance(found, Exception)}
    assert made > 20
    assert len(messages) > 50


def outcome(number: int) -> Any:
    try:
        return odd_registrations.attempt(odd_registrations.random.Random(number))
    except Exception as error:  # noqa: BLE001 - what it is, is counted
        return error


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("import os; os.abort()", None),
        ("import ctypes; ctypes.string_at(1)", None),
        ("raise SystemError('wrong')", "SystemError: wrong"),
        ("raise KeyError('lost')", "KeyError: 'lost'"),
        ("raise AttributeError('lost')", "AttributeError: lost"),
        ("return 3", "gave 3"),
        ("raise TypeError('long' * 10000)", "a message of 40000 characters"),
        ("type('D', (), {'__del__': lambda self: 1 / 0})()", "an exception nobody raised: .*ZeroDivisionError"),
    ],
)
def test_what_must_not_happen_is_found(planted: str, found: str | None) -> None:
    code = f"""
def attempt(r):
    if r.random() < 0.1:
        {planted}
    return odd_registrations.known
odd_registrations.attempt = attempt
sys.exit(odd_registrations.main(0, 40))
"""
    status, last, said = run(code)
    if found is None:
        assert status < 0
        assert 0 <= int(last) < 40
    else:
        assert (status, last) == (1, "39")
        assert 1 <= said.count("---") <= 8
        assert re.search(found, said)
