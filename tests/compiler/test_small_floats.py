"""Networks of E4M3 activations and E4M3 or E2M1 weights on `mx16`: what the file means, to a code."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.compiler.float_models import LARGEST, SUMMED, float_model, meaning
from tests.compiler.pipelines import simplified
from tests.rings import slow_beyond
from tests.small_float_networks import LAYERS, codes_apart, layer_network, quantised_network, samples
from tilewright.api import compile as compile_whole
from tilewright.bundle.bundle import bundle_files
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.rules import RULES
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.errors import InputError
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.small_floats import BY_SHORT_NAME

E4M3 = BY_SHORT_NAME["e4m3"]
MACHINE = "mx16"

OUTPUT_STEP = LARGEST / E4M3.largest
"""The scale of the result of `float_model`."""


def inputs(rows: int = 4, seed: int = 1) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(0, 1, (rows, SUMMED)).astype(np.float32)}


@pytest.mark.parametrize(("weights", "mnemonic"), [("e4m3", "mma"), ("e2m1", "mma_w4"), ("e5m2", "mma")])
@pytest.mark.parametrize("axis", [None, 1])
def test_a_product_is_what_the_file_means(weights: str, mnemonic: str, axis: int | None) -> None:
    """Of E5M2 weights, those of this file are all numbers of E4M3, times a power of two.

    Scales of results take sixteen bits for that: with fourteen, 18 of 16,384 results of E2M1 weights are another code.
    """
    model = float_model(weights, axis, activations="e4m3", rows=512)
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    assert {i.format.mnemonic for i in program.binary.instructions if "mma" in i.format.mnemonic} == {mnemonic}
    expected = meaning(model, inputs(512)["x"])
    apart = codes_apart(program.run(inputs(512)).outputs["y"], expected, OUTPUT_STEP, E4M3)
    assert apart.max() <= 1 and np.mean(apart == 0) >= 0.999


def test_numbers_that_the_narrow_type_lacks_take_the_wide_one() -> None:
    """5 and 7 steps are less than the 12 that E2M1 reaches, and no numbers of it."""
    model = float_model("e4m3", None, activations="e4m3", rows=512)
    (tensor,) = [each for each in model.graph.initializer if each.name == "w"]
    steps = np.random.default_rng(8).choice([5, -7, 3], tuple(tensor.dims))
    tensor.CopyFrom(numpy_helper.from_array(E4M3.values(steps), "w"))
    (scale,) = [each for each in model.graph.initializer if each.name == "w_scale"]
    scale.CopyFrom(numpy_helper.from_array(np.array(10, np.float32), "w_scale"))
    program = compile_whole(model, MACHINE)
    assert "mma" in {i.format.mnemonic for i in program.binary.instructions}
    apart = codes_apart(program.run(inputs(512)).outputs["y"], meaning(model, inputs(512)["x"]), OUTPUT_STEP, E4M3)
    assert apart.max() <= 1 and np.mean(apart == 0) >= 0.999


def scale_of_output(model: onnx.ModelProto) -> float:
    (last,) = [node for node in model.graph.node if node.output[0] == "y"]
    (scale,) = [each for each in model.graph.initializer if each.name == last.input[1]]
    return float(numpy_helper.to_array(scale))


EQUAL = {"average": 0.99}
"""A ninth of a sum of few bits is often exactly in the middle between two codes, and no multiplier is a ninth."""


@pytest.mark.parametrize("layer", slow_beyond(3, LAYERS))
def test_a_layer_is_what_the_file_means(layer: str) -> None:
    model = quantised_network(layer_network(layer), weights="e4m3", activations="e4m3")
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    results = [
        (program.run({"x": x}).outputs["y"], ReferenceEvaluator(model).run(None, {"x": x})[0])
        for x in samples(4, seed=9)
    ]
    apart = np.stack([codes_apart(*pair, scale_of_output(model), E4M3) for pair in results])
    assert apart.max() <= 1 and np.mean(apart == 0) >= EQUAL.get(layer, 0.999)


@pytest.mark.parametrize("weights", ["e4m3", "e2m1"])
def test_a_network_stays_near_the_file(weights: str) -> None:
    """A value next to the middle between two codes may be rounded to either, and layers after it see that."""
    model = quantised_network(weights=weights, activations="e4m3")
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    xs = samples(4, seed=9)
    found = np.stack([program.run({"x": x}).outputs["y"] for x in xs])
    expected = np.stack([ReferenceEvaluator(model).run(None, {"x": x})[0] for x in xs])
    assert np.mean(found == expected) > 0.8
    assert np.square(found - expected).sum() < 1e-3 * np.square(expected).sum()


def test_every_level_computes_the_same() -> None:
    model, machine = quantised_network(weights="e4m3", activations="e4m3"), load_machine(MACHINE)
    x = {"x": samples(1, seed=9)[0]}
    graph = simplified(model)
    nests = lower(graph, machine)
    expected = ReferenceEvaluator(model).run(None, x)[0]
    step = scale_of_output(model)
    found = run_nests(nests, x)["y"]
    assert codes_apart(run_graph(graph, x)["y"], expected, step, E4M3).max() <= 1
    assert np.array_equal(found, compile_whole(model, MACHINE).run(x).outputs["y"])


def test_nests_are_valid_and_their_text_says_all_of_them() -> None:
    model = quantised_network(weights="e4m3", activations="e4m3")
    nests = lower(simplified(model), load_machine(MACHINE))
    assert [fault for rule in RULES for fault in rule.faults(nests)] == []
    text = print_nests(nests)
    assert print_nests(parse_nests(text)) == text and "nearest(" in text


def codes_model() -> onnx.ModelProto:
    """The network's own input and output are codes."""
    model = float_model("e4m3", activations="e4m3")
    kept = [node for node in model.graph.node if node.name not in ("quantize", "dequantize_y")]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    del model.graph.input[:], model.graph.output[:]
    element = onnx.TensorProto.FLOAT8E4M3FN
    model.graph.input.append(helper.make_tensor_value_info("x_int", element, (4, SUMMED)))
    model.graph.output.append(helper.make_tensor_value_info("y_int", element, (4, 32)))
    return model


