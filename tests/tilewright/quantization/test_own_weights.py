"""Shared weights are shared by products that read them alike."""

from __future__ import annotations

import numpy as np
import onnx

import tilewright
from tests.tilewright.quantization.float_networks import FloatBuilder, run_all, samples
from tilewright.quantization.own_weights import own_weights


def tied() -> onnx.ModelProto:
    b = FloatBuilder()
    x, weight = b.input("x", (1, 8)), b.normal("weight", 8, 8, scale=0.3)
    x = b.node("Gemm", "one", x, weight)
    x = b.node("Gemm", "two", x, weight, transB=1)
    return b.build(b.node("Gemm", "four", b.node("MatMul", "three", x, weight), weight, transB=1))


def test_each_dimension_has_its_own() -> None:
    model = own_weights(tied())
    assert [node.input[1] for node in model.graph.node] == ["weight", "weight/0", "weight", "weight/0"]
    assert [tensor.name for tensor in model.graph.initializer] == ["weight", "weight/0"]
    data = samples(model, 2)
    assert np.array_equal(run_all(model, data), run_all(tied(), data))


def test_so_the_compiler_takes_tied_weights() -> None:
    assert tilewright.compile(tied(), "base16", calibration="random").host_nodes == ()


def test_a_name_that_is_taken_is_not_used_again() -> None:
    b = FloatBuilder()
    x, weight = b.input("x", (1, 8)), b.normal("weight", 8, 8)
    x = b.node("Add", "add", b.node("MatMul", "one", x, weight), b.normal("weight/0", 8))
    model = own_weights(b.build(b.node("Gemm", "two", x, weight, transB=1)))
    assert [node.input[1] for node in model.graph.node] == ["weight", "weight/0", "weight/0'"]
