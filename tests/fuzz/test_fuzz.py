"""Generated inputs of each kind end as they should, and what once did not is tried again."""

from __future__ import annotations

import os
import signal
from time import sleep

import pytest
from hypothesis import strategies

from tests.fuzz.harness import Outcome, Target, WrongAnswer, explore
from tests.fuzz.kept.all import KEPT
from tests.fuzz.limits import TooLong, limits
from tests.fuzz.process import explore_apart
from tests.fuzz.targets.all import TARGETS
from tests.fuzz.targets.binaries import ChangedFile
from tests.fuzz.targets.instructions import Change
from tests.fuzz.targets.partitioned import ChangedNetwork
from tests.rings import long_beyond
from tilewright.isa.check.checker import check
from tilewright.isa.check.finding import Finding, FindingCode
from tilewright.isa.errors import IsaError
from tilewright.isa.program.budgets import Budgets
from tilewright.isa.program.program import Program

FEW, SOME, MANY = 12, 50, 150
"""Tries of each kind: in the fast, the slow and the long ring."""

OF_FOLDERS = ("texts of passes", "studies", "spaces", "tunings", "process folders", "Liberty files")
"""The kinds that are in folders which one hands around: a try of them takes little."""

LATER = ("texts of passes", "tunings")
"""Those that compile networks before the first try are not in the fast ring."""

VERY_MANY = 5_000
"""Tries of these in the long ring."""


@pytest.mark.parametrize(("name", "position"), [(name, i) for name, kept in KEPT.items() for i in range(len(kept))])
def test_what_once_showed_a_fault(name: str, position: int) -> None:
    target = TARGETS[name]
    target.prepare()
    with limits():
        target.attempt(KEPT[name][position])


def hold(name: str, tries: int, seed: int) -> None:
    report = explore_apart(name, TARGETS[name].scaled(tries), seed)
    assert not report.findings, "\n".join(map(str, report.findings.values()))
    assert report.tries >= tries * TARGETS[name].share / 2, "the inputs are too much alike"


@pytest.mark.parametrize("name", [n for n, target in TARGETS.items() if target.share >= 0.1 and n not in LATER])
def test_a_few(name: str) -> None:
    hold(name, FEW, 0)