def test_inputs_and_outputs_may_be_codes() -> None:
    model = codes_model()
    codes = {"x_int": (inputs()["x"] * 100).astype(E4M3.dtype)}
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    expected = ReferenceEvaluator(model).run(None, codes)[0]
    assert np.array_equal(program.run(codes).outputs["y_int"].view(np.uint8), expected.view(np.uint8))


def test_a_machine_without_the_type_leaves_the_layer_to_the_host() -> None:
    model = float_model("e4m3", activations="e4m3")
    program = compile_whole(model, "base16")
    assert {each.name: each.reason for each in program.host_nodes}["matmul"] == (
        "an activation is float8_e4m3fn; expected int8 or uint8. take a machine whose activations hold float8_e4m3fn"
    )
    expected = ReferenceEvaluator(model).run(None, inputs())[0]
    assert np.array_equal(program.run(inputs()).outputs["y"], expected)


def test_integers_on_a_machine_of_floats_are_refused() -> None:
    with pytest.raises(CompileError, match="an activation is int8; expected float8_e4m3fn"):
        compile_model(float_model("e4m3", activations="int8"), load_machine(MACHINE))


def test_weights_that_are_no_numbers_of_the_machines_type_are_refused() -> None:
    """17 steps are no number of E4M3: from 16 on, there are even ones only."""
    model = float_model("e4m3", None, activations="e4m3")
    (tensor,) = [each for each in model.graph.initializer if each.name == "w"]
    values = np.full(tuple(tensor.dims), 17, np.int8)
    tensor.CopyFrom(numpy_helper.from_array(values, "w"))
    with pytest.raises(CompileError) as error:
        compile_model(model, load_machine(MACHINE))
    assert str(error.value) == (
        "node 'matmul' (conv): its weights are int8, and not all of them are numbers of e4m3, which those of the "
        "machine are; expected weights of float8_e4m3fn"
    )


def test_a_bundle_says_that_its_c_does_not_convert_them() -> None:
    program = compile_whole(float_model("e4m3", activations="e4m3"), MACHINE)
    with pytest.raises(InputError) as error:
        bundle_files(program, "net")
    assert str(error.value) == (
        "'x' is float8_e4m3fn in memory, which the C of a bundle does not convert: "
        "quantise it with activations of integers"
    )


