"""Steps compute what ONNX Runtime computes of an LSTM, GRU or RNN node, whatever its attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.quantization.float_model import read_float_model
from tilewright.quantization.recurrent.activations import ACTIVATIONS
from tilewright.quantization.recurrent.node import GATES

FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
"""Operator → the activations of a direction."""

Feed = dict[str, NDArray[np.float32]]


def random_node(kind: str, random: np.random.Generator) -> tuple[onnx.ModelProto, Feed]:
    """A model of one node with random sizes, operands and attributes, and an input for it."""
    steps, batch, features, hidden = (int(random.integers(1, high)) for high in (6, 4, 6, 20))
    direction = str(random.choice(("forward", "reverse", "bidirectional")))
    count, rows = (2 if direction == "bidirectional" else 1), GATES[kind] * hidden
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if random.integers(2):
        attributes |= some_activations(FUNCTIONS[kind] * count, random)
    if random.integers(2):
        attributes["clip"] = float(random.uniform(0.2, 1.5))
    switch = {"LSTM": "input_forget", "GRU": "linear_before_reset"}.get(kind)
    if switch:
        attributes[switch] = int(random.integers(2))
    constants = {"W": (count, rows, features), "R": (count, rows, hidden), "B": (count, 2 * rows)}
    if kind == "LSTM":
        constants["P"] = (count, 3 * hidden)
    weights = {name: (0.5 * random.standard_normal(shape)).astype(np.float32) for name, shape in constants.items()}
    inputs = {"X": (steps, batch, features), "initial_h": (count, batch, hidden)}
    if kind == "LSTM":
        inputs["initial_c"] = (count, batch, hidden)
    feed = {name: random.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
    lengths = random.integers(1, steps + 1, batch, dtype=np.int32)
    names = ["X", "W", "R", "B", "sequence_lens", "initial_h", *(["initial_c", "P"] if kind == "LSTM" else [])]
    names = [name if name in ("X", "W", "R") or random.integers(2) else "" for name in names]
    outputs = {"Y": (steps, count, batch, hidden), "Y_h": (count, batch, hidden)}
    if kind == "LSTM":
        outputs["Y_c"] = (count, batch, hidden)
    wanted = [name if random.integers(2) else "" for name in outputs]
    wanted = wanted if any(wanted) else list(outputs)
    node = helper.make_node(kind, names, wanted, "cell", **attributes)
    graph = helper.make_graph(
        [node],
        "recurrent",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, inputs[name]) for name in inputs if name in names],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, outputs[name]) for name in wanted if name],
        [
            numpy_helper.from_array(value, name)
            for name, value in {**weights, "sequence_lens": lengths}.items()
            if name in names
        ],
    )
    opset = int(random.integers(14, 23))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return model, {name: value for name, value in feed.items() if name in names}


def some_activations(count: int, random: np.random.Generator) -> dict[str, Any]:
    """Any activations, each with numbers of its own where it takes them."""
    kinds = [ACTIVATIONS[name] for name in random.choice(sorted(ACTIVATIONS), count)]
    alphas = [float(random.uniform(0.1, 1)) for kind in kinds if kind.takes_alpha]
    betas = [float(random.uniform(0.1, 1)) for kind in kinds if kind.takes_beta]
    found: dict[str, Any] = {"activations": [kind.name for kind in kinds]}
    return found | ({"activation_alpha": alphas} if alphas else {}) | ({"activation_beta": betas} if betas else {})


def run(model: onnx.ModelProto, feed: Feed) -> list[NDArray[np.float32]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)  # type: ignore[no-any-return]


FEW = 6
"""Seeds in the fast tests."""


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("seed", [*range(FEW), *(pytest.param(n, marks=pytest.mark.slow) for n in range(FEW, 18))])
def test_steps_compute_what_onnx_runtime_computes(kind: str, seed: int) -> None:
    model, feed = random_node(kind, np.random.default_rng((seed, GATES[kind])))
    steps = read_float_model(model).prepared

    assert not {node.op_type for node in steps.graph.node} & set(GATES)
    for exact, found in zip(run(model, feed), run(steps, feed), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)


def plain_node(kind: str, *, steps: int = 4, batch: int = 2, direction: str = "forward", **attributes: Any) -> Any:
    """A model of one node with 3 features and 5 hidden values, its state an input and an output; and an input."""
    random, count, rows = np.random.default_rng(0), (2 if direction == "bidirectional" else 1), 5 * GATES[kind]
    weights = {"W": (count, rows, 3), "R": (count, rows, 5), "B": (count, 2 * rows)}
    states, x, y = (count, batch, 5), (steps, batch, 3), (steps, count, batch, 5)
    if attributes.get("layout"):
        states, x, y = (batch, count, 5), (batch, steps, 3), (batch, steps, count, 5)
    node = helper.make_node(
        kind, ["X", "W", "R", "B", "", "h"], ["Y", "Y_h"], "cell", direction=direction, **attributes
    )
    node.attribute.append(helper.make_attribute("hidden_size", 5))
    graph = helper.make_graph(
        [node],
        "plain",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("X", x), ("h", states))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("Y", y), ("Y_h", states))],
        [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), name) for name, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {name: random.standard_normal(shape).astype(np.float32) for name, shape in (("X", x), ("h", states))}


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_layout_1_is_the_batch_first(kind: str, direction: str) -> None:
    """ONNX Runtime does not run it: the same weights with `layout` 0 and turned inputs are what is expected."""
    model, feed = plain_node(kind, direction=direction, layout=1)
    steps_first, _ = plain_node(kind, direction=direction)
    y, last = run(steps_first, {name: value.swapaxes(0, 1) for name, value in feed.items()})

    found = run(read_float_model(model).prepared, feed)
    np.testing.assert_allclose(found[0], y.transpose(2, 0, 1, 3), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[1], last.swapaxes(0, 1), rtol=1e-4, atol=1e-5)


def test_the_input_is_one_product_for_all_steps() -> None:
    model, _ = plain_node("LSTM", steps=4)
    kinds = [node.op_type for node in read_float_model(model).prepared.graph.node]
    assert (kinds.count("Conv"), kinds.count("MatMul")) == (1, 4)


def test_zeros_as_first_state_take_no_product() -> None:
    model, _ = plain_node("LSTM", steps=4)
    del model.graph.input[1]
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 2, 5), np.float32), "h"))
    kinds = [node.op_type for node in read_float_model(model).prepared.graph.node]
    assert (kinds.count("Conv"), kinds.count("MatMul")) == (1, 3)


@pytest.mark.parametrize("name", ["cell", "LSTM"])
def test_leaves_what_is_to_stay_float(name: str) -> None:
    model, _ = plain_node("LSTM")
    assert [node.op_type for node in read_float_model(model, keep=[name]).prepared.graph.node] == ["LSTM"]


def test_the_same_part_of_each_step_is_alike() -> None:
    model, _ = plain_node("GRU", steps=3)
    alike = read_float_model(model).alike
    assert alike["cell/step/hidden"][-3:] == ("cell/step0/hidden", "cell/step1/hidden", "cell/step2/hidden")
    assert len(alike["cell/step/hidden"]) == 4  # with the first state