@pytest.mark.slow
@pytest.mark.parametrize("tries", long_beyond(1, (SOME, MANY)))
@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.share >= 0.1])
def test_many(name: str, tries: int) -> None:
    hold(name, tries, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", [*OF_FOLDERS, "exported files"])
def test_very_many(name: str) -> None:
    hold(name, VERY_MANY, 2)


# -- what the targets would find ---------------------------------------------------------------------------------------

GUARDED = [  # what the checker finds, and changes that nothing else refuses
    (FindingCode.WAIT, ((0, "wait.mma", 1),)),
    (FindingCode.RACE, ((5, "wait.load", 0),)),
    (FindingCode.UNWRITTEN, ((0, "y.base", 4),)),
    (FindingCode.TENSOR, ((8, "d.base", 16),)),
]


@pytest.mark.parametrize(("code", "changes"), GUARDED)
def test_a_checker_that_overlooks_something_is_found(
    code: FindingCode, changes: tuple[Change, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = ChangedFile("gemm", changes)
    assert TARGETS["binaries"].attempt(changed) is Outcome.REFUSED

    def overlooks(program: Program, *budgets: Budgets) -> tuple[Finding, ...]:
        return tuple(finding for finding in check(program, *budgets) if finding.code is not code)

    monkeypatch.setattr("tilewright.program.check", overlooks)
    with pytest.raises(WrongAnswer):
        TARGETS["binaries"].attempt(changed)


def test_a_checker_that_overlooks_a_race_is_found_in_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    without_wait = (ChangedNetwork(instructions=((number, "wait.load", 0),)) for number in range(10))
    changed = next(one for one in without_wait if TARGETS["networks in parts"].attempt(one) is Outcome.REFUSED)
    monkeypatch.setattr("tilewright.program.check", lambda program, *budgets: ())
    with pytest.raises(WrongAnswer, match="another order of the engines changes"):
        TARGETS["networks in parts"].attempt(changed)


# -- the harness itself ------------------------------------------------------------------------------------------------


def attempt(value: int) -> Outcome:
    """Faults of two kinds from 100 on."""
    if value >= 500:
        raise WrongAnswer("too large", "large")
    if value >= 100:
        raise IsaError("a refusal that nobody caught")
    return Outcome.RIGHT if value % 2 else Outcome.REFUSED


NUMBERS = Target("numbers", strategies.integers(0, 1000), attempt)


def test_finds_each_kind_of_fault_and_shrinks_it() -> None:
    report = explore(NUMBERS, 200, 0)
    assert {kind: finding.smallest for kind, finding in report.findings.items()} == {
        "WrongAnswer: large": "500",
        "IsaError in tests/fuzz/test_fuzz.py, attempt": "100",
    }


def test_goes_on_after_a_finding_and_counts_each_input_once() -> None:
    report = explore(NUMBERS, 200, 0)
    assert report.tries == 200
    assert report.faulty > 100 > report.outcomes[Outcome.REFUSED] > 0


def test_counts_known_findings_without_shrinking_them() -> None:
    heard: list[str] = []
    known = list(explore(NUMBERS, 200, 0).findings)
    report = explore(NUMBERS, 200, 0, known, lambda _, value: heard.append(value))
    assert not report.findings and report.faulty > 100
    assert len(heard) == 200


def test_gives_the_same_inputs_for_the_same_seed() -> None:
    heard: dict[int, list[str]] = {0: [], 1: []}
    for listener in heard.values():
        explore(NUMBERS, 30, 3, watch=lambda _, value, listener=listener: listener.append(value))  # type: ignore[misc]
    assert heard[0] == heard[1]


def test_an_input_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.limits.SECONDS", 0.1)
    with pytest.raises(TooLong), limits():
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: S112, BLE001  (what must not stop the alarm)
                continue


def test_memory_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.limits.MEMORY_BYTES", 1 << 27)
    with limits():
        assert len(bytearray(1 << 26)) == 1 << 26
    with pytest.raises(MemoryError), limits():
        bytearray(1 << 28)


def dies(value: int) -> Outcome:
    if value == 7:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Outcome.RIGHT


DEADLY = Target("deadly numbers", strategies.integers(0, 40), dies)


def test_what_ends_the_process_is_a_finding() -> None:
    report = explore_apart("deadly numbers", 60, 0, "tests.fuzz.test_fuzz:SEVERAL")
    (finding,) = report.findings.values()
    assert (finding.kind, finding.smallest) == ("the process was ended by SIGSEGV", "7")
    assert report.outcomes[Outcome.RIGHT] > 10


def never_ends(value: int) -> Outcome:
    if value == 7:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
        while True:
            pass
    return Outcome.RIGHT


ENDLESS = Target("endless numbers", strategies.integers(0, 40), never_ends)


def test_what_takes_the_processor_and_never_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.process.PATIENCE_SECONDS", 2)
    report = explore_apart(ENDLESS.name, 60, 0, "tests.fuzz.test_fuzz:SEVERAL")
    assert report.findings["the process said nothing for 2 s"].smallest == "7"


def sleeps(value: int) -> Outcome:
    sleep(3 if value == 7 else 0)
    return Outcome.RIGHT


def test_a_process_that_gets_little_of_the_processor_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.process.PATIENCE_SECONDS", 2)
    report = explore_apart(SLEEPY.name, 60, 0, "tests.fuzz.test_fuzz:SEVERAL")
    assert not report.findings


SLEEPY = Target("sleepy numbers", strategies.integers(0, 40), sleeps)

SEVERAL = {target.name: target for target in (DEADLY, ENDLESS, SLEEPY)}
