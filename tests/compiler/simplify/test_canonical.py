"""ONNX operators to canonical ones: windows, defaults, and each refusal with its message."""

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.compiler.models import ModelBuilder, conv_model, gemm_model, pool_model
from tests.compiler.pipelines import simplified
from tests.compiler.simplify.graphs import kinds, only
from tilewright.compiler.errors import CompileError
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.simplify.steps import simplify_graph


def refusal(model: onnx.ModelProto) -> str:
    with pytest.raises(CompileError) as caught:
        simplified(model)
    return str(caught.value)


def one_node(op_type: str, shape: list[int], *constants: Any, **attributes: Any) -> onnx.ModelProto:
    """Input → quantise → one node → quantise → output."""
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", shape), 0.1, name="x.q")
    names = [builder.constant(f"c{position}", np.asarray(c)) for position, c in enumerate(constants)]
    builder.output(builder.quantize(builder.node(op_type, [x, *names], name="op", **attributes), 0.3, 3, name="y.q"))
    return builder.build()


def uneven(*shape: int) -> NDArray[np.float32]:
    """Numbers that are no integers of eight bits times a scale."""
    return np.exp(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def test_defaults_are_filled_in() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    weight, _ = builder.weights("conv", [5, 3, 3, 3])
    builder.output(builder.quantize(builder.node("Conv", [x, weight], name="conv"), 0.2, name="y.q"))
    attributes = only(simplified(builder.build()), "conv").attributes
    assert attributes == {
        "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, "low": -128, "high": 127,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("auto_pad", "size", "stride", "pads"),
    [
        ("SAME_UPPER", 8, 2, (0, 0, 1, 1)),  # 4 results · 2 + 1 = 9 elements needed, 1 more than 8
        ("SAME_LOWER", 8, 2, (1, 1, 0, 0)),
        ("SAME_UPPER", 9, 2, (1, 1, 1, 1)),
        ("VALID", 9, 2, (0, 0, 0, 0)),
    ],
)
def test_automatic_padding_becomes_explicit(auto_pad: str, size: int, stride: int, pads: tuple[int, ...]) -> None:
    graph = simplified(conv_model(np.random.default_rng(1), size=size, stride=stride, auto_pad=auto_pad))
    assert only(graph, "conv").attributes["pads"] == pads


def test_relu_and_clip_become_limits() -> None:
    model = conv_model(np.random.default_rng(1), relu=True)
    graph = simplified(model)
    assert kinds(graph) == ["quantize", "conv", "dequantize"]
    conv = only(graph, "conv")
    zero = graph.tensors[conv.outputs[0]].quantization
    assert zero is not None and conv.attributes["low"] == zero.zero_point
    assert conv.nodes == ("conv", "conv.relu")


def test_clip_bounds_are_read() -> None:
    graph = simplified(one_node("Clip", [1, 2, 3, 3], np.float32(0), np.float32(6)))
    assert only(graph, "rescale").attributes == {"low": 3, "high": 23}  # 6 / 0.3 + 3


def test_what_computes_nothing_goes() -> None:
    for op_type in ("Identity", "Dropout"):
        assert kinds(simplified(one_node(op_type, [1, 2, 3, 3]))) == ["quantize", "rescale", "dequantize"]


def test_a_mean_over_the_image_is_an_average_pool() -> None:
    graph = simplified(one_node("ReduceMean", [1, 2, 3, 5], axes=[2, 3], keepdims=1))
    assert only(graph, "average_pool").attributes["kernel"] == (3, 5)
    graph = simplified(one_node("ReduceMean", [1, 2, 3, 5], axes=[-1, -2], keepdims=0))
    assert graph.tensors[graph.outputs["result"]].shape == (1, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            lambda: one_node("Hardmax", [1, 8]),
            "node 'op' (Hardmax): operator Hardmax has no lowering to the machine; those that have: Add, AveragePool, ",
        ),
        (
            lambda: one_node("MatMul", [2, 2, 2, 3], np.zeros((2, 1, 3, 4), np.float32)),
            "node 'op' (MatMul): MatMul of these operands ([2, 2, 2, 3], [2, 1, 3, 4]) has no lowering; expected "
            "constant weights for products, and equal shapes or one number for each channel otherwise",
        ),
        (
            lambda: gemm_model(np.random.default_rng(1), alpha=-1.0),
            "node 'gemm' (Gemm): alpha = -1.0; expected a positive number",
        ),
        (
            lambda: one_node("Conv", [1, 2, 3, 3], uneven(4, 2, 1, 1)),
            "node 'op' (conv): its weights 'c0' are float; expected quantised ones, behind DequantizeLinear",
        ),
        (
            lambda: one_node("MaxPool", [1, 2, 3, 3, 3], kernel_shape=[2, 2, 2]),
            "node 'op' (MaxPool): its input has the shape [1, 2, 3, 3, 3]; expected [N, C, H, W]",
        ),
        (
            lambda: one_node("Add", [1, 2, 3, 3], uneven(1, 2, 3, 3)),
            "node 'op' (add): its operand 'c0' is a float constant, not integers of eight bits times one scale; "
            "expected a quantised one, behind DequantizeLinear",
        ),
    ],
)
def test_what_has_no_lowering_is_refused(model: Any, message: str) -> None:
    assert refusal(model()).startswith(message)


def test_indices_of_a_max_pool_are_refused() -> None:
    builder = ModelBuilder(np.random.default_rng(4))
    x = builder.quantize(builder.input("x", [1, 2, 4, 4]), 0.1, name="x.q")
    y = builder.node("MaxPool", [x], name="pool", kernel_shape=[2, 2])
    builder.nodes[-1].output.append("indices")
    builder.output(builder.quantize(y, 0.1))
    builder.output("indices", "places", onnx.TensorProto.INT64)
    assert refusal(builder.build()) == "node 'pool' (MaxPool): its second result (Indices) is used; it has no lowering"


def test_an_attribute_that_changes_the_meaning_is_refused() -> None:
    """Every attribute is read, or refused: here one that no rule knows is put past the importer."""
    graph = import_onnx(pool_model(np.random.default_rng(1)).SerializeToString())
    pool = next(operator for operator in graph.operators if operator.kind == "onnx.MaxPool")
    object.__setattr__(pool, "attributes", {**pool.attributes, "colour": 3})
    with pytest.raises(CompileError) as caught:
        simplify_graph(graph)
    assert str(caught.value) == "node 'pool' (MaxPool): attribute 'colour' has no lowering; remove it"


@pytest.mark.parametrize("scale", [0.0, -0.5, np.nan, np.inf])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    model = pool_model(np.random.default_rng(1))
    for tensor in model.graph.initializer:
        if tensor.name == "x.q.scale":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(scale, np.float32), tensor.name))
    message = "its scale is " if np.isfinite(scale) else "reads 'x.q.scale', which holds NaN or infinity"
    assert "node 'x.q.quantize' (QuantizeLinear)" in refusal(model) and message in refusal(model)


def test_another_scale_at_the_reader_is_refused() -> None:
    model = pool_model(np.random.default_rng(1))
    node = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
    node.input[1] = "y.q.scale"
    for tensor in model.graph.initializer:
        if tensor.name == "y.q.scale":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(0.7, np.float32), tensor.name))
    assert refusal(model) == (
        "node 'x.q.dequantize' (DequantizeLinear): 'x.q.quantize.out' has another scale or zero point where it is "
        "made; expected the same"
    )
