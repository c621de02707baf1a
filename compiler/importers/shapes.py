"""The shapes of the tensors of a model: inferred by the onnx package, and read from where the model keeps them.

Its inference leaves out what loops give, because a state may change its shape. Before opset 22, it also counts windows
of pools that neither ONNX Runtime nor PyTorch computes. Both are made good here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import NodeProto, helper

from tilewright.compiler.importers.onnx_microsoft import with_functions, without_overloads
from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN, has_only_own_operators

UNKNOWN, ALIKE = "GroupNormalization", "InstanceNormalization"
"""An operator of which the onnx package infers nothing, and one whose result has its operand's shape just so."""


def infer_shapes(model: onnx.ModelProto, strict: bool = True) -> onnx.ModelProto:
    """The model with the types of all tensors; raises what ONNX's shape inference raises.

    Unless it is `strict`, what cannot be inferred is left out. A pool has the shape that ONNX Runtime gives it, also
    where the file says otherwise.
    """
    extended = model if has_only_own_operators(model) else with_functions(model)
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


# -- pools with ceil_mode whose last window begins in the padding ------------------------------------------------------


POOLS = ("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool")

SPATIAL = 2
"""The first dimension over which windows move."""

Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class _WindowAxis:
    """How a window moves along one dimension.

    Example: a window of 2 that moves by 2 over 5 elements, with 1 of padding at each end, begins at -1, 1, 3 and 5. The
    last begins behind the image, so that there are three.
    """

    size: int
    taps: int  # with the gaps between them
    stride: int
    before: int
    after: int

    @property
    def windows(self) -> int:
        """Those that begin in the image or in the padding before it."""
        room = self.size + self.before + self.after - self.taps
        counted = -(-room // self.stride) + 1
        return counted - ((counted - 1) * self.stride >= self.size + self.before)

    @property
    def padding_for_floor(self) -> int:
        """What is enough at the end for `windows` without ceil_mode."""
        return max(0, (self.windows - 1) * self.stride + self.taps - self.size - self.before)


def rounds_up(node: NodeProto) -> bool:
    """Whether a node is a pool with ceil_mode."""
    return node.op_type in POOLS and any(each.name == "ceil_mode" and each.i == 1 for each in node.attribute)


def without_late_windows(node: NodeProto, image: Shape | None, inferred: Shape | None) -> NodeProto | None:
    """A node of which ONNX infers the shape that the result of a pool that `rounds_up` has.

    None where that is what it has `inferred` of the pool itself, or where nothing is known.
    """
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    axes = _axes(attributes, image)
    if axes is None or inferred is None or [axis.windows for axis in axes] == list(inferred[SPATIAL:]):
        return None
    floored = {name: value for name, value in attributes.items() if name not in ("ceil_mode", "pads", "auto_pad")}
    pads = [*(axis.before for axis in axes), *(axis.padding_for_floor for axis in axes)]
    return helper.make_node(node.op_type, node.input, node.output, node.name, domain=node.domain, pads=pads, **floored)


def _axes(attributes: Mapping[str, object], image: Shape | None) -> list[_WindowAxis] | None:
    """None where the shapes are those of another rule, or not known."""
    kernel = attributes.get("kernel_shape")
    auto_pad = attributes.get("auto_pad", b"NOTSET")
    if image is None or not isinstance(kernel, list) or len(image) != len(kernel) + SPATIAL:
        return None
    if auto_pad not in (b"NOTSET", b"VALID") or attributes.get("channels_last", 0):
        return None
    rank = len(kernel)
    strides, dilations = (_numbers(attributes.get(name), rank, 1) for name in ("strides", "dilations"))
    pads = _numbers(None if auto_pad == b"VALID" else attributes.get("pads"), 2 * rank, 0)
    if strides is None or dilations is None or pads is None or min(*strides, *dilations, *kernel) < 1:
        return None
    taps = [(count - 1) * dilation + 1 for count, dilation in zip(kernel, dilations, strict=True)]
    return [_WindowAxis(*each) for each in zip(image[SPATIAL:], taps, strides, pads[:rank], pads[rank:], strict=True)]


def _numbers(value: object, count: int, default: int) -> list[int] | None:
    """An attribute of so many numbers; None if it has others."""
    if value is None:
        return [default] * count
    return list(value) if isinstance(value, list) and len(value) == count else None


def forget_shapes(model: onnx.ModelProto) -> None:
    """Take out the shapes of results that a file has inferred itself; those of its outputs become open."""
    made = {name for node in model.graph.node if node.domain in NAMES_OF_DEFAULT_DOMAIN for name in node.output}
    kept = [value for value in model.graph.value_info if value.name not in made]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    for value in model.graph.output:
        if value.name in made and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


# -- results of loops --------------------------------------------------------------------------------------------------


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
