"""The proof of the assembler holds for what ships and for each width of the bus, and fails for wrong hardware."""

from __future__ import annotations

import pytest

from tests.rtl.faults import failed_goals, unseen
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.assembler import Assembler
from tilewright.rtl.proof.assembler import assembler

MACHINE = load_machine("tiny8")


@pytest.mark.parametrize("bus_bytes", [4, 8, 16])
def test_instructions_are_whole_and_in_order(bus_bytes: int) -> None:
    assert failed_goals(assembler(load_machine("tiny8", [f"dram.bus_bytes={bus_bytes}"]))) == []


@pytest.mark.slow
@pytest.mark.parametrize("bus_bytes", [1, 2, 32, 64, 128])
def test_instructions_are_whole_and_in_order_on_other_buses(bus_bytes: int) -> None:
    assert failed_goals(assembler(load_machine("sequence16", [f"dram.bus_bytes={bus_bytes}"]))) == []


def test_every_goal_sees_a_fault() -> None:
    outputs = ["output__valid", "output__payload.error", "output__payload.bits", "beats__ready"]
    assert unseen(assembler(MACHINE), ["held", "window", "has_error"], outputs) == []


def test_sees_a_leftover_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Assembler.__init__

    def init(self: Assembler, machine: object) -> None:
        right(self, machine)  # type: ignore[arg-type]
        self.most_left -= 1

    monkeypatch.setattr(Assembler, "__init__", init)
    assert failed_goals(assembler(MACHINE)) == ["assembler: instructions are whole and in order: kept"]
