"""The shapes and types of all tensors of a model, inferred by the onnx package."""

from __future__ import annotations

import onnx

from tilewright.compiler.importers.onnx_microsoft import with_functions

UNKNOWN, ALIKE = "GroupNormalization", "InstanceNormalization"
"""An operator of which the onnx package infers nothing, and one whose result has its operand's shape just so."""


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of all tensors; raises what ONNX's shape inference raises."""
    extended = with_functions(model)
    unknown = [at for at, node in enumerate(model.graph.node) if node.op_type == UNKNOWN and not node.domain]
    if unknown and extended is model:
        extended = onnx.ModelProto()
        extended.CopyFrom(model)
    for at in unknown:
        extended.graph.node[at].op_type = ALIKE
        del extended.graph.node[at].attribute[:]
    inferred = onnx.shape_inference.infer_shapes(extended, check_type=True, strict_mode=True, data_prop=True)
    for at in unknown:
        inferred.graph.node[at].CopyFrom(model.graph.node[at])
    return inferred
