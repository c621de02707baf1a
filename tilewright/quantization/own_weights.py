"""Gives products that read one constant along different dimensions a copy each: scales go by output channel.

Example: tied weights [8, 8] in a Gemm and, transposed, in another have their output channels in dimension 1 and in 0.
"""

from __future__ import annotations

import onnx


def own_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a copy of such a constant for each further dimension; the first reader keeps the original."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in made.graph.initializer}
    taken: dict[str, dict[int, str]] = {}
    for node in made.graph.node:
        axis = _output_channels(node)
        if axis is None or node.input[1] not in constants:
            continue
        names = taken.setdefault(node.input[1], {})
        if axis not in names:
            names[axis] = _copied(made, constants, node.input[1], axis) if names else node.input[1]
        node.input[1] = names[axis]
    return made


def _output_channels(node: onnx.NodeProto) -> int | None:
    """The dimension of a product's weights that is the channels of its result."""
    match node.op_type:
        case "Conv":
            return 0
        case "ConvTranspose" | "MatMul":
            return 1
        case "Gemm":
            return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return None


def _copied(model: onnx.ModelProto, constants: dict[str, onnx.TensorProto], original: str, axis: int) -> str:
    name = f"{original}/{axis}"
    while name in constants:
        name += "'"
    tensor = model.graph.initializer.add()
    tensor.CopyFrom(constants[original])
    tensor.name = name
    constants[name] = tensor
    return name
