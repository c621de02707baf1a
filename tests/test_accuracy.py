"""Operators of whole networks on ONNX Runtime's own inputs: never more than one step away, equal on 99.9 %."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

import tilewright
from programs.networks.quantise import random_inputs
from programs.networks.registry import int8_network
from tests.accuracy import Agreement, Tensors, agreement, compare, compiled, layers, quantised_tensors, table
from tests.attention_networks import attention_network
from tests.compiler.models import random_inputs as network_inputs
from tests.digits import MODEL, images, plain_session
from tests.random_networks import random_network

LARGE = ("resnet20v2", "mobilenetv1-0.25", "mobilenetv2", "squeezenet1.1")


@pytest.mark.parametrize("name", ["resnet8", *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_each_operator_is_within_one_step(name: str) -> None:
    model = int8_network(name)
    require_agreement(compare(model, "base16", [random_inputs(model, seed=7)]))


@pytest.mark.parametrize("isa", ["tiny8", "rect"])
def test_other_machines_agree_too(isa: str) -> None:
    model = int8_network("ds-cnn")
    found = compare(model, isa, [random_inputs(model, seed=7)])
    require_agreement([one for one in found if one.kind != "Softmax"])


@pytest.mark.long
def test_a_whole_network_with_attention_agrees() -> None:
    model = int8_network("botnet50")
    require_agreement(compare(model, "vector16", [random_inputs(model, seed=1000)]))


@pytest.mark.parametrize(("isa", "has_softmax"), [("base16", False), ("vector16", True)])
def test_operators_of_attention_agree(isa: str, has_softmax: bool) -> None:
    """Products of computed tensors, transpositions, reshapes, softmax; five inputs, as the tensors are small."""
    model = attention_network(64, has_softmax=has_softmax)
    found = compare(model, isa, [random_inputs(model, seed) for seed in range(7, 12)])
    assert {"MatMul", "Transpose", "Reshape", "Softmax" if has_softmax else "Sigmoid"} <= {one.kind for one in found}
    require_agreement(found)


def test_the_trained_network_agrees_on_real_images() -> None:
    require_agreement(compare(onnx.load(MODEL), "base16", [{"image": image[None]} for image in images()[:20]]))


@pytest.mark.parametrize("name", ["resnet8", pytest.param("mobilenetv1-0.25", marks=pytest.mark.slow)])
def test_a_network_gives_the_bits_of_its_operators_one_after_the_other(name: str) -> None:
    """What stays on chip, is fused or overlaps changes no bit."""
    model = int8_network(name)
    require_same_bits(model, "base16", random_inputs(model, seed=7))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_random_networks_give_the_bits_of_their_operators_one_after_the_other(seed: int) -> None:
    """Nor what becomes of moves, transpositions and products of computed tensors, side by side and in each other."""
    model = random_network(seed, transposes=True, has_softmax=True)
    require_same_bits(model, "vector16", network_inputs(model, np.random.default_rng(seed)))


def require_same_bits(model: onnx.ModelProto, isa: str, feed: Tensors) -> None:
    """The whole network's outputs are those of its layers, each run on what the ones before it gave."""
    tensors = quantised_tensors(model, feed)
    for layer in layers(model, tensors):
        program = compiled(layer, isa)
        assert not isinstance(program, str), program
        tensors[layer.output] = program.run({of: tensors[of] for of in layer.inputs}).outputs[layer.output]
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    sources = {node.output[0]: node.input for node in model.graph.node}
    for name, values in tilewright.compile(model, isa).run(feed).outputs.items():
        quantised, scale, zero = sources[name]
        steps = tensors[quantised].astype(np.int32) - constants[zero]
        assert np.array_equal(values, steps.astype(np.float32) * constants[scale]), name


def require_agreement(found: list[Agreement]) -> None:
    """The measure, over each kind of operator; a single layer may be too small for a share of it to mean much."""
    assert [one for one in found if one.host or one.furthest > 1] == []
    values, unequal = Counter[str](), Counter[str]()
    for one in found:
        values[one.kind] += one.values
        unequal[one.kind] += one.unequal
    apart = {kind: unequal[kind] / values[kind] for kind in values}
    assert {kind: share for kind, share in apart.items() if share > 0.001} == {}


# -- the tool itself ---------------------------------------------------------------------------------------------------


def test_cuts_a_network_into_its_operators() -> None:
    model = int8_network("resnet8")
    tensors = quantised_tensors(model, random_inputs(model, seed=1))
    cut = layers(model, tensors)
    assert Counter(layer.kind for layer in cut) == {
        "Conv": 9,
        "Add": 3,
        "GlobalAveragePool": 1,
        "Flatten": 1,
        "Gemm": 1,
    }
    add = next(layer for layer in cut if layer.kind == "Add")
    assert set(add.inputs) == {"layer1.conv2_QuantizeLinear_Output", "conv.relu_QuantizeLinear_Output"}
    assert add.output == "layer1.add.relu_QuantizeLinear_Output"


def test_a_layer_alone_gives_what_it_gives_in_the_network() -> None:
    """So that the tensors of the whole network are the reference of each layer."""
    model = int8_network("mobilenetv1-0.25")
    tensors = quantised_tensors(model, random_inputs(model, seed=3))
    for layer in layers(model, tensors)[:8]:
        onnx.checker.check_model(layer.model, full_check=True)
        (alone,) = plain_session(layer.model).run(None, {name: tensors[name] for name in layer.inputs})
        assert np.array_equal(alone, tensors[layer.output]), layer.name


def test_a_layer_with_another_bias_is_found_out() -> None:
    model = int8_network("resnet8")
    tensors = quantised_tensors(model, random_inputs(model, seed=7))
    layer = layers(model, tensors)[0]
    (bias,) = [tensor for tensor in layer.model.graph.initializer if tensor.name == "conv.bias_quantized"]
    assert agreement(layer, compiled(layer, "base16"), tensors).furthest <= 1
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 500, bias.name))
    changed = agreement(layer, compiled(layer, "base16"), tensors)
    assert changed.furthest > 1 and changed.unequal > 0.1 * changed.values


def test_the_table_leaves_out_what_the_host_computes() -> None:
    found = [
        Agreement("Conv", "a", 1000, 1, 1),
        Agreement("Conv", "b", 3000, 0, 0),
        Agreement("Softmax", "c", 0, 0, 0, "no lowering"),
    ]
    assert table(found).splitlines()[2:] == ["| Conv | 2 | 4,000 | 99.9750 % | 1 |"]
