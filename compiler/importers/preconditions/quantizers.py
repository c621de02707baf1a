"""Preconditions of scales and zero points: how many there are, and along what."""

from __future__ import annotations

from tilewright.compiler.importers.preconditions.node import ModelNode, Shape, product


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
