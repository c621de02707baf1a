"""Which tensors are quantised, and with what scale: the structure of the QDQ network."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.compiler.pipelines import base16
from tests.tilewright.quantization.float_networks import (
    CHANNELS,
    FloatBuilder,
    decibel,
    joined,
    normalised,
    run_all,
    samples,
)
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.quantization import qdq
from tilewright.quantization.quantize import quantize


def scales(model: onnx.ModelProto) -> Mapping[str, float]:
    """Of each activation, by the name of what is quantised."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
    return {node.input[0].removesuffix("_QuantizeLinear_Input"): float(constants[node.input[1]]) for node in nodes}


def makers(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    return {output: node for node in model.graph.node for output in node.output}


def quantized(b: FloatBuilder, output: str, **options: str) -> onnx.ModelProto:
    model = b.build(output)
    return quantize(model, samples(model, 4), **options).model  # type: ignore[arg-type]


def test_every_operand_and_result_is_quantised() -> None:
    model = joined()
    result = quantize(model, samples(model, 4)).model
    maker = makers(result)
    constants = {tensor.name for tensor in result.graph.initializer}
    for node in result.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        for tensor in node.input:
            assert tensor in constants or maker[tensor].op_type == "DequantizeLinear", (node.name, tensor)


@pytest.mark.parametrize(("kind", "attributes"), [("MaxPool", {"kernel_shape": [2, 2]}), ("Relu", {}), ("Flatten", {})])
def test_so_is_what_comes_right_after_an_input(kind: str, attributes: dict[str, object]) -> None:
    b = FloatBuilder()
    result = quantized(b, b.node(kind, "first", b.input(), **attributes))
    node = next(node for node in result.graph.node if node.op_type == kind.replace("Flatten", "Reshape"))
    assert makers(result)[node.input[0]].op_type == "DequantizeLinear"


def test_joined_tensors_have_one_scale() -> None:
    model = joined()
    found = scales(quantize(model, samples(model, 4)).model)
    assert found["pool.out"] == found["conv2.out"] == found["conv3.out"] == found["join.out"]


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2]}),
        ("AveragePool", {"kernel_shape": [2, 2]}),
        ("GlobalMaxPool", {}),
        ("Transpose", {"perm": [0, 2, 3, 1]}),
        ("Flatten", {}),
        ("DepthToSpace", {"blocksize": 2}),
    ],
)
def test_what_moves_elements_keeps_their_scale(kind: str, attributes: dict[str, object]) -> None:
    b = FloatBuilder()
    found = scales(quantized(b, b.node(kind, "move", b.conv("conv", b.input(), 3, CHANNELS), **attributes)))
    assert found["move.out"] == found["conv.out"]


@pytest.mark.parametrize(("value", "is_same"), [(0.0, True), (9.0, False)])
def test_padding_with_zeros_keeps_the_scale(value: float, is_same: bool) -> None:
    b = FloatBuilder()
    pads = b.constant("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1])), b.constant("value", np.array(value))
    x = b.node("Pad", "pad", b.conv("conv", b.input(), 3, CHANNELS), *pads)
    found = scales(quantized(b, b.node("MaxPool", "pool", x, kernel_shape=[2, 2])))
    assert (found["pad.out"] == found["conv.out"]) is is_same


def test_parameters_of_elementwise_operators_stay_float() -> None:
    model = normalised()
    result = quantize(model, samples(model, 4)).model
    floats = {t.name for t in result.graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
    read = {node.op_type: [tensor in floats for tensor in node.input] for node in result.graph.node}
    assert read["Sub"] == read["Mul"] == [False, True]
    assert read["BatchNormalization"] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("kind", "shape", "is_float"),
    [
        ("Add", (CHANNELS, 1, 1), True),
        ("Add", (1,), True),
        ("Add", (1, CHANNELS, 6, 6), False),
        ("Sub", (1, 1, 1, 6), False),
        ("Mul", (6, 6), False),
        ("Max", (CHANNELS, 6, 1), False),
        ("Min", (CHANNELS, 1, 1), False),
        ("Max", (1,), False),
    ],
)
def test_a_constant_of_positions_is_quantised_like_weights(kind: str, shape: tuple[int, ...], is_float: bool) -> None:
    b = FloatBuilder()
    x = b.node("MaxPool", "pool", b.input(shape=(1, CHANNELS, 12, 12)), kernel_shape=[2, 2], strides=[2, 2])
    result = quantized(b, b.node(kind, "with_encoding", x, b.normal("encoding", *shape)))
    node = next(node for node in result.graph.node if node.op_type == kind)
    assert (makers(result).get(node.input[1]) is None) == is_float
    compile_model(result, base16())


def test_activations_may_be_unsigned() -> None:
    b = FloatBuilder()
    model = quantized(b, b.node("Relu", "relu", b.conv("conv", b.input(), 3, CHANNELS)), activations="uint8")
    zeros = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if t.name.endswith("zero_point")}
    assert zeros["relu.out_zero_point"].dtype == np.uint8
    assert int(zeros["relu.out_zero_point"]) == 0
    assert zeros["conv.weight_zero_point"].dtype == np.int8


