"""Batches through products of matrices, and through LSTM, GRU and RNN."""

from __future__ import annotations

from functools import partial

from tilewright.compiler.importers.batches.node import Batched, BatchedNode
from tilewright.compiler.importers.batches.place import ImageAxis

COLUMNS, ROWS = -1, -2
"""The dimensions of a matrix, counted from the last one."""


def gemm(batched: Batched) -> BatchedNode:
    """ONNX's Gemm."""
    return _gemm(0, 1, 2, batched)


def quantized_gemm(batched: Batched) -> BatchedNode:
    """QGemm of the domain com.microsoft, in which scales and zero points stand between the operands."""
    return _gemm(0, 3, 6, batched)


def _gemm(left: int, right: int, added: int, batched: Batched) -> BatchedNode:
    _require_among(batched, (left, right, added))
    a, b = batched.place(left), batched.place(right)
    turned = bool(batched.number("transA", 0)), bool(batched.number("transB", 0))
    if a is not None and b is None and a.axis == int(turned[0]):
        place = a.at(0)
    elif b is not None and a is None and b.axis == int(not turned[1]):
        place = b.at(1)
    else:
        return batched.refuse("it sums over images, or multiplies those of one with those of another")
    shape, repeats = batched.shape(added) if batched.node.has(added) else (), {}
    axis = place.axis - (2 - len(shape))
    own = batched.place(added)
    if own is not None and own != place.at(axis):
        batched.refuse("images lie in different dimensions of its operands")
    if own is None and axis >= 0 and shape[axis] > 1:
        repeats[added] = place.at(axis)
    return BatchedNode((place,), repeats=repeats)


def matmul(left: int, right: int, of_columns: tuple[int, ...] = ()) -> partial[BatchedNode]:
    """A product of matrices whose operands are at these positions.

    The others are scales and zero points: one number each, or, of those at `of_columns`, one for each column.
    """
    return partial(_matmul, left, right, of_columns)


def _matmul(left: int, right: int, of_columns: tuple[int, ...], batched: Batched) -> BatchedNode:
    _require_among(batched, (left, right))
    for position, name in enumerate(batched.node.inputs):
        may_be_many = position in (left, right) or (position in of_columns and batched.place(right) is None)
        if name and not may_be_many and any(size != 1 for size in batched.shape(position)):
            batched.refuse(f"its operand {name!r} has several numbers")
    found = {_from_last(batched, position) for position in batched.dependent}
    place = found.pop()
    if found or (len(batched.dependent) == 2 and place.axis >= ROWS):
        batched.refuse("it multiplies rows of images with columns of images")
    if len(batched.dependent) == 1 and place.axis == (COLUMNS if batched.dependent == (left,) else ROWS):
        batched.refuse("it sums over images")
    result = batched.result()
    if -place.axis > len(result) or result[place.axis] != place.size(batched.images):
        batched.refuse("an operand stretches the dimension in which the images lie")
    return BatchedNode((place.at(place.axis + len(result)),), repeats=_repeats(batched, place, left, right))


def _require_among(batched: Batched, positions: tuple[int, ...]) -> None:
    """Refuse a node of which other operands than these depend on images."""
    for position in batched.dependent:
        if position not in positions:
            batched.refuse(f"its operand {batched.node.inputs[position]!r} is computed from the images, too")


def _from_last(batched: Batched, position: int) -> ImageAxis:
    """Where images lie in an operand, its dimension counted from the last one."""
    place, rank = batched.place(position), len(batched.shape(position))
    assert place is not None
    if rank < 2:
        batched.refuse("a vector of images is a row or a column")
    return place.at(place.axis - rank)


def _repeats(batched: Batched, place: ImageAxis, left: int, right: int) -> dict[int, ImageAxis]:
    """The constant operand, where it has a matrix for each index of the dimension in which the images lie."""
    for position in {left, right} - set(batched.dependent):
        shape = batched.shape(position)
        if place.axis < ROWS and len(shape) >= -place.axis and shape[place.axis] > 1:
            return {position: place.at(place.axis + len(shape))}
    return {}


def fused_matmul(batched: Batched) -> BatchedNode:
    """FusedMatMul without transposed operands."""
    if any(batched.number(name, 0) for name in ("transA", "transB", "transBatchA", "transBatchB")):
        batched.refuse("its operands are transposed")
    return _matmul(0, 1, (), batched)


STEPS_FIRST = 1
"""Where images lie in X [steps, batch, features] and in states [directions, batch, hidden]."""


def recurrent(batched: Batched) -> BatchedNode:
    """LSTM, GRU, RNN with `layout` 0: images in dimension 1 of X, of the states and of Y_h, in dimension 2 of Y."""
    place = batched.place(0)
    if batched.number("layout", 0) or place is None or place.axis != STEPS_FIRST:
        return batched.refuse("images do not lie in dimension 1 of its operand")
    repeats: dict[int, ImageAxis] = {}
    for position, axis in ((4, 0), (5, STEPS_FIRST), (6, STEPS_FIRST)):
        if batched.place(position) is None and batched.node.has(position):
            repeats[position] = place.at(axis)
    for position in batched.dependent:
        expected = {0: STEPS_FIRST, 4: 0, 5: STEPS_FIRST, 6: STEPS_FIRST}.get(position)
        if expected is None or batched.place(position) != place.at(expected):
            batched.refuse(f"images lie in another dimension of its operand {batched.node.inputs[position]!r}")
    places = (place.at(2), place.at(STEPS_FIRST), place.at(STEPS_FIRST))
    return BatchedNode(places[: len(batched.node.outputs)], repeats=repeats)
