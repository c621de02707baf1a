"""All that keeps a network's nodes off a machine, at once, and in the compiler's own words."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.compiler.machines import without
from tests.compiler.models import ModelBuilder, conv_model
from tests.compiler.pipelines import base16
from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.partition.faults import find_faults
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.machine.machine import Machine


def faults_of(model: onnx.ModelProto, machine: Machine | None = None) -> dict[str, str]:
    return {name: str(error) for name, error in find_faults(model, machine or base16()).items()}


def test_a_function_whose_result_is_float_is_told_so() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 4, 6, 6]), 0.1)
    builder.output(builder.node("Sigmoid", [x], name="sigmoid"))
    (error,) = find_faults(builder.build(), base16()).values()
    assert str(error) == "node 'sigmoid' (Sigmoid): its result is float; expected a QuantizeLinear after it"


def test_finds_nothing_in_what_compiles() -> None:
    assert faults_of(conv_model(np.random.default_rng(0))) == {}


def test_finds_every_node_at_once() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    builder.constant("axis", np.array(1, np.int64))
    x = builder.quantize(builder.input("x", [1, 4, 6, 6]), 0.1)
    y = builder.quantize(builder.node("Add", [x, x], name="fine"), 0.2)
    builder.output(builder.quantize(builder.node("CumSum", [y, "axis"], name="cumsum"), 0.1), "a")
    builder.output(builder.quantize(builder.node("LpPool", [y], name="pool", kernel_shape=[2, 2]), 0.1), "b")
    found = faults_of(builder.build())
    assert found.keys() == {"cumsum", "pool"}
    assert found["cumsum"].startswith("node 'cumsum' (CumSum): operator CumSum has no lowering to the machine")
    assert found["pool"].startswith("node 'pool' (LpPool): operator LpPool has no lowering to the machine")


def test_the_words_are_those_of_the_compiler() -> None:
    model = _with_float_convolution()
    ((name, error),) = find_faults(model, base16()).items()
    with pytest.raises(CompileError) as first:
        compile_model(model, base16())
    assert (name, str(error)) == ("conv", str(first.value))


def test_a_window_without_an_instruction_is_of_its_node_alone() -> None:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 4, 30, 30]), 0.1)
    y = builder.quantize(builder.node("Add", [x, x], name="fine"), 0.2)
    largest = builder.node("MaxPool", [y], name="pool", kernel_shape=[20, 20])
    builder.output(builder.quantize(largest, 0.2))
    found = faults_of(builder.build(), without(base16(), "max_pool"))
    assert set(found) == {"pool", "q9.quantize"}
    assert set(found.values()) == {
        "pool (MaxPool) + q9.quantize (QuantizeLinear): no instruction of base16 computes `max_over(a)`; add one to "
        "the machine's instructions"
    }


def _with_float_convolution() -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 4, 6, 6]), 0.1)
    weights = builder.constant("w", np.exp(np.arange(16, dtype=np.float32)).reshape(4, 4, 1, 1))
    builder.output(builder.quantize(builder.node("Conv", [x, weights], name="conv"), 0.1))
    return builder.build()


def test_a_model_without_a_quantisation_says_so_of_each_node() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[1, 2] x) => (float[1, 2] y) { t = Relu(x) y = Sign(t) }'
    )
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    found = faults_of(model)
    assert found["n0"] == "works on float tensors; expected QuantizeLinear and DequantizeLinear around it"
    assert found.keys() == {"n0", "n1"}


def test_a_damaged_model_is_no_matter_of_the_machine() -> None:
    model = conv_model(np.random.default_rng(0))
    for tensor in model.graph.initializer:
        if tensor.name == "x.q.scale":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(-1, np.float32), tensor.name))
    with pytest.raises(DamagedModel, match="its scale is -1"):
        find_faults(model, base16())
