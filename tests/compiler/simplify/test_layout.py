"""Reshapes: merged, moved, and folded into the product that reads them."""

import numpy as np

from tests.compiler.simplify.graphs import OTHER, GraphBuilder, kinds, only, rewritten
from tilewright.compiler.graph.graph import Quantization, TensorType
from tilewright.compiler.simplify.layout import (
    drop_reshape_to_same,
    flatten_into_conv,
    merge_reshapes,
    reshape_after_binary,
    reshape_after_rescale,
)


def test_a_reshape_to_the_same_shape_goes() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.quantize("q", builder.reshape("r", "x", 1, 3, 6, 6)))
    assert kinds(rewritten(graph, {"reshape": (drop_reshape_to_same,)})) == ["quantize"]


def test_two_reshapes_are_one() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.reshape("b", builder.reshape("a", "x", 3, 36), 108))
    assert kinds(rewritten(graph, {"reshape": (merge_reshapes,)})) == ["reshape"]


def test_a_rescale_moves_before_a_reshape() -> None:
    builder = GraphBuilder()
    flat = builder.reshape("r", builder.quantize("q", "x"), 1, 108)
    tensor_type = TensorType("int8", (1, 108), OTHER)
    graph = builder.graph(builder.add("s", "rescale", flat, tensor_type=tensor_type, low=-128, high=127))
    assert kinds(rewritten(graph, {"rescale": (reshape_after_rescale,)})) == ["quantize", "rescale", "reshape"]


AFTER_BINARY = {"add": (reshape_after_binary,), "reshape": (drop_reshape_to_same, merge_reshapes)}


def sum_of(builder: GraphBuilder, a: str, b: str) -> str:
    return builder.add("sum", "add", a, b, tensor_type=TensorType("int8", (1, 1, 108), OTHER), low=-128, high=127)


def test_a_sum_of_reshapes_is_a_reshaped_sum() -> None:
    builder = GraphBuilder()
    a = builder.reshape("r", builder.quantize("p", "x"), 1, 1, 108)
    b = builder.reshape("s", builder.quantize("q", "x"), 1, 1, 108)
    graph = rewritten(builder.graph(sum_of(builder, a, b)), AFTER_BINARY)
    assert kinds(graph) == ["quantize", "quantize", "add", "reshape"]
    assert graph.tensors[only(graph, "add").outputs[0]].shape == (1, 3, 6, 6)


def test_an_operand_that_others_read_reshaped_is_so_too() -> None:
    builder = GraphBuilder((1, 1, 108))
    q = builder.quantize("q", "x")
    other = builder.add("m", "rescale", builder.reshape("r", q, 1, 108, 1), low=-128, high=127)
    graph = rewritten(builder.graph(sum_of(builder, builder.reshape("s", other, 1, 1, 108), q)), AFTER_BINARY)
    assert graph.tensors[only(graph, "add").outputs[0]].shape == (1, 108, 1)


def test_a_sum_with_a_tensor_that_is_computed_in_its_shape_stays() -> None:
    builder = GraphBuilder((1, 1, 108))
    a = builder.add("m", "rescale", builder.quantize("q", "x"), low=-128, high=127)
    b = builder.reshape("s", builder.reshape("r", builder.quantize("p", "x"), 1, 108, 1), 1, 1, 108)
    graph = rewritten(builder.graph(sum_of(builder, a, b)), {"add": (reshape_after_binary,)})
    assert graph.tensors[only(graph, "add").outputs[0]].shape == (1, 1, 108)


def test_operands_that_are_read_in_each_others_shapes_come_to_an_end() -> None:
    builder = GraphBuilder((1, 1, 108))
    q = builder.quantize("q", "x")
    wide = builder.add("w", "rescale", builder.reshape("r", q, 1, 108, 1), low=-128, high=127)
    back = builder.reshape("s", wide, 1, 1, 108)
    other = builder.add("o", "max_pool", back, kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
    graph = rewritten(builder.graph(sum_of(builder, back, q), other), AFTER_BINARY)
    assert graph.tensors[only(graph, "add").outputs[0]].shape == (1, 108, 1)


def product(builder: GraphBuilder, x: str, outputs: int, is_quantized: bool) -> str:
    """x [1, K] times a matrix, as a 1×1 convolution."""
    values = np.random.default_rng(1).integers(-127, 128, size=(outputs, builder.tensors[x].shape[1], 1, 1))
    meaning = Quantization((0.01, 0.02), (0, 0), 0)
    weights = builder.constant("weight", values.astype(np.int8), meaning)
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
    if not is_quantized:
        return builder.add(
            "c", "conv", x, builder.dequantize("w", weights), tensor_type=TensorType("float32", (1, outputs)), **window
        )
    tensor_type = TensorType("int8", (1, outputs), Quantization((30.0,), (0,)))
    return builder.add("c", "conv", x, weights, tensor_type=tensor_type, low=-128, high=127, **window)


def test_a_flattened_product_is_a_convolution_of_the_whole_image() -> None:
    for is_quantized in (False, True):
        builder = GraphBuilder()
        source = builder.quantize("q", "x") if is_quantized else "x"
        flat = builder.reshape("r", source, 1, 108)
        graph = builder.graph(product(builder, flat, 2, is_quantized))
        after = rewritten(graph, {"conv": (flatten_into_conv,)}, tolerance=0 if is_quantized else 1e-2)
        assert "reshape" not in kinds(after)
        conv = only(after, "conv")
        assert after.tensors[conv.inputs[1]].shape == (2, 3, 6, 6)
        assert conv.nodes == ("r", "c")


def test_a_flatten_that_mixes_images_stays() -> None:
    builder = GraphBuilder(shape=(2, 3, 6, 6))
    flat = builder.reshape("r", "x", 1, 216)
    after = rewritten(builder.graph(product(builder, flat, 2, False)), {"conv": (flatten_into_conv,)})
    assert "reshape" in kinds(after)
