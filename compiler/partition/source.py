"""A model as the partition needs it: every node has a name; which nodes read and make each tensor; what is constant.

Some nodes belong to no side. Those whose operands are all constant (dequantised weights, shape arithmetic), and those
that dequantise an activation, are *free*: each part of a cut network gets its own copy of those that it reads, so that
a tensor crosses between parts as integers and weights never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.inliner import inline_local_functions

from tilewright.compiler.errors import CompileError, NodeName
from tilewright.compiler.graph.graph import Graph, Operator, TensorType
from tilewright.compiler.importers.batches.batch import for_images, with_one_image
from tilewright.compiler.importers.batches.place import ImageAxis
from tilewright.compiler.importers.constants import follows_from_operands
from tilewright.compiler.importers.control_flow import drop_unreached_nodes, reached, reads
from tilewright.compiler.importers.import_onnx import (
    build_graph,
    finish_onnx,
    named_nodes,
    read_onnx,
    require_shapes,
    tensor_type,
)
from tilewright.compiler.importers.input_shapes import Shapes
from tilewright.compiler.importers.opsets import check_node, check_schema, opset_of
from tilewright.compiler.importers.remarks import reasons_of
from tilewright.compiler.partition.beside import nodes_beside


@dataclass(frozen=True, eq=False)
class Source:
    """A whole model. Nodes are in an order that computes each tensor before it is read."""

    model: onnx.ModelProto  # every node named, constants as initialisers
    nodes: Mapping[str, onnx.NodeProto]  # by name
    producers: Mapping[str, str]  # tensor → node
    read: Mapping[str, tuple[str, ...]]  # node → the tensors that it reads, each once
    readers: Mapping[str, tuple[str, ...]]  # tensor → nodes
    types: Mapping[str, onnx.ValueInfoProto]  # of tensors whose type is known
    initializers: Mapping[str, onnx.TensorProto]
    free: frozenset[str]  # nodes that every part may have its own copy of
    refused: Mapping[str, CompileError]  # nodes that the compiler does not even read
    places: Mapping[str, ImageAxis]  # where images lie, of a model for a batch; empty for others

    @cached_property
    def graph(self) -> Graph:
        """Every node that the compiler reads, and all tensors whose type is known. Raises CompileError."""
        return build_graph(self.model, opset_of(self.model), self.refused)

    @cached_property
    def operators(self) -> Mapping[str, Operator]:
        """Node → what it is in the graph; nodes that only hold a constant are none."""
        return {operator.name: operator for operator in self.graph.operators}

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Node → its place in the model's order."""
        return {name: position for position, name in enumerate(self.nodes)}

    @cached_property
    def order(self) -> Mapping[str, int]:
        """Tensor that is not constant → its place in the model's order."""
        return {name: position for position, name in enumerate((*self.inputs, *self.producers))}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.model.graph.input if value.name not in self.initializers)

    @cached_property
    def unused(self) -> frozenset[str]:
        """Inputs that no output depends on."""
        return frozenset(self.inputs) - reached(self.model.graph)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return tuple(value.name for value in self.model.graph.output)

    def tensor_type(self, tensor: str) -> TensorType | None:
        """A tensor's type; None if its shape is not fixed."""
        if tensor not in self.types:
            return None
        try:
            return tensor_type(self.types[tensor])
        except CompileError:
            return None

    def bytes(self, tensor: str) -> int:
        """The size of a tensor of fixed shape; 0 for others."""
        known = self.tensor_type(tensor)
        if known is None:
            return 0
        value = self.types[tensor].type.tensor_type.elem_type
        return prod(known.shape) * onnx.helper.tensor_dtype_to_np_dtype(value).itemsize


def read_source(source: str | Path | bytes, shapes: Shapes | None = None, batch: int | None = None) -> Source:
    """Read and check a model; raises CompileError for a faulty file, but not for operators that the compiler lacks.

    With a `batch`, it is the model for so many images, each of which gives what it gives alone; raises CompileError
    for one that may mix them.
    """
    model, name = read_onnx(source, shapes)
    if batch is not None:
        model = with_one_image(model, shapes or {}, batch)
    if model.functions:
        model = inline_local_functions(model)
    try:
        inferred, _ = finish_onnx(model, name)
    except CompileError:
        for node_name, node in named_nodes(model):  # an operator that does not exist, or is not whole, may be the cause
            check_schema(node_name, node, opset_of(model))
        raise
    if [_type_of(value) for value in inferred.graph.input] != [_type_of(value) for value in model.graph.input]:
        raise CompileError(name, "converting its opset changes its inputs", remedy="export it anew with a later opset")
    ready = _ready(inferred)
    return index_model(ready) if batch is None else _for_images(ready, batch, name)