def test_a_relu_is_the_range_of_its_convolution() -> None:
    b = FloatBuilder()
    model = quantized(b, b.node("Relu", "relu", b.conv("conv", b.input(), 3, CHANNELS)))
    zeros = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    assert [n.op_type for n in model.graph.node if "Linear" not in n.op_type] == ["Conv"]
    assert int(zeros["relu.out_zero_point"]) == -128


def test_a_relu_beside_another_reader_stays() -> None:
    b = FloatBuilder()
    x = b.conv("conv", b.input(), 3, CHANNELS)
    model = quantized(b, b.node("Add", "add", b.node("Relu", "relu", x), x))
    assert [n.op_type for n in model.graph.node if "Linear" not in n.op_type] == ["Conv", "Relu", "Add"]


def test_a_relu_stays_where_control_flow_reads_its_operand() -> None:
    b = FloatBuilder()
    x = b.conv("conv", b.input(), 3, CHANNELS)
    relu = b.node("Relu", "relu", x)
    branches = {}
    for kind in ("Neg", "Abs"):
        result = onnx.helper.make_tensor_value_info(kind, onnx.TensorProto.FLOAT, None)
        branches[kind] = onnx.helper.make_graph([onnx.helper.make_node(kind, [x], [kind])], kind, [], [result])
    wanted = b.node(
        "Greater", "greater", b.node("ReduceMax", "largest", relu, keepdims=0), b.constant("one", np.array(1.0))
    )
    model = b.build(b.node("If", "if", wanted, then_branch=branches["Neg"], else_branch=branches["Abs"]), relu)
    data = samples(model, 4)
    result = quantize(model, data).model
    assert {"Relu", "If"} <= {node.op_type for node in result.graph.node}
    assert decibel(run_all(model, data), run_all(result, data)) > 25


def test_control_flow_reads_what_is_quantised() -> None:
    b = FloatBuilder()
    relu = b.node("Relu", "relu", b.conv("conv", b.input(), 3, CHANNELS))
    branches = {}
    for kind in ("Identity", "Abs"):  # folding drops the Identity, and what it returned is then an outer value
        result = onnx.helper.make_tensor_value_info(kind, onnx.TensorProto.FLOAT, None)
        branches[kind] = onnx.helper.make_graph([onnx.helper.make_node(kind, [relu], [kind])], kind, [], [result])
    largest = b.node("ReduceMax", "largest", relu, keepdims=0)
    wanted = b.node("Greater", "greater", largest, b.constant("one", np.array(1.0)))
    model = b.build(b.node("If", "if", wanted, then_branch=branches["Identity"], else_branch=branches["Abs"]))
    data = samples(model, 4)
    result = quantize(model, data).model
    (branching,) = (node for node in result.graph.node if node.op_type == "If")
    read = {name for attribute in branching.attribute for node in attribute.g.node for name in node.input}
    assert {node.op_type for node in result.graph.node if read & set(node.output)} == {"DequantizeLinear"}
    assert decibel(run_all(model, data), run_all(result, data)) > 25


def test_a_grouped_transposed_convolution_has_one_scale() -> None:
    b = FloatBuilder()
    inputs = b.conv("conv", b.input(), 3, CHANNELS), b.normal("weight", CHANNELS, 4, 2, 2), b.normal("bias", 8)
    model = quantized(b, b.node("ConvTranspose", "up", *inputs, strides=[2, 2], group=2))
    sizes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert sizes["weight_scale"] == []
    assert sizes["conv.weight_scale"] == [CHANNELS]


def test_a_gemm_with_several_rows_of_bias_stays_float() -> None:
    b = FloatBuilder()
    x = b.node("Gemm", "one", b.input("x", (3, 5)), b.normal("one.weight", 5, 7))
    model = b.build(b.node("Gemm", "two", x, b.normal("two.weight", 7, 4), b.normal("bias", 3, 4)))
    result = quantize(model, {"x": np.ones((3, 5), np.float32)}).model
    assert {t.name for t in result.graph.initializer} >= {"one.weight_quantized", "two.weight", "bias"}


def test_a_failure_of_the_quantiser_is_an_error_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise IndexError("index 4 is out of bounds")

    monkeypatch.setattr(qdq, "_mark", fail)
    model = normalised()
    with pytest.raises(CompileError) as caught:
        quantize(model, samples(model, 1))
    assert str(caught.value) == "the ONNX model: ONNX Runtime cannot quantise it: index 4 is out of bounds"


def test_the_result_bears_no_marks_of_the_tools() -> None:
    model = joined()
    result = quantize(model, samples(model, 1)).model
    assert (result.producer_name, list(result.metadata_props)) == ("tilewright", [])
    assert not any(node.metadata_props for node in result.graph.node)
