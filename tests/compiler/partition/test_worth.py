"""A segment between nodes of the host is the machine's if it computes at least as much as passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, random_inputs, run_onnx
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.partition.worth import ONLY_MOVES
from tilewright.host.segments import Segments
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.partitioned import HostSegment, Partitioned

VALUES = 8 * 6 * 6

Middle = Callable[[ModelBuilder, str], str]
"""Adds nodes after an int8 tensor [1, 8, 6, 6], and gives the float tensor that they make."""


def between_host_nodes(middle: Middle) -> onnx.ModelProto:
    """A convolution, the host's CumSum, what `middle` adds, the host's CumSum again, and a convolution."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 8, 6, 6)), 0.1, 0)
    axis = builder.constant("axis", np.array(2, np.int64))
    y = builder.quantize(add_conv(builder, x, 8, 8, 1, name="first"), 0.1, 0)
    y = builder.quantize(builder.node("CumSum", [y, axis], name="before"), 0.1, 0)
    y = builder.quantize(middle(builder, y), 0.1, 0)
    y = builder.quantize(builder.node("CumSum", [y, axis], name="after"), 0.1, 0)
    builder.output(builder.quantize(add_conv(builder, y, 8, 8, 1, name="last"), 0.1, 0))
    return builder.build()


def limited(builder: ModelBuilder, y: str) -> str:
    """One operation for each value."""
    return builder.node("Relu", [y], name="middle")


def turned(builder: ModelBuilder, y: str) -> str:
    return builder.node("Transpose", [y], name="middle", perm=[0, 1, 3, 2])


def convolved(builder: ModelBuilder, y: str) -> str:
    """Eight products for each value."""
    return add_conv(builder, y, 8, 8, 1, name="middle")


def reasons(model: onnx.ModelProto) -> dict[str, str]:
    compiled = compile_partitioned(model, load_machine("base16"))
    assert isinstance(compiled, Partitioned)
    inputs = random_inputs(model, np.random.default_rng(0))
    computed, _ = Segments(compiled).run(inputs, "sim")
    for name, expected in run_onnx(model, inputs).items():
        assert np.abs(computed[name] - expected).max() <= 0.1001
    return {node.name: node.reason for node in compiled.host_nodes}


@pytest.mark.parametrize(
    ("middle", "reason"),
    [
        (
            limited,
            f"its segment has only {VALUES} operations, "
            f"not worth the transfer of {2 * VALUES} values from and to the host",
        ),
        (turned, ONLY_MOVES),
    ],
)
def test_little_work_is_left_to_the_host(middle: Middle, reason: str) -> None:
    assert reasons(between_host_nodes(middle))["middle"] == reason


def test_the_last_work_of_a_network_stays_on_the_machine() -> None:
    """One operation for each value, and two values that pass; without it, the machine would have nothing to do."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 8, 6, 6)), 0.1, 0)
    axis = builder.constant("axis", np.array(2, np.int64))
    y = builder.quantize(builder.node("CumSum", [x, axis], name="before"), 0.1, 0)
    y = builder.quantize(limited(builder, y), 0.1, 0)
    builder.output(builder.quantize(builder.node("CumSum", [y, axis], name="after"), 0.1, 0))
    assert reasons(builder.build()).keys() == {"before", "after"}


def test_enough_work_is_the_machines() -> None:
    assert reasons(between_host_nodes(convolved)).keys() == {"before", "after"}


def test_results_of_the_network_pass_in_any_case() -> None:
    """A Relu between nodes of the host whose result is wanted anyway: only what it reads passes for its sake."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 8, 6, 6)), 0.1, 0)
    axis = builder.constant("axis", np.array(2, np.int64))
    step = builder.constant("step", np.float32(0.1)), builder.constant("zero", np.int8(0))
    y = builder.quantize(builder.node("CumSum", [x, axis], name="before"), 0.1, 0)
    y = builder.node("QuantizeLinear", [builder.node("Relu", [y], name="middle"), *step], name="quantised")
    builder.output(y, "wanted", onnx.TensorProto.INT8)
    z = builder.node("DequantizeLinear", ["wanted", *step])
    builder.output(builder.quantize(builder.node("CumSum", [z, axis], name="after"), 0.1, 0))
    assert reasons(builder.build()).keys() == {"before", "after"}


def test_a_segment_at_an_end_of_the_network_passes_less() -> None:
    """A Relu at its beginning has as many operations as values that pass on to the host."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 8, 6, 6)), 0.1, 0)
    axis = builder.constant("axis", np.array(2, np.int64))
    y = builder.quantize(builder.node("Relu", [x], name="first"), 0.1, 0)
    y = builder.quantize(builder.node("CumSum", [y, axis], name="middle"), 0.1, 0)
    builder.output(builder.quantize(builder.node("Relu", [y], name="last"), 0.1, 0))
    assert reasons(builder.build()).keys() == {"middle"}


def test_of_a_segment_all_operations_count() -> None:
    """Nine values are compared for each result of a MaxPool."""

    def twice(builder: ModelBuilder, y: str) -> str:
        pooled = builder.node("MaxPool", [y], name="pooled", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        return builder.node("Relu", [builder.quantize(pooled, 0.2, 0)], name="middle")

    compiled = compile_partitioned(between_host_nodes(twice), load_machine("base16"))
    assert isinstance(compiled, Partitioned)
    assert [node.name for node in compiled.host_nodes] == ["before", "after"]
    assert sum(isinstance(segment, HostSegment) for segment in compiled.segments) == 2
