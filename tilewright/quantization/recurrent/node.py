"""An LSTM, GRU or RNN node, read and checked: ONNX opset 22, with `layout` 0.

https://onnx.ai/onnx/operators/onnx__LSTM.html, onnx__GRU.html, onnx__RNN.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.quantization.recurrent.activations import RecurrentActivation, read_activations

Array = NDArray[np.float32]

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Operator → the blocks of H rows in its weights."""

DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""Operator → the activations of one direction."""

DIRECTIONS = {"forward": ("forward",), "reverse": ("reverse",), "bidirectional": ("forward", "reverse")}

SHARED_ATTRIBUTES = frozenset(
    ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout")
)
ATTRIBUTES = {
    "LSTM": SHARED_ATTRIBUTES | {"input_forget"},
    "GRU": SHARED_ATTRIBUTES | {"linear_before_reset"},
    "RNN": SHARED_ATTRIBUTES,
}

KEEP = "Leave it in float, on the host, with --keep {name}"


@dataclass(frozen=True)
class RecurrentDirection:
    """One direction's part: `weights` [G, I], `recurrence` [G, H], biases [G], `peepholes` [3, H] or none."""

    name: str
    weights: Array
    recurrence: Array
    input_bias: Array
    recurrence_bias: Array
    peepholes: Array | None
    activations: tuple[RecurrentActivation, ...]


@dataclass(frozen=True)
class Recurrence:
    """What a node computes: steps × batch × features in, hidden values of each direction out."""

    kind: str
    name: str
    source: str
    steps: int
    batch: int
    features: int
    hidden: int
    lengths: tuple[int, ...]  # of the sequences of a batch
    directions: tuple[RecurrentDirection, ...]
    initial_h: str  # empty: zeros
    initial_c: str
    clip: float | None
    input_forget: bool
    linear_before_reset: bool
    outputs: tuple[str, str, str]  # Y, Y_h, Y_c; empty: not wanted


Shapes = Mapping[str, tuple[int, ...]]
Constants = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class _RecurrentReader:
    """A node's operands and attributes, with the name that its errors begin with."""

    place: NodeName
    inputs: tuple[str, ...]  # always eight
    attributes: Mapping[str, Any]
    shapes: Shapes
    constants: Constants

    def constant(self, letter: str, name: str) -> Array:
        if name not in self.constants:
            fact = f"its {letter} ({name!r}) is computed" if name else f"it has no {letter}"
            raise CompileError(self.place, fact, expected="a constant", remedy=KEEP.format(name=self.place.name))
        return np.asarray(self.constants[name])

    def require_shape(self, letter: str, came: Sequence[int], expected: Sequence[int]) -> None:
        if tuple(came) != tuple(expected):
            raise CompileError(self.place, f"its {letter} has shape {list(came)}", expected=str(list(expected)))

    def shaped(self, letter: str, name: str, shape: Sequence[int]) -> Array:
        """A constant of this shape."""
        value = self.constant(letter, name)
        self.require_shape(letter, value.shape, shape)
        return value

    def initial(self, letter: str, name: str, shape: Sequence[int]) -> str:
        """The name of an initial state; empty for zeros."""
        if not name:
            return ""
        self.require_shape(letter, self.shapes.get(name, ()), shape)
        return "" if name in self.constants and not self.constants[name].any() else name


