"""Recurrent networks run on the machine wholly, their state going in and out, with the bits of the QDQ network."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tilewright.quantization.recurrent.node import GATES

FEATURES, HIDDEN = 24, 32


def stream(kind: str, steps: int, direction: str = "forward") -> onnx.ModelProto:
    """One node that takes up where the run before it ended: its states are inputs and outputs."""
    count, rows, random = (2 if direction == "bidirectional" else 1), GATES[kind] * HIDDEN, np.random.default_rng(0)
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    sizes = {"X": (steps, 1, FEATURES)} | {state: (count, 1, HIDDEN) for state in states}
    results = {"Y": (steps, count, 1, HIDDEN)} | {f"last_{state}": (count, 1, HIDDEN) for state in states}
    weights = {"W": (count, rows, FEATURES), "R": (count, rows, HIDDEN), "B": (count, 2 * rows)}
    node = helper.make_node(
        kind, ["X", "W", "R", "B", "", *states], [*results], "cell", hidden_size=HIDDEN, direction=direction
    )
    graph = helper.make_graph(
        [node],
        "stream",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in results.items()],
        [
            numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("kind", "steps", "direction", "isa"),
    [
        ("RNN", 2, "forward", "sequence16"),
        pytest.param("LSTM", 3, "forward", "sequence16", marks=pytest.mark.slow),
        pytest.param("LSTM", 5, "bidirectional", "vector16", marks=pytest.mark.slow),
        pytest.param("GRU", 5, "reverse", "base16", marks=pytest.mark.slow),
        pytest.param("RNN", 5, "bidirectional", "base16", marks=pytest.mark.slow),
    ],
)
def test_runs_wholly_on_the_machine(kind: str, steps: int, direction: str, isa: str) -> None:
    model, random = stream(kind, steps, direction), np.random.default_rng(1)
    shapes = {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input}
    data = {
        name: np.clip(random.standard_normal((8, *shape)), -1, 1).astype(np.float32) for name, shape in shapes.items()
    }
    quantized = tilewright.quantize(model, data)
    program = tilewright.compile(quantized.content, isa)
    assert (len(program.programs), program.host_nodes) == (1, ())

    feed = {name: array[3] for name, array in data.items()}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [value.name for value in model.graph.output]
    exact = onnxruntime.InferenceSession(quantized.content, options).run(names, feed)
    found = program.run(feed).outputs
    for name, expected in zip(names, exact, strict=True):
        step = np.diff(np.unique(expected)).min()
        difference = np.abs(found[name] - expected)
        assert difference.max() <= 2.01 * step, name  # a value that is one step off goes into the next steps
        assert (found[name] == expected).mean() >= 0.95, name


@pytest.mark.slow
def test_what_is_kept_in_float_runs_on_the_host() -> None:
    model = stream("GRU", 2)
    model.graph.node.append(helper.make_node("MatMul", ["Y", "V"], ["z"], "more"))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(HIDDEN, dtype=np.float32), "V"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (2, 1, 1, HIDDEN)))
    program = tilewright.compile(tilewright.quantize(model, "random", keep=["cell"]).content, "base16")

    reason = "makes 'last_h' of inputs of the model that are not quantised"
    assert [(node.name, node.reason) for node in program.host_nodes] == [("cell", reason)]


def test_every_step_reads_the_same_weights() -> None:
    """Eight steps more take inputs, results and instructions, but the weights are in the file once."""
    weights = HIDDEN * (FEATURES + HIDDEN)
    few, many = (_weight_bytes(stream("RNN", steps)) for steps in (2, 10))
    assert weights <= min(few, many)
    assert many < few + weights


def _weight_bytes(model: onnx.ModelProto) -> int:
    program = tilewright.compile(tilewright.quantize(model, "random").content, "sequence16")
    return len(program.binary.weights)
