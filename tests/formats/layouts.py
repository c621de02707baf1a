"""A quantised network with an image as input, changed to take the image channels last, or as integers."""

from __future__ import annotations

import onnx
from onnx import helper


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with an input of [N, H, W, C], and a Transpose behind it."""
    made = _copy(model)
    (image,) = made.graph.input
    batch, channels, height, width = (d.dim_value for d in image.type.tensor_type.shape.dim)
    inner = f"{image.name}.first"
    _rename_reads(made.graph, image.name, inner)
    turn = helper.make_node("Transpose", [image.name], [inner], name="channels.first", perm=[0, 3, 1, 2])
    made.graph.node.insert(0, turn)
    element = image.type.tensor_type.elem_type
    image.CopyFrom(helper.make_tensor_value_info(image.name, element, [batch, height, width, channels]))
    return made


def integer_input(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network without the QuantizeLinear of its input, which is what that would give."""
    made = _copy(model)
    (image,) = made.graph.input
    (quantize,) = (node for node in made.graph.node if image.name in node.input)
    assert quantize.op_type == "QuantizeLinear"
    zero = next(tensor for tensor in made.graph.initializer if tensor.name == quantize.input[2])
    made.graph.node.remove(quantize)
    _rename_reads(made.graph, quantize.output[0], image.name)
    image.type.tensor_type.elem_type = zero.data_type
    return made


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    return made


def _rename_reads(graph: onnx.GraphProto, before: str, after: str) -> None:
    for node in graph.node:
        node.input[:] = [after if name == before else name for name in node.input]
