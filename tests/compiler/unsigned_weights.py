"""The same network with uint8 weights in place of int8 ones, where they meet uint8 inputs.

ONNX Runtime multiplies uint8 by int8 in pairs. On a processor with AVX2 and without VNNI, the sum of two such products
is limited to int16, so its results are not those of the operator. Products of uint8 by uint8 are exact everywhere.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

PLACES = {
    "ConvInteger": (0, 2, 1, 3),
    "MatMulInteger": (0, 2, 1, 3),
    "QLinearConv": (0, 2, 3, 5),
    "QLinearMatMul": (0, 2, 3, 5),
    "QGemm": (0, 2, 3, 5),
}
"""By operator, the places of the input and its zero point, and of the weights and theirs."""

OFFSET = 128
"""What is added to weights and to their zero points, so that their differences stay."""


def with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of a model: constant int8 weights that meet uint8 are uint8, with zero points that are 128 more."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    for number, node in enumerate(graph.node):
        if node.op_type not in PLACES:
            continue
        x, x_zero, weights, zero = (node.input[at] if at < len(node.input) else "" for at in PLACES[node.op_type])
        is_unsigned = TensorProto.UINT8 in (types.get(x), types.get(x_zero))
        if not is_unsigned or weights not in constants or types[weights] != TensorProto.INT8:
            continue
        shifted = numpy_helper.to_array(constants[zero]) if zero else np.zeros((), np.int8)
        for name, values in ((weights, numpy_helper.to_array(constants[weights])), (zero, shifted)):
            graph.initializer.append(numpy_helper.from_array(_unsigned(values), f"{name}_unsigned_{number}"))
        while len(node.input) <= PLACES[node.op_type][3]:
            node.input.append("")
        for at, name in zip(PLACES[node.op_type][2:], (weights, zero), strict=True):
            node.input[at] = f"{name}_unsigned_{number}"
    return made


def _unsigned(values: NDArray[np.int8]) -> NDArray[np.uint8]:
    return (values.astype(np.int16) + OFFSET).astype(np.uint8)
