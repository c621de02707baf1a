"""MatMul and Gemm of two computed operands, alone and as attention, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tests.compiler.pipelines import base16, distances, simplified, simulated
from tests.compiler.simplify.graphs import kinds, only
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.pipeline import compile_model


def product_model(
    a: Sequence[int], b: Sequence[int], op_type: str = "MatMul", factor: float = 0.0, *,
    is_quantised_between: bool = False, bias: bool = False, **attributes: Any,
) -> onnx.ModelProto:  # fmt: skip
    """One product of two inputs; and a Mul by a number, if that is not 0."""
    builder = ModelBuilder(np.random.default_rng(1))
    operands = [builder.quantize(builder.input(name, shape), 0.1) for name, shape in (("a", a), ("b", b))]
    if bias:
        operands.append(builder.constant("bias", np.ones(b[-1], np.float32)))
    y = builder.node(op_type, operands, name="product", **attributes)
    if is_quantised_between:
        y = builder.quantize(y, 1.0)
    if factor:
        y = builder.node("Mul", [y, builder.constant("factor", np.float32(factor))])
    builder.output(builder.quantize(y, 1.0))
    return rescaled(builder.build())


def left_model(w: Sequence[int], x: Sequence[int], axis: int | None) -> onnx.ModelProto:
    """A constant matrix times an input."""
    builder = ModelBuilder(np.random.default_rng(1))
    weight, _ = builder.weights("matrix", w, axis=axis or 0, per_channel=axis is not None)
    y = builder.node("MatMul", [weight, builder.quantize(builder.input("x", x), 0.1)], name="product")
    builder.output(builder.quantize(y, 1.0))
    return rescaled(builder.build())


def attention_model(
    batch: int, tokens: int, channels: int, heads: int, scale: str = "scores", mask: Sequence[int] | None = None
) -> onnx.ModelProto:
    """Attention without its softmax, as exporters write it: [B, T, H·D] split into heads, q · kᵀ, · v, joined.

    A mask is a constant of a shape, added to the scores.
    """
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (batch, tokens, channels)), 0.1)
    shape = builder.constant("split", np.array([batch, tokens, heads, channels // heads], np.int64))
    factor = builder.constant("scale", np.float32((channels // heads) ** -0.5))

    def projected(name: str, perm: list[int], is_scaled: bool = False) -> str:
        weight, _ = builder.weights(name, [channels, channels], axis=1)
        y = builder.quantize(builder.node("MatMul", [x, weight], name=name), 1.0)
        y = builder.node("Mul", [y, factor]) if is_scaled else y
        return builder.node("Transpose", [builder.node("Reshape", [y, shape])], perm=perm)

    q, k = projected("q", [0, 2, 1, 3], scale == "queries"), projected("k", [0, 2, 3, 1])
    scores = builder.node("MatMul", [q, k], name="scores")
    if scale == "scores":
        scores = builder.node("Mul", [scores, factor])
    scores = builder.quantize(scores, 1.0)
    if mask is not None:
        values = builder.constant("mask", (builder.rng.normal(size=tuple(mask)) * 100).astype(np.float32))
        scores = builder.quantize(builder.node("Add", [scores, builder.quantize(values, 1.0)], name="masked"), 1.0)
    y = builder.quantize(builder.node("MatMul", [scores, projected("v", [0, 2, 1, 3])], name="values"), 1.0)
    joined = builder.constant("join", np.array([batch, tokens, channels], np.int64))
    y = builder.node("Reshape", [builder.node("Transpose", [y], perm=[0, 2, 1, 3]), joined])
    weight, _ = builder.weights("out", [channels, channels], axis=1)
    y = builder.quantize(builder.node("MatMul", [y, weight], name="out"), 1.0)
    builder.output(builder.quantize(builder.node("Add", [y, x]), 1.0))
    return rescaled(builder.build())


def image_attention_model(channels: int, heads: int, size: int, op_type: str = "") -> onnx.ModelProto:
    """Attention over the positions of an image, with channels before positions: qᵀ · k, v · the scores transposed."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (1, channels, size, size)), 0.1)
    split = builder.constant("split", np.array([1, heads, channels // heads, size**2], np.int64))
    q, k, v = (
        builder.node("Reshape", [add_conv(builder, x, channels, channels, 1, name=name), split]) for name in "qkv"
    )
    scores = builder.node("MatMul", [builder.node("Transpose", [q], perm=[0, 1, 3, 2]), k], name="scores")
    turned = builder.node("Transpose", [builder.quantize(scores, 1.0)], perm=[0, 1, 3, 2])
    y = builder.quantize(builder.node("MatMul", [v, turned], name="values"), 1.0)
    y = builder.quantize(builder.node(op_type, [y]), 1.0) if op_type else y
    y = builder.node("Reshape", [y, builder.constant("join", np.array([1, channels, size, size], np.int64))])
    builder.output(add_conv(builder, y, channels, channels, 1, name="last"))
    return rescaled(builder.build())


def assert_computes(model: onnx.ModelProto) -> None:
    """Level 1 exactly but for ties; compiled and simulated as near as a requantisation is."""
    graph, program = simplified(model), compile_model(model, base16())
    for run in (lambda inputs: run_graph(graph, inputs), lambda inputs: simulated(program, inputs)):
        apart = distances(model, run, 2)
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.97


SHAPES = {
    "matrices": ((5, 6), (6, 7)),
    "three dimensions": ((2, 5, 20), (2, 20, 7)),
    "four dimensions": ((2, 3, 5, 6), (2, 3, 6, 7)),
    "one batch of the right": ((2, 3, 5, 6), (2, 1, 6, 7)),
    "one batch of the left": ((1, 5, 6), (3, 6, 7)),
    "one batch of each": ((1, 3, 5, 6), (4, 1, 6, 7)),
    "a right one for all": ((2, 3, 5, 6), (6, 7)),
    "a left one for all": ((5, 6), (2, 3, 6, 7)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_two_computed_operands(name: str) -> None:
    model = product_model(*SHAPES[name])
    assert_computes(model)
    assert "product" in kinds(simplified(model))


@pytest.mark.parametrize(
    "turned", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1, "alpha": 0.5}], ids=str
)
def test_gemm(turned: Mapping[str, Any]) -> None:
    a, b = (6, 5) if turned.get("transA") else (5, 6), (7, 6) if turned.get("transB") else (6, 7)
    assert_computes(product_model(a, b, "Gemm", **turned))


def test_gemm_with_a_bias_is_refused() -> None:
    with pytest.raises(CompileError) as refused:
        simplified(product_model((5, 6), (6, 7), "Gemm", bias=True))
    assert str(refused.value) == (
        "node 'product' (Gemm): a product of two computed operands with a bias; expected an Add after it, with "
        "QuantizeLinear and DequantizeLinear between"
    )


def test_vectors_are_refused() -> None:
    with pytest.raises(CompileError) as refused:
        simplified(product_model((5, 6), (6,)))
    assert str(refused.value) == (
        "node 'product' (MatMul): multiplies [5, 6] by [6]; expected matrices of two to four dimensions"
    )


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("x", [(6, 7), (2, 6, 7), (2, 3, 6, 7)], ids=str)
def test_a_constant_on_the_left(x: tuple[int, ...], axis: int | None) -> None:
    model = left_model((5, 6), x, axis)
    assert_computes(model)
    assert only(simplified(model), "conv").name == "product"


def test_a_constant_for_each_of_the_batch_on_the_left() -> None:
    assert_computes(left_model((2, 5, 6), (2, 6, 7), None))


# -- moves around them -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [(1, 6, 32, 1), (1, 6, 32, 2), (2, 5, 64, 4), (1, 7, 48, 2)], ids=["one head", "two", "batch", "narrow"]
)
def test_attention_exchanges_no_channels_and_pixels(sizes: tuple[int, int, int, int]) -> None:
    model = attention_model(*sizes)
    assert_computes(model)
    graph = simplified(model)
    assert [o.attributes["is_transposed"] for o in graph.operators if o.kind == "product"] == [True, False]
    assert all(o.attributes["axes"] == (0,) for o in graph.operators if o.kind == "permute")


@pytest.mark.parametrize("op_type", ["", "Relu", "Tanh"])
def test_attention_with_channels_first_is_the_transposed_product(op_type: str) -> None:
    model = image_attention_model(32, 2, 4, op_type)
    assert_computes(model)
    graph = simplified(model)
    assert [o.attributes["is_transposed"] for o in graph.operators if o.kind == "product"] == [True, False]
    assert all(o.attributes["axes"] == (0,) for o in graph.operators if o.kind == "permute")


def test_who_reads_the_result_decides_between_equals() -> None:
    """qᵀ · k, transposed, times a constant: its channels must be the positions of q, so it is kᵀ · q."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (1, 16, 4, 4)), 0.1)
    flat = builder.constant("flat", np.array([1, 16, 16], np.int64))
    q, k = (builder.node("Reshape", [add_conv(builder, x, 16, 16, 1, name=name), flat]) for name in "qk")
    scores = builder.node("MatMul", [builder.node("Transpose", [q], perm=[0, 2, 1]), k], name="scores")
    turned = builder.node("Transpose", [builder.quantize(scores, 1.0)], perm=[0, 2, 1])
    weight, _ = builder.weights("last", [16, 5], axis=1)
    builder.output(builder.quantize(builder.node("MatMul", [turned, weight]), 1.0))
    model = rescaled(builder.build())
    assert_computes(model)
    assert all(o.attributes["axes"] == (0,) for o in simplified(model).operators if o.kind == "permute")
