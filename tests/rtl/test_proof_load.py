"""The load engine's proofs hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import pytest

from tests.engines import load_of
from tests.rtl.faults import failed_goals, unseen, walker_faults
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.beats import Window
from tilewright.rtl.load import Packer, Writer
from tilewright.rtl.proof.load import load_engine

MACHINE = load_machine("tiny8")


def test_forms_and_writes_every_word_once_in_order() -> None:
    assert failed_goals(load_engine(MACHINE, load_of(MACHINE))) == []


@pytest.mark.long
def test_every_goal_sees_a_fault() -> None:
    subject = load_engine(MACHINE, load_of(MACHINE))
    registers, outputs = walker_faults(subject.hardware, "packer.walker.")
    registers += ["packing_queue.level", "packer.is_packing", "writer.held.is_last", "writer.is_held", "free"]
    registers += ["packer.place", "writer.word"]
    registers += ["started", "packer.cursor.beat", "packer.beats.level"]
    outputs += [f"packer.part__payload.{name}" for name in ("data", "address", "format", "is_last", "place")]
    outputs += ["packer.part__payload.ends_word", "beat__ready"]
    outputs += ["packer.cursor.bytes", "packer.cursor.beat", "packer.cursor.is_last", "packer.cursor.first_byte"]
    outputs += [f"packer.window.{name}" for name in ("fits", "puts", "takes")]
    outputs += ["packer.window.count", "packer.window.take", "packer.window.put", "packer.window.put_data"]
    outputs += ["packer.walker.start", "packer.walker.step", "packer.is_packing", "packer.takes_beat"]
    outputs += ["packer.beats.input__ready", "burst_queue.output__ready"]
    outputs += ["burst_queue.input__valid", "step", "writer.is_held", "writer.held.address"]
    outputs += ["packing_queue.input__valid"]
    outputs += [f"write_{name}__valid" for name in MACHINE.memories if f"write_{name}__valid" in subject.hardware.nets]
    outputs += ["packing_queue.output__ready", "retire", "free", "started"]
    outputs += ["bursts.is_active", "bursts.is_last", "start", "bursts.instruction"]
    assert unseen(subject, registers, outputs) == []


class OneByteMore:
    """A window that says that it holds a byte more than it does."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.count = window.count + 1

    def __getattr__(self, name: str) -> object:
        return getattr(self.window, name)


def test_sees_a_word_formed_of_too_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Packer.build_emit
    monkeypatch.setattr(
        Packer,
        "build_emit",
        lambda self, m, walker, window: right(self, m, walker, OneByteMore(window)),
    )
    claim = "load: forms every word once, in order"
    assert f"{claim}: enough" in failed_goals(load_engine(MACHINE, load_of(MACHINE)), claim)


def test_sees_an_instruction_that_retires_with_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Writer.elaborate

    def elaborate(self: Writer, platform: object) -> object:
        m = right(self, platform)
        m.d.comb += self.retire.eq(~self.is_refused)
        return m

    monkeypatch.setattr(Writer, "elaborate", elaborate)
    claim = "load: writes every word once"
    assert f"{claim}: retires with the last write" in failed_goals(load_engine(MACHINE, load_of(MACHINE)), claim)
