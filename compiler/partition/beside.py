"""Nodes beside what is quantised: nothing for the machine.

A quantised network has some where it hands on a state, or turns an index into a real number.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.importers.control_flow import reads
from tilewright.compiler.simplify.check import QUANTIZERS
from tilewright.isa.program.stored_types import COMPUTED, STORED_TYPES

STORED = frozenset(helper.np_dtype_to_tensor_dtype(STORED_TYPES[name].dtype) for name in COMPUTED)
"""ONNX's numbers of the element types that the machine computes with."""


def nodes_beside(model: onnx.ModelProto) -> dict[str, CompileError]:
    """The nodes that make outputs of inputs, and of nothing quantised; none where nothing is quantised at all."""
    graph = model.graph
    if not any(_quantizes(node) for node in graph.node):
        return {}
    types = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    plain = _plain_tensors(graph, types)
    ends = {value.name for value in graph.output}
    found: dict[str, CompileError] = {}
    for node in reversed(graph.node):
        made = ends.intersection(filter(None, node.output))
        if made and plain.issuperset(made):
            fact = f"makes {min(made)!r} of inputs of the model that are not quantised"
            found[node.name] = CompileError(NodeName(node.name, node.op_type), fact)
            ends |= plain.intersection(reads(node))
    return found


def _plain_tensors(graph: onnx.GraphProto, types: Mapping[str, onnx.ValueInfoProto]) -> set[str]:
    """Inputs, and what nodes make of them alone, as far as no quantisation says what their integers mean."""
    constant = {tensor.name for tensor in graph.initializer}
    quantized = {name for node in graph.node if _quantizes(node) for name in node.input}
    stored = {value.name for value in graph.input if value.name in quantized and _is_stored(types[value.name])}
    plain = {value.name for value in graph.input} - constant - stored
    for node in graph.node:
        read = set(reads(node)) - constant
        if _quantizes(node) or not read or not read <= plain | stored:
            continue
        for result in filter(None, node.output):
            is_stored = read <= stored and result in types and _is_stored(types[result])
            (stored if is_stored else plain).add(result)
    return plain


def _quantizes(node: onnx.NodeProto) -> bool:
    """Whether a node is a quantisation, or works on integers by itself."""
    return f"onnx.{node.op_type}" in QUANTIZERS


def _is_stored(value: onnx.ValueInfoProto) -> bool:
    """Whether a tensor has elements that pass to the machine, and back from it, as they are."""
    return value.type.tensor_type.elem_type in STORED
