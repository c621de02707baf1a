"""Gemm in the form that the quantiser takes: alpha is in the weights, beta in the bias, and the bias is one row.

ONNX lets the bias be [N], [1, N], [1] or a scalar; with scales by channel, ONNX Runtime's quantiser takes only [N].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper


def plain_gemm(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the constants of each Gemm in that form, where they are constants and one row."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type == "Gemm" and node.input[1] in constants and _is_float(constants[node.input[1]]):
            _fold_factors(made, node, constants)
    return made


def has_plain_bias(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> bool:
    """True for a Gemm without bias, with a computed one, and with a constant one that is one row."""
    return len(node.input) < 3 or node.input[2] not in constants or len(constants[node.input[2]].dims) == 1


def _is_float(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_type == onnx.TensorProto.FLOAT)


def _fold_factors(model: onnx.ModelProto, node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> None:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    weights = numpy_helper.to_array(constants[node.input[1]])
    alpha = attributes.get("alpha", 1.0)
    if alpha != 1:
        _replace(model, node, 1, weights * np.float32(alpha), constants)
        _drop_attribute(node, "alpha")
    columns = weights.shape[0] if attributes.get("transB", 0) else weights.shape[1]
    if len(node.input) < 3 or node.input[2] not in constants:
        return
    bias = numpy_helper.to_array(constants[node.input[2]])
    row = bias[0] if bias.ndim == 2 and bias.shape[0] == 1 else bias
    beta = attributes.get("beta", 1.0)
    if row.ndim > 1 or row.size not in (1, columns) or (row.shape == bias.shape == (columns,) and beta == 1):
        return
    _replace(model, node, 2, np.array(np.broadcast_to(row.ravel() * np.float32(beta), (columns,))), constants)
    _drop_attribute(node, "beta")


def _replace(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    position: int,
    value: NDArray[Any],
    constants: dict[str, onnx.TensorProto],
) -> None:
    """Give a node a constant of its own; the old one may have other readers."""
    name = f"{node.input[position]}/{node.name}"
    while name in constants:
        name += "'"
    tensor = model.graph.initializer.add()
    tensor.CopyFrom(numpy_helper.from_array(value, name))
    constants[name] = tensor
    node.input[position] = name


def _drop_attribute(node: onnx.NodeProto, name: str) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
