"""The examples in docstrings run, and the public names have docstrings."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import tmapad

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public objects, those of classes and functions that hang on them included."""
    for name in tmapad.__all__:
        value = getattr(tmapad, name)
        if name != "__version__":
            yield name, value
        attributes = vars(value) if isinstance(value, type) or inspect.isroutine(value) else {}
        for key, attribute in attributes.items():
            if not key.startswith("_") and (callable(attribute) or isinstance(attribute, property)):
                yield f"{name}.{key}", attribute


PUBLIC = dict(public())
MODULES = [
    module.name for module in pkgutil.walk_packages(tmapad.__path__, "tmapad.") if not module.name.endswith("__main__")
]


def run(test: doctest.DocTest) -> doctest.TestResults:
    return doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_docstring(name: str) -> None:
    """Compiled functions are not found by doctest's own search: each docstring is parsed here."""
    text = inspect.getdoc(PUBLIC[name])
    assert text, f"{name} has no docstring"
    assert run(doctest.DocTestParser().get_doctest(text, {}, name, None, 0)).failed == 0


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if callable(v) and not isinstance(v, type)])
def test_public_functions_have_an_example(name: str) -> None:
    if "." not in name:
        assert ">>>" in (inspect.getdoc(PUBLIC[name]) or "")


@pytest.mark.parametrize("name", MODULES)
def test_module(name: str) -> None:
    """The docstrings of everything else."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs {error.name}")
    for test in doctest.DocTestFinder().find(module):
        if test.examples:
            assert run(test).failed == 0


def test_a_wrong_example_is_found() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    assert runner.run(test, out=lambda text: None).failed == 1


def test_compiled_functions_are_seen() -> None:
    assert ">>>" in (inspect.getdoc(PUBLIC["tmap"]) or "")
    assert {"rrule.register", "ScalarFunction.compile"} <= PUBLIC.keys()
