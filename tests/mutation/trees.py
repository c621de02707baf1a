"""Copies of the tree, and tests that run in them, with a fault or without."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path

from pytest import ExitCode

from tests.copied_tree import copied_tree
from tests.mutation.faults import Fault

TEST_SECONDS = 120
RUN_SECONDS = 900
"""A test, or a run of tests, that takes longer has noticed."""

LIMIT_BYTES = 8 << 30
"""A fault can make a loop endless that fills memory: no process of the tests gets more for its data."""

NAMED = r"^(?:FAILED|ERROR) ([^\s:]+(?:::[^\s\[]+(?:\[.*?\](?= - |$))?)?)"
"""How pytest's summary names a test: the file, the function, and in brackets what is told apart there."""

TIME_LIMIT = "time limit"
NO_START = "pytest does not start"


@dataclass(slots=True)
class Known:
    """What all copies know of the tests without a fault.

    Some were seen to pass, some fail, and some fail now and then, as those do that measure seconds on a busy machine.
    """

    passing: set[tuple[str, ...]] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)
    unsteady: set[str] = field(default_factory=set)

    @property
    def left_out(self) -> set[str]:
        """Tests that say nothing of a fault."""
        return self.failing | self.unsteady


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of all that the tests import, in which one fault at a time is tried.

    Links stay links, so that a fault in isa/ is one in tilewright.isa, too.
    """

    folder: Path
    known: Known

    def test_that_notices(self, fault: Fault, tests: tuple[str, ...]) -> str:
        """The first of the tests that fails with the fault and passes without it, or nothing.

        A test that measures seconds must fail twice: on a busy machine it can fail with any fault. Afterwards the
        tree is as before. Raises RuntimeError for tests that do not end without the fault, either.
        """
        while True:
            noticed = self._failing_with(fault, tests)
            if noticed in ("", TIME_LIMIT, NO_START):
                if not noticed or self._passes(tests):
                    return noticed
            elif self._passes((noticed,)):
                if not self._measures_seconds(noticed) or self._failing_with(fault, (noticed,)):
                    return noticed
                self.known.unsteady.add(noticed)

    def _failing_with(self, fault: Fault, tests: tuple[str, ...]) -> str:
        path = self.folder / fault.path
        source = path.read_text()
        try:
            _write(path, fault.source)
            return failing_test(self.folder, tests, self.known.left_out)
        finally:
            _write(path, source)

    def _measures_seconds(self, test: str) -> bool:
        return "import time\n" in (self.folder / test.partition("::")[0]).read_text()

    def _passes(self, tests: tuple[str, ...]) -> bool:
        """Whether the tests pass without a fault. A test that does not is not asked again."""
        if tests in self.known.passing:
            return True
        failed = failing_test(self.folder, tests, self.known.left_out)
        if failed in (TIME_LIMIT, NO_START) or failed in self.known.failing:
            raise RuntimeError(f"without a fault, {failed}: {' '.join(tests)}")
        if failed:
            self.known.failing.add(failed)
        else:
            self.known.passing.add(tests)
        return not failed


def new_tree(folder: Path, known: Known) -> Tree:
    """A new copy of this tree, as it is on disk now."""
    folder.mkdir()
    return Tree(copied_tree(folder), known)


def _write(path: Path, source: str) -> None:
    """Write a source, and take away what Python compiled of the one before, which it knows by size and second."""
    path.write_text(source)
    Path(cache_from_source(path)).unlink(missing_ok=True)


def failing_test(folder: Path, tests: tuple[str, ...], left_out: Collection[str]) -> str:
    """The first of the tests that fails, or nothing. What cannot be imported fails; so does what takes too long.

    Examples of hypothesis are the same in every run.
    """
    shutil.rmtree(folder / ".hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=no"]
    limits = ["-o", f"faulthandler_timeout={TEST_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
    deselected = [f"--deselect={test}" for test in sorted(left_out)]
    run = subprocess.Popen(
        [*command, *limits, "--hypothesis-seed=0", *deselected, *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    resource.prlimit(run.pid, resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    try:
        output, _ = run.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        return TIME_LIMIT
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    if run.returncode in (ExitCode.OK, ExitCode.NO_TESTS_COLLECTED):
        return ""
    found = re.search(NAMED, output, re.MULTILINE)
    return found[1] if found else TIME_LIMIT if "\nTimeout (" in output else NO_START
