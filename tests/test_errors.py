"""The errors of tmapad are TypeErrors, and their names tell them apart."""

import re

import pytest

import tmapad

ERRORS = ("NoDerivativeError", "NoRuleError", "SignatureError")


@pytest.mark.parametrize("name", ERRORS)
def test_is_a_type_error_of_its_own(name):
    error = getattr(tmapad, name)
    assert issubclass(error, TypeError)
    assert [other for other in ERRORS if issubclass(error, getattr(tmapad, other))] == [name]


@pytest.mark.parametrize("name", ERRORS)
def test_says_when_it_is_raised(name):
    # Python 3.13 takes the indentation away.
    assert re.search(r"^ *Raised ", getattr(tmapad, name).__doc__, re.MULTILINE)
