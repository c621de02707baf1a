"""The burst proofs hold for what ships, and fail for hardware that cuts in the wrong place."""

from __future__ import annotations

import pytest

import rtl.runs
from isa.loader import load_machine
from rtl.proof.bursts import prove_bursts

MACHINE = load_machine("base16")


@pytest.mark.parametrize("engine", ["load", "store"])
def test_bursts_are_legal_inside_and_cover(engine: str) -> None:
    assert [proof.counterexample for proof in prove_bursts(MACHINE, engine)] == ["", "", ""]


def test_sees_a_boundary_that_is_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.runs, "BURST_BOUNDARY_BYTES", 2 * rtl.runs.BURST_BOUNDARY_BYTES)
    legal, _, _ = prove_bursts(MACHINE, "load")
    assert legal.counterexample.startswith("boundary: false")


def test_sees_a_burst_of_a_beat_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.runs, "BURST_BEATS", rtl.runs.BURST_BEATS + 1)
    legal, _, _ = prove_bursts(MACHINE, "load")
    assert "false" in legal.counterexample


def test_sees_a_run_of_the_wrong_length(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl.runs.dram_word_bytes
    monkeypatch.setattr(rtl.runs, "dram_word_bytes", lambda machine, of: 2 * right(machine, of))
    _, _, cover = prove_bursts(MACHINE, "load")
    assert cover.counterexample.startswith("start of load_act: false")