def _ready(inferred: onnx.ModelProto) -> onnx.ModelProto:
    """The model with names for all nodes, without those that no output needs, its constants as initialisers."""
    del inferred.functions[:]  # those that shape inference needed
    for node, (node_name, _) in zip(inferred.graph.node, list(named_nodes(inferred)), strict=True):
        node.name = node_name
    drop_unreached_nodes(inferred.graph)
    return _with_constants(inferred)


def _for_images(model: onnx.ModelProto, batch: int, name: str) -> Source:
    """The model for so many images; raises CompileError as `for_images` does."""
    changed = for_images(model, batch, name)
    if changed.model is model:
        return index_model(model, changed.places)
    inferred, _ = finish_onnx(changed.model, name)
    changed.require_shapes(inferred)
    return index_model(_ready(inferred), changed.places)


def _type_of(value: onnx.ValueInfoProto) -> tuple[str, bytes]:
    return value.name, value.type.SerializeToString(deterministic=True)


def index_model(model: onnx.ModelProto, places: Mapping[str, ImageAxis] | None = None) -> Source:
    """What `read_source` finds in a model whose nodes have names and whose shapes are inferred."""
    graph = model.graph
    nodes = {node.name: node for node in graph.node}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    types = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    producers = {output: node.name for node in graph.node for output in node.output if output}
    reading: dict[str, list[str]] = {}
    read = {node.name: tuple(dict.fromkeys(reads(node))) for node in graph.node}
    for name, tensors in read.items():
        for tensor in tensors:
            reading.setdefault(tensor, []).append(name)
    readers = {tensor: tuple(names) for tensor, names in reading.items()}
    opset = opset_of(model)
    refused = {**nodes_beside(model), **_refused(graph.node, opset, types), **_left_to_host(model)}
    free = _free_nodes(model, initializers, refused)
    return Source(model, nodes, producers, read, readers, types, initializers, free, refused, places or {})


def _with_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """With an initialiser in place of every Constant that holds a tensor and every Shape that is known."""
    types = {value.name: value for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    types |= {t.name: _value_info(t) for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        value = _constant_of(node, types)
        if value is None:
            kept.append(node)
        else:
            value.name = node.output[0]
            model.graph.initializer.append(value)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _value_info(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)


def _constant_of(node: onnx.NodeProto, types: Mapping[str, onnx.ValueInfoProto]) -> onnx.TensorProto | None:
    """What a Constant holds or a Shape gives, if it is known."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    value = onnx.TensorProto()
    if node.op_type == "Constant" and set(attributes) == {"value"}:
        value.CopyFrom(attributes["value"].t)
        return value
    if node.op_type == "Shape" and node.input[0] in types:
        try:
            shape = tensor_type(types[node.input[0]]).shape
        except CompileError:
            return None
        first = attributes["start"].i if "start" in attributes else 0
        last = attributes["end"].i if "end" in attributes else None
        value.CopyFrom(numpy_helper.from_array(np.array(shape, np.int64)[first:last]))
        return value
    return None


def _left_to_host(model: onnx.ModelProto) -> dict[str, CompileError]:
    """Nodes that the reading of the file gave to the host, with its reasons."""
    reasons = reasons_of(model)
    nodes = (node for node in model.graph.node if node.name in reasons)
    return {node.name: CompileError(NodeName(node.name, node.op_type), reasons[node.name]) for node in nodes}


def _refused(
    nodes: Sequence[onnx.NodeProto], opset: int, types: Mapping[str, onnx.ValueInfoProto]
) -> dict[str, CompileError]:
    """Why the compiler cannot read some nodes at all: first those whose operator it does not know."""
    refused: dict[str, CompileError] = {}
    for check in (partial(_check_operator, opset), partial(_check_results, types)):
        for node in nodes:
            try:
                check(node)
            except CompileError as error:
                refused.setdefault(node.name, error)
    return refused


def _check_operator(opset: int, node: onnx.NodeProto) -> None:
    check_node(node.name, node, opset)


def _check_results(types: Mapping[str, onnx.ValueInfoProto], node: onnx.NodeProto) -> None:
    require_shapes(node.name, node, types)
    for output in filter(None, node.output):
        tensor_type(types[output])


def _free_nodes(
    model: onnx.ModelProto, initializers: Mapping[str, onnx.TensorProto], refused: Mapping[str, CompileError]
) -> frozenset[str]:
    constant = set(initializers)
    free = set()
    for node in model.graph.node:
        if node.name in refused or not follows_from_operands(node):
            continue
        if all(name in constant for name in node.input if name):
            constant.update(node.output)
            free.add(node.name)
        elif node.op_type == "DequantizeLinear" and all(name in constant for name in node.input[1:] if name):
            free.add(node.name)
    return frozenset(free)
