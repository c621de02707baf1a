"""The matrix engine's proofs hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import dataclasses

import pytest
from amaranth.hdl import Const, Module

from tests.engines import array_of
from tests.packed_elements import NARROW_WEIGHTS
from tests.rtl.faults import failed_goals, goals_of, unseen, walker_faults
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine
from tilewright.isa.timing import mma_read, mma_write
from tilewright.rtl.memory import bank_of
from tilewright.rtl.mma_walkers import VectorIssuer, WeightReader
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


def one_port(banks: int, interleave: str) -> Machine:
    sums = f"{{ports: 1, banks: {banks}, interleave: {interleave}}}"
    return load_machine_text(f"extends: tiny8\nmemories: {{acc: {sums}}}\n", "one_port")


@pytest.mark.parametrize(("banks", "interleave"), [(4, "words"), (2, "none")])
def test_sums_of_one_bank_are_never_read_and_written_at_once(banks: int, interleave: str) -> None:
    machine = one_port(banks, interleave)
    assert failed_goals(mma_engine(machine, array_of(machine))) == []


def test_sees_a_vector_that_does_not_wait_for_the_bank_of_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.rtl.mma_walkers.VectorIssuer.build_is_bank_written", lambda self, m: Const(0, 1))
    machine = one_port(4, "words")
    with pytest.raises(KeyError, match="has_issued_1"):
        failed_goals(mma_engine(machine, array_of(machine)), "mma: never")


def test_sees_a_vector_that_looks_at_another_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the banks of the words that are half as far."""
    monkeypatch.setattr("tilewright.rtl.mma_walkers.bank_of", lambda memory, address: bank_of(memory, address >> 1))
    machine = one_port(4, "words")
    failed = failed_goals(mma_engine(machine, array_of(machine)), "mma: never")
    never = "mma: never reads and writes sums of one bank at once"
    assert sorted(failed) == [f"{never}: apart", f"{never}: banks of earlier vectors"]


def test_every_goal_of_sums_in_one_port_sees_a_fault() -> None:
    machine = one_port(4, "words")
    subject = mma_engine(machine, array_of(machine))
    own = dataclasses.replace(
        subject, claims=[claim for claim in subject.claims if claim.what.startswith("mma: never")]
    )
    registers = ["vectors.has_issued_1", "vectors.bank_of_sums_2", "at_1", "is_at_1"]
    assert unseen(own, registers, ["c_read__valid", "c_read__address", "c_write__address", "vectors.issues"]) == []


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
