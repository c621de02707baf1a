"""Apply fifty seeded faults, each in a copy of the tree, and see which test notices: `python -m tests.mutation`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.mutation.faults import Fault, faults

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    *("isa", "compiler", "simulator", "rtl", "codesign", "tilewright", "tests", "programs", "docs"),
    "pyproject.toml",
)
LIMIT_SECONDS = 60
SLOWER = 4
"""A test run that takes longer than this, and than so many faultless ones, has noticed."""

COUNTS: Mapping[str, int] = {
    "isa/machine/encoding.py": 10,
    "simulator/statement_arrays.py": 8,
    "rtl/datapath.py": 7,
    "rtl/operators.py": 6,
    "rtl/nest.py": 8,
    "isa/check/checker.py": 6,
    "isa/check/hazards.py": 5,
}
"""Files, and how many faults each gets."""

TESTS: Mapping[str, tuple[str, ...]] = {
    "isa/machine/encoding.py": (
        "tests/isa/machine/test_encoding.py",
        "tests/isa/assembly/test_assembler.py",
        "tests/isa/files/test_loader.py",
    ),
    "simulator/statement_arrays.py": (
        "tests/test_expressions.py",
        "tests/simulator/test_statement_arrays.py",
        "tests/simulator/test_values.py",
    ),
    "rtl/datapath.py": ("tests/test_expressions.py", "tests/rtl/test_datapath.py"),
    "rtl/operators.py": ("tests/test_expressions.py", "tests/rtl/test_datapath.py"),
    "rtl/nest.py": ("tests/rtl/test_nest.py", "tests/rtl/test_vector.py"),
    "isa/check/checker.py": ("tests/isa/check/test_checker.py", "tests/test_random_programs.py"),
    "isa/check/hazards.py": ("tests/isa/check/test_checker.py", "tests/test_random_programs.py"),
}
"""The fast tests of each file, quickest first."""


def main(arguments: list[str]) -> int:
    """Print a line for each fault, and how many were noticed; 1 if a file's tests fail without any fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose path contains this")
    options = parser.parse_args(arguments)
    killed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copied_tree(Path(folder))
        for path, count in COUNTS.items():
            if options.only not in path:
                continue
            start = time.monotonic()
            noticed = failing_test(tree, TESTS[path])
            limit = max(LIMIT_SECONDS, SLOWER * (time.monotonic() - start))
            if noticed:
                print(f"{path}: without a fault, {noticed} fails")
                return 1
            source = (ROOT / path).read_text()
            for fault in faults(path, source, options.seed, count):
                noticed = test_that_notices(tree, fault, source, limit)
                killed, total = killed + bool(noticed), total + 1
                print(f"| {fault} | {noticed or '**survived**'} |", flush=True)
    print(f"{killed} of {total} faults are noticed")
    return 0


def copied_tree(folder: Path) -> Path:
    """A copy of all that the tests import; links stay links, so that a fault in isa/ is one in tilewright.isa, too."""
    for name in COPIED:
        source, to = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "sim_build"))
        else:
            shutil.copy(source, to)
    return folder


def test_that_notices(tree: Path, fault: Fault, source: str, limit: float) -> str:
    """The first test that fails with a fault in the tree, or nothing; the tree is as before afterwards."""
    try:
        (tree / fault.path).write_text(fault.source)
        return failing_test(tree, TESTS[fault.path], limit)
    finally:
        (tree / fault.path).write_text(source)


def failing_test(tree: Path, tests: tuple[str, ...], limit: float | None = None) -> str:
    """The first of the tests that fails, or nothing. A module that cannot be imported fails; so does a run too long.

    `limit` is in seconds.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return "time limit"
    if run.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)
    return found[1] if found else "pytest does not start"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
