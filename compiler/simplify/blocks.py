"""SpaceToDepth and DepthToSpace, and the Reshape–Transpose–Reshape chains that mean them or a shuffle of channels.

Sources: https://onnx.ai/onnx/operators/onnx__DepthToSpace.html and onnx__SpaceToDepth.html; pixel and channel shuffle
as exporters write them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, ROW, Operator, TensorType, stored_shape
from tilewright.compiler.graph.pixel_blocks import block_channels
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.moves import taken_attributes
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


def space_to_depth(operator: Operator, view: GraphView) -> Replacement | None:
    if view.constant(operator.inputs[0]) is not None:
        return None
    with attributes_of(operator) as attributes:
        block = attributes.integer("blocksize", 0)
    _require_blocks(operator, block, view.type(operator.outputs[0]), view.type(operator.inputs[0]))
    return Replacement((replace(operator, kind="space_to_depth", attributes={"block": block}),))


def depth_to_space(operator: Operator, view: GraphView) -> Replacement | None:
    if view.constant(operator.inputs[0]) is not None:
        return None
    with attributes_of(operator) as attributes:
        block = attributes.integer("blocksize", 0)
        order = attributes.text("mode", "DCR")
    if order not in ("DCR", "CRD"):
        raise CompileError(operator, f"mode = {order!r} has no lowering", expected="'DCR' or 'CRD'")
    _require_blocks(operator, block, view.type(operator.inputs[0]), view.type(operator.outputs[0]))
    return Replacement((replace(operator, kind="depth_to_space", attributes={"block": block, "order": order}),))


def _require_blocks(operator: Operator, block: int, deep: TensorType, wide: TensorType) -> None:
    """Raise CompileError unless `deep` has the channels and size of `wide` with its blocks as channels."""
    n, c, h, w = stored_shape(deep.shape, operator)
    if block < 1 or wide.shape != (n, c // max(1, block**2), h * block, w * block) or c % block**2:
        raise CompileError(
            operator,
            f"blocks of {block}×{block} do not fit {list(deep.shape)} and {list(wide.shape)}",
            expected="channels in multiples of a block's pixels, height and width in multiples of its sides",
        )


def chain_to_move(operator: Operator, view: GraphView) -> Replacement | None:
    """reshape(transpose(reshape(x))) that moves whole channels or blocks of pixels → take, depth_to_space or both."""
    transpose = view.producer(operator.inputs[0], "transpose")
    before = view.producer(transpose.inputs[0], "reshape") if transpose is not None else None
    if transpose is None or before is None:
        return None
    source, result = view.type(before.inputs[0]), view.type(operator.outputs[0])
    split = view.type(before.outputs[0]).shape
    if not (3 <= len(source.shape) <= 4 and 3 <= len(result.shape) <= 4 and len(split) > 4):
        return None
    moved = np.arange(int(np.prod(split))).reshape(split).transpose(transpose.attributes["axes"])
    nodes = before.nodes + transpose.nodes + operator.nodes
    made = replace(operator, inputs=before.inputs, nodes=nodes)
    shape, after = stored_shape(source.shape), stored_shape(result.shape)
    for kind, attributes, channels in _moves(shape, after, moved.reshape(after)):
        return _chain(made, kind, attributes, channels, result, view)
    return None


def _moves(
    shape: tuple[int, int, int, int], after: tuple[int, int, int, int], moved: NDArray[np.int64]
) -> Iterator[tuple[str, dict[str, int | str], NDArray[np.int64]]]:
    """The operator that, followed by a choice of channels, takes every element from where `moved` says."""
    image = np.arange(moved.size).reshape(shape)
    n, c, h, w = shape
    if shape == after:
        channels = moved[0, :, 0, 0] // (h * w)
        if np.array_equal(image[:, channels], moved):
            yield "take", {}, channels
    elif after[ROW] > h:
        block = isqrt(c // after[CHANNEL])
        if block and after == (n, c // block**2, h * block, w * block):
            for order in ("DCR", "CRD"):
                if np.array_equal(_to_space(image, block, order), moved):
                    yield "depth_to_space", {"block": block, "order": order}, np.arange(c)
    elif after[ROW] < h:
        block = isqrt(after[CHANNEL] // c)
        if block and after == (n, c * block**2, h // block, w // block):
            spread = _to_depth(image, block)
            channels = np.searchsorted(np.sort(spread[0, :, 0, 0]), moved[0, :, 0, 0])
            channels = np.argsort(spread[0, :, 0, 0])[np.minimum(channels, len(channels) - 1)]
            if np.array_equal(spread[:, channels], moved):
                yield "space_to_depth", {"block": block}, channels


def _to_space(image: NDArray[np.int64], block: int, order: str) -> NDArray[np.int64]:
    n, c, h, w = image.shape
    result = np.empty((n, c // block**2, h * block, w * block), image.dtype)
    for i, j, channels in block_channels(c // block**2, block, order):
        result[:, :, i::block, j::block] = image[:, list(channels)]
    return result


def _to_depth(image: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    pixels = [image[:, :, i::block, j::block] for i in range(block) for j in range(block)]
    return np.concatenate(pixels, axis=CHANNEL)


def _chain(
    made: Operator, kind: str, attributes: dict[str, int | str], channels: NDArray[np.int64], result: TensorType,
    view: GraphView,
) -> Replacement:  # fmt: skip
    """That operator, and a take of its channels if they are to be in another order."""
    taken = taken_attributes({CHANNEL: tuple(map(int, channels))})
    if kind == "take":
        return Replacement((replace(made, kind="take", attributes=taken),))
    if np.array_equal(channels, np.arange(len(channels))):
        return Replacement((replace(made, kind=kind, attributes=attributes),))
    middle = view.fresh(f"{made.outputs[0]}.blocks")
    first = replace(made, kind=kind, outputs=(middle,), attributes=attributes)
    second = replace(made, kind="take", inputs=(middle,), attributes=taken)
    return Replacement((first, second), {middle: replace(result, shape=stored_shape(result.shape))})


BLOCK_RULES = {"reshape": (chain_to_move,)}
