"""The datapath proofs hold for what ships, and fail for hardware that is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from amaranth.hdl import Module, Mux, Signal, Value

import tilewright.isa.language.narrowing as narrowing
import tilewright.isa.timing as timing
import tilewright.rtl.datapath as rtl_datapath
import tilewright.rtl.operators as rtl_operators
import tilewright.rtl.shifts as rtl_shifts
from tests.blocks import with_blocks
from tests.engines import vector_of
from tests.normalizing import NORMALIZING
from tests.rings import long_beyond, slow_beyond
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.rtl.datapath import VectorDatapath
from tilewright.rtl.proof.datapath import one_lane, prove_datapath, prove_format, without_products
from tilewright.rtl.proof.netlist import netlist
from tilewright.rtl.proof.result import Proof

MACHINE = load_machine("base16")
WITH_SOFTMAX = load_machine("vector16")
WITH_NORMALISATION = load_machine("sequence16")
WITH_BLOCKS = with_blocks()
WITH_CLZ = load_machine_text(NORMALIZING, "normalizing")
OF_SOFTMAX = [of.mnemonic for of in WITH_SOFTMAX.formats_of(Template.VECTOR) if of.mnemonic not in MACHINE.formats]

OF_NORMALISATION = [
    f.mnemonic for f in WITH_NORMALISATION.formats_of(Template.VECTOR) if f.mnemonic not in WITH_SOFTMAX.formats
]


def proof_of(mnemonic: str, machine: Machine = MACHINE) -> Proof:
    lane = VectorDatapath(one_lane(machine), vector_of(machine))
    position = [of.mnemonic for of in lane.formats].index(mnemonic)
    return prove_format(machine, lane, without_products(netlist(lane)), position)


def proof_of_other_pipeline(mnemonic: str, monkeypatch: pytest.MonkeyPatch) -> Proof:
    """The proof where the patches change the pipeline, which is cached; both are undone after it."""
    timing.pipeline_nodes.cache_clear()
    proof = proof_of(mnemonic)
    monkeypatch.undo()
    timing.pipeline_nodes.cache_clear()
    return proof


@pytest.mark.slow
@pytest.mark.parametrize("mnemonic", [of.mnemonic for of in MACHINE.formats_of(Template.VECTOR)])
def test_equals_the_statement_for_all_inputs(mnemonic: str) -> None:
    assert proof_of(mnemonic).counterexample == ""


@pytest.mark.parametrize("mnemonic", ["max_pool", "copy", "fill", "lookup"])
def test_equals_a_short_statement_for_all_inputs(mnemonic: str) -> None:
    assert proof_of(mnemonic).counterexample == ""


@pytest.mark.slow
@pytest.mark.parametrize("stages", [(1, 1), (2, 2)])
def test_equals_a_statement_of_longer_operators_for_all_inputs(stages: tuple[int, int]) -> None:
    multiply, round_shift = stages
    keys = [f"pipeline.multiply={multiply}", f"pipeline.round_shift={round_shift}"]
    assert proof_of("mul", load_machine("tiny8", keys)).counterexample == ""


def test_equals_a_look_up_behind_a_register_for_all_inputs() -> None:
    assert proof_of("lookup", load_machine("base16", ["pipeline.table_output=1"])).counterexample == ""


@pytest.mark.slow
def test_equals_a_look_up_of_which_instructions_read_other_bits_for_all_inputs() -> None:
    """The word of a table is an input in pieces there."""
    assert proof_of("reciprocal", load_machine("sequence16-a16")).counterexample == ""


@pytest.mark.parametrize("mnemonic", ["exponent", "mantissa"])
def test_equals_a_statement_that_counts_leading_zeros_for_all_inputs(mnemonic: str) -> None:
    assert proof_of(mnemonic, WITH_CLZ).counterexample == ""


def test_equals_a_statement_on_blocks_of_words_for_all_inputs() -> None:
    assert proof_of("depthwise", WITH_BLOCKS).counterexample == ""


def test_sees_a_word_of_a_block_that_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_operators.build_word_tree
    monkeypatch.setitem(
        rtl_operators.SEQUENTIAL,
        Op.WORDS_SUM,
        lambda m, first, *others, stages: right(m, -first, *others, stages=stages),
    )
    assert proof_of("depthwise", WITH_BLOCKS).counterexample.startswith("the value of words_sum(a * w): false")


def test_sees_leading_zeros_counted_in_a_narrower_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_shifts, "WORD_BITS", 32)
    assert proof_of("exponent", WITH_CLZ).counterexample.startswith("the value of clz(a): false")


@pytest.mark.slow
@pytest.mark.parametrize("mnemonic", long_beyond(4, OF_SOFTMAX))
def test_an_instruction_across_lanes_or_of_softmax_equals_its_statement(mnemonic: str) -> None:
    assert proof_of(mnemonic, WITH_SOFTMAX).counterexample == ""


@pytest.mark.slow
@pytest.mark.parametrize("mnemonic", long_beyond(3, OF_NORMALISATION))
def test_an_instruction_of_normalisation_equals_its_statement(mnemonic: str) -> None:
    assert proof_of(mnemonic, WITH_NORMALISATION).counterexample == ""


@pytest.mark.parametrize(
    "change",
    slow_beyond(
        1,
        [
            ("max_lanes", Op.MIN, Op.MAX),
            ("sum_exponentials", Op.MIN, Op.MAX),
            ("reciprocal", Op.SHIFT_RIGHT, Op.SUB),
            ("correct", Op.ADD, Op.SUB),
            ("error", Op.SUB, Op.ADD),
            ("normalize", Op.SUB, Op.ADD),
        ],
    ),
    ids=lambda change: change[0],
)
def test_sees_another_operator_in_softmax(monkeypatch: pytest.MonkeyPatch, change: tuple[str, Op, Op]) -> None:
    mnemonic, op, wrong = change
    monkeypatch.setitem(rtl_operators.COMBINATIONAL, op, rtl_operators.COMBINATIONAL[wrong])  # type: ignore[arg-type]
    assert proof_of(mnemonic, WITH_SOFTMAX).counterexample.startswith("the value of ")


@pytest.mark.parametrize("wrong", [Rounding.UP, Rounding.AWAY])
def test_sees_a_wrong_tie(monkeypatch: pytest.MonkeyPatch, wrong: Rounding) -> None:
    right = rtl_operators.build_round_shift

    def build(m: Module, x: Value, n: Value, node: Expr, quotient: Signal, stages: int) -> None:
        right(m, x, n, dataclasses.replace(node, rounding=wrong), quotient, stages)

    monkeypatch.setitem(rtl_operators.SEQUENTIAL, Op.ROUND_SHIFT, build)  # type: ignore[arg-type]
    assert proof_of("rescale").counterexample.startswith("the value of round_shift((a - a_zero) * scale, shift): false")


def test_sees_a_product_that_loses_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_operators.build_product

    def build(m: Module, a: Value, b: Value, product: Signal, stages: int) -> None:
        right(m, a, b[:-2], product, stages)  # the highest is a sign that only `mul` needs

    monkeypatch.setitem(rtl_operators.SEQUENTIAL, Op.MUL, build)  # type: ignore[arg-type]
    assert proof_of("rescale").counterexample.startswith("the value of (a - a_zero) * scale: false")


@pytest.mark.parametrize("reduction", [lambda old, new: Mux(old < new, old, new), lambda old, new: new])
def test_sees_a_wrong_reduction(monkeypatch: pytest.MonkeyPatch, reduction: Callable[[Value, Value], Value]) -> None:
    monkeypatch.setattr(rtl_operators, "combined", lambda op, old, new: reduction(old, new))
    assert proof_of("max_pool").counterexample.startswith("the value of max_over(a): false")


def test_sees_a_shared_unit_that_listens_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The multiplexers in front of the shared multiplier choose by the format of the iteration after."""
    right = rtl_datapath._Common.control

    def control(self: rtl_datapath._Common, name: str, stage: int) -> Value:
        return right(self, name, 0 if (name, stage) == ("format", 1) else stage)

    monkeypatch.setattr(rtl_datapath._Common, "control", control)
    assert proof_of("rescale").counterexample.startswith("the value of (a - a_zero) * scale: false")