def read_recurrence(node: onnx.NodeProto, shapes: Shapes, constants: Constants) -> Recurrence:
    """The node as data. Raises CompileError for what does not fit, and for weights or lengths that are computed."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    inputs = (*node.input, *[""] * 8)[:8]
    reader = _RecurrentReader(NodeName(node.name, node.op_type), inputs, attributes, shapes, constants)
    for name in sorted(attributes.keys() - ATTRIBUTES[node.op_type]):
        known = ", ".join(sorted(ATTRIBUTES[node.op_type]))
        raise CompileError(reader.place, f"unknown attribute {name!r}", remedy=f"it has: {known}")
    source = shapes.get(inputs[0], ())
    if len(source) != 3:
        fact = f"its X has shape {list(source)}"
        raise CompileError(reader.place, fact, expected="three sizes: steps, batch and features")
    steps, batch, features = source
    hidden, directions = _directions(reader, features)
    state_shape = (len(directions), batch, hidden)
    return Recurrence(
        kind=node.op_type,
        name=node.name,
        source=inputs[0],
        steps=steps,
        batch=batch,
        features=features,
        hidden=hidden,
        lengths=_lengths(reader, steps, batch),
        directions=directions,
        initial_h=reader.initial("initial_h", inputs[5], state_shape),
        initial_c=reader.initial("initial_c", inputs[6], state_shape) if node.op_type == "LSTM" else "",
        clip=_clip(reader),
        input_forget=bool(attributes.get("input_forget", 0)),
        linear_before_reset=bool(attributes.get("linear_before_reset", 0)),
        outputs=_outputs(node),
    )


def _directions(reader: _RecurrentReader, features: int) -> tuple[int, tuple[RecurrentDirection, ...]]:
    """H, and the weights and activations of each direction."""
    kind, inputs = reader.place.kind, reader.inputs
    direction = reader.attributes.get("direction", b"forward").decode()
    if direction not in DIRECTIONS:
        expected = "forward, reverse or bidirectional"
        raise CompileError(reader.place, f"direction = {direction!r}", expected=expected)
    names = DIRECTIONS[direction]
    count, recurrence = len(names), reader.constant("R", inputs[2])
    hidden = int(reader.attributes.get("hidden_size") or (recurrence.shape[-1] if recurrence.ndim else 0))
    rows = GATES[kind] * hidden
    weights = reader.shaped("W", inputs[1], (count, rows, features))
    reader.require_shape("R", recurrence.shape, (count, rows, hidden))
    biases = np.zeros((count, 2 * rows), np.float32)
    if inputs[3]:
        biases = reader.shaped("B", inputs[3], (count, 2 * rows))
    peepholes: Sequence[Array | None] = [None] * count
    if kind == "LSTM" and inputs[7]:
        peepholes = list(reader.shaped("P", inputs[7], (count, 3 * hidden)).reshape(count, 3, hidden))
    functions, each = _activations(reader, count), len(DEFAULTS[kind])
    return hidden, tuple(
        RecurrentDirection(
            name,
            weights[index],
            recurrence[index],
            biases[index, :rows],
            biases[index, rows:],
            peepholes[index],
            functions[index * each : (index + 1) * each],
        )
        for index, name in enumerate(names)
    )


def _activations(reader: _RecurrentReader, count: int) -> tuple[RecurrentActivation, ...]:
    default, attributes = DEFAULTS[reader.place.kind], reader.attributes
    names = [name.decode() for name in attributes.get("activations", ())] or list(default) * count
    if len(names) != len(default) * count:
        fact = f"it has {len(names)} activation{'s' * (len(names) != 1)}"
        expected = f"{len(default) * count}, which is {len(default)} for each direction"
        raise CompileError(reader.place, fact, expected=expected)
    alphas, betas = (list(attributes.get(f"activation_{part}", ())) for part in ("alpha", "beta"))
    return read_activations(reader.place, names, alphas, betas)


def _lengths(reader: _RecurrentReader, steps: int, batch: int) -> tuple[int, ...]:
    name = reader.inputs[4]
    if not name:
        return (steps,) * batch
    lengths = tuple(int(length) for length in reader.shaped("sequence_lens", name, (batch,)))
    for length in lengths:
        if not 1 <= length <= steps:
            fact = f"its sequence_lens has {length}"
            raise CompileError(reader.place, fact, expected=f"1 to {steps}, the steps of X")
    return lengths


def _clip(reader: _RecurrentReader) -> float | None:
    clip = reader.attributes.get("clip")
    if clip is not None and not clip > 0:
        raise CompileError(reader.place, f"clip = {clip:g}", expected="more than 0")
    return clip


def _outputs(node: onnx.NodeProto) -> tuple[str, str, str]:
    all_states, last_h, last_c = (*node.output, "", "", "")[:3]
    return all_states, last_h, last_c
