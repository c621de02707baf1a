"""Tries generated inputs on a target and counts how they end.

An input may be refused with one of our errors, or be accepted; then what comes of it must be right. Anything else is a
finding: a traceback, too long, too much memory, a wrong answer. Hypothesis makes the inputs, steers towards those that
reach further (`target`), and shrinks a finding to the smallest input that still shows it.
"""

from __future__ import annotations

import resource
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import process_time
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy

from tests.fuzz.limits import TooLong, limits
from tilewright.errors import USER_ERRORS

REPOSITORY = Path(__file__).resolve().parents[2]

MOST_FINDINGS = 30
"""So many kinds of findings end a target: whoever reads them has enough to do."""


class Outcome(Enum):
    """How an input ended that shows no fault."""

    REFUSED = "refused"
    RIGHT = "accepted and right"
    UNJUDGED = "accepted, no oracle"


class WrongAnswer(Exception):
    """What was accepted and means something else; `kind` tells apart what has different causes."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Target:
    """A kind of input. `attempt` gives the outcome of one, and raises for a finding.

    The repr of an input is Python code that makes it: so findings are printed, and kept in tests/fuzz/kept. Of a target
    with a `share`, only so many inputs are tried for each one asked for.
    """

    name: str
    inputs: SearchStrategy[Any]
    attempt: Callable[[Any], Outcome]
    share: float = 1.0
    seconds: float | None = None  # for one input, where it may take longer than others
    prepare: Callable[[], object] = lambda: None
    """Done before the first input, without limits, and as often as one likes: what all of them need."""

    def scaled(self, tries: int) -> int:
        return max(1, round(tries * self.share))


@dataclass(frozen=True)
class Finding:
    """A kind of fault, and the smallest input that was found to show it."""

    kind: str  # the exception and the place in our code that it comes from
    message: str
    smallest: str

    def __str__(self) -> str:
        return f"{self.kind}\n    {self.message}\n    {self.smallest}"


@dataclass
class Report:
    """What the inputs of one target came to; `findings` is by their kinds."""

    target: str
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    faulty: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0  # of the input that took longest
    memory_bytes: int = 0  # the most that the process had beyond what it began with

    @property
    def tries(self) -> int:
        return self.outcomes.total() + self.faulty


Watch = Callable[[Report, str], None]
"""Hears of each input before it is tried."""


def explore(target: Target, tries: int, seed: int, known: Sequence[str] = (), watch: Watch | None = None) -> Report:
    """Try so many inputs, the same ones for the same seed; findings of `known` kinds are counted and not shrunk."""
    report = Report(target.name)
    target.prepare()
    before = _most_memory()
    round_ = 0
    while report.tries < tries and len(report.findings) < MOST_FINDINGS:
        found = _explore_to_next(target, tries - report.tries, seed + 7919 * round_, report, frozenset(known), watch)
        report.memory_bytes = _most_memory() - before
        if not found:
            break
        round_ += 1
    return report


def _explore_to_next(
    target: Target, tries: int, seed: int, report: Report, known: frozenset[str], watch: Watch | None
) -> bool:
    """Try inputs up to a finding of a new kind, which is shrunk; False when there is none."""
    fresh: list[Finding] = []

    @with_seed(seed)
    @settings(
        max_examples=tries,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.target, Phase.shrink),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(target.inputs)
    def try_one(value: Any) -> None:
        if watch is not None:
            watch(report, repr(value))
        started = process_time()
        try:
            with limits(target.seconds):
                outcome = target.attempt(value)
        except HypothesisException:
            raise
        except Exception as error:
            finding = Finding(kind_of(error), message_of(error), repr(value))
            if not fresh:
                report.faulty += 1
            if finding.kind in known or finding.kind in report.findings:
                return
            if fresh and fresh[0].kind != finding.kind:
                return
            fresh[:] = [finding]
            raise
        if not fresh:
            report.outcomes[outcome] += 1
            report.seconds = max(report.seconds, process_time() - started)

    try:
        try_one()
    except Exception:
        if not fresh:
            raise
    report.findings.update({finding.kind: finding for finding in fresh})
    return bool(fresh)


def kind_of(error: BaseException) -> str:
    """What tells findings apart: the exception, and where in the product it comes from, or what a WrongAnswer says."""
    if isinstance(error, WrongAnswer) and error.kind:
        return f"{type(error).__name__}: {error.kind}"
    if isinstance(error, TooLong) and error.__cause__ is not None:
        return f"TooLong{kind_of(error.__cause__).removeprefix(type(error.__cause__).__name__)}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame.filename)]
    own = [frame for frame in frames if not _relative(frame.filename).startswith("tests")] or frames
    return f"{type(error).__name__} in {_relative(own[-1].filename)}, {own[-1].name}" if own else type(error).__name__


def message_of(error: BaseException) -> str:
    """The error's own words, and those of what it comes from."""
    cause = f" ← {message_of(error.__cause__)}" if error.__cause__ is not None else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}{cause}"


def _is_ours(path: str) -> bool:
    return Path(path).resolve().is_relative_to(REPOSITORY) and ".venv" not in path


def _relative(path: str) -> str:
    return str(Path(path).resolve().relative_to(REPOSITORY))


def _most_memory() -> int:
    """The most memory that this process had so far (getrusage(2), ru_maxrss)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def accepted(kind: str) -> Iterator[None]:
    """What was accepted must work: an error of ours in the body is a wrong answer."""
    try:
        yield
    except USER_ERRORS as error:
        kind = f"{kind}: accepted, then {type(error).__name__}"
        raise WrongAnswer(f"accepted, then refused: {error}", kind) from error
