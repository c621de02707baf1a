"""Iterations from registers: the hardware's proof, and that it notices what is wrong."""

from __future__ import annotations

import pytest
from amaranth.hdl import Mux

from tests.engines import vector_of
from tests.rtl.faults import failed_goals
from tilewright.isa.files.loader import load_machine
from tilewright.rtl import nest_ahead
from tilewright.rtl.proof.nest_ahead import vector_iterations

MACHINE = load_machine("tiny8", ["pipeline.check=1"])


@pytest.mark.slow
def test_iterations_pass_in_order() -> None:
    assert failed_goals(vector_iterations(MACHINE, vector_of(MACHINE))) == []


@pytest.mark.slow
def test_the_proof_notices_an_iteration_from_the_wrong_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_ahead, "Mux", lambda is_second, second, found: Mux(is_second, found, second))
    failed = failed_goals(vector_iterations(MACHINE, vector_of(MACHINE)))
    assert "vec: iterations pass in order: from the second place" in failed
