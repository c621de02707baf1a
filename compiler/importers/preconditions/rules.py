"""Which preconditions each operator has, those of scales and zero points, and the check of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.importers.preconditions import elements, moves, windows
from tilewright.compiler.importers.preconditions.node import ModelNode, Shape, node_of, product
from tilewright.compiler.importers.shapes import known_shapes


def scales(node: ModelNode) -> None:
    """One scale, one for each index of `axis`, or one for each block of it; the zero points stand as the scales do.

    Those of constants are of the constants' own type.
    """
    values, points = node.constant(0), node.constant(2)
    if node.operator == "DequantizeLinear" and values is not None and points is not None:
        fact = f"its operand is {values.dtype}, and the zero point {points.dtype}"
        node.require(values.dtype == points.dtype, fact, "the same type of both")
    x, scale, zero = node.shape(0), node.shape(1), node.shape(2)
    if x is None or scale is None:
        return
    block = int(node.attributes.get("block_size", 0))
    node.require(block >= 0, f"block_size = {block}", "0 or more")
    if block:
        _blocks(node, x, scale, block)
    elif not _is_one(scale):
        _along_axis(node, x, scale)
    is_alike = zero in (None, scale) or (_is_one(scale) and _is_one(zero))
    node.require(is_alike, f"scales {list(scale)} and zero points {list(zero or ())}", "the same shape of both")


def matmul_integer(node: ModelNode) -> None:
    """Zero points, if there are any, are numbers and not nothing."""
    for position in (2, 3):
        shape = node.shape(position)
        node.require(shape is None or product(shape) > 0, f"zero points {list(shape or ())}", "at least one")


def _is_one(shape: Shape) -> bool:
    """One number for the whole tensor: a scalar, or a list of one."""
    return shape in ((), (1,))


def _along_axis(node: ModelNode, x: Shape, scale: Shape) -> None:
    size = x[_axis(node, x)]
    fits = scale == (size,)
    node.require(fits, f"scales {list(scale)} for {list(x)}", f"one number, or a list of {size}")


def _blocks(node: ModelNode, x: Shape, scale: Shape, block: int) -> None:
    axis = _axis(node, x)
    expected = (*x[:axis], -(-x[axis] // block), *x[axis + 1 :])
    node.require(scale == expected, f"scales {list(scale)} for blocks of {block} in {list(x)}", str(list(expected)))


def _axis(node: ModelNode, x: Shape) -> int:
    axis, rank = int(node.attributes["axis"]), len(x)
    node.require(-rank <= axis < rank, f"axis = {axis}", f"{-rank} to {rank - 1}")
    return axis % rank


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

OF_AN_AXIS = (
    *("Concat", "Split", "Gather", "Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "LayerNormalization"),
    *("GatherElements", "ScatterElements", "CumSum", "LpNormalization", "RMSNormalization"),
)
"""Operators whose attribute `axis` is a dimension of their first operand."""

RULES: Mapping[str, Callable[[ModelNode], None]] = {
    "Conv": windows.conv,
    "ConvInteger": windows.conv_integer,
    "QLinearConv": windows.qlinear_conv,
    "ConvTranspose": windows.conv_transpose,
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "LpPool": windows.lp_pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), windows.global_pool),
    "Transpose": moves.transpose,
    "Split": moves.split,
    "Slice": moves.slice_,
    "Squeeze": moves.squeeze,
    "Pad": moves.pad,
    "Reshape": moves.reshape,
    "Flatten": elements.flatten,
    "Gather": moves.gather,
    "SpaceToDepth": moves.space_to_depth,
    "DepthToSpace": moves.depth_to_space,
    "MatMul": elements.matmul,
    "Gemm": elements.gemm,
    **dict.fromkeys((*(f"Reduce{name}" for name in REDUCTIONS), "ArgMax", "ArgMin"), elements.reduce),
    "Clip": elements.clip,
    "PRelu": elements.prelu,
    "Gelu": elements.gelu,
    "Resize": elements.resize,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), scales),
    "MatMulInteger": matmul_integer,
}
"""Operator of ONNX's own domain → what raises DamagedModel for a node that breaks its preconditions."""


def check_preconditions(model: onnx.ModelProto, opset: int, names: Sequence[str]) -> None:
    """Raises DamagedModel for the first node that breaks what ONNX requires. Shapes are inferred.

    `names` are what messages call the nodes, in their order.
    """
    shapes, constants = known_shapes(model), Constants(model)
    for name, node in zip(names, model.graph.node, strict=True):
        if rules := _rules(node):
            seen = node_of(name, node, opset, shapes, constants)
            for rule in rules:
                rule(seen)


def _rules(node: onnx.NodeProto) -> list[Callable[[ModelNode], None]]:
    if node.domain not in ("", "ai.onnx"):
        return []
    has_numbers = any(attribute.type == onnx.AttributeProto.FLOAT for attribute in node.attribute)
    general = [elements.numbers] if has_numbers else []
    general += [elements.axis] if node.op_type in OF_AN_AXIS else []
    return general + ([RULES[node.op_type]] if node.op_type in RULES else [])


class Constants(Mapping[str, NDArray[Any]]):
    """Constant tensors by name, each read when it is first asked for."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant":
                values = [a.t for a in node.attribute if a.name == "value"]
                self._tensors |= dict.fromkeys(node.output, *values) if values else {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return np.asarray(numpy_helper.to_array(self._tensors[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
