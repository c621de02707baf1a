"""Copies of the tree, and tests that run in them, with a fault or without."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.faults import Fault
from tests.mutation.rooms import ROOT, far_tests, near_tests

COPIED = ("isa", "compiler", "simulator", "rtl", "tilewright", "tests", "programs", "docs", "pyproject.toml")
LEFT_OUT = ("__pycache__", "sim_build", ".venv")

LIMIT_SECONDS = 60
SLOWER = 4
"""Tests that take longer than this, and than so many times as long as without the fault, have noticed."""

LIMIT_BYTES = 8 << 30
"""A fault can make a loop endless that fills memory: no process of the tests gets more for its data."""

TIME_LIMIT = "time limit"
NO_START = "pytest does not start"


@dataclass(slots=True)
class Tree:
    """A copy of all that the tests import, in which one fault at a time is tried.

    Links stay links, so that a fault in isa/ is one in tilewright.isa, too. `passing` holds the tests that were seen to
    pass without a fault, with the seconds that they took.
    """

    folder: Path
    passing: dict[tuple[str, ...], float] = field(default_factory=dict)

    def test_that_notices(self, fault: Fault) -> str:
        """The first test that fails with the fault and passes without it, or nothing; near ones are asked first.

        Raises RuntimeError for a test that fails without the fault, too. The tree is as before afterwards.
        """
        for tests in (near_tests(fault.path), far_tests(fault.path)):
            noticed = self._noticed(fault, tests)
            if noticed:
                return noticed
        return ""

    def _noticed(self, fault: Fault, tests: tuple[str, ...]) -> str:
        noticed = self._with_fault(fault, tests, LIMIT_SECONDS)
        if noticed == TIME_LIMIT:
            noticed = self._with_fault(fault, tests, max(LIMIT_SECONDS, SLOWER * self._seconds(tests)))
        elif noticed:
            self._seconds((noticed,) if noticed != NO_START else tests)
        return noticed

    def _with_fault(self, fault: Fault, tests: tuple[str, ...], limit: float) -> str:
        path = self.folder / fault.path
        source = path.read_text()
        try:
            path.write_text(fault.source)
            return failing_test(self.folder, tests, limit)
        finally:
            path.write_text(source)

    def _seconds(self, tests: tuple[str, ...]) -> float:
        """How long tests take that pass without a fault."""
        if tests not in self.passing:
            start = time.monotonic()
            failed = failing_test(self.folder, tests, limit=None)
            if failed:
                raise RuntimeError(f"without a fault, {failed} fails")
            self.passing[tests] = time.monotonic() - start
        return self.passing[tests]


def copied_tree(folder: Path) -> Tree:
    """A new copy of this tree, as it is on disk now."""
    for name in COPIED:
        source, to = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy(source, to)
    return Tree(folder)


def failing_test(folder: Path, tests: tuple[str, ...], limit: float | None) -> str:
    """The first of the tests that fails, or nothing. A module that cannot be imported fails; so does a run too long.

    `limit` is in seconds. Examples of hypothesis are the same in every run.
    """
    shutil.rmtree(folder / ".hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=no"]
    run = subprocess.Popen(
        [*command, "--hypothesis-seed=0", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    resource.prlimit(run.pid, resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    try:
        output, _ = run.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return TIME_LIMIT
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    if run.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1] if found else NO_START
