"""The examples of README and docs run as they stand, and print what is written beside them."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from documents import BLOCKS, DOCUMENTS, ROOT, Block, blocks_of

import tmapad
from tmapad._derivatives import names

PYTHON = [block for block in BLOCKS if block.language == "python"]
CYTHON = [block for block in BLOCKS if block.language == "cython"]
COMMANDS = [(block, command) for block in BLOCKS if block.language == "console" for command in block.text.splitlines()]


def name_of(block: Block) -> str:
    return f"{block.place}:{block.line}"


def module_of(block: Block) -> str:
    """The module that a block of Cython is the source of: the last .pyx named before it."""
    before = (ROOT / block.place).read_text().splitlines()[: block.line]
    return re.findall(r"(\w+)\.pyx", "\n".join(before))[-1]


MODULES = {module_of(block): block for block in CYTHON}


def build_command(module: str) -> str:
    return next(command for _, command in COMMANDS if command.endswith(f"{module}.pyx"))


@pytest.fixture(scope="module")
def user_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The modules of Cython, built by the commands that are given for them, where they can be imported."""
    folder = tmp_path_factory.mktemp("modules")
    scripts = Path(sys.executable).parent
    env = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        # Where `cimport tmapad` finds the package: site-packages, or a source tree compiled in place.
        "PYTHONPATH": str(Path(tmapad.__path__[0]).parent),
    }
    for module, block in MODULES.items():
        (folder / f"{module}.pyx").write_text(block.text)
        shell = ["bash", "-c", build_command(module)]
        done = subprocess.run(shell, cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))


def run(block: Block) -> None:
    """Run a block of Python in a namespace of its own, with its place in tracebacks."""
    code = compile("\n" * (block.line - 1) + block.text, str(ROOT / block.place), "exec")
    exec(code, {"__name__": "example"})


def needs_module(block: Block) -> bool:
    return any(re.search(rf"^import {module}$", block.text, re.MULTILINE) for module in MODULES)


@pytest.mark.parametrize("block", [b for b in PYTHON if not needs_module(b)], ids=name_of)
def test_example(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    run(block)
    assert capsys.readouterr().out.splitlines() == block.printed


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.usefixtures("user_modules")
@pytest.mark.parametrize("block", [b for b in PYTHON if needs_module(b)], ids=name_of)
def test_example_with_a_module(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    run(block)
    assert capsys.readouterr().out.splitlines() == block.printed


def is_extra(requirement: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return requirement[2:-1] in project["optional-dependencies"]


# Commands that the documents may give, each with a check that it can be run.
KNOWN: dict[str, Callable[..., object]] = {
    r"python -m pip install (\.\[\w+\])": is_extra,
    r"python -m (\w+)(?: --json)?": lambda module: importlib.util.find_spec(f"{module}.__main__"),
    r"TMAPAD_SANITIZE=address python -m pip install (\.\[\w+\])": is_extra,
    r"\.ci/sanitized address python -m pytest (tests/\w+\.py)": lambda path: (ROOT / path).is_file(),
    r"python -m pytest (tests/\w+\.py) --registrations 100000": lambda path: (ROOT / path).is_file(),
    r"python (benchmarks/\w+\.py)": lambda path: (ROOT / path).is_file(),
    r"python (tests/soaking\.py) --seconds 3600 --seed 1": lambda path: (ROOT / path).is_file(),
    r"CFLAGS=\$\(numpy-config --cflags\) cythonize -i (\w+)\.pyx": lambda module: module in MODULES,
}


def is_known(command: str) -> bool:
    words = " ".join(shlex.split(command))
    matches = [(re.fullmatch(pattern, words), check) for pattern, check in KNOWN.items()]
    return any(match and check(*match.groups()) for match, check in matches)


@pytest.mark.parametrize(("block", "command"), COMMANDS, ids=lambda value: getattr(value, "place", None))
def test_command(block: Block, command: str) -> None:
    for part in command.split(" && "):
        assert is_known(part), f"{name_of(block)}: {part}"


@pytest.mark.parametrize(
    "command", ['python -m pip install ".[none]"', "python -m tmapad.none", "python benchmarks/none.py", "rm -r x"]
)
def test_a_wrong_command_is_found(command: str) -> None:
    assert not is_known(command)


def test_a_wrong_comment_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks_of("text\n```python\nprint(1 + 1)  # 3\n```\n", "README.md")
    run(block)
    assert (block.line, block.printed, capsys.readouterr().out) == (3, ["3"], "2\n")


def test_every_block_has_a_language() -> None:
    assert {block.language for block in BLOCKS} <= {"python", "cython", "console"}
    assert PYTHON
    assert CYTHON


def test_the_list_of_ufuncs() -> None:
    """The documents name the ufuncs whose derivatives are known, and no others."""
    (section,) = re.findall(r"(?ms)^## Ufuncs$(.*?)^## ", (ROOT / "docs/registering.md").read_text())
    listed = re.findall(r"(?ms)^(?:NumPy|`scipy.special`): (.*?)\.$", section)
    assert len(listed) == 2
    assert set(re.findall(r"`(\w+)`", " ".join(listed))) == names()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links(document: Path) -> None:
    """Links within the project lead to files, and to headings in them."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([\w-]*))?\)", text):
        path = document.parent / target if target else document
        assert path.is_file(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