def test_sees_a_shared_unit_that_listens_to_the_result_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The multiplexers in front of a unit that is placed from the end choose by the iteration that ends later."""
    right = rtl_datapath._Common.ends_in

    def ends_in(self: rtl_datapath._Common, cycles: int) -> Signal:
        return right(self, cycles + (cycles == 5))

    monkeypatch.setattr(rtl_datapath._Common, "ends_in", ends_in)
    assert proof_of("rescale").counterexample.startswith("the value of round_shift((a - a_zero) * scale, shift): false")


def test_sees_a_round_shift_that_saturates_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An early zero point would still move some of the values back into the range of the result."""
    monkeypatch.setitem(narrowing.DEMANDS, Op.ADD, lambda wanted, a, b: (wanted, wanted))  # type: ignore[arg-type]
    counterexample = proof_of_other_pipeline("rescale", monkeypatch).counterexample
    assert counterexample.startswith("min(max(round_shift((a - a_zero) * scale, shift) + zero, low), high) after narr")


def test_sees_a_high_half_that_is_shifted_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    right = narrowing._of_halves

    def of_halves(product: Expr, factor_bits: int) -> Expr:
        new = right(product, factor_bits)
        return new if new is product else dataclasses.replace(new, args=(new.args[0], new.args[1].args[0]))

    monkeypatch.setattr(narrowing, "_of_halves", of_halves)
    counterexample = proof_of_other_pipeline("requantize", monkeypatch).counterexample
    assert counterexample.startswith("(a + p.bias) * p.scale from halves: false")


