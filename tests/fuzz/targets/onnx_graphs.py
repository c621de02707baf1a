"""Whole ONNX networks of two to five operators, with their wiring, attributes and constants changed or not.

What is accepted computes what ONNX Runtime does, every optimisation off, and what that refuses is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.compiler.models import random_inputs, rescaled, run_onnx
from tests.compiler.pipelines import simulated
from tests.fuzz.compiling import effort_of, prepare_compiler, shipped
from tests.fuzz.harness import Outcome, Target, WrongAnswer, accepted
from tests.fuzz.targets.onnx_nodes import NOT_JUDGED
from tests.random_networks import TRANSPOSING_KINDS, RandomNetwork
from tilewright.compiler.errors import CompileError
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.errors import IsaError
from tilewright.values.compare import compare_values
from tilewright.values.compiled import compile_keeping

STEPS = {kind.__name__: kind for kind in TRANSPOSING_KINDS}
MACHINES = ("base16", "tiny8", "vector16")
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 16, 2**40)

UNEVEN = 1.0137
"""Constants that change become multiples of it: with even scales, many values lie in the middle of two steps, each may
go either way, and a product of many such values goes far.
"""

CHANGES = ("rewire", "attribute", "constant", "constant", "dimension", "retype", "order", "leave out")


@dataclass(frozen=True)
class Network:
    """Steps of the random networks, each with its seed; changes are (what, where, which, value)."""

    machine: str
    steps: tuple[tuple[str, int], ...]
    changes: tuple[tuple[str, int, int, int], ...] = ()
    seed: int = 0

    def model(self) -> onnx.ModelProto:
        network = RandomNetwork(self.seed, 0, (), has_softmax=self.machine == "vector16")
        for step, seed in self.steps:
            network.rng = np.random.default_rng(seed)
            made = STEPS[step](network)
            if made is not None:
                network.known.append(made)
        read = {name for node in network.builder.nodes for name in node.input}
        unread = [tensor for tensor in network.known[1:] if tensor.name not in read]
        for number, tensor in enumerate(unread or network.known[-1:]):
            network.builder.output(tensor.name, f"result{number}")
        model = rescaled(network.builder.build("changed"))
        for change in self.changes:
            change_model(model, *change)
        return model


def change_model(model: onnx.ModelProto, what: str, where: int, which: int, value: int) -> None:
    """One change; nothing where there is nothing to change."""
    graph = model.graph
    node = graph.node[where % len(graph.node)]
    match what:
        case "rewire":
            results = [name for other in graph.node for name in other.output]
            if node.input:
                node.input[which % len(node.input)] = results[value % len(results)]
        case "attribute":
            _change_attribute(node, which, value)
        case "constant" | "dimension" | "retype":
            tensor = graph.initializer[where % len(graph.initializer)]
            tensor.CopyFrom(_changed_tensor(tensor, what, which, value))
        case "order":
            if which % 2:
                graph.node.append(graph.node.pop(where % len(graph.node)))
            else:
                graph.node.insert(0, graph.node.pop(where % len(graph.node)))
        case "leave out":
            if len(node.input) > 1:
                node.input.pop()


def _change_attribute(node: onnx.NodeProto, which: int, value: int) -> None:
    if not node.attribute:
        return
    attribute = node.attribute[which % len(node.attribute)]
    if attribute.ints:
        attribute.ints[value % len(attribute.ints)] = value
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = value
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = b"NOTSET" if value % 2 else b"linear"
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = float(value)


def _changed_tensor(tensor: onnx.TensorProto, what: str, which: int, value: int) -> onnx.TensorProto:
    array: Any = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        match what:
            case "constant":
                flat = array.astype(array.dtype).ravel().copy()
                if flat.size:
                    flat[which % flat.size] = np.array(value * UNEVEN).astype(array.dtype)
                array = flat.reshape(array.shape)
            case "dimension":
                array = array[:-1] if array.ndim and which % 2 else np.expand_dims(array, 0)
            case _:
                kinds = (np.int8, np.uint8, np.float32, np.int64, np.int32, np.float64)
                array = array.astype(kinds[value % len(kinds)])
    return numpy_helper.from_array(array, tensor.name)


@strategies.composite
def networks(draw: DrawFn) -> Network:
    machine = draw(strategies.sampled_from(MACHINES))
    step = strategies.tuples(strategies.sampled_from(sorted(STEPS)), strategies.integers(0, 999))
    change = strategies.tuples(
        strategies.sampled_from(CHANGES),
        strategies.integers(0, 40),
        strategies.integers(0, 8),
        strategies.sampled_from(NUMBERS),
    )
    steps = tuple(draw(strategies.lists(step, min_size=1, max_size=4)))
    return Network(machine, steps, tuple(draw(strategies.lists(change, max_size=2))), draw(strategies.integers(0, 99)))


def attempt(network: Network) -> Outcome:
    model = network.model()
    try:
        program = compile_model(model, shipped(network.machine), Options(effort=effort_of(network)))
    except (CompileError, IsaError):
        return Outcome.REFUSED
    inputs = random_inputs(model, np.random.default_rng(network.seed))
    try:
        expected = run_onnx(model, inputs)
    except Exception as error:  # noqa: BLE001  (its exceptions share no class)
        if any(words in str(error) for words in NOT_JUDGED):
            return Outcome.UNJUDGED
        raise WrongAnswer(f"{network.machine} compiles what ONNX Runtime refuses: {error}", "graph: refused") from error
    with accepted("graph"):
        computed = simulated(program, inputs)
    scales = {tensor.name: tensor.scale if tensor.dtype == "float32" else 1.0 for tensor in program.outputs}
    far = [name for name, values in expected.items() if _is_far(name, computed[name], values, scales[name])]
    if far and not _is_right_layer_by_layer(model, network, inputs):
        steps = max(float(np.abs(computed[name] - expected[name]).max()) / scales[name] for name in far)
        raise WrongAnswer(f"{far[0]} is up to {steps:.0f} steps from what ONNX Runtime computes", "graph: values")
    return Outcome.RIGHT


def _is_right_layer_by_layer(model: onnx.ModelProto, network: Network, inputs: Mapping[str, NDArray[Any]]) -> bool:
    """Whether each layer, on ONNX Runtime's own tensors, is within a step for each of its roundings.

    Example: ten equal weights of a softmax lie in the middle of two steps; a product then adds ten steps up.
    """
    options = Options(effort=effort_of(network))
    program, programs = compile_keeping(model.SerializeToString(), shipped(network.machine), options)
    comparison = compare_values(model, program, programs, inputs)
    return bool(comparison.tensors) and comparison.first is None


def _is_far(name: str, computed: Any, expected: Any, scale: float) -> bool:
    """Each layer may be one step away, and the next ones carry that on; raises WrongAnswer for another form."""
    if computed.shape != expected.shape or computed.dtype != expected.dtype:
        forms = f"{computed.dtype} {computed.shape}; expected {expected.dtype} {expected.shape}"
        raise WrongAnswer(f"{name} is {forms}", "graph: form")
    steps = np.abs(computed.astype(np.float64) - expected.astype(np.float64)) / scale
    return bool(steps.size) and bool((steps <= 2.5).mean() < 0.9 or np.median(steps) > 1.5)


TARGET = Target("ONNX networks", networks(), attempt, prepare=prepare_compiler)
