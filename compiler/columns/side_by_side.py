"""Level 1 to level 1: products of one tensor that have few results become one product, whose columns fill the array.

Two convolutions of 128 channels to 8 stream the same vectors through half of the columns of an array of 16. With their
weights side by side, they are one convolution to 16 channels. Each result is then taken from its channels; where only a
concatenation reads them, the joint result is the concatenation.

The convolutions must agree in how their windows move, in their result's zero point and in its limits: one instruction
requantises all channels with these. Scales may differ, as they do between channels. So the bits stay.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.columns.columns import MOST_TRIED, MOST_WEIGHTS, WORTH, Measure, region_of
from tilewright.compiler.graph.graph import (
    CHANNEL,
    TAKEN,
    Graph,
    Operator,
    Quantization,
    TensorType,
    fresh_name,
    stored_shape,
)
from tilewright.compiler.simplify.attributes import ConstantTensor
from tilewright.compiler.simplify.rewrite import drop_dead_code
from tilewright.compiler.templates.systolic import weight_tiles
from tilewright.isa.machine.machine import Machine

Convs = tuple[Operator, ...]

MOVING = ("take", "concat", "reshape", "transpose", "permute")
"""Operators whose readers decide what they cost."""

JOINT = "+".join
"""The name of a joint product, from those of its parts."""


@dataclass(frozen=True, slots=True)
class Joint:
    """Convolutions that can be one, and about how many vectors fewer then stream through the array."""

    convs: Convs
    saved: int


def side_by_side(graph: Graph, machine: Machine, measure: Measure) -> Graph:
    """The graph in which products of one tensor are one where the exact cycle model finds that this is faster."""
    for joint in joints(graph, machine)[:MOST_TRIED]:
        region = _region(graph, joint.convs)
        before, after = measure(region), measure(with_joint_product(region, joint.convs))
        if before is not None and after is not None and after < before * (1 - WORTH):
            graph = with_joint_product(graph, joint.convs)
    return graph


def joints(graph: Graph, machine: Machine) -> list[Joint]:
    """What would leave fewer columns of the array unused, the best first."""
    alike: dict[Hashable, list[Operator]] = {}
    for operator in graph.operators:
        if operator.kind == "conv" and _has_few_results(operator, graph, machine):
            alike.setdefault(_form(operator, graph), []).append(operator)
    found = [Joint(tuple(convs), _saved(convs, graph, machine)) for convs in alike.values() if len(convs) > 1]
    return sorted((joint for joint in found if joint.saved > 0), key=lambda joint: -joint.saved)


def _has_few_results(conv: Operator, graph: Graph, machine: Machine) -> bool:
    """Whether a convolution leaves columns of the array unused."""
    weights = graph.constants.get(conv.inputs[1])
    if weights is None or conv.attributes["group"] != 1 or graph.tensors[conv.outputs[0]].quantization is None:
        return False
    if any(name not in graph.constants for name in conv.inputs[2:] if name):
        return False
    return weights.shape[0] % machine.array.cols != 0 and weights.size <= MOST_WEIGHTS


def _form(conv: Operator, graph: Graph) -> Hashable:
    """Equal for convolutions that can be one."""
    result, weights = graph.tensors[conv.outputs[0]], graph.tensors[conv.inputs[1]]
    assert result.quantization is not None
    shape = stored_shape(result.shape)
    points = tuple(sorted(set(result.quantization.zero_points)))
    attributes = tuple(sorted((name, value) for name, value in conv.attributes.items() if name != "macs"))
    return (
        conv.inputs[0], attributes, weights.dtype, weights.shape[1:], result.dtype, len(result.shape), points,
        *(size for axis, size in enumerate(shape) if axis != CHANNEL),
    )  # fmt: skip


def _saved(convs: Sequence[Operator], graph: Graph, machine: Machine) -> int:
    """The vectors of each weight tile that is not needed any more."""
    outputs = [graph.constants[conv.inputs[1]].shape[0] for conv in convs]
    _, inputs, rows, taps = graph.constants[convs[0].inputs[1]].shape
    tiles = sum(weight_tiles(machine, count, inputs) for count in outputs) - weight_tiles(machine, sum(outputs), inputs)
    batch, _, height, width = stored_shape(graph.tensors[convs[0].outputs[0]].shape)
    return tiles * rows * taps * batch * height * width


def _region(graph: Graph, convs: Convs) -> Graph:
    """The convolutions and what reads their results, also where these are only moved first, as a network of its own."""
    results = {conv.outputs[0] for conv in convs}
    for operator in graph.operators:
        if operator.kind in MOVING and not results.isdisjoint(operator.inputs):
            results.update(operator.outputs)
    region = region_of(graph, frozenset(results))
    leaving = {name: name for name in graph.outputs.values() if name in results}
    return replace(region, outputs={**region.outputs, **leaving})


# -- the joint product -------------------------------------------------------------------------------------------------


def with_joint_product(graph: Graph, convs: Convs) -> Graph:
    """The graph with one convolution in place of several, which stand in `_form`'s agreement; it computes the same."""
    convs = _in_reading_order(graph, convs)
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    joint = fresh_name(JOINT(conv.outputs[0] for conv in convs), tensors)
    tensors[joint] = _joint_type(graph, convs)
    made = _joint_conv(graph, convs, joint, tensors, constants)
    firsts = _firsts(graph, convs)
    takes = [_take(graph, conv, joint, firsts[conv.outputs[0]]) for conv in convs]
    place = next(at for at, operator in enumerate(graph.operators) if operator.outputs[0] in firsts)
    others = [operator for operator in graph.operators if operator.outputs[0] not in firsts]
    reading = [_reading_joint(operator, joint, firsts, graph, tensors) for operator in others]
    operators = (*reading[:place], made, *takes, *reading[place:])
    whole = replace(graph, operators=operators, tensors=tensors, constants=constants)
    return drop_dead_code(_without_copies(whole, joint))


