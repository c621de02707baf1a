"""The address proofs hold for what ships, and fail for a walker that is wrong."""

from __future__ import annotations

import pytest

import tilewright.rtl.nest as rtl_nest
from tests.engines import vector_of
from tests.rtl.faults import unseen, walker_faults
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.proof.nest import vector_addresses
from tilewright.rtl.proof.result import Proof

MACHINE = load_machine("base16")


def proofs() -> list[Proof]:
    return vector_addresses(MACHINE, vector_of(MACHINE)).proofs()


def test_addresses_are_base_plus_indices_times_strides() -> None:
    assert [proof.counterexample for proof in proofs()] == ["", "", ""]


@pytest.mark.long
def test_every_goal_sees_a_fault() -> None:
    subject = vector_addresses(MACHINE, vector_of(MACHINE))
    assert unseen(subject, *walker_faults(subject.hardware, "")) == []


def test_sees_strides_that_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_nest.NestWalker.loop_at

    def loop_at(self: rtl_nest.NestWalker, walk: rtl_nest.FormatWalk, level: int) -> rtl_nest.Loop | None:
        return right(self, walk, {1: 2, 2: 1}.get(level, level))

    monkeypatch.setattr(rtl_nest.NestWalker, "loop_at", loop_at)
    start, *_ = proofs()
    assert "false" in start.counterexample


def test_sees_a_loop_that_ends_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_nest._LoopState, "is_last_next", property(lambda self: self.remaining <= 2))
    _, step, _ = proofs()
    assert "false" in step.counterexample


def test_sees_a_register_that_is_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_nest.NestWalker.slot_shape
    monkeypatch.setattr(
        rtl_nest.NestWalker, "slot_shape", lambda self, slot: rtl_nest.signed(right(self, slot).width - 1)
    )
    _, _, exact = proofs()
    assert exact.counterexample.startswith("exact source0, loop 0: false")
