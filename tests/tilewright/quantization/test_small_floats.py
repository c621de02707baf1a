"""Floats of few bits: what `quantize` writes, and how near it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.quantization import small_floats
from tilewright.quantization.grids import FloatGrid, grid_of
from tilewright.quantization.quantize import QuantizedModel, quantize

E4M3, E2M1, E8M0 = TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E8M0


def network() -> onnx.ModelProto:
    """x [2, 4, 6, 6] → Conv, Relu, Conv, Clip to 0 … 2, MaxPool, Flatten, Gemm."""
    rng = np.random.default_rng(3)
    shapes = {"w1": (8, 4, 3, 3), "b1": (8,), "w2": (8, 8, 1, 1), "w3": (32, 10), "b3": (10,)}
    constants = [numpy_helper.from_array(rng.normal(0, 0.3, s).astype(np.float32), n) for n, s in shapes.items()]
    constants += [numpy_helper.from_array(np.float32(each), n) for n, each in (("least", 0), ("most", 2))]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "first", strides=[2, 2], pads=[1, 1, 0, 0]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "second"),
        helper.make_node("Clip", ["c", "least", "most"], ["d"], "clip"),
        helper.make_node("MaxPool", ["d"], ["e"], "pool", kernel_shape=[2, 2]),
        helper.make_node("Flatten", ["e"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "dense"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", (2, 4, 6, 6)), ("y", (2, 10)))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples() -> dict[str, Any]:
    return {"x": np.random.default_rng(4).normal(size=(8, 2, 4, 6, 6)).astype(np.float32)}


def made(**options: Any) -> QuantizedModel:
    found = quantize(network(), samples(), **options)
    onnx.checker.check_model(found.model, full_check=True)
    return found


def types_of(model: onnx.ModelProto, operator: str, position: int) -> set[int]:
    """Of what the nodes of an operator read there, behind QuantizeLinear or stored."""
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {each.name: each.data_type for each in model.graph.initializer}
    types |= {each.name: each.type.tensor_type.elem_type for each in inferred.graph.value_info}
    return {types[node.input[position]] for node in model.graph.node if node.op_type == operator}


def test_weights_alone_may_be_floats() -> None:
    model = made(weights="e2m1").model
    assert types_of(model, "DequantizeLinear", 0) == {TensorProto.INT8, TensorProto.INT32, E2M1}


def test_activations_and_weights_are_floats_and_all_else_is_float() -> None:
    found = made(weights="e4m3", activations="e4m3")
    assert types_of(found.model, "DequantizeLinear", 0) == {E4M3}
    assert types_of(found.model, "Gemm", 2) == {TensorProto.FLOAT}
    assert (found.activations, found.weights) == ("e4m3", "e4m3")


def test_a_limit_stays_and_reads_what_the_product_computes() -> None:
    model = made(weights="e4m3", activations="e4m3").model
    makers = {output: node for node in model.graph.node for output in node.output}
    limits = [node for node in model.graph.node if node.op_type in ("Relu", "Clip")]
    assert len(limits) == 2 and {makers[node.input[0]].op_type for node in limits} == {"Conv"}


def test_ranges_end_at_the_greatest_value() -> None:
    model = made(weights="e4m3", activations="e4m3").model
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    (quantizer,) = [node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == "x"]
    np.testing.assert_allclose(constants[quantizer.input[1]] * 448, np.abs(samples()["x"]).max(), rtol=1e-6)


def test_matrices_have_powers_of_two_for_blocks_of_their_sum() -> None:
    model = made(weights="e2m1", activations="e4m3", block=32).model
    constants = {each.name: each for each in model.graph.initializer}
    (reader,) = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[1] in constants
        and constants[node.input[1]].data_type == E8M0
    ]  # fmt: skip
    assert constants[reader.input[0]].data_type == E2M1
    assert tuple(constants[reader.input[1]].dims) == (1, 10)
    assert {each.name: each.i for each in reader.attribute} == {"axis": 0, "block_size": 32, "output_dtype": 1}


@pytest.mark.parametrize(("options", "least"), [
    ({"weights": "e4m3"}, 24), ({"weights": "e4m3", "activations": "e4m3"}, 20),
    ({"weights": "e2m1"}, 10), ({"weights": "e2m1", "block": 32}, 10),
])  # fmt: skip
def test_is_as_near_as_its_bits_allow(options: dict[str, Any], least: float) -> None:
    """A value of E4M3 is off by 1/32 at most, so a sum is by about 32 dB less; of E2M1 by 1/6, so about 15 dB."""
    found = made(**options)
    x = samples()["x"][0]
    expected, came = (ReferenceEvaluator(model).run(None, {"x": x})[0] for model in (network(), found.model))
    assert 10 * np.log10(np.square(expected).sum() / np.square(expected - came).sum()) > least
    assert found.layers[-1].snr_db is not None and found.layers[-1].snr_db > least


def test_a_network_that_cannot_be_told_in_the_types_opset_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(model: onnx.ModelProto, name: str, opset: int) -> onnx.ModelProto:
        raise CompileError(name, f"cannot be converted to opset {opset}: no way")

    monkeypatch.setattr(small_floats, "convert", refuses)
    with pytest.raises(CompileError) as error:
        made(weights="e2m1")
    assert str(error.value) == "the ONNX model: cannot be converted to opset 23: no way"


def test_the_same_call_gives_the_same_file() -> None:
    assert made(weights="e4m3", activations="e4m3").content == made(weights="e4m3", activations="e4m3").content


def test_scales_of_blocks_follow_the_rule_of_the_mx_formats() -> None:
    """The largest power of two in a column, over 4 of E2M1: 1.9 → 1/4, so that 1.9 is 7.6, which saturates to 6."""
    grid = grid_of("e2m1", 32)
    values = np.array([[1.9, 0.0, -8.0], [0.5, 0.0, 1.0]])
    scales = grid.scales(values)
    assert scales.tolist() == [0.25, 1.0, 2.0]
    assert grid.nearest(values / scales).tolist() == [[6, 0, -4], [2, 0, 0.5]]


def test_weights_of_e4m3_leave_five_binary_orders() -> None:
    grid = grid_of("e4m3")
    assert isinstance(grid, FloatGrid) and (1.4 / grid.scales(np.array([[1.4]]))).round(4).tolist() == [14.0]


@pytest.mark.parametrize(("options", "text"), [
    ({"activations": "e4m3"}, "activations are e4m3, and weights int8; expected e4m3 or e2m1"),
    ({"weights": "e5m2"}, "no type of weights 'e5m2'; there are: int8, int4, e4m3, e2m1"),
    ({"activations": "e2m1"}, "no type of activations 'e2m1'; there are: int8, uint8, int16, uint16, e4m3"),
])  # fmt: skip
def test_other_types_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(InputError) as error:
        quantize(network(), "random", **options)
    assert str(error.value) == text
