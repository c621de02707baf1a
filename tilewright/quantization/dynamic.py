"""Networks that quantise their activations in each run, as float networks again, to be quantised once.

    DynamicQuantizeLinear(x) → q, s, z     MatMulInteger(q, w, z, w's zero) · (s · w's scale)
    becomes                                MatMul(x, w - w's zero) · (1 · w's scale)

The same for ConvInteger. ONNX Runtime's `quantize_dynamic` writes these forms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

PRODUCTS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""Product of integers → that of reals."""

QUANTIZER = "DynamicQuantizeLinear"


def is_dynamic(model: onnx.ModelProto) -> bool:
    """Whether a model quantises activations in each run."""
    return any(node.op_type == QUANTIZER for node in model.graph.node)


def without_dynamic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The float network that such a model stands for; what has another form stays as it is."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    quantizers = {n.output[0]: n for n in model.graph.node if n.op_type == QUANTIZER and _is_plain(n, model)}
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type in PRODUCTS and node.input[0] in quantizers:
            real = _real_weights(node, constants)
            if real is not None:
                name = f"{node.output[0]}.weight"
                made.graph.initializer.append(numpy_helper.from_array(real, name))
                kept.append(_real_product(node, quantizers[node.input[0]].input[0], name))
                continue
        kept.append(node)
    read = {name for node in kept for name in node.input} | {value.name for value in made.graph.output}
    for quantizer in quantizers.values():
        if quantizer.output[0] not in read:
            kept.remove(quantizer)
            made.graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), quantizer.output[1]))
    del made.graph.node[:]
    made.graph.node.extend(kept)
    results = {node.output[0] for node in kept}
    types = [value for value in made.graph.value_info if value.name not in results]
    del made.graph.value_info[:]
    made.graph.value_info.extend(types)
    return made


def _is_plain(quantizer: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """Whether only products of constant weights read the integers, so that the scale is all else that is read."""
    constants = {tensor.name for tensor in model.graph.initializer}
    readers = [node for node in model.graph.node if set(quantizer.output[:1]) & set(node.input)]
    return all(node.op_type in PRODUCTS and node.input[1] in constants for node in readers)


def _real_weights(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> NDArray[np.float32] | None:
    """The weights less their zero point; None where this is computed."""
    zero = node.input[3] if len(node.input) > 3 else ""
    if node.input[1] not in constants or (zero and zero not in constants):
        return None
    values: NDArray[Any] = numpy_helper.to_array(constants[node.input[1]]).astype(np.float32)
    return values - (numpy_helper.to_array(constants[zero]).astype(np.float32) if zero else np.float32(0))


def _real_product(node: onnx.NodeProto, x: str, weights: str) -> onnx.NodeProto:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return helper.make_node(PRODUCTS[node.op_type], [x, weights], node.output, node.name, **attributes)
