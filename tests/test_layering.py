"""Imports point one way: a module of tmapad imports only from the rows above its own.

Under ``if TYPE_CHECKING`` nothing is imported: a function may be annotated with the type of what calls it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tmapad"

# From what knows nothing to what knows all. A package is one entry, whose modules may import each other.
ROWS = [
    ["_errors", "_openmp", "_patterns", "_source_tree", "_version"],
    ["_core", "_derivatives", "_progress", "_signatures"],
    ["_derivative_special", "_derivative_table", "_foreign", "_protocol", "_tangents"],
    ["_derivative_math"],
    ["_arrays", "_bound", "_pointers", "_threads", "jit"],
    ["_ufuncs"],
    ["_explain", "_plan", "_versions"],
    ["_failure", "_forms"],
    ["_automatic"],
    ["_kernel"],
    ["_function"],
    ["_find", "_rules"],
    ["_build", "_call"],
    ["_derivative", "_targets"],
    ["_windows"],
    ["_pullback"],
    ["_check", "_partials"],
    ["_register"],
    ["_tmap"],
    ["__init__"],
    ["__main__"],
]
CYTHON = (".pyx", ".pxd", ".pxi")
ROW = {name: number for number, row in enumerate(ROWS) for name in row}

# `from tmapad.x cimport y`, `cimport tmapad.x`, and the same with `import`; parentheses may span lines.
FROM = re.compile(r"^\s*from\s+(tmapad[\w.]*)\s+c?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
PLAIN = re.compile(r"^\s*c?import\s+(tmapad[\w.]*)", re.MULTILINE)


def python_imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules imported in Python source, each with the names taken from it."""
    tree = ast.parse(text)
    only_types = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if node in only_types:
            continue
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def cython_imports(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the same for Cython source: only what concerns tmapad."""
    for match in FROM.finditer(text):
        yield (
            match[1],
            [part.split()[0] for part in re.sub(r"[()]|#.*", "", match[2]).split(",") if part.strip()],
        )
    for match in PLAIN.finditer(text):
        yield match[1], []


def targets(path: Path, package: Path) -> set[str]:
    """Return the entries of ROWS that the file at `path` imports from."""
    read = cython_imports if path.suffix in CYTHON else python_imports
    entries = {file.stem for file in package.iterdir()} - {"__init__"}
    found = set()
    for module, names in read(path.read_text()):
        assert not module.startswith("."), f"{path.name} has a relative import"
        parts = module.split(".")
        if parts[0] == "tmapad":
            found |= set(parts[1:2]) or {name if name in entries else "__init__" for name in names or [""]}
    return found


def entry(path: Path, package: Path) -> str:
    """Return the entry of ROWS that the file at `path` belongs to; `_core_x.pxi` is a part of `_core`."""
    if path.suffix == ".pxi":
        return path.stem.rpartition("_")[0]
    return path.relative_to(package).with_suffix("").parts[0]


def violations(package: Path) -> list[str]:
    """Return every import in `package` that does not point from a row to one above it."""
    found = []
    for path in sorted(package.rglob("*")):
        if path.suffix not in (".py", ".pyi", *CYTHON):
            continue
        name = entry(path, package)
        if name not in ROW:
            found.append(f"{name} is in no row")
            continue
        found += [
            f"{path.relative_to(package)} imports {target}"
            for target in sorted(targets(path, package) - {name})
            if ROW.get(target, len(ROWS)) >= ROW[name]
        ]
    return found


def test_imports_point_one_way() -> None:
    assert violations(PACKAGE) == []


def test_the_package_is_seen() -> None:
    """Without this, an empty folder would pass."""
    seen = {entry(path, PACKAGE): targets(path, PACKAGE) for path in PACKAGE.glob("_*.p*")}
    assert "_openmp" in targets(PACKAGE / "_core.pyx", PACKAGE)
    assert "_core" in targets(PACKAGE / "_tmap.pyx", PACKAGE)
    assert "_source_tree" in seen["__init__"]
    assert seen.keys() | {"jit"} == ROW.keys()


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("_arrays.py", "from tmapad._function import ScalarFunction", "_arrays.py imports _function"),
        ("_arrays.py", "from tmapad import _function", "_arrays.py imports _function"),
        ("_arrays.py", "from tmapad import tmap", "_arrays.py imports __init__"),
        ("_arrays.py", "import tmapad", "_arrays.py imports __init__"),
        ("_arrays.py", "import numpy, tmapad._threads as t", "_arrays.py imports _threads"),
        ("_arrays.py", "def f():\n    from tmapad.jit.loop import compile", "_arrays.py imports jit"),
        ("jit/loop.py", "from tmapad._plan import Plan", "jit/loop.py imports _plan"),
        ("_core.pyx", "from tmapad._tmap cimport entry", "_core.pyx imports _tmap"),
        (
            "_core.py",
            "if TYPE_CHECKING:\n    import tmapad._plan\nelse:\n    import tmapad._tmap",
            "_core.py imports _tmap",
        ),
        (
            "_core.pyx",
            "from tmapad cimport (\n    _openmp,  # below\n    _tmap,\n)",
            "_core.pyx imports _tmap",
        ),
        ("_core_runs.pxi", "from tmapad._tmap cimport entry", "_core_runs.pxi imports _tmap"),
        ("_core.pxd", "cimport tmapad._tmap", "_core.pxd imports _tmap"),
        ("_core.pyi", "from tmapad._threads import Plan", "_core.pyi imports _threads"),
        ("_new.py", "", "_new is in no row"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, text: str, fault: str) -> None:
    for name in ("_function.py", "_threads.py", "_tmap.pyx", "_openmp.pxd", "jit/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert violations(tmp_path) == []
    (tmp_path / file).write_text(text)
    assert violations(tmp_path) == [fault]


def test_right_imports_pass(tmp_path: Path) -> None:
    (tmp_path / "jit").mkdir()
    (tmp_path / "_tangents.py").write_text("")
    (tmp_path / "jit" / "loop.py").write_text("from tmapad.jit import ir\nfrom tmapad._errors import SignatureError")
    (tmp_path / "_plan.py").write_text("import numpy\nfrom tmapad import _tangents\nimport tmapad.jit.loop")
    (tmp_path / "__main__.py").write_text("import tmapad\nfrom tmapad import tmap")
    assert violations(tmp_path) == []
