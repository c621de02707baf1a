"""What ONNX files leave out: types and shapes of outputs, names of results; and sizes that are none, such as -1.

ONNX asks for a type and a shape of each output. Many exporters leave them out, and ONNX Runtime does not ask for them.
ONNX writes an empty name for an optional result that nobody wants (LSTM → '', y). ONNX Runtime ends the process for
such a result of a Split (seen in 1.32).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx

from tilewright.compiler.graph.graph import fresh_name
from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN


def leave_sizes_open(model: onnx.ModelProto) -> None:
    """Take out the sizes of results that are below 1. Shape inference finds them; it also finds those that are 0."""
    for value in (*model.graph.output, *model.graph.value_info):
        for size in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if size.HasField("dim_value") and size.dim_value < 1:
                size.ClearField("dim_value")


@contextmanager
def stand_ins(model: onnx.ModelProto) -> Iterator[None]:
    """For a while, outputs without a type or a shape have one, so that the rest of the model can be checked."""
    changed = [(value, onnx.ValueInfoProto.FromString(value.SerializeToString())) for value in _open(model)]
    for value, _ in changed:
        tensor = value.type.tensor_type
        tensor.elem_type = tensor.elem_type or onnx.TensorProto.FLOAT
        tensor.shape.SetInParent()
    try:
        yield
    finally:
        for value, before in changed:
            value.CopyFrom(before)
            if not before.type.tensor_type.elem_type:
                value.ClearField("type")


def _open(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    for value in model.graph.output:
        is_tensor = value.type.WhichOneof("value") in (None, "tensor_type")
        if is_tensor and not (value.type.tensor_type.elem_type and value.type.tensor_type.HasField("shape")):
            yield value


def name_omitted_results(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in which every result has a name, but those left out at the end of a node; these are gone.

    The results of an operator with any number of them, such as Split, all have names: their number counts.
    """
    if all(output for node in model.graph.node for output in node.output):
        return model
    named = onnx.ModelProto()
    named.CopyFrom(model)
    taken = set(_names(named.graph))
    for node in named.graph.node:
        results = list(node.output) if _counts_results(node) else _up_to_last(node.output)
        for place, result in enumerate(results):
            if not result:
                results[place] = fresh_name(f"{node.name or node.op_type}.unused{place}", taken)
                taken.add(results[place])
        del node.output[:]
        node.output.extend(results)
    return named


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in (*graph.input, *graph.initializer, *graph.output))
    for node in graph.node:
        yield from node.output


def _up_to_last(results: Sequence[str]) -> list[str]:
    """The results up to the last that has a name."""
    last = max((place for place, result in enumerate(results) if result), default=-1)
    return list(results[: last + 1])


def _counts_results(node: onnx.NodeProto) -> bool:
    if node.domain not in NAMES_OF_DEFAULT_DOMAIN or not onnx.defs.has(node.op_type):
        return False
    results = onnx.defs.get_schema(node.op_type).outputs
    return bool(results) and results[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
