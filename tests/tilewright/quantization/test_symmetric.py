"""Operands of a product of computed matrices have a zero point of 0 where that costs little."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tilewright
from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.quantization.ranges import Range
from tilewright.quantization.symmetric import even_ranges

WIDTH = 6


def range_of(low: float, high: float) -> Range:
    return Range(np.float32(low), np.float32(high))


def product(*chain: str) -> onnx.ModelProto:
    """x times something of x, behind operators that keep a scale."""
    b = FloatBuilder()
    x = b.input("x")
    y = b.node("Mul", "made", x, "x")
    attributes = {"Transpose": {"perm": [0, 1, 3, 2]}, "MaxPool": {"kernel_shape": [1, 1]}}
    for number, kind in enumerate(chain):
        y = b.node(kind, f"{kind}{number}", y, **attributes.get(kind, {}))
    return b.build(b.node("MatMul", "product", x, y))


@pytest.mark.parametrize("chain", [(), ("Transpose",), ("MaxPool", "Transpose"), ("Transpose", "Transpose")])
def test_a_range_that_is_nearly_even_becomes_even(chain: tuple[str, ...]) -> None:
    found = even_ranges(product(*chain), {"x": range_of(-1.27, 1), "made.out": range_of(-2, 2.54)}, 8)
    assert found["x"] == range_of(-1.28, 1.27)
    assert found["made.out"] == range_of(-2.56, 2.54)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 2), (-2, 1), (0, 0)])
def test_a_range_that_is_not_stays(low: float, high: float) -> None:
    given = {"x": range_of(low, high), "made.out": range_of(low, high)}
    assert even_ranges(product(), given, 8) == given


def test_what_another_operator_makes_stays() -> None:
    """The range of what comes before a curve is that curve's business."""
    found = even_ranges(product("Tanh"), {"x": range_of(-1, 1), "made.out": range_of(-2, 2.5)}, 8)
    assert found["made.out"] == range_of(-2, 2.5)


def test_a_constant_matrix_has_a_scale_of_its_own() -> None:
    b = FloatBuilder()
    x = b.input("x", shape=(2, WIDTH))
    model = b.build(b.node("MatMul", "product", x, b.constant("w", np.ones((WIDTH, 6)))))
    given = {"x": range_of(-1, 1.1)}
    assert even_ranges(model, given, 8) == given


@pytest.mark.parametrize(("activations", "zero"), [("int8", 0), ("uint8", 128)])
def test_the_quantised_network_has_such_zero_points(activations: str, zero: int) -> None:
    b = FloatBuilder()
    x = b.input("x", shape=(1, 16, 32))
    q, k = (b.node("MatMul", name, x, b.normal(f"{name}.w", 32, 32, scale=0.2)) for name in "qk")
    scores = b.node("MatMul", "scores", q, b.node("Transpose", "turned", k, perm=[0, 2, 1]))
    some = np.random.default_rng(7).normal(0, 1, (4, 16, 32)).astype(np.float32)
    samples = {"x": np.concatenate([some, some * np.float32(-0.9)])}
    model = tilewright.quantize(b.build(scores), samples, activations=activations).model
    makers = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (node,) = [node for node in model.graph.node if node.op_type == "MatMul" and "scores" in node.output[0]]
    assert [int(constants[makers[operand].input[2]]) for operand in node.input] == [zero, zero]
