"""The store engine's proofs hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module

from tests.engines import store_of
from tests.rtl.faults import failed_goals, unseen, walker_faults
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.proof.store import store_engine
from tilewright.rtl.responses import Responses
from tilewright.rtl.store import BeatFormer

MACHINE = load_machine("tiny8")


def test_reads_and_writes_every_word_once_in_order() -> None:
    assert failed_goals(store_engine(MACHINE, store_of(MACHINE))) == []


def test_a_store_with_one_instruction_reads_and_writes_every_word_once() -> None:
    machine = load_machine("tiny8", ("instructions.store_acc=null",))
    assert failed_goals(store_engine(machine, store_of(machine))) == []


@pytest.mark.long
def test_every_goal_sees_a_fault() -> None:
    subject = store_engine(MACHINE, store_of(MACHINE))
    registers, outputs = walker_faults(subject.hardware, "reader.walker.")
    registers += ["wvalid", "wdata", "wstrb", "wlast", "reader.is_active", "reader.held", "reader.format_granted"]
    registers += ["reader.place", "reader.place_granted"]
    registers += ["reader.parts.input__valid", "former.cursor.beat", "responses.oldest", "responses.newest", "started"]
    outputs += ["former.cursor.beat", "former.cursor.bytes", "former.cursor.is_last", "former.cursor.first_byte"]
    outputs += [f"former.window.{name}" for name in ("fits", "puts", "takes")]
    outputs += ["former.window.count", "former.window.take", "former.window.put", "former.window.put_data"]
    outputs += ["former.burst_queue.output__ready", "former.burst_queue.output__valid"]
    outputs += ["former.forms", "reader.fault", "retire", "step", "reader.is_active", "reader.parts.input__ready"]
    outputs += ["reader.walker.start", "reader.walker.step", "reader.parts.input__payload.data", "responses.pending_0"]
    outputs += ["reader.parts.input__payload.bytes"]
    registers += ["responses.pending_0"]
    outputs += [f"read_{name}__{net}" for name in MACHINE.memories for net in ("valid", "address")]
    outputs = [name for name in outputs if name in subject.hardware.nets]
    outputs += ["bursts.is_active", "bursts.is_last", "start", "bursts.instruction"]
    assert unseen(subject, registers, outputs) == []


def test_sees_bytes_at_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BeatFormer.elaborate

    def elaborate(self: BeatFormer, platform: object) -> Module:
        m = right(self, platform)
        with m.If(~self.beat.valid | self.beat.ready):
            m.d.sync += self.beat.payload.strobe.eq(-1)
        return m

    monkeypatch.setattr(BeatFormer, "elaborate", elaborate)
    claim = "store: forms every beat once, in order"
    assert f"{claim}: bytes in place" in failed_goals(store_engine(MACHINE, store_of(MACHINE)), claim)


def test_sees_an_instruction_that_retires_before_its_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Responses.elaborate

    def elaborate(self: Responses, platform: object) -> Module:
        m = right(self, platform)
        m.d.comb += self.retire.eq(self.responded)
        return m

    monkeypatch.setattr(Responses, "elaborate", elaborate)
    claim = "store: retires only what it started"
    assert f"{claim}: contexts" in failed_goals(store_engine(MACHINE, store_of(MACHINE)), claim)
