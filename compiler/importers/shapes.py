"""The shapes of the tensors of a model: inferred by the onnx package, and read from where the model keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from tilewright.compiler.importers.ceil_pools import forget_shapes, rounds_up, without_late_windows
from tilewright.compiler.importers.onnx_microsoft import with_functions, without_overloads

UNKNOWN, ALIKE = "GroupNormalization", "InstanceNormalization"
"""An operator of which the onnx package infers nothing, and one whose result has its operand's shape just so."""


def infer_shapes(model: onnx.ModelProto, strict: bool = True) -> onnx.ModelProto:
    """The model with the types of all tensors; raises what ONNX's shape inference raises.

    Unless it is `strict`, what cannot be inferred is left out. A pool has the shape that ONNX Runtime gives it, also
    where the file says otherwise.
    """
    extended = with_functions(model)
    others = {
        at: onnx.NodeProto(op_type=ALIKE, input=node.input, output=node.output, name=node.name)
        for at, node in enumerate(model.graph.node)
        if node.op_type == UNKNOWN and not node.domain
    }
    pools = [at for at, node in enumerate(model.graph.node) if rounds_up(node)]
    if (others or pools) and extended is model:
        extended = _copy(model)
    _replace(extended, others)
    late = _pools_without_late_windows(extended, pools)
    if late:
        forget_shapes(extended)
        _replace(extended, late)
    inferred = onnx.shape_inference.infer_shapes(extended, check_type=strict, strict_mode=strict, data_prop=True)
    _replace(inferred, {at: model.graph.node[at] for at in (*others, *late)})
    if extended is not model:
        without_overloads(inferred)
    return inferred


def _pools_without_late_windows(model: onnx.ModelProto, pools: Sequence[int]) -> dict[int, onnx.NodeProto]:
    """Where pools stand of which too large a shape is inferred, and what takes their place there."""
    found: dict[int, onnx.NodeProto] = {}
    if not pools:
        return found
    tried = _copy(model)
    forget_shapes(tried)
    shapes = _inferred(tried)
    for at in pools:
        node = tried.graph.node[at]
        other = without_late_windows(node, shapes.get(node.input[0]), shapes.get(node.output[0]))
        if other is not None:
            found[at] = other
            _replace(tried, {at: other})
            shapes = _inferred(tried)  # those of later pools follow from this one's
    return found


def _inferred(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    return known_shapes(onnx.shape_inference.infer_shapes(model, data_prop=True))


def _replace(model: onnx.ModelProto, nodes: Mapping[int, onnx.NodeProto]) -> None:
    for at, node in nodes.items():
        model.graph.node[at].CopyFrom(node)


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied


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
