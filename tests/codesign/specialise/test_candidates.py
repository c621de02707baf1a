"""Candidates found for small networks: their statements, what the compiler does with them, and their bits."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.compiler.models import conv_model, random_inputs, residual_model
from tests.compiler.pipelines import base16, simulated
from tilewright.codesign.points.network import Network
from tilewright.codesign.specialise.candidates import Candidate, candidates_of, together
from tilewright.codesign.specialise.observe import observe
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine


def found(model: onnx.ModelProto, machine: Machine | None = None) -> dict[str, Candidate]:
    machine = machine or base16()
    observed = observe([Network("n", model.SerializeToString())], machine)
    return {each.name: each for each in candidates_of(observed.uses, machine)}


def depthwise(size: int = 8, kernel: int = 3) -> onnx.ModelProto:
    pads = [kernel // 2] * 4
    return conv_model(np.random.default_rng(3), 32, 32, size, kernel, pads=pads, group=32, relu=True)


def shape(format: InstructionFormat) -> list[object]:
    """A statement without the names of immediates; operands by the memory that they read."""
    memories = {operand.name: (operand.memory, operand.block) for operand in format.sources}

    def of(node: Expr) -> object:
        leaf = memories[node.name] if node.op is Op.SOURCE else node.type if node.op is Op.IMMEDIATE else None
        return node.op, node.field, leaf, len(node.args)

    return [of(node) for node in walk(format.statement.expr)]


def test_an_instruction_for_depthwise_convolutions_is_found_again() -> None:
    """What dw16 adds to base16 by hand: the same statement of the same memories, in loops that are no longer."""
    candidate = found(depthwise())["channel_products_requantize_by_3"]
    machine = candidate.change.apply(base16())

    own = machine.format(candidate.name)

    by_hand = load_machine("dw16").format("depthwise")
    assert shape(own) == shape(by_hand)
    for mine, hand in zip(own.loops, by_hand.loops, strict=True):
        assert (mine.name, mine.is_reduce) == (hand.name, hand.is_reduce) and mine.bits <= hand.bits
    assert [operand.memory for operand in own.operands] == [operand.memory for operand in by_hand.operands]
    assert [operand.loops for operand in own.operands] == [operand.loops for operand in by_hand.operands]


@pytest.mark.parametrize(
    ("name", "model", "replaced"),
    [
        ("channel_products_by_3", depthwise(), "mma"),
        ("channel_products_by_5", depthwise(10, 5), "mma"),
        ("channel_products_requantize_by_3", depthwise(), "requantize"),
        ("requantize_add", residual_model(np.random.default_rng(5), channels=16), "add"),
    ],
)
def test_the_compiler_takes_it_and_the_bits_stay(name: str, model: onnx.ModelProto, replaced: str) -> None:
    candidate = found(model)[name]
    machine = candidate.change.apply(base16())
    inputs = random_inputs(model, np.random.default_rng(0))
    plain = compile_model(model, base16())

    own = compile_model(model, machine)

    used = {instruction.mnemonic for instruction in own.instructions}
    assert name in used and replaced not in used
    assert replaced in {instruction.mnemonic for instruction in plain.instructions}
    expected = simulated(plain, inputs)
    assert {key: value.tolist() for key, value in simulated(own, inputs).items()} == {
        key: value.tolist() for key, value in expected.items()
    }


def test_places_that_differ_in_numbers_and_order_share_a_candidate() -> None:
    """A residual sum with its operands the other way round, and other scales."""
    one = residual_model(np.random.default_rng(5), channels=16)
    other = residual_model(np.random.default_rng(6), channels=16, scales=(0.02, 0.044, 0.05))
    for node in other.graph.node:
        if node.op_type == "Add":
            node.input[:] = list(node.input)[::-1]
    networks = [Network(str(k), model.SerializeToString()) for k, model in enumerate((one, other))]

    candidates = candidates_of(observe(networks, base16()).uses, base16())

    (fused,) = [each for each in candidates if each.name.startswith("requantize_add")]
    assert fused.networks == ("0", "1")


@pytest.mark.parametrize(("kernel", "bits"), [(3, {"r": 3, "s": 2}), (5, {"r": 4, "s": 2})])
def test_loops_that_reduce_are_twice_as_long_as_is_needed(kernel: int, bits: dict[str, int]) -> None:
    """3 rows are counted with 2 bits and 5 with 3; a block is a row, so one in each; and one bit more."""
    entry = found(depthwise(10, kernel))[f"channel_products_by_{kernel}"].entry
    assert {name: entry["loops"][name] for name in ("r", "s")} == bits
    assert entry["loops"]["y"] == 10  # what stays is as long as in the machine's own


def test_nothing_is_proposed_for_a_plain_convolution() -> None:
    assert found(conv_model(np.random.default_rng(1), 16, 16, pads=[1] * 4)) == {}


def test_what_the_machine_has_is_not_proposed_again() -> None:
    there = found(depthwise())["channel_products_by_3"].change.apply(base16())
    assert set(found(depthwise(), there)) == {"channel_products_requantize_by_3"}
    assert found(depthwise(), load_machine("dw16")) == {}


def test_what_has_no_instruction_to_be_like_is_refused() -> None:
    """Without instructions that reduce there are no loops for one that does."""
    machine = load_machine("base16", ["instructions.max_pool=null", "instructions.sum=null"])

    observed = observe([Network("n", depthwise().SerializeToString())], machine)

    assert observed.uses == ()
    assert {each.reason for each in observed.refused} == {"no instruction of a vector engine reduces"}


def test_several_at_once_share_what_the_engine_reads() -> None:
    of_channels = found(depthwise())
    both = [of_channels["channel_products_requantize_by_3"], of_channels["channel_products_by_3"]]

    machine = together(both).apply(base16())

    assert {each.name for each in both} <= set(machine.formats)
    assert [engine.reads for engine in machine.engines.values() if engine.name == "vec"] == [
        ("act", "acc", "par", "lut", "wgt")
    ]


def test_a_field_of_parameters_may_be_wider_than_the_constant() -> None:
    """sequence16 keeps scales of both signs, in 17 bits; those of a convolution have 16."""
    residual = residual_model(np.random.default_rng(5), channels=16)
    assert "requantize_add" in found(residual, load_machine("sequence16"))


def test_a_constant_of_several_dimensions_is_an_operand() -> None:
    """A convolution's result and a map of positions, each with its scale."""
    model = residual_model(np.random.default_rng(5), channels=16)
    places = helper.make_tensor("places", onnx.TensorProto.INT8, [1, 16, 6, 6], np.arange(576) % 251 - 125)
    model.graph.initializer.append(places)
    (add,) = [node for node in model.graph.node if node.op_type == "Add"]
    (source,) = [node for node in model.graph.node if node.output[0] == add.input[1]]
    add.input[1] = "places.float"
    model.graph.node.insert(0, helper.make_node(source.op_type, ["places", *source.input[1:]], ["places.float"]))

    candidate = found(model)["requantize_add"]

    assert candidate.entry["from"]["b"] == "act"
    used = {each.mnemonic for each in compile_model(model, candidate.change.apply(base16())).instructions}
    assert "requantize_add" in used
