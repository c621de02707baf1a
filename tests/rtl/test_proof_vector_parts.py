"""The proofs of vector engines with fewer lanes than a word has elements hold, and fail for hardware that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from amaranth.hdl import Const, Module, Signal, Value

import tilewright.rtl.datapath as rtl_datapath
import tilewright.rtl.parts as rtl_parts
import tilewright.rtl.vector as rtl_vector
from tests.engines import vector_of
from tests.parts import PARTS
from tilewright.isa.files.loader import load_machine_text
from tilewright.rtl.proof.datapath import one_lane, prove_format, without_products
from tilewright.rtl.proof.lane_tree import prove_lane_trees
from tilewright.rtl.proof.nest import vector_addresses
from tilewright.rtl.proof.netlist import netlist
from tilewright.rtl.proof.result import Proof
from tilewright.rtl.proof.vector import joined_parts, kept_elements

MACHINE = load_machine_text(PARTS, "parts")
KEPT = ("copy", "lookup", "sum_lanes", "max_lanes", "multiply", "three_taps")
"""One of each kind: with all instructions a proof of the datapath takes minutes."""

SMALL = load_machine_text(
    PARTS
    + "".join(
        f"  {of.mnemonic}: null\n"
        for of in MACHINE.formats.values()
        if of.engine.name == "vec" and of.mnemonic not in KEPT
    ),
    "small",
)


def proof_of(mnemonic: str) -> Proof:
    lane = rtl_datapath.VectorDatapath(one_lane(SMALL), vector_of(SMALL))
    position = [of.mnemonic for of in lane.formats].index(mnemonic)
    return prove_format(SMALL, lane, without_products(netlist(lane)), position)


def the_other_way_round(m: Module, parts: Sequence[Value], left: Value, chosen: Signal) -> None:
    rtl_parts.build_part(m, parts[::-1], left, chosen)


@pytest.mark.parametrize("mnemonic", ["copy", "lookup", "sum_lanes", "max_lanes"])
def test_a_part_equals_its_statement_for_all_inputs(mnemonic: str) -> None:
    assert proof_of(mnemonic).counterexample == ""


def test_sees_sums_over_lanes_that_forget_the_parts_before(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_datapath.build_reduction

    def forgets(m: Any, op: Any, value: Any, output: Any, is_first: Any, valid: Any) -> None:
        right(m, op, value, output, Const(1), valid)

    monkeypatch.setattr(rtl_datapath, "build_reduction", forgets)

    assert proof_of("sum_lanes").counterexample


def test_sees_look_ups_in_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_datapath, "build_part", the_other_way_round)

    assert proof_of("lookup").counterexample


def test_trees_are_of_the_engines_own_lanes() -> None:
    proofs = prove_lane_trees(SMALL, vector_of(SMALL))

    assert [(proof.claim.split(" of ")[1], proof.counterexample) for proof in proofs] == [("2 lanes", "")] * 2


def test_of_each_word_its_part_is_kept() -> None:
    assert [proof.counterexample for proof in kept_elements(SMALL, vector_of(SMALL)).proofs()] == [""]


def test_sees_parts_that_are_taken_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_vector, "build_part", the_other_way_round)

    (proof,) = kept_elements(SMALL, vector_of(SMALL)).proofs()

    assert proof.counterexample.startswith("part 0 of ")


def test_results_of_parts_are_joined_in_order() -> None:
    assert [proof.counterexample for proof in joined_parts(SMALL, vector_of(SMALL)).proofs()] == [""]


def test_sees_parts_that_are_joined_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_parts.Cat
    monkeypatch.setattr(rtl_parts, "Cat", lambda *parts: right(*reversed(parts)))

    (proof,) = joined_parts(SMALL, vector_of(SMALL)).proofs()

    assert proof.counterexample.startswith("the word: false")


def test_parts_are_walked_as_a_loop_that_nothing_moves_over() -> None:
    assert [proof.counterexample for proof in vector_addresses(SMALL, vector_of(SMALL)).proofs()] == ["", "", ""]
