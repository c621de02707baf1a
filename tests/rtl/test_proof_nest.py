"""The address proofs hold for what ships, and fail for a walker that is wrong."""

from __future__ import annotations

import pytest

import rtl.nest
from isa.loader import load_machine
from rtl.proof.nest import vector_addresses
from rtl.proof.result import Proof
from tests.rtl.faults import unseen, walker_faults

MACHINE = load_machine("base16")


def proofs() -> list[Proof]:
    return vector_addresses(MACHINE).proofs()


def test_addresses_are_base_plus_indices_times_strides() -> None:
    assert [proof.counterexample for proof in proofs()] == ["", "", ""]


@pytest.mark.slow
def test_every_goal_sees_a_fault() -> None:
    subject = vector_addresses(MACHINE)
    assert unseen(subject, *walker_faults(subject.hardware, "")) == []


def test_sees_strides_that_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl.nest.NestWalker.loop_at

    def loop_at(self: rtl.nest.NestWalker, walk: rtl.nest.Walk, level: int) -> rtl.nest.Loop | None:
        return right(self, walk, {1: 2, 2: 1}.get(level, level))

    monkeypatch.setattr(rtl.nest.NestWalker, "loop_at", loop_at)
    start, *_ = proofs()
    assert "false" in start.counterexample


def test_sees_a_loop_that_ends_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl.nest._LoopState, "is_last", property(lambda self: self.remaining <= 1))
    _, step, _ = proofs()
    assert "false" in step.counterexample


def test_sees_a_register_that_is_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl.nest.NestWalker.slot_shape
    monkeypatch.setattr(
        rtl.nest.NestWalker, "slot_shape", lambda self, slot: rtl.nest.signed(right(self, slot).width - 1)
    )
    _, _, exact = proofs()
    assert exact.counterexample.startswith("exact source0, loop 0: false")
