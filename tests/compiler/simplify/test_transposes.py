"""Transposes and reshapes: gone where they can be, merged, moved and folded into products; a permute elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tests.compiler.pipelines import base16, distances, lowered, simplified, simulated
from tests.compiler.simplify.graphs import OTHER, GraphBuilder, kinds, only, rewritten
from tilewright.compiler.graph.graph import Quantization, TensorType
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.simplify.transposes import (
    drop_reshape_to_same,
    flatten_into_conv,
    merge_reshapes,
    reshape_after_binary,
    reshape_after_rescale,
)

TO_LAST, TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def start(builder: ModelBuilder, *shape: int) -> str:
    return builder.quantize(builder.input("x", shape), 0.1, name="x.q")


def pair_around_relu(builder: ModelBuilder) -> None:
    x = add_conv(builder, start(builder, 1, 3, 8, 8), 3, 5, 3, name="conv1")
    x = builder.node("Relu", [builder.node("Transpose", [x], perm=TO_LAST)])
    x = builder.node("Transpose", [builder.quantize(x, 1.0)], perm=TO_FIRST)
    builder.output(add_conv(builder, x, 5, 4, 3, scale_in=0.5, name="conv2"))


def pairs_around_add(builder: ModelBuilder) -> None:
    x = start(builder, 1, 4, 6, 6)
    y = add_conv(builder, x, 4, 4, 1)
    last = [builder.node("Transpose", [tensor], perm=TO_LAST) for tensor in (x, y)]
    total = builder.quantize(builder.node("Add", last, name="add"), 1.0, name="add.q")
    builder.output(builder.node("Transpose", [total], perm=TO_FIRST))


def flattened_last(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [start(builder, 2, 4, 3, 5)], perm=TO_LAST, name="last")
    weight, _ = builder.weights("gemm", [7, 60])
    x = builder.node("Gemm", [builder.node("Flatten", [x]), weight], name="gemm", transB=1)
    builder.output(builder.quantize(x, 1.0))


def one_channel_at_the_start(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [start(builder, 2, 8, 8, 1)], perm=TO_FIRST)
    builder.output(add_conv(builder, x, 1, 5, 3))


def one_channel_before_quantisation(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [builder.input("x", [2, 8, 8, 1])], perm=TO_FIRST)
    builder.output(add_conv(builder, builder.quantize(x, 0.1), 1, 5, 3))


def one_element_at_the_end(builder: ModelBuilder) -> None:
    x = builder.node("GlobalAveragePool", [start(builder, 2, 6, 5, 5)], name="average")
    builder.output(builder.node("Transpose", [builder.quantize(x, 0.03)], perm=TO_LAST))


def reversed_twice(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [builder.node("Transpose", [start(builder, 2, 3, 6, 7)])])
    builder.output(add_conv(builder, x, 3, 5, 3))


REMOVED = [
    pair_around_relu, pairs_around_add, flattened_last, one_channel_at_the_start, one_channel_before_quantisation,
    one_element_at_the_end, reversed_twice,
]  # fmt: skip


def model_of(build: Callable[[ModelBuilder], None], activation: type = np.int8) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(4), activation=activation)
    build(builder)
    return rescaled(builder.build())


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("build", REMOVED)
def test_is_removed_and_means_the_same(build: Callable[[ModelBuilder], None], activation: type) -> None:
    model = model_of(build, activation)
    assert "transpose" not in kinds(simplified(model))
    program = lowered(model)
    apart = distances(model, lambda inputs: run_nests(program, inputs), count=12)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99


def channels_last_at_the_start(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [start(builder, 2, 8, 7, 4)], perm=TO_FIRST, name="first")
    builder.output(add_conv(builder, x, 4, 5, 3))


def channels_last_before_quantisation(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [builder.input("x", [2, 8, 7, 20])], perm=TO_FIRST)
    builder.output(add_conv(builder, builder.quantize(x, 0.1), 20, 5, 3))


def channels_last_at_the_end(builder: ModelBuilder) -> None:
    x = add_conv(builder, start(builder, 2, 4, 8, 7), 4, 5, 3)
    builder.output(builder.node("Transpose", [x], perm=TO_LAST))


def turned_at_both_ends(builder: ModelBuilder) -> None:
    x = builder.node("Transpose", [start(builder, 9, 8, 2, 20)], perm=[2, 3, 1, 0])
    x = add_conv(builder, x, 20, 5, 3)
    builder.output(builder.node("Transpose", [x], perm=[3, 0, 2, 1]))


def two_dimensions(builder: ModelBuilder) -> None:
    weight, _ = builder.weights("gemm", [20, 7], axis=1)
    x = builder.node("Gemm", [builder.node("Transpose", [start(builder, 20, 3)], perm=[1, 0]), weight])
    builder.output(builder.node("Transpose", [builder.quantize(x, 1.0)], perm=[1, 0]))


AT_AN_END = [
    channels_last_at_the_start, channels_last_before_quantisation, channels_last_at_the_end, turned_at_both_ends,
    two_dimensions,
]  # fmt: skip


@pytest.mark.parametrize("build", AT_AN_END)
def test_at_an_end_the_host_orders_the_elements(build: Callable[[ModelBuilder], None]) -> None:
    model = model_of(build)
    program, compiled = lowered(model), compile_model(model, base16())

    for run in (lambda inputs: simulated(compiled, inputs), lambda inputs: run_nests(program, inputs)):
        apart = distances(model, run)
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99


def in_the_middle(builder: ModelBuilder) -> None:
    x = add_conv(builder, start(builder, 1, 4, 8, 8), 4, 5, 3, name="conv1")
    x = builder.node("Transpose", [x], perm=[0, 2, 3, 1], name="middle")
    builder.output(add_conv(builder, x, 6, 5, 3, scale_in=0.5, name="conv2"))


def test_one_that_moves_elements_becomes_a_permute() -> None:
    model = model_of(in_the_middle)
    graph = simplified(model)
    (move,) = (operator for operator in graph.operators if operator.kind == "permute")
    assert (move.name, move.nodes) == ("middle", ("middle",))
    assert (move.attributes["shape"], move.attributes["axes"]) == ((5, 36), (1, 0))
    compiled = compile_model(model, base16())
    assert distances(model, lambda inputs: simulated(compiled, inputs)).max() <= 1


def test_one_of_weights_is_done_here() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    weight, _ = builder.weights("matrix", [7, 6], axis=0)
    x = builder.quantize(builder.input("x", [5, 6]), 0.1)
    builder.output(builder.quantize(builder.node("MatMul", [x, builder.node("Transpose", [weight])]), 0.1))
    model = rescaled(builder.build())
    assert kinds(simplified(model)) == ["quantize", "conv", "dequantize"]
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1


def straight_through(builder: ModelBuilder) -> None:
    builder.output(builder.node("Transpose", [start(builder, 1, 3, 4, 6)], perm=[0, 3, 1, 2]))


def beside_a_convolution(builder: ModelBuilder) -> None:
    """An input that one operator computes with, and that goes out in another order."""
    x = start(builder, 1, 3, 8, 8)
    builder.output(add_conv(builder, x, 3, 4, 3, name="conv"))
    builder.output(builder.node("Transpose", [x], perm=TO_LAST), "turned")


@pytest.mark.parametrize("build", [straight_through, beside_a_convolution])
def test_the_host_orders_elements_once(build: Callable[[ModelBuilder], None]) -> None:
    model = model_of(build)
    program, compiled = lowered(model), compile_model(model, base16())
    for run in (lambda inputs: simulated(compiled, inputs), lambda inputs: run_nests(program, inputs)):
        assert distances(model, run).max() <= 1


def test_two_tensors_that_both_are_read_in_both_orders() -> None:
    """Either order of the sum would do: none is taken in place of the other again and again."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = start(builder, 1, 6, 8)
    weight, _ = builder.weights("matrix", [8, 8], axis=1)
    y = builder.quantize(builder.node("MatMul", [x, weight]), 1.0)
    builder.output(builder.quantize(builder.node("Add", [y, x]), 1.0))
    scores = builder.node("MatMul", [y, builder.node("Transpose", [y], perm=[0, 2, 1])])
    builder.output(builder.quantize(scores, 1.0), "scores")
    model = rescaled(builder.build())
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1


def test_a_matrix_and_its_transpose() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.node("Relu", [start(builder, 1, 6, 6)]), 1.0)
    total = builder.node("Add", [builder.node("Transpose", [x], perm=[0, 2, 1]), x])
    builder.output(builder.quantize(total, 1.0))
    model = rescaled(builder.build())
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1


def test_an_input_beside_a_transposed_operand_is_ordered_by_the_host() -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    x, z = (builder.quantize(builder.input(name, (1, 6, 20)), 0.1) for name in ("x", "z"))
    weight, _ = builder.weights("matrix", [20, 20], axis=1)
    product = builder.quantize(builder.node("MatMul", [x, weight]), 1.0)
    builder.output(builder.quantize(builder.node("Add", [product, z]), 1.0))
    model = rescaled(builder.build())
    assert "permute" not in kinds(simplified(model))
    assert distances(model, lambda inputs: run_nests(lowered(model), inputs)).max() <= 1


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
