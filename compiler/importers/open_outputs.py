"""Outputs whose types a file leaves open: without a type or a shape, or with sizes that are no sizes, such as -1.

ONNX asks for a type and a shape. Many exporters leave them out, and ONNX Runtime does not ask for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx


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
