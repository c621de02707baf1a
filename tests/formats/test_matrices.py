"""A product with a matrix takes the same cycles whatever dimensions of 1 its operands have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import base16, distances, simulated
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

DEPTH, COLUMNS = 48, 64


def model(
    shape: Sequence[int], bias: str = "", squeezed: Sequence[int] = (), is_lifted: bool = False
) -> onnx.ModelProto:
    """MatMul with a matrix, of an input of a shape; `is_lifted` matrices are [1, K, N]; `bias` is float, or none."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", shape), 0.05, 3)
    if squeezed:
        x = builder.node("Squeeze", [x, builder.constant("axes", np.array(squeezed))])
    weight, _ = builder.weights("dense", [DEPTH, COLUMNS], axis=1)
    if is_lifted:
        weight = builder.node("Reshape", [weight, builder.constant("lifted", np.array([1, DEPTH, COLUMNS]))])
    y = builder.node("MatMul", [x, weight], name="dense")
    if bias:
        values = np.random.default_rng(2).normal(size=COLUMNS).astype(np.float32)
        y = builder.node("Add", [y, builder.constant("bias", values)], name="bias.add")
    builder.output(builder.quantize(y, 1.0, -2))
    return rescaled(builder.build())


VECTORS = {
    "3-D": model([1, 1, DEPTH]),
    "4-D": model([1, 1, 1, DEPTH]),
    "3-D matrix": model([1, 1, DEPTH], is_lifted=True),
    "squeezed column": model([1, 1, DEPTH, 1], squeezed=[1, 3]),
    "squeezed pixel": model([1, DEPTH, 1, 1], squeezed=[2, 3]),
}

BIASED = {"3-D": model([1, 1, DEPTH], "float"), "4-D": model([1, 1, 1, DEPTH], "float")}

ROWS = {"3-D": model([1, 7, DEPTH], "float"), "4-D": model([1, 1, 7, DEPTH], "float"), "outer": model([7, 1, DEPTH])}


def cycles(network: onnx.ModelProto) -> int:
    program = compile_model(network, base16())
    return simulate_cycles(program, place_regions(program.limits)).cycles


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_takes_the_cycles_of_two_dimensions(name: str) -> None:
    assert cycles(VECTORS[name]) == cycles(model([1, DEPTH]))


@pytest.mark.parametrize("name", BIASED)
def test_a_biased_vector_takes_the_cycles_of_two_dimensions(name: str) -> None:
    assert cycles(BIASED[name]) == cycles(model([1, DEPTH], "float"))


@pytest.mark.parametrize("network", [*VECTORS.values(), *BIASED.values(), *ROWS.values()])
def test_computes_what_onnx_runtime_computes(network: onnx.ModelProto) -> None:
    program = compile_model(network, base16())
    apart = distances(network, lambda inputs: simulated(program, inputs))
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99
