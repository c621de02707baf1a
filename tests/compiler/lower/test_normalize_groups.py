"""InstanceNormalization and GroupNormalization of int8 files on the machine, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.compiler.models import ModelBuilder, run_onnx
from tests.compiler.pipelines import simplified, simulated, steps_apart
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

TWO_BLOCKS = ("array.rows=16", "lanes=8")
"""Two words of a pixel lie together on chip."""

MANY_WORDS = ("memories.par.kib=2",)
"""Parameters of a few rows fill their memory, so that a nest has many tiles."""


def group_model(shape: Sequence[int], groups: int | None) -> onnx.ModelProto:
    """A float normalisation between DequantizeLinear and QuantizeLinear; of instances without a number of groups."""
    builder = ModelBuilder(np.random.default_rng(7))
    scale, bias = (builder.rng.normal(middle, 0.4, shape[1]).astype(np.float32) for middle in (1, 0))
    scale[:2] = 0, -1.5
    operands = [
        builder.quantize(builder.input("x", shape), 0.05, name="x.q"),
        builder.constant("scale", scale),
        builder.constant("bias", bias),
    ]
    if groups is None:
        y = builder.node("InstanceNormalization", operands, epsilon=1e-3)
    else:
        y = builder.node("GroupNormalization", operands, num_groups=groups, epsilon=1e-3)
    builder.output(builder.quantize(y, 0.03, name="y.q"))
    model = builder.build("groups", opset=21)
    model.ir_version = 10  # which files of opset 21 have
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("result", TensorProto.FLOAT, shape))
    return model


CASES = {
    "instances": ((1, 6, 5, 7), None),
    "instances, whole words": ((2, 20, 4, 8), None),
    "instances of a sequence": ((2, 5, 33), None),
    "groups": ((1, 12, 5, 7), 3),
    "groups, whole words": ((2, 8, 8, 4), 2),
    "one group": ((1, 5, 3, 3), 1),
    "each channel a group": ((1, 5, 4, 4), 5),
}


@pytest.mark.parametrize("overrides", [(), TWO_BLOCKS, MANY_WORDS], ids=["", "two blocks", "many tiles"])
@pytest.mark.parametrize(("shape", "groups"), CASES.values(), ids=CASES)
def test_is_at_most_a_step_from_onnx_runtime(
    shape: Sequence[int], groups: int | None, overrides: Sequence[str]
) -> None:
    model, rng = group_model(shape, groups), np.random.default_rng(5)
    program = compile_model(model, load_machine("sequence16", overrides), Options(effort=0))
    for values in (rng.normal(0.5, 2, shape), rng.choice([-6.5, 6.2], shape), np.full(shape, 6.1)):
        inputs = {"x": values.astype(np.float32)}
        steps = steps_apart(simulated(program, inputs)["result"], run_onnx(model, inputs)["result"], program.outputs[0])
        assert steps.max() <= 1


@pytest.mark.parametrize("groups", [None, 4], ids=["instances", "groups"])
def test_usual_values_are_exact(groups: int | None) -> None:
    """Of 25,600 results for usual values, all but a few are those of ONNX Runtime."""
    shape = (1, 16, 40, 40)
    model = group_model(shape, groups)
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    inputs = {"x": np.random.default_rng(6).normal(0, 2, shape).astype(np.float32)}
    steps = steps_apart(simulated(program, inputs)["result"], run_onnx(model, inputs)["result"], program.outputs[0])
    assert steps.max() <= 1
    assert (steps == 0).mean() >= 0.998


@pytest.mark.parametrize("order", [1, -1], ids=["constants last", "constants first"])
def test_groups_as_pytorch_writes_them(order: int) -> None:
    """Reshape, InstanceNormalization, Reshape, Mul, Add are one operator."""
    shape, groups = (1, 12, 5, 7), 3
    builder = ModelBuilder(np.random.default_rng(7))
    scale, bias = (builder.rng.normal(0.3, 0.2, (12, 1, 1)).astype(np.float32) for _ in range(2))
    x = builder.quantize(builder.input("x", shape), 0.05, name="x.q")
    of_groups = [builder.constant(f"group{n}", np.full(3, n, np.float32)) for n in (2, -1)]
    rows = builder.node("Reshape", [x, builder.constant("rows", np.array([0, groups, -1]))])
    even = builder.node("InstanceNormalization", [rows, *of_groups], epsilon=1e-3)
    y = builder.node("Reshape", [even, builder.constant("whole", np.array(shape))])
    y = builder.node("Mul", [y, builder.constant("scale", scale)][::order])
    y = builder.node("Add", [y, builder.constant("bias", bias)][::order])
    builder.output(builder.quantize(y, 0.03, name="y.q"))
    model = builder.build("groups")
    graph = simplified(model)
    assert [one.kind for one in graph.operators if one.kind in ("normalize", "add", "mul")] == ["normalize"]
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    inputs = {"x": np.random.default_rng(5).normal(0.5, 2, shape).astype(np.float32)}
    steps = steps_apart(simulated(program, inputs)["result"], run_onnx(model, inputs)["result"], program.outputs[0])
    assert steps.max() <= 1


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (32768, "its smallest tile needs 131584 bytes of acc, 131072 are free; try --set memories.acc.kib="),
        (32769, "normalises rows of 32769 values; expected at most 32768, which is what the machine holds of a row"),
    ],
    ids=["no room beside it", "no room for it"],
)
def test_rows_that_a_machine_cannot_hold_are_the_hosts(length: int, reason: str) -> None:
    """What is beside them stays on the machine."""
    builder = ModelBuilder(np.random.default_rng(7))
    x = builder.quantize(builder.input("x", (1, 2, 1, length)), 0.05, name="x.q")
    x = builder.quantize(builder.node("Sigmoid", [x]), 1 / 256, name="s.q")
    ones, zeros = builder.constant("ones", np.ones(2, np.float32)), builder.constant("zeros", np.zeros(2, np.float32))
    y = builder.node("InstanceNormalization", [x, ones, zeros], name="norm")
    builder.output(builder.quantize(y, 0.03, name="y.q"))
    program = compile_partitioned(builder.build("rows"), load_machine("sequence16"), Options(effort=0))
    (node,) = program.host_nodes
    assert node.name == "norm"
    assert reason in node.reason
