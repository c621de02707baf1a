"""The proof of the trees across lanes holds for what ships, and fails for a tree that is wrong."""

import pytest
from amaranth.hdl import Mux

from tests.engines import vector_of
from tests.lanes import across_lanes
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.datapath_schedule import bind, schedule
from tilewright.rtl.operators import COMBINATIONAL
from tilewright.rtl.proof.lane_tree import prove_lane_tree, prove_lane_trees
from tilewright.rtl.proof.result import Proof


def proof_of(machine: Machine, op: Op) -> Proof:
    unit = next(unit for unit in bind(schedule(machine.formats_of(Template.VECTOR))) if unit.op is op)
    return prove_lane_tree(unit, machine.lanes, unit.stages)


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_holds_for_every_tree(lanes: int) -> None:
    machine = load_machine_text(across_lanes(lanes), "lanes")
    proofs = prove_lane_trees(machine, vector_of(machine))

    assert len(proofs) == 8
    assert [proof.counterexample for proof in proofs] == [""] * len(proofs)


@pytest.mark.slow
def test_holds_for_the_shipped_machine_that_has_trees() -> None:
    machine = load_machine("vector16")
    proofs = prove_lane_trees(machine, vector_of(machine))

    assert [proof.counterexample for proof in proofs] == ["", "", ""]


def test_sees_a_wrong_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMBINATIONAL, Op.MAX, lambda a, b: Mux(a < b, a, b))  # type: ignore[arg-type]
    proof = proof_of(load_machine_text(across_lanes(4), "lanes"), Op.LANES_MAX)

    assert proof.counterexample.startswith("node 0 of stage 0: false")


def test_sees_a_sum_that_drops_its_highest_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMBINATIONAL, Op.ADD, lambda a, b: (a + b)[:-1].as_signed())  # type: ignore[arg-type]
    proof = proof_of(load_machine_text(across_lanes(4), "lanes"), Op.LANES_SUM)

    assert proof.counterexample.startswith("node 0 of stage 0: false")
