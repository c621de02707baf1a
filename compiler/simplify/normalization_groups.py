"""GroupNormalizations that exporters wrote as an InstanceNormalization of rows, found again before all other rules.

    rows = Reshape(x)                                   [N, groups, values of a group]
    even = InstanceNormalization(rows, ones, zeros)
    y    = Reshape(even) · scale + bias                 as x; of each channel

So PyTorch writes them. Constants of channels behind a GroupNormalization or an InstanceNormalization become its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, Operator, TensorType
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

INSTANCE, GROUP = "onnx.InstanceNormalization", "onnx.GroupNormalization"


@dataclass(frozen=True)
class _ChannelGroups:
    """A normalisation of groups of channels: its operand, constants for each channel, and its operators."""

    of: str
    groups: int
    epsilon: float
    scale: NDArray[Any]
    bias: NDArray[Any]
    operators: tuple[Operator, ...]


def scaled_groups(operator: Operator, view: GraphView) -> Replacement | None:
    """γ · n and n + β of channels are part of the normalisation of groups that gives n, if only they read it."""
    for source, constant in (operator.inputs, operator.inputs[::-1]):
        found, value = _groups(source, view), view.constant(constant)
        if found is None or value is None or not view.is_read_once(source) or source in view.outputs:
            continue
        shape = view.type(operator.outputs[0]).shape
        factor = _of_channels(value, shape)
        if factor is None or shape != view.type(found.of).shape:
            continue
        scale, bias = found.scale, found.bias + factor
        if operator.kind == "onnx.Mul":
            scale, bias = found.scale * factor, found.bias * factor
        return _made(operator, found, scale, bias, view)
    return None


def _groups(name: str, view: GraphView) -> _ChannelGroups | None:
    """The normalisation of groups that makes a tensor: one node, or one of rows between two Reshapes."""
    producer = view.producer(name, INSTANCE, GROUP, "onnx.Reshape")
    if producer is None:
        return None
    norm, x, operators = producer, producer.inputs[0], tuple[Operator, ...]((producer,))
    if producer.kind == "onnx.Reshape":
        found = view.producer(x, INSTANCE)
        rows = None if found is None else view.producer(found.inputs[0], "onnx.Reshape")
        if found is None or rows is None or not view.is_read_once(x):
            return None
        norm, x, operators = found, rows.inputs[0], (rows, found, producer)
    shape, inner = view.type(x).shape, view.type(norm.inputs[0]).shape
    known = [view.constant(each) for each in norm.inputs[1:]]
    groups = norm.attributes["num_groups"] if norm.kind == GROUP else inner[CHANNEL]
    if len(shape) < 3 or shape != view.type(name).shape or shape[0] != inner[0] or shape[CHANNEL] % groups:
        return None
    if any(value is None or shape[CHANNEL] % value.size for value in known):
        return None
    scale, bias = (np.repeat(v.ravel(), shape[CHANNEL] // v.size) for v in known if v is not None)
    return _ChannelGroups(x, groups, norm.attributes.get("epsilon", 1e-5), scale, bias, operators)


def _of_channels(value: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """A constant that broadcasts over [N, C, …] with a number for each channel, or one for all; None for others."""
    if value.ndim > len(shape):
        return None
    whole = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    is_of_channels = all(size == 1 or d == CHANNEL for d, size in enumerate(whole.shape))
    return np.broadcast_to(whole.ravel(), shape[CHANNEL : CHANNEL + 1]) if is_of_channels else None


def _made(
    operator: Operator, found: _ChannelGroups, scale: NDArray[Any], bias: NDArray[Any], view: GraphView
) -> Replacement:
    names = [view.fresh(f"{operator.outputs[0]}.{what}") for what in ("scale", "bias")]
    constants = {name: each.astype(np.float32) for name, each in zip(names, (scale, bias), strict=True)}
    types = {name: TensorType("float32", each.shape) for name, each in constants.items()}
    nodes = tuple(dict.fromkeys(node for each in (*found.operators, operator) for node in each.nodes))
    attributes = {"num_groups": found.groups, "epsilon": found.epsilon}
    made = Operator(operator.name, GROUP, (found.of, *names), operator.outputs, attributes, nodes)
    return Replacement((made,), types, constants)


GROUP_FORMS = {"onnx.Mul": (scaled_groups,), "onnx.Add": (scaled_groups,)}
"""Tried after the forms of other normalisations."""
