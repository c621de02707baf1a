"""What is not a number becomes what ONNX Runtime makes of it: the least value of the type."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.models import ModelBuilder, random_inputs, run_onnx
from tests.compiler.pipelines import base16, simulated
from tilewright.compiler.graph.saturation import saturated
from tilewright.compiler.pipeline import compile_model


def test_ends_of_the_range() -> None:
    steps = np.array([np.nan, np.inf, -np.inf, -200.0, 3.0, 200.0])
    assert saturated(steps, -128, 127).tolist() == [-128, 127, -128, -128, 3, 127]


@pytest.mark.parametrize("operator", ["Sqrt", "Log", "Reciprocal"])
@pytest.mark.parametrize("activation", [np.int8, np.uint8])
def test_functions_that_are_not_defined_everywhere(operator: str, activation: type) -> None:
    builder = ModelBuilder(np.random.default_rng(1), activation=activation)
    x = builder.quantize(builder.input("x", [1, 8, 8, 8]), 0.1, zero=20, name="x.q")
    builder.output(builder.quantize(builder.node(operator, [x]), 0.05, zero=7, name="y.q"))
    model = builder.build()
    inputs = random_inputs(model, np.random.default_rng(0))
    computed = simulated(compile_model(model, base16()), inputs)
    expected = run_onnx(model, inputs)
    assert all(np.array_equal(computed[name], expected[name]) for name in expected)
