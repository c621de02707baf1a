"""The shapes of the tensors of a model: inferred by the onnx package, and read from where the model keeps them."""

from __future__ import annotations

import onnx

from tilewright.compiler.importers.onnx_microsoft import with_functions

UNKNOWN, ALIKE = "GroupNormalization", "InstanceNormalization"
"""An operator of which the onnx package infers nothing, and one whose result has its operand's shape just so."""


def infer_shapes(model: onnx.ModelProto, strict: bool = True) -> onnx.ModelProto:
    """The model with the types of all tensors; raises what ONNX's shape inference raises.

    Unless it is `strict`, what cannot be inferred is left out.
    """
    extended = with_functions(model)
    unknown = [at for at, node in enumerate(model.graph.node) if node.op_type == UNKNOWN and not node.domain]
    if unknown and extended is model:
        extended = onnx.ModelProto()
        extended.CopyFrom(model)
    for at in unknown:
        extended.graph.node[at].op_type = ALIKE
        del extended.graph.node[at].attribute[:]
    inferred = onnx.shape_inference.infer_shapes(extended, check_type=strict, strict_mode=strict, data_prop=True)
    for at in unknown:
        inferred.graph.node[at].CopyFrom(model.graph.node[at])
    return inferred


def known_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of the main graph whose sizes are all known; `infer_shapes` makes more of them known."""
    found = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        shape = known_shape(value)
        if shape is not None and value.name not in found:
            found[value.name] = shape
    return found


def known_shape(value: onnx.ValueInfoProto) -> tuple[int, ...] | None:
    """The sizes of a tensor; None unless all are known."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    sizes = []
    for size in tensor.shape.dim:
        # A size that is left out reads as 0, too, and to ask whether it is there takes as long as to read it.
        if not (found := size.dim_value) and not size.HasField("dim_value"):
            return None
        sizes.append(found)
    return tuple(sizes)
