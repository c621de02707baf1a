"""Constants of a network in QDQ form: what DequantizeLinear makes of them, and what takes their place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper


def constants_of(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """The constants by name."""
    return {tensor.name: tensor for tensor in model.graph.initializer}


def dequantizers(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The DequantizeLinear nodes by the names of their results."""
    return {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}


def dequantized(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> NDArray[np.float32]:
    """What a DequantizeLinear of constants gives, with one scale, one for each channel, or one for each block.

    Example: codes [70, 3] with blocks of 32 along axis 0 have scales [3, 3]: the first 32 rows have the first one.
    """
    said = {attribute.name: attribute.i for attribute in node.attribute}
    codes, *steps = (numpy_helper.to_array(constants[name]).astype(np.float32) for name in node.input if name)
    axis, block = said.get("axis", 1), said.get("block_size", 0)
    scales, *zeros = (_spread(each, codes.shape, axis, block) for each in steps)
    return np.asarray((codes - zeros[0] if zeros else codes) * scales, np.float32)


def _spread(values: NDArray[np.float32], shape: tuple[int, ...], axis: int, block: int) -> NDArray[np.float32]:
    """Scales or zero points that broadcast against a tensor of this shape."""
    if block:
        return values.repeat(block, axis).take(range(shape[axis]), axis)
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1 if each == axis % len(shape) else 1 for each in range(len(shape))])


def with_constants(model: onnx.ModelProto, values: Mapping[str, NDArray[np.float32]]) -> onnx.ModelProto:
    """The model with constants in place of the nodes that give these tensors; itself where there are none."""
    if not values:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    put_constants(made, values)
    return made


def put_constants(model: onnx.ModelProto, values: Mapping[str, NDArray[np.float32]]) -> None:
    """Put constants in place of the nodes that give these tensors."""
    kept = [node for node in model.graph.node if node.output[0] not in values]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    drop_unread(model)


def drop_unread(model: onnx.ModelProto) -> None:
    """Remove constants that no node reads, such as zero points of what has none now."""
    outputs = {value.name for value in model.graph.output}
    inner = [
        graph for node in model.graph.node for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)
    ]
    nodes = [*model.graph.node, *(node for graph in inner for node in graph.node)]
    read = {name for node in nodes for name in node.input} | outputs
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
