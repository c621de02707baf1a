"""Every form of a Gemm's constants becomes the plain one, and computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.tilewright.quantization.float_networks import FloatBuilder, run_all, samples
from tilewright.quantization.gemm import has_plain_bias, plain_gemm


def gemm(bias: tuple[int, ...] | None, **attributes: Any) -> onnx.ModelProto:
    b = FloatBuilder()
    shape = (7, 5) if attributes.get("transB") else (5, 7)
    inputs = [b.input("x", (1, 5)), b.normal("weight", *shape)]
    if bias is not None:
        inputs.append(b.normal("bias", *bias))
    return b.build(b.node("Gemm", "gemm", *inputs, **attributes))


@pytest.mark.parametrize("bias", [None, (7,), (1, 7), (1,), (), (1, 1)])
@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"alpha": 0.5, "beta": -2.0}, {"transB": 1, "beta": 3.0}])
def test_computes_the_same(bias: tuple[int, ...] | None, attributes: dict[str, Any]) -> None:
    model = gemm(bias, **attributes)
    plain, data = plain_gemm(model), samples(model, 3)
    node = plain.graph.node[0]
    constants = {tensor.name: tensor for tensor in plain.graph.initializer}
    assert {attribute.name for attribute in node.attribute} <= {"transB", *(["beta"] if bias is None else [])}
    assert bias is None or list(constants[node.input[2]].dims) == [7]
    assert np.allclose(run_all(plain, data), run_all(model, data), rtol=1e-5, atol=1e-6)


def test_leaves_constants_that_others_read() -> None:
    b = FloatBuilder()
    x, bias = b.input("x", (1, 5)), b.normal("bias", 1, 7)
    model = b.build(b.node("Gemm", "gemm", x, b.normal("weight", 5, 7), bias), b.node("Add", "add", bias, bias))
    assert plain_gemm(model).graph.node[1].input[0] == "bias"
    assert [list(tensor.dims) for tensor in plain_gemm(model).graph.initializer] == [[1, 7], [5, 7], [7]]


def test_a_bias_of_several_rows_is_not_plain() -> None:
    b = FloatBuilder()
    inputs = b.input("x", (3, 5)), b.normal("weight", 5, 7), b.normal("bias", 3, 7)
    model = plain_gemm(b.build(b.node("Gemm", "gemm", *inputs)))
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    assert not has_plain_bias(model.graph.node[0], constants)
