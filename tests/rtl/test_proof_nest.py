"""The address proofs hold for what ships, and fail for a walker that takes the wrong stride."""

from __future__ import annotations

import pytest

import rtl.nest
from isa.loader import load_machine
from rtl.proof.nest import prove_walker

MACHINE = load_machine("base16")


def test_addresses_are_base_plus_indices_times_strides() -> None:
    assert [proof.counterexample for proof in prove_walker(MACHINE)] == ["", ""]


def test_sees_strides_that_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl.nest.NestWalker.loop_at

    def loop_at(self: rtl.nest.NestWalker, walk: rtl.nest.Walk, level: int) -> rtl.nest.Loop | None:
        return right(self, walk, {1: 2, 2: 1}.get(level, level))

    monkeypatch.setattr(rtl.nest.NestWalker, "loop_at", loop_at)
    start, _ = prove_walker(MACHINE)
    assert "false" in start.counterexample


def test_sees_a_loop_that_ends_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.nest._LoopState, "is_last", property(lambda self: self.remaining <= 1))
    _, step = prove_walker(MACHINE)
    assert "false" in step.counterexample
