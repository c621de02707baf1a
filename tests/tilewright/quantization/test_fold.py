"""What is folded before quantising computes the same, with fewer nodes under their old names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.tilewright.quantization.float_networks import (
    CHANNELS,
    NETWORKS,
    FloatBuilder,
    added_bias,
    run_all,
    samples,
)
from tilewright.quantization.fold import fold


def kinds(model: onnx.ModelProto) -> list[tuple[str, str]]:
    return [(node.name, node.op_type) for node in model.graph.node]


@pytest.mark.parametrize("network", NETWORKS)
def test_computes_the_same(network: str) -> None:
    model = NETWORKS[network]()
    data = samples(model, 3)
    assert np.allclose(run_all(fold(model, "it"), data), run_all(model, data), rtol=1e-4, atol=1e-4)


def test_a_bias_and_a_normalisation_go_into_the_convolution() -> None:
    assert kinds(fold(added_bias(), "it")) == [("conv", "Conv"), ("relu", "Relu")]


def test_a_bias_on_top_of_a_bias_is_their_sum() -> None:
    b = FloatBuilder()
    model = b.build(b.node("Add", "shift", b.conv("conv", b.input(), 3, CHANNELS), b.normal("by", CHANNELS, 1, 1)))
    folded, data = fold(model, "it"), samples(model, 2)
    assert kinds(folded) == [("conv", "Conv")]
    assert np.allclose(run_all(folded, data), run_all(model, data), atol=1e-5)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (1,), (1, 1)])
def test_a_dense_layer_of_matmul_and_add_becomes_a_gemm(shape: tuple[int, ...]) -> None:
    b = FloatBuilder()
    x = b.node("MatMul", "dense", b.input("x", (1, 5)), b.normal("weight", 5, 7))
    model = b.build(b.node("Add", "add", b.normal("bias", *shape), x))
    folded, data = fold(model, "it"), samples(model, 2)
    assert [kind for _, kind in kinds(folded)] == ["Gemm"]
    assert np.allclose(run_all(folded, data), run_all(model, data), atol=1e-5)


def test_a_residual_after_a_matmul_stays_an_add() -> None:
    b = FloatBuilder()
    x = b.input("x", (1, 5))
    model = b.build(b.node("Add", "add", b.node("MatMul", "dense", x, b.normal("weight", 5, 5)), x))
    assert kinds(fold(model, "it")) == [("dense", "MatMul"), ("add", "Add")]


def test_a_constant_for_each_pixel_stays_an_add() -> None:
    b = FloatBuilder()
    model = b.build(b.node("Add", "add", b.conv("conv", b.input(), 3, CHANNELS), b.normal("by", 1, 1, 12, 12)))
    assert kinds(fold(model, "it")) == [("conv", "Conv"), ("add", "Add")]


def test_a_constant_that_makes_more_channels_stays_an_add() -> None:
    b = FloatBuilder()
    model = b.build(b.node("Add", "add", b.conv("conv", b.input(), 3, 1), b.normal("by", CHANNELS, 1, 1)))
    assert kinds(fold(model, "it")) == [("conv", "Conv"), ("add", "Add")]


def test_a_bias_that_is_computed_stays() -> None:
    b = FloatBuilder()
    bias = b.node("Mul", "bias", b.input("y", (CHANNELS,)), "y")
    product = b.node("Conv", "conv", b.input(), b.normal("weight", CHANNELS, 3, 3, 3), bias)
    model = b.build(b.node("Add", "add", product, b.normal("by", CHANNELS, 1, 1)))
    assert kinds(fold(model, "it")) == [("bias", "Mul"), ("conv", "Conv"), ("add", "Add")]


def test_a_sum_that_others_read_too_stays() -> None:
    b = FloatBuilder()
    product = b.conv("conv", b.input(), 3, CHANNELS)
    model = b.build(b.node("Add", "add", product, b.normal("by", CHANNELS, 1, 1)), product)
    assert kinds(fold(model, "it")) == [("conv", "Conv"), ("add", "Add")]


def test_large_constants_are_folded() -> None:
    b = FloatBuilder()
    weight = b.node("Mul", "product", b.normal("weight", 700, 800), b.normal("factor", 700, 800))
    model = b.build(b.node("MatMul", "dense", b.input("x", (1, 700)), weight))
    assert kinds(fold(model, "it")) == [("dense", "MatMul")]


def test_what_its_library_logs_stays_out_of_sight(caplog: pytest.LogCaptureFixture) -> None:
    """onnxscript warns of a constant that is split, which it does not fold."""
    b = FloatBuilder()
    halves = ["left", "right"]
    b.nodes.append(helper.make_node("Split", [b.normal("whole", 1, 2 * CHANNELS, 1, 1)], halves, "halves", axis=1))
    model = b.build(
        b.node("Add", "sum", b.node("Mul", "product", b.conv("conv", b.input(), 3, CHANNELS), "left"), "right")
    )
    fold(model, "it")
    assert not caplog.records
