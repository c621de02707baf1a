"""Tries generated inputs on a target, within limits of time and memory, and counts how they end.

An input may be refused with one of our errors, or be accepted; then what comes of it must be right. Anything else is a
finding: a traceback, too long, too much memory, a wrong answer. Hypothesis makes the inputs, steers towards those that
reach further (`target`), and shrinks a finding to the smallest input that still shows it.
"""

from __future__ import annotations

import gc
import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.strategies import SearchStrategy

SECONDS = 10
"""The longest that one input may take."""

MEMORY_BYTES = 2**30
"""The most that one input may need beyond what the process had before it."""


class Outcome(Enum):
    """How an input ended that shows no fault."""

    REFUSED = "refused"
    RIGHT = "accepted and right"
    UNJUDGED = "accepted, without an oracle"


class WrongAnswer(Exception):
    """What was accepted and means something else."""


class TooLong(Exception):
    """An input took more than SECONDS."""


@dataclass(frozen=True)
class Target:
    """A kind of input. `attempt` gives the outcome of one, and raises for a finding."""

    name: str
    inputs: SearchStrategy[Any]
    attempt: Callable[[Any], Outcome]


@dataclass
class Report:
    """What the inputs of one target came to; `finding` is the smallest input that shows a fault, and the fault."""

    target: str
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    finding: str = ""

    @property
    def tries(self) -> int:
        return self.outcomes.total()


def explore(target: Target, tries: int, seed: int) -> Report:
    """Try so many inputs, the same ones for the same seed; stops at the first kind of finding, shrunk."""
    report = Report(target.name)

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
        with limits():
            report.outcomes[target.attempt(value)] += 1

    try:
        try_one()
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what we look for)
        notes = "\n".join(getattr(error, "__notes__", ()))
        report.finding = f"{type(error).__name__}: {error}\n{notes}".strip()
    return report


@contextmanager
def limits() -> Iterator[None]:
    """Raises TooLong after SECONDS, and MemoryError where the body wants more than MEMORY_BYTES."""
    gc.collect()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + MEMORY_BYTES, before[1]))
    previous = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooLong(f"took more than {SECONDS} s")


def _data_bytes() -> int:
    """What counts against RLIMIT_DATA now: the private, writable memory of this process (proc(5), VmData)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
