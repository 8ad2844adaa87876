"""show_versions: what a report of a problem must say, collected without importing anything optional."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from typing import Any

import numpy as np

from tmapad import _core
from tmapad._threads import thread_report
from tmapad._version import __version__
from tmapad.jit import cache

# What compiles Python functions, and what many registered functions come from.
OPTIONAL = ("numba", "llvmlite", "scipy")
MODES = ("stdout", "dicts")
LIBRARY_FACTS = ("user_api", "internal_api", "version", "num_threads", "filepath")


def show_versions(mode: str = "stdout") -> dict[str, Any] | None:
    """Print versions, the platform, how many threads a call would use now and why, and where compiled code is kept.

    Parameters
    ----------
    mode : {"stdout", "dicts"}, optional
        Whether to print the report or to return it.

    Returns
    -------
    dict or None
        The report if `mode` is ``"dicts"``: nested dictionaries of what JSON can hold.

    Raises
    ------
    ValueError
        If `mode` is something else.

    Notes
    -----
    Nothing is imported for it: versions of optional packages are those that are installed.

    Examples
    --------
    >>> from tmapad import show_versions
    >>> report = show_versions(mode="dicts")
    >>> list(report)
    ['versions', 'platform', 'openmp', 'threads', 'cache', 'libraries']
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")
    report = collect()
    if mode == "dicts":
        return report
    print(as_text(report))
    return None


def collect() -> dict[str, Any]:
    """Return the report as nested dictionaries."""
    from threadpoolctl import threadpool_info

    threads = thread_report()
    return {
        "versions": {
            "tmapad": __version__,
            "Python": platform.python_version(),
            "NumPy": np.__version__,
            "Cython": built_with_cython(),
            **{name: installed(name) for name in OPTIONAL},
        },
        "platform": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "implementation": platform.python_implementation(),
            "CPUs": os.cpu_count(),
        },
        "openmp": bool(_core.openmp_enabled()),
        "threads": {"number": threads.number, "why": threads.why},
        "cache": cache.report(),
        "libraries": [{key: library.get(key) for key in LIBRARY_FACTS} for library in threadpool_info()],
    }


def built_with_cython() -> str | None:
    """Return the version of Cython that translated the extensions; None if they do not tell.

    They do not say it outright; but the types that all modules of one Cython share are in a module named after
    its version.
    """
    match = re.fullmatch(r"_cython_(\w+)", type(_core.openmp_enabled).__module__)
    return match[1].replace("_", ".") if match else None


def installed(name: str) -> str | None:
    """Return the version of an installed package, None if there is none."""
    from importlib.metadata import PackageNotFoundError, version  # which takes a third of the time of `import tmapad`

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_text(report: dict[str, Any]) -> str:
    """Lay a report out for people: a fact on each line."""
    versions, system, threads = report["versions"], report["platform"], report["threads"]
    facts = [
        *((_LABELS.get(name, name), number or _MISSING[name]) for name, number in versions.items()),
        ("platform", f"{system['system']}, {system['CPUs']} CPUs"),
        ("OpenMP", "in" if report["openmp"] else "not in"),
        ("threads", f"{threads['number']}: {threads['why']}"),
        ("cache", f"{report['cache']['directory']}: {report['cache']['state']}"),
        *(("thread pool", _pool(library)) for library in report["libraries"]),
    ]
    width = max(len(name) for name, _ in facts) + 2
    return "\n".join(
        textwrap.fill(
            f"{name:<{width}}{fact}",
            110,
            subsequent_indent=" " * width,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, fact in facts
    )


_LABELS = {"Cython": "Cython, when built", "numba": "Numba", "scipy": "SciPy"}
_MISSING = {"Cython": "unknown", **dict.fromkeys(OPTIONAL, "not installed")}


def _pool(library: dict[str, Any]) -> str:
    known = " ".join(str(library[key]) for key in ("internal_api", "version") if library[key])
    return f"{known}, {library['num_threads']} threads, {library['filepath']}"
