"""The shapes of what loops give: ONNX's inference leaves them out, because a state may change its shape."""

from __future__ import annotations

import onnx

from tilewright.compiler.importers.shapes import known_shape


def count_loops(graph: onnx.GraphProto) -> int:
    return sum(node.op_type == "Loop" for node in graph.node)


def keep_state_shapes(graph: onnx.GraphProto) -> bool:
    """Give results of loops the shapes of their states, where the body says that these stay; whether there are any."""
    loops = [node for node in graph.node if node.op_type == "Loop"]
    values = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
    stored = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    is_changed = False
    for loop in loops:
        body = next(attribute.g for attribute in loop.attribute if attribute.name == "body")
        states = zip(loop.input[2:], body.input[2:], body.output[1:], loop.output, strict=False)
        for first, before, after, result in states:
            shape = known_shape(values[first]) if first in values else stored.get(first)
            is_kept = shape is not None and shape == known_shape(before) == known_shape(after)
            if shape is not None and is_kept and result in values and known_shape(values[result]) is None:
                made = onnx.helper.make_tensor_value_info(result, after.type.tensor_type.elem_type, shape)
                values[result].CopyFrom(made)
                is_changed = True
    return is_changed
