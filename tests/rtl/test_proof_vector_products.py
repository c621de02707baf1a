"""The proofs of products in a vector engine hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import pytest

import tilewright.rtl.datapath as rtl_datapath
import tilewright.rtl.nest as rtl_nest
import tilewright.rtl.vector as rtl_vector
from tests.engines import vector_of
from tilewright.isa.files.loader import load_machine
from tilewright.rtl.proof.datapath import one_lane, prove_format, prove_shared_elements, without_products
from tilewright.rtl.proof.engines import subjects_of
from tilewright.rtl.proof.nest import vector_addresses
from tilewright.rtl.proof.netlist import netlist
from tilewright.rtl.proof.result import Proof
from tilewright.rtl.proof.vector import kept_elements

MACHINE = load_machine("vector-only", ["lanes=3"])
PRODUCTS = [of.mnemonic for of in MACHINE.formats.values() if of.statement.dot is not None]


def proof_of(mnemonic: str) -> Proof:
    lane = rtl_datapath.VectorDatapath(one_lane(MACHINE), vector_of(MACHINE))
    position = [of.mnemonic for of in lane.formats].index(mnemonic)
    return prove_format(MACHINE, lane, without_products(netlist(lane)), position)


@pytest.mark.parametrize("mnemonic", PRODUCTS)
def test_a_product_equals_its_statement_for_all_inputs(mnemonic: str) -> None:
    proof = proof_of(mnemonic)

    assert proof.counterexample == ""
    assert proof.method == "all inputs, products by their laws, inductive"


@pytest.mark.slow
def test_every_lane_multiplies_by_the_same_element() -> None:
    proofs = prove_shared_elements(MACHINE, vector_of(MACHINE))

    assert [(proof.claim, proof.counterexample) for proof in proofs] == [
        (f"datapath: {mnemonic} in another lane", "") for mnemonic in PRODUCTS
    ]


@pytest.mark.slow
def test_sees_a_lane_that_multiplies_by_an_element_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_datapath, "multiplied_by_element", lambda format: None)

    assert all(proof.counterexample for proof in prove_shared_elements(MACHINE, vector_of(MACHINE)))


def test_the_element_of_the_row_is_kept() -> None:
    assert [proof.counterexample for proof in kept_elements(MACHINE, vector_of(MACHINE)).proofs()] == [""]


def test_sees_elements_that_are_never_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_vector, "multiplied_by_element", lambda format: None)

    (proof,) = kept_elements(MACHINE, vector_of(MACHINE)).proofs()

    assert proof.counterexample.startswith("element 1 of multiply.a: false")


def test_rows_are_walked_as_a_loop_of_steps_of_one() -> None:
    assert [proof.counterexample for proof in vector_addresses(MACHINE, vector_of(MACHINE)).proofs()] == ["", "", ""]


def test_sees_a_row_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_nest.NestWalker.stored_last_index

    def stored_last_index(self: rtl_nest.NestWalker, walk: rtl_nest.FormatWalk, level: int) -> rtl_nest.Value:
        return right(self, walk, level) - (bool(walk.counts) and level == self.depth - 1)

    monkeypatch.setattr(rtl_nest.NestWalker, "stored_last_index", stored_last_index)

    start, *_ = vector_addresses(MACHINE, vector_of(MACHINE)).proofs()

    assert start.counterexample.startswith("start of multiply: false")


def test_only_engines_that_multiply_have_elements_to_prove() -> None:
    counts = {
        name: len(list(subjects_of(machine, vector_of(machine))))
        for name, machine in (("tiny8", load_machine("tiny8")), ("vector-only", MACHINE))
    }

    assert counts == {"tiny8": 1, "vector-only": 2}
