"""Every kind of goal of a datapath's proof sees a fault; an instruction that a machine file adds is proved alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import z3

import tilewright.rtl.proof.datapath as rtl_proof_datapath
from tests.engines import vector_of
from tests.rtl.faults import faulty
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.proof.datapath import one_lane, prove_format, without_products
from tilewright.rtl.proof.netlist import SymbolicNetlist, netlist
from tilewright.rtl.proof.result import refute

MACHINE = load_machine("base16")
README = Path(__file__).parents[2] / "README.md"


def position_of(lane: VectorDatapath, mnemonic: str) -> int:
    return [of.mnemonic for of in lane.formats].index(mnemonic)


def refuted(lane: VectorDatapath, of: SymbolicNetlist, mnemonic: str) -> list[str]:
    question = rtl_proof_datapath._Question(lane, of, position_of(lane, mnemonic))
    return [goal.name for goal in question.goals() if refute(goal)]


def with_fault(mnemonic: str, register: str = "", output: str = "") -> list[str]:
    lane = VectorDatapath(one_lane(MACHINE), vector_of(MACHINE))
    of = without_products(netlist(lane))
    registers = [name for name in of.nets if register and re.fullmatch(register, name)]
    *_, broken = faulty(of, registers, [output] if output else [])
    return refuted(lane, broken, mnemonic)


def test_sees_a_reduction_that_does_not_keep_its_value() -> None:
    assert "max_over(a) keeps its value without an iteration" in with_fault("max_pool", r"lane0_max_over_\d+")


def test_sees_a_result_that_is_not_the_last_value() -> None:
    assert with_fault("copy", output="result") == ["the result"]


def test_sees_factors_outside_their_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_proof_datapath._typed

    def typed(*args: object) -> z3.BitVecRef:
        return right(*args) << 8  # type: ignore[arg-type]

    monkeypatch.setattr(rtl_proof_datapath, "_typed", typed)
    lane = VectorDatapath(one_lane(MACHINE), vector_of(MACHINE))
    assert "the factors of (a - a_zero) * scale" in refuted(lane, without_products(netlist(lane)), "rescale")


def overlay(folder: Path) -> Machine:
    """The machine of README's own instruction."""
    blocks = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    file = folder / "mine.yaml"
    file.write_text(next(block for block in blocks if "extends: base16" in block))
    return load_machine(str(file))


@pytest.mark.slow
def test_the_instruction_of_the_readme_equals_its_statement_for_all_inputs(tmp_path: Path) -> None:
    machine = overlay(tmp_path)
    lane = VectorDatapath(one_lane(machine), vector_of(machine))
    proof = prove_format(machine, lane, without_products(netlist(lane)), position_of(lane, "requantize_add"))
    assert proof.counterexample == ""
