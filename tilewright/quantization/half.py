"""Float16 networks as float32 ones, which quantise: eight-bit integers of either are the same.

Inputs and outputs stay float16. A Cast of each is what the host does when it quantises and dequantises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from tilewright.compiler.graph.graph import fresh_name

HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT

ELEMENTS = ("to", "dtype")
"""Attributes that name an element type."""


def in_single_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 in place of float16, but for its inputs and outputs; itself where there is no float16."""
    if not any(_is_half(graph) for graph in _graphs(model.graph)):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for graph in _graphs(made.graph):
        _widen(graph)
    _cast_ends(made.graph)
    return made


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _is_half(graph: GraphProto) -> bool:
    values = (*graph.input, *graph.output, *graph.value_info)
    return (
        any(tensor.data_type == HALF for tensor in graph.initializer)
        or any(value.type.tensor_type.elem_type == HALF for value in values)
        or any(attribute.t.data_type == HALF for node in graph.node for attribute in node.attribute)
        or any(_names_half(attribute) for node in graph.node for attribute in node.attribute)
    )


def _names_half(attribute: onnx.AttributeProto) -> bool:
    return attribute.name in ELEMENTS and attribute.type == onnx.AttributeProto.INT and attribute.i == HALF


def _widen(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif _names_half(attribute):
                attribute.i = SINGLE
    for value in graph.value_info:
        _widen_value(value)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == HALF:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def _widen_value(value: onnx.ValueInfoProto) -> None:
    if value.type.tensor_type.elem_type == HALF:
        value.type.tensor_type.elem_type = SINGLE


def _cast_ends(graph: GraphProto) -> None:
    """A Cast behind each float16 input, and one before each float16 output."""
    stored = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in stored:
            _widen_value(value)
    taken = {name: None for node in graph.node for name in (*node.input, *node.output)}
    halves = [value.name for value in graph.input if value.type.tensor_type.elem_type == HALF]
    inside = {name: _fresh(f"{name}.single", taken) for name in halves}
    outputs = [value.name for value in graph.output if value.type.tensor_type.elem_type == HALF]
    made = {name: _fresh(f"{name}.single", taken) for name in outputs if name not in inside}
    _rename(graph.node, inside, made)
    before = [_cast(name, single, SINGLE) for name, single in inside.items()]
    after = [_cast(single, name, HALF) for name, single in made.items()]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)


def _fresh(name: str, taken: dict[str, None]) -> str:
    found = fresh_name(name, taken)
    taken[found] = None
    return found


def _rename(nodes: Iterable[NodeProto], read: dict[str, str], made: dict[str, str]) -> None:
    """Other names for tensors of the main graph, also where graphs inside it read them."""
    both = {**read, **made}
    for node in nodes:
        node.input[:] = [both.get(name, name) for name in node.input]
        node.output[:] = [made.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                own = {name for each in inner.node for name in each.output} | {value.name for value in inner.input}
                _rename(inner.node, {old: new for old, new in both.items() if old not in own}, {})


def _cast(source: str, result: str, to: int) -> NodeProto:
    return helper.make_node("Cast", [source], [result], to=to)
