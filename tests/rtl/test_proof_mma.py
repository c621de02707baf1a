"""The matrix engine's proofs hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import dataclasses

import pytest
from amaranth.hdl import Module

from tests.engines import array_of
from tests.packed_elements import NARROW_WEIGHTS
from tests.rtl.faults import failed_goals, goals_of, unseen, walker_faults
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.timing import mma_read, mma_write
from tilewright.rtl.mma import VectorIssuer, WeightReader
from tilewright.rtl.proof.mma import mma_engine
from tilewright.rtl.proof.result import refute

MACHINE = load_machine("tiny8")


def test_asks_for_everything_once_in_order() -> None:
    assert failed_goals(mma_engine(MACHINE, array_of(MACHINE))) == []


def test_takes_the_elements_and_sums_of_several_types_of_weights() -> None:
    machine = load_machine_text(NARROW_WEIGHTS, "narrow")
    assert failed_goals(mma_engine(machine, array_of(machine))) == []


@pytest.mark.parametrize("net", ["c_write__words", "array_1.weights", "array_3.loads"])
def test_sees_a_fault_of_what_differs_between_types(net: str) -> None:
    machine = load_machine_text(NARROW_WEIGHTS, "narrow")
    subject = mma_engine(machine, array_of(machine))
    nets = subject.hardware.nets
    broken = dataclasses.replace(subject.hardware, nets={**nets, net: ~nets[net]})
    goals = goals_of(subject, broken)
    assert any(refute(goal) for claim, goal in goals if claim.startswith(("mma: weights are", "mma: adds to")))


@pytest.mark.long
def test_every_goal_sees_a_fault() -> None:
    subject = mma_engine(MACHINE, array_of(MACHINE))
    registers = ["tiles.row", "tiles.may_begin", "tiles.is_active", "vectors.is_active", "vectors.accumulates"]
    registers += ["vectors.tile_begins_1", "at_1", "is_at_1", "at_2", "tiles.transposes"]
    outputs = ["tiles.is_active", "tiles.fault_address", "vectors.issues_last", "vectors.issues", "vectors.fault"]
    outputs += ["vectors.walker.step", "vectors.walker.start", "tiles.walker.step", "tiles.walker.start"]
    outputs += ["w__address", "w__valid", "a__valid", "retire", "vectors.is_active", "vectors.adds"]
    outputs += ["vectors.has_weights", "c_read__valid", "c_read__address", "c_write__valid", "c_write__address"]
    outputs += ["array.loads", "array.transposes"]
    for prefix in ("tiles.walker.", "vectors.walker."):
        more = walker_faults(subject.hardware, prefix)
        registers, outputs = registers + more[0], outputs + more[1]
    assert unseen(subject, registers, outputs) == []


def test_sees_a_write_that_comes_a_cycle_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain of the claim has a register that the hardware has not."""
    monkeypatch.setattr("tilewright.rtl.mma.mma_write", lambda array: mma_write(array) - 1)
    with pytest.raises(KeyError, match=f"at_write_{mma_write(MACHINE.array) - mma_read(MACHINE.array)}"):
        failed_goals(mma_engine(MACHINE, array_of(MACHINE)))


def test_sees_a_row_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader goes on to the next tile a row too early."""
    right = WeightReader.elaborate

    def elaborate(self: WeightReader, platform: object) -> object:
        engine = self.engine
        fewer = dataclasses.replace(engine.array, rows=engine.array.rows - 1)
        self.engine = dataclasses.replace(engine, settings=fewer)
        built = right(self, platform)
        self.engine = engine
        return built

    monkeypatch.setattr(WeightReader, "elaborate", elaborate)
    claim = "mma: reads every weight row once, in order"
    assert f"{claim}: next row" in failed_goals(mma_engine(MACHINE, array_of(MACHINE)), claim)


def test_sees_a_vector_that_does_not_wait_for_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    right = VectorIssuer.build_tile_rules
    monkeypatch.setattr(VectorIssuer, "build_tile_rules", lambda self, m: right(self, m) | 1)
    claim = "mma: a tile's weights come before its vectors"
    assert f"{claim}: has weights" in failed_goals(mma_engine(MACHINE, array_of(MACHINE)), claim)


def test_sees_an_orientation_that_does_not_follow_the_opcode(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_orientation(self: WeightReader, m: Module) -> None:
        m.d.sync += self.transposes.eq(1)

    monkeypatch.setattr(WeightReader, "build_orientation", build_orientation)
    claim = "mma: transposes the tiles of the instructions that say so"
    assert failed_goals(mma_engine(MACHINE, array_of(MACHINE)), claim) == [f"{claim}: orientation of mma"]
