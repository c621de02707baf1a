"""Models with weights of four bits, as ONNX has them since opset 21: made of int8 ones."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 21, 10


def with_narrow_weights(model: onnx.ModelProto, element: str = "INT4", zero: int = 0) -> onnx.ModelProto:
    """The model with the high four bits of each int8 weight, less their least value where `element` is UINT4."""
    narrow = onnx.ModelProto.FromString(model.SerializeToString())
    constants = {tensor.name: tensor for tensor in narrow.graph.initializer}
    least = -8 if element == "INT4" else 0
    for node in narrow.graph.node:
        held = constants.get(node.input[0])
        if node.op_type != "DequantizeLinear" or held is None or held.data_type != TensorProto.INT8:
            continue
        values = (numpy_helper.to_array(held).astype(np.int64) >> 4) + 8 + least
        zeros = np.full(tuple(constants[node.input[2]].dims), zero)
        for tensor, content in ((held, values), (constants[node.input[2]], zeros)):
            kind = TensorProto.DataType.Value(element)
            tensor.CopyFrom(helper.make_tensor(tensor.name, kind, content.shape, content.ravel().tolist()))
    narrow.opset_import[0].version, narrow.ir_version = OPSET, IR_VERSION
    del narrow.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(narrow, strict_mode=True)
