"""Constant folding, by what the folded graphs contain and compute."""

import numpy as np

from tests.compiler.models import ModelBuilder
from tests.compiler.pipelines import distances, lowered, simplified
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.nest.interpreter import run_nests


def test_a_shape_that_is_computed_becomes_constant() -> None:
    """Shape → Gather → Concat → Reshape, as exporters write `x.view(x.shape[0], -1)`."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [2, 3, 4, 4]), 0.1, name="x.q")
    batch = builder.node("Gather", [builder.node("Shape", [x]), builder.constant("zero", np.array([0]))], axis=0)
    shape = builder.node("Concat", [batch, builder.constant("rest", np.array([-1]))], axis=0)
    flat = builder.node("Reshape", [x, shape], name="reshape")
    weight, _ = builder.weights("gemm", [5, 48])
    builder.output(builder.quantize(builder.node("Gemm", [flat, weight], name="gemm", transB=1), 2.0))
    model = builder.build()
    assert kinds(simplified(model)) == ["quantize", "conv", "dequantize"]
    program = lowered(model)
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_weights_that_are_quantised_in_the_model_are_quantised_now() -> None:
    """QuantizeLinear and DequantizeLinear of a float constant."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    values = builder.rng.normal(size=(5, 3, 3, 3)).astype(np.float32)
    weight = builder.quantize(builder.constant("w", values), 0.02, 0, name="w.q")
    conv = builder.node("Conv", [x, weight], name="conv", kernel_shape=[3, 3])
    builder.output(builder.quantize(conv, 0.2))
    model = builder.build()
    assert kinds(simplified(model)) == ["quantize", "conv", "dequantize"]
    program = lowered(model)
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_a_transposed_constant_is_folded() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [2, 8]), 0.1, name="x.q")
    values = builder.constant("w", builder.rng.integers(-127, 128, size=(5, 8)).astype(np.int8))
    turned = builder.node("Transpose", [values], perm=[1, 0])
    scale, zero = builder.constant("s", np.float32(0.02)), builder.constant("z", np.int8(0))
    weight = builder.node("DequantizeLinear", [turned, scale, zero])
    builder.output(builder.quantize(builder.node("MatMul", [x, weight], name="matmul"), 0.2))
    model = builder.build()
    program = lowered(model)
    assert distances(model, lambda inputs: run_nests(program, inputs)).max() <= 1


def test_quantised_constants_stay_integers() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    weight, _ = builder.weights("conv", [5, 3, 3, 3])
    builder.output(builder.quantize(builder.node("Conv", [x, weight], name="conv", kernel_shape=[3, 3]), 0.2))
    graph = simplified(builder.build())
    assert graph.constants["conv.weight"].dtype == np.int8