def test_sees_a_lookup_that_forgets_the_least_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lanes read 128 words too low, below where the table begins."""
    right = rtl_datapath._Lane.value

    def value(self: rtl_datapath._Lane, format_: int, expr: Expr, stage: int) -> Value:
        found = right(self, format_, expr, stage)
        is_index = self.datapath.formats[format_].mnemonic == "lookup" and expr.op is Op.SOURCE
        return found + expr.range.low if is_index else found

    monkeypatch.setattr(rtl_datapath._Lane, "value", value)
    assert proof_of("lookup").counterexample.startswith("the value of lut(t, a): false")


def test_sees_a_lookup_in_the_table_of_the_iteration_before(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rtl_datapath._Common.control

    def control(self: rtl_datapath._Common, name: str, stage: int) -> Value:
        return right(self, name, stage + 1 if name.startswith("first_") else stage)

    monkeypatch.setattr(rtl_datapath._Common, "control", control)
    assert proof_of("lookup").counterexample.startswith("the value of lut(t, a): false")


FEW = """
extends: tiny8
engines:
  vec2: {template: vector, queue: 1, reads: [act, acc, par], writes: [act]}
instructions:
  requantize: {engine: [vec, vec2]}
  rescale: {engine: [vec, vec2]}
  max_pool: {engine: [vec, vec2]}
"""


def test_proves_a_second_engine_in_which_a_bit_is_only_a_condition() -> None:
    """With these three instructions, the solver has `valid` as a truth value, not as a vector of one bit."""
    machine = load_machine_text(FEW, "few.yaml")
    proofs = list(prove_datapath(machine, machine.engines["vec2"]))

    assert [proof.claim for proof in proofs] == [
        "datapath: requantize_vec2",
        "datapath: rescale_vec2",
        "datapath: max_pool_vec2",
    ]
    assert [proof.counterexample for proof in proofs] == ["", "", ""]