def _in_reading_order(graph: Graph, convs: Convs) -> Convs:
    """Convolutions in the order in which the first concatenation of their channels has them, others after these."""
    results = {conv.outputs[0]: conv for conv in convs}
    for operator in graph.operators:
        if operator.kind == "concat" and operator.attributes["axis"] == CHANNEL:
            read = list(dict.fromkeys(name for name in operator.inputs if name in results))
            if len(read) > 1:
                return tuple(results[name] for name in [*read, *(name for name in results if name not in read)])
    return convs


def _joint_type(graph: Graph, convs: Convs) -> TensorType:
    """All channels, each with the scale that it has in its own result."""
    types = [graph.tensors[conv.outputs[0]] for conv in convs]
    first = types[0].shape
    shape = tuple(sum(each.shape[at] for each in types) if at == CHANNEL else size for at, size in enumerate(first))
    return replace(types[0], shape=shape, quantization=_side_by_side(types, CHANNEL))


def _side_by_side(types: Sequence[TensorType], axis: int) -> Quantization:
    """The scales and zero points of tensors whose indices of an axis follow each other; one if all are the same."""
    scales: list[float] = []
    zeros: list[int] = []
    for each in types:
        quantization, count = each.quantization, each.shape[axis]
        assert quantization is not None
        times = count if quantization.axis is None else 1
        scales += quantization.scales * times
        zeros += quantization.zero_points * times
    if len(set(scales)) == len(set(zeros)) == 1:
        return Quantization((scales[0],), (zeros[0],))
    return Quantization(tuple(scales), tuple(zeros), axis)


def _joint_conv(
    graph: Graph, convs: Convs, joint: str, tensors: dict[str, TensorType], constants: dict[str, NDArray[Any]]
) -> Operator:
    """The convolution with all weights; its constants are added."""
    name = JOINT(conv.name for conv in convs)
    types = [graph.tensors[conv.inputs[1]] for conv in convs]
    weights = fresh_name(f"{name}.weight", tensors)
    constants[weights] = np.concatenate([graph.constants[conv.inputs[1]] for conv in convs])
    tensors[weights] = replace(types[0], shape=constants[weights].shape, quantization=_side_by_side(types, 0))
    inputs = [convs[0].inputs[0], weights]
    if any(conv.inputs[2:] and conv.inputs[2] for conv in convs):
        bias = fresh_name(f"{name}.bias", tensors)
        constants[bias] = np.concatenate([_real_bias(graph, conv) for conv in convs])
        tensors[bias] = TensorType("float64", constants[bias].shape)
        inputs.append(bias)
    attributes = {key: value for key, value in convs[0].attributes.items() if key != "macs"}
    nodes = tuple(dict.fromkeys(node for conv in convs for node in conv.nodes))
    return Operator(name, "conv", tuple(inputs), (joint,), attributes, nodes)


def _real_bias(graph: Graph, conv: Operator) -> NDArray[np.float64]:
    name = conv.inputs[2] if len(conv.inputs) > 2 else ""
    if not name:
        return np.zeros(graph.constants[conv.inputs[1]].shape[0])
    return ConstantTensor(graph.constants[name], graph.tensors[name].quantization).real


def _firsts(graph: Graph, convs: Convs) -> Mapping[str, int]:
    """Each convolution's result and its first channel in the joint one."""
    sizes = [graph.tensors[conv.outputs[0]].shape[CHANNEL] for conv in convs]
    return {conv.outputs[0]: sum(sizes[:at]) for at, conv in enumerate(convs)}


def _take(graph: Graph, conv: Operator, joint: str, first: int) -> Operator:
    """A convolution's result out of the joint one."""
    (result,) = conv.outputs
    channels = tuple(range(first, first + graph.tensors[result].shape[CHANNEL]))
    return Operator(f"{conv.name}.part", "take", (joint,), (result,), _taken(channels), conv.nodes)


def _taken(channels: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {name: channels if axis == CHANNEL else () for axis, name in enumerate(TAKEN)}


def _reading_joint(
    operator: Operator, joint: str, firsts: Mapping[str, int], graph: Graph, tensors: Mapping[str, TensorType]
) -> Operator:
    """An operator that picks channels of results, or puts them one after the other, reads the joint result instead."""
    if operator.kind == "take" and operator.inputs[0] in firsts:
        first, size = firsts[operator.inputs[0]], graph.tensors[operator.inputs[0]].shape[CHANNEL]
        channels = operator.attributes["channels"] or range(size)
        given = {**operator.attributes, "channels": tuple(first + channel for channel in channels)}
        return replace(operator, inputs=(joint,), attributes=given)
    is_one = tensors[joint].quantization == tensors[operator.outputs[0]].quantization
    if operator.kind == "concat" and operator.attributes["axis"] == CHANNEL and is_one:
        runs = [list(same) for _, same in groupby(operator.inputs, lambda name: name in firsts)]
        read = [[joint] if run == list(firsts) else run for run in runs]
        return replace(operator, inputs=tuple(name for run in read for name in run))
    return operator


def _without_copies(graph: Graph, joint: str) -> Graph:
    """A concatenation of the joint result alone is that result."""
    copies = {each.outputs[0] for each in graph.operators if each.kind == "concat" and each.inputs == (joint,)}
    if not copies:
        return graph
    kept = tuple(
        replace(each, inputs=tuple(joint if name in copies else name for name in each.inputs))
        for each in graph.operators
        if each.outputs[0] not in copies
    )
    outputs = {name: joint if tensor in copies else tensor for name, tensor in graph.outputs.items()}
    return replace(graph, operators=kept, outputs=outputs)
