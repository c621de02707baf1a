"""MatMul of three and four dimensions with a constant matrix, and what stands between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import base16, distances, lowered, simplified, simulated
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.pipeline import compile_model

Build = Callable[[ModelBuilder, str], str]


def product(builder: ModelBuilder, x: str, inputs: int, outputs: int, name: str) -> str:
    weight, _ = builder.weights(name, [inputs, outputs], axis=1)
    return builder.quantize(builder.node("MatMul", [x, weight], name=name), 1.0)


def quantised_constant(builder: ModelBuilder, name: str, shape: tuple[int, ...]) -> str:
    values = builder.constant(name, builder.rng.integers(-100, 100, shape).astype(np.int8))
    scale, zero = builder.constant(f"{name}.scale", np.float32(0.1)), builder.constant(f"{name}.zero", np.int8(0))
    return builder.node("DequantizeLinear", [values, scale, zero])


def plain(builder: ModelBuilder, x: str) -> str:
    return product(builder, x, 20, 7, "first")


def with_bias(builder: ModelBuilder, x: str) -> str:
    bias = builder.constant("bias", builder.rng.normal(size=7).astype(np.float32))
    weight, _ = builder.weights("first", [20, 7], axis=1)
    return builder.quantize(builder.node("Add", [builder.node("MatMul", [x, weight]), bias]), 1.0)


def with_quantised_bias(builder: ModelBuilder, x: str) -> str:
    total = builder.node("Add", [product(builder, x, 20, 7, "first"), quantised_constant(builder, "bias", (7,))])
    return builder.quantize(total, 1.0)


def perceptron(builder: ModelBuilder, x: str) -> str:
    """Two products, a table between them, and the input added: as in a transformer."""
    hidden = product(builder, x, 20, 33, "up")
    active = builder.quantize(builder.node("Elu", [hidden]), 1.0)
    return builder.quantize(builder.node("Add", [product(builder, active, 33, 20, "down"), x]), 1.0)


@pytest.mark.parametrize(
    ("matrices", "shape"),
    [((1,), (1,)), ((2,), (2,)), ((5,), (5,)), ((2,), (1, 2)), ((2,), (3, 2)), ((1, 2), (3, 2)), ((1, 1), (3, 2))],
    ids=str,
)
def test_a_matrix_for_each_of_the_batch(matrices: tuple[int, ...], shape: tuple[int, ...]) -> None:
    builder = ModelBuilder(np.random.default_rng(3))
    weight = quantised_constant(builder, "matrices", (*matrices, 20, 7))
    x = builder.quantize(builder.input("x", (*shape, 6, 20)), 0.1)
    builder.output(builder.quantize(builder.node("MatMul", [x, weight]), 1.0))
    model = rescaled(builder.build())
    program = compile_model(model, base16())
    apart = distances(model, lambda inputs: simulated(program, inputs))
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99


BUILDS: Mapping[str, Build] = {
    "plain": plain, "bias": with_bias, "quantised bias": with_quantised_bias, "perceptron": perceptron,
}  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 5, 20), (2, 3, 4, 20)], ids=str)
@pytest.mark.parametrize("name", BUILDS)
def test_computes_what_onnx_runtime_computes(name: str, shape: tuple[int, ...]) -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    builder.output(BUILDS[name](builder, builder.quantize(builder.input("x", shape), 0.1)))
    model = rescaled(builder.build())
    nests, program = lowered(model), compile_model(model, base16())
    for run in (lambda inputs: simulated(program, inputs), lambda inputs: run_nests(nests, inputs)):
        apart = distances(model, run)
        assert apart.max() <= 1
        assert (apart == 0).mean() >= 0.99
    assert kinds(simplified(model)).count("transpose") == 2  # at the ends, where the host orders the elements
