"""The burst proofs hold for what ships, and fail for hardware that cuts in the wrong place."""

from __future__ import annotations

import pytest

import tilewright.rtl.runs as rtl_runs
from tests.rtl.faults import unseen, walker_faults
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.proof.bursts import bursts_of

pytestmark = pytest.mark.slow

MACHINE = load_machine("base16")


@pytest.mark.parametrize("engine", ["load", "store"])
def test_bursts_are_legal_inside_and_cover(engine: str) -> None:
    assert [proof.counterexample for proof in bursts_of(MACHINE, MACHINE.engines[engine]).proofs()] == [""] * 6


@pytest.mark.long
def test_every_goal_sees_a_fault() -> None:
    subject = bursts_of(MACHINE, MACHINE.engines["load"])
    registers, outputs = walker_faults(subject.hardware, "walker.")
    registers += [
        "offset",
        "left",
        "size",
        "beats",
        "room",
        "is_before",
        "is_at",
        "limit",
        "ends_run",
        "run_bytes",
        "is_active",
    ]
    outputs += ["bytes", "fault", "fault_address", "request", "walker.step", "walker.start", "walker.collapse"]
    assert unseen(subject, registers, outputs) == []


def test_sees_a_boundary_that_is_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_runs, "PAGE_BITS", rtl_runs.PAGE_BITS + 1)
    legal, *_ = bursts_of(MACHINE, MACHINE.engines["load"]).proofs()
    assert legal.counterexample.startswith("invariant: false")


def test_sees_a_burst_of_a_beat_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_runs, "BURST_BEATS", 2 * rtl_runs.BURST_BEATS)
    legal, *_ = bursts_of(MACHINE, MACHINE.engines["load"]).proofs()
    assert legal.counterexample.startswith("invariant: false")


def test_sees_a_run_of_the_wrong_length(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_runs.moved_word_bytes
    monkeypatch.setattr(rtl_runs, "moved_word_bytes", lambda of, machine: 2 * right(of, machine))
    _, _, cover, *_ = bursts_of(MACHINE, MACHINE.engines["load"]).proofs()
    assert cover.counterexample.startswith("start of load_act: false")