@pytest.mark.parametrize("weights", ["e4m3", "e2m1"])
def test_blocks_with_e8m0_scales_are_what_the_file_means(weights: str) -> None:
    """Those of a channel are integers in units of the least of them, so that their sum is exact."""
    model = float_model(weights, 0, 32, is_e8m0=True, activations="e4m3", rows=512)
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    assert "sum_blocks" in {i.format.mnemonic for i in program.binary.instructions}
    expected = meaning(model, inputs(512)["x"])
    apart = codes_apart(program.run(inputs(512)).outputs["y"], expected, OUTPUT_STEP, E4M3)
    assert apart.max() <= 1 and np.mean(apart == 0) >= 0.999


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1"])
@pytest.mark.parametrize("kind", ["QuantizeLinear", "DequantizeLinear"])
def test_tensors_of_other_types_go_from_input_to_output(kind: str, element: str) -> None:
    """E2M1 as numbers of E4M3, E5M2 as integers in the accumulators' memory: the machine only moves them."""
    of = BY_SHORT_NAME[element]
    real = np.random.default_rng(7).normal(0, 20, (2, 24)).astype(np.float32)
    ends = {
        "QuantizeLinear": (real, np.float32, of.dtype),
        "DequantizeLinear": (of.values(of.nearest(real)), of.dtype, np.float32),
    }
    given, before, after = ends[kind]
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(each)) for each in (before, after)]
    constants = [
        numpy_helper.from_array(np.float32(0.3), "scale"), numpy_helper.from_array(np.zeros((), of.dtype), "zero")
    ]  # fmt: skip
    node = helper.make_node(kind, ["x", "scale", "zero"], ["y"], "node")
    values = [helper.make_tensor_value_info(n, t, real.shape) for n, t in zip("xy", types, strict=True)]
    graph = helper.make_graph([node], "ends", values[:1], values[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    program = compile_whole(model, MACHINE)
    assert not program.host_nodes
    expected = ReferenceEvaluator(model).run(None, {"x": given})[0]
    assert np.array_equal(program.run({"x": given}).outputs["y"].astype(np.float32), expected.astype(np.float32))


def test_an_input_that_is_no_number_is_refused() -> None:
    program = compile_whole(codes_model(), MACHINE)
    with pytest.raises(InputError, match="input 'x_int' holds NaN, which has no quantised value"):
        program.run({"x_int": np.full((4, SUMMED), np.nan, np.float32).astype(E4M3.dtype)})


def test_an_infinite_input_is_the_greatest_number_and_nan_is_refused() -> None:
    model = float_model("e4m3", activations="e4m3")
    given, limited = inputs(), inputs()
    given["x"][0, :2] = np.inf, -np.inf
    limited["x"][0, :2] = 1e9, -1e9
    program = compile_whole(model, MACHINE)
    found = program.run(given).outputs["y"]
    assert np.array_equal(found, program.run(limited).outputs["y"])
    assert codes_apart(found, meaning(model, limited["x"]), OUTPUT_STEP, E4M3).max() <= 1
    given["x"][1, 0] = np.nan
    with pytest.raises(InputError, match="input 'x' holds NaN, which has no quantised value"):
        program.run(given)


def test_e5m2_weights_beyond_the_range_of_e4m3_are_the_hosts() -> None:
    model = float_model("e5m2", activations="e4m3")
    (tensor,) = [each for each in model.graph.initializer if each.name == "w"]
    values = numpy_helper.to_array(tensor).copy()
    values[0] = 2.0**-16
    tensor.CopyFrom(numpy_helper.from_array(values, "w"))
    program = compile_whole(model, MACHINE)
    assert {each.name: each.reason for each in program.host_nodes}["weights"].startswith("its float8_e5m2 are ")
    found = program.run(inputs()).outputs["y"]
    assert codes_apart(found, meaning(model, inputs()["x"]), OUTPUT_STEP, E4M3).max() <= 1


def test_activations_of_a_type_that_no_machine_computes_with_are_refused() -> None:
    with pytest.raises(
        CompileError, match="an activation is float8_e5m2; expected float8_e4m3fn, int8, uint8, int16 or"
    ):
        compile_model(float_model("e4m3", activations="e5m2"), load_machine(MACHINE))
