"""Operators of `com.microsoft` between quantised tensors, as nests, against ONNX Runtime's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tilewright
from tests.compiler.importers.test_microsoft_bodies import DOMAIN, Case, quantised
from tests.compiler.models import run_onnx
from tilewright.compiler.errors import CompileError

MOST = 0.001
"""The part of all values that may be a step away: where ONNX Runtime's float32 is next to the middle of two."""


def with_shapes(model: onnx.ModelProto, constants: Sequence[str], case: Case) -> onnx.ModelProto:
    """The model with some of its inputs as constants, and the shape of its output."""
    values = case.inputs()
    kept = [value for value in model.graph.input if value.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in constants)
    result = run_onnx(model, {value.name: values[value.name] for value in kept})["y"]
    element = helper.np_dtype_to_tensor_dtype(result.dtype)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", element, result.shape))
    return model


BIG = (1, 16, 40, 40)

MACHINE_CASES: list[tuple[Case, str]] = [
    *((Case("QLinearSigmoid", quantised(BIG, dtype=each, step=1 / 256)), "base16") for each in (np.int8, np.uint8)),
    *((Case("QLinearLeakyRelu", quantised(BIG), {"alpha": alpha}), "tiny8") for alpha in (0.01, 0.3)),
    *((Case("QLinearMul", quantised(BIG, BIG, dtype=each, step=0.0821)), "base16") for each in (np.int8, np.uint8)),
    (Case("QLinearMul", quantised(BIG, (1, 16, 1, 1), step=0.0821), opset=11), "tiny8"),
    (Case("QLinearSoftmax", quantised((64, 20), step=1 / 256), {"axis": -1, "opset": 13}), "vector16"),
    (Case("QLinearSoftmax", quantised((64, 20), dtype=np.uint8, step=1 / 256), {"opset": 12}, 12), "vector16"),
]


@pytest.mark.parametrize("case, isa", MACHINE_CASES, ids=lambda value: getattr(value, "operator", value))
def test_the_machine_computes_what_the_kernel_computes(case: Case, isa: str) -> None:
    given = [name for name, value in case.inputs().items() if value.ndim]
    model = with_shapes(case.model([case.node()]), [name for name in case.inputs() if name not in given], case)
    inputs = {name: case.inputs()[name] for name in given}
    program = tilewright.compile(model.SerializeToString(), isa, effort=0)
    assert not program.host_nodes
    expected, computed = (
        run(inputs) for run in (lambda x: run_onnx(model, x)["y"], lambda x: program.run(x).outputs["y"])
    )
    apart = np.abs(expected.astype(int) - computed.astype(int))
    is_softmax = case.operator == "QLinearSoftmax"  # its exponentials are those of a table of the machine
    assert apart.max() <= 1 and (apart > 0).mean() <= (0.02 if is_softmax else MOST)


def test_a_mean_is_the_mean() -> None:
    """ONNX Runtime has no kernel for it."""
    case = Case("QLinearReduceMean", quantised((1, 16, 8, 8), step=0.011), {"axes": [2, 3], "keepdims": 1})
    model = case.model([case.node()])
    x, *meaning = case.inputs()
    kept = [value for value in model.graph.input if value.name == x]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(case.inputs()[name], name) for name in meaning)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.INT8, [1, 16, 1, 1]))
    program = tilewright.compile(model.SerializeToString(), "base16", effort=0)
    values, scale, zero, step, point = (value.astype(np.float64) for value in case.inputs().values())
    mean = ((values - zero) * scale).mean(axis=(2, 3), keepdims=True)
    expected = np.clip(np.rint(mean / step) + point, -128, 127)
    assert not program.host_nodes
    assert np.abs(program.run({x: case.inputs()[x]}).outputs["y"] - expected).max() <= 1
    assert np.ptp(expected) > 20


def reason_of(build: Callable[[], Case]) -> str:
    """Why an operator stays on the host, in a network of which the machine does another part."""
    case = build()
    given = [name for name, value in case.inputs().items() if value.ndim]
    model = with_shapes(case.model([case.node()]), [name for name in case.inputs() if name not in given], case)
    with pytest.raises(CompileError) as caught:
        tilewright.compile(model.SerializeToString(), "vector16", effort=0, host=False)
    return str(caught.value)


def test_a_softmax_whose_steps_the_kernel_cuts_off_is_not_computed_otherwise() -> None:
    reason = reason_of(lambda: Case("QLinearSoftmax", quantised((4, 20), step=1 / 250.7), {"axis": -1, "opset": 13}))
    assert reason == (
        "node 'node' (QLinearSoftmax): 1 is 250.7 steps of its result, and ONNX Runtime's kernel drops their fraction; "
        "expected a whole number, such as 256"
    )


def gelu(opset: int) -> onnx.ModelProto:
    """QDQ around a float operator of this domain."""
    meaning = ["scale", "zero"]
    nodes: list[Any] = [
        helper.make_node("QuantizeLinear", ["x", *meaning], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *meaning], ["r"]),
        helper.make_node("Gelu", ["r"], ["g"], domain=DOMAIN),
        helper.make_node("QuantizeLinear", ["g", *meaning], ["p"]),
        helper.make_node("DequantizeLinear", ["p", *meaning], ["y"]),
    ]
    kept = [numpy_helper.from_array(np.float32(0.03), "scale"), numpy_helper.from_array(np.int8(-5), "zero")]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 300]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "gelu", ends[:1], ends[1:], kept)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_gelu_is_a_table_in_every_opset(opset: int) -> None:
    model, x = gelu(opset), np.linspace(-5, 5, 600, dtype=np.float32).reshape(2, 300)
    program = tilewright.compile(model.SerializeToString(), "base16", effort=0)
    assert not program.host_nodes
    assert np.allclose(program.run({"x": x}).outputs["y"], run_onnx(model, {"x": x})["y"])


def test_a_product_that_quantises_in_each_run_is_not_computed_otherwise() -> None:
    meaning = ["scale", "zero"]
    nodes: list[Any] = [
        helper.make_node("QuantizeLinear", ["x", *meaning], ["q"]),
        helper.make_node("DequantizeLinear", ["q", *meaning], ["r"]),
        helper.make_node("DynamicQuantizeMatMul", ["r", "w", "scale", "zero"], ["m"], "product", domain=DOMAIN),
        helper.make_node("QuantizeLinear", ["m", *meaning], ["p"]),
        helper.make_node("DequantizeLinear", ["p", *meaning], ["y"]),
    ]
    kept = [
        numpy_helper.from_array(np.float32(0.03), "scale"),
        numpy_helper.from_array(np.int8(-5), "zero"),
        numpy_helper.from_array(np.ones((16, 16), np.int8), "w"),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 16]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "dynamic", ends[:1], ends[1:], kept)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    with pytest.raises(CompileError, match="node 'product' .* quantises a tensor in each run; Quantise it once"):
        tilewright.compile(model.SerializeToString(), "base16", effort=0, host=False)
