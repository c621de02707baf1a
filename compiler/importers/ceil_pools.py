"""Pools with ceil_mode whose last window begins in the padding: ONNX Runtime and PyTorch leave this window out.

So does ONNX from opset 22 on. Its shape inference for older opsets counts the window, so that such a pool takes the
place of itself there: one without ceil_mode, of which there are as many windows as are computed.

Example: a window of 2 that moves by 2 over 5 elements, with 1 of padding at each end, begins at -1, 1, 3 and 5. The
last begins behind the image, so that there are three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import NodeProto, helper

from tilewright.compiler.importers.opsets import NAMES_OF_DEFAULT_DOMAIN

POOLS = ("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool")

SPATIAL = 2
"""The first dimension over which windows move."""

Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class _WindowAxis:
    """How a window moves along one dimension."""

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
