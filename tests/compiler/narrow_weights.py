"""Models with weights of four and two bits, made of int8 ones."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VERSIONS = {4: (21, 10), 2: (25, 13)}
"""The first opset with types of so many bits, and its version of the format."""


def with_narrow_weights(model: onnx.ModelProto, element: str = "INT4", zero: int = 0) -> onnx.ModelProto:
    """The model with the high bits of each int8 weight, less their least value where `element` has no sign."""
    narrow = onnx.ModelProto.FromString(model.SerializeToString())
    constants = {tensor.name: tensor for tensor in narrow.graph.initializer}
    bits = int(element[-1])
    most_below = 1 << bits - 1
    least = 0 if element.startswith("U") else -most_below
    for node in narrow.graph.node:
        held = constants.get(node.input[0])
        if node.op_type != "DequantizeLinear" or held is None or held.data_type != TensorProto.INT8:
            continue
        values = (numpy_helper.to_array(held).astype(np.int64) >> 8 - bits) + most_below + least
        zeros = np.full(tuple(constants[node.input[2]].dims), zero)
        for tensor, content in ((held, values), (constants[node.input[2]], zeros)):
            kind = TensorProto.DataType.Value(element)
            tensor.CopyFrom(helper.make_tensor(tensor.name, kind, content.shape, content.ravel().tolist()))
    narrow.opset_import[0].version, narrow.ir_version = VERSIONS[bits]
    del narrow.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(narrow, strict_mode=True)
