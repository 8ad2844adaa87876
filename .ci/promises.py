"""Fail if a test that proves a promise ran nowhere: ``python promises.py PROMISES.md RESULTS.xml ...``."""

import re
import sys
from pathlib import Path
from runpy import run_path

read_run = run_path(str(Path(__file__).parent / "skips.py"))["read_run"]
NAME = re.compile(r"`tests/(\w+)\.py::(\w+)`")


def main(promises: str, results: list[str]) -> int:
    """Print the verdict, and return the exit status."""
    named = {f"tests.{module}::{test}" for module, test in NAME.findall(Path(promises).read_text())}
    ran = {name.partition("[")[0] for path in results for name, why in read_run(Path(path))[0].items() if not why}
    for name in sorted(named - ran):
        print(f"a promise is proved by what did not run: {name}")
    print(f"{len(named & ran)} of {len(named)} tests of promises ran")
    return 0 if named and named <= ran else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
