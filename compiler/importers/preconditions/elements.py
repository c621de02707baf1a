"""Preconditions of operators on each element, along one axis, or of matrices."""

from __future__ import annotations

import math

import numpy as np

from tilewright.compiler.importers.preconditions.node import ModelNode, Shape


def axis(node: ModelNode) -> None:
    """A dimension of the first operand; the onnx package looks at the low 32 bits of the number only."""
    shape = node.shape(0)
    if shape is not None and "axis" in node.attributes:
        value, rank = int(node.attributes["axis"]), len(shape)
        node.require(-rank <= value < rank, f"axis = {value}", f"{-rank} to {rank - 1}")


def flatten(node: ModelNode) -> None:
    """The dimension before which the first of two begins; as with other axes, all bits of the number count."""
    shape = node.shape(0)
    if shape is not None:
        value, rank = int(node.attributes["axis"]), len(shape)
        node.require(-rank <= value <= rank, f"axis = {value}", f"{-rank} to {rank}")


def numbers(node: ModelNode) -> None:
    """Numbers in attributes are finite, but limits and what pads may be infinite."""
    for name, value in node.attributes.items():
        if isinstance(value, float) and name not in ("min", "max", "value", "value_float", "extrapolation_value"):
            node.require(math.isfinite(value), f"{name} = {value}", "a finite number")


def gelu(node: ModelNode) -> None:
    node.require_one_of("approximate", "none", "tanh")


def matmul(node: ModelNode) -> None:
    """Both operands have elements."""
    for position in (0, 1):
        shape = node.shape(position)
        node.require(shape is None or 0 not in shape, f"an operand of shape {list(shape or ())}", "sizes above 0")


def gemm(node: ModelNode) -> None:
    """A [M, K] · B [K, N] + C, which broadcasts to [M, N]; A and B as they are, or transposed."""
    matmul(node)
    node.require_one_of("transA", 0, 1)
    node.require_one_of("transB", 0, 1)
    c, result = node.shape(2), node.shapes.get(node.outputs[0])
    if c is not None and result is not None:
        fits = _broadcasts(c, result)
        node.require(fits, f"C of shape {list(c)}", f"a shape that broadcasts to {list(result)}")


def reduce(node: ModelNode) -> None:
    node.require_one_of("keepdims", 0, 1)
    node.require_one_of("noop_with_empty_axes", 0, 1)


def clip(node: ModelNode) -> None:
    """Limits are single numbers."""
    for position, name in ((1, "min"), (2, "max")):
        shape = node.shape(position)
        node.require(shape in (None, (), (1,)), f"{name} of shape {list(shape or ())}", "a single number")


def prelu(node: ModelNode) -> None:
    """The slope broadcasts to the operand."""
    x, slope = node.shape(0), node.shape(1)
    if x is not None and slope is not None:
        fits = _broadcasts(slope, x)
        node.require(fits, f"a slope of shape {list(slope)} for {list(x)}", "a shape that broadcasts to the operand's")


def resize(node: ModelNode) -> None:
    """Positive scales or sizes, and the words that ONNX knows."""
    node.require_one_of("mode", "nearest", "linear", "cubic")
    node.require_one_of("coordinate_transformation_mode", *COORDINATES)
    node.require_one_of("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for position, name in ((2, "scales"), (3, "sizes")):
        if (values := node.constant(position)) is not None:
            are_positive = bool(np.all(np.isfinite(values) & (values > 0)))
            node.require(are_positive, f"{name} {values.tolist()}", "positive numbers")


COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_crop_and_resize", "tf_half_pixel_for_nn"),
)


def _broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether a shape broadcasts to another, which stays as it is."""
    return len(shape) <= len(to) and all(size in (1, other) for size, other in zip(shape[::-1], to[::-1], strict=False))
