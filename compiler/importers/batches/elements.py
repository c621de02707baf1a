"""Batches through operators that compute element by element, along some dimensions, or on whole images."""

from __future__ import annotations

from functools import partial

from tilewright.compiler.importers.batches.node import Batched, BatchedNode, broadcast

NEW_SOFTMAX = 13
"""From this opset on, Softmax is along one dimension; before, along all from its axis on."""


def elementwise(batched: Batched) -> BatchedNode:
    """Any function of the elements at the same place, operands being broadcast."""
    return broadcast(batched, range(len(batched.node.inputs)))


def of_operands(*positions: int) -> partial[BatchedNode]:
    """An element-wise function of some operands; the others are its scales and zero points, one number each."""
    return partial(_of_operands, positions)


def _of_operands(positions: tuple[int, ...], batched: Batched) -> BatchedNode:
    _require_parameters(batched, positions)
    return broadcast(batched, positions)


def _require_parameters(batched: Batched, positions: tuple[int, ...]) -> None:
    """Refuse operands beside these that depend on images or are not one number."""
    for position, name in enumerate(batched.node.inputs):
        if position in positions or not name:
            continue
        if batched.place(position) is not None:
            batched.refuse(f"its operand {name!r} is computed from the images, too")
        if any(size != 1 for size in batched.shape(position)):
            batched.refuse(f"its operand {name!r} has several numbers")


def quantizer(batched: Batched) -> BatchedNode:
    """QuantizeLinear, DequantizeLinear: one scale, or one for each index of a dimension."""
    place = batched.only(0)
    rank, repeats = len(batched.shape(0)), {}
    for position in (1, 2):
        shape = batched.shape(position) if batched.node.has(position) else ()
        if len(shape) > 1:
            batched.refuse("its scales are of blocks")
        if shape and shape[0] > 1 and batched.number("axis", 1) % rank == place.axis:
            repeats[position] = place.at(0)
    return BatchedNode((place,), repeats=repeats)


def dropout(batched: Batched) -> BatchedNode:
    """As an inference computes it: nothing."""
    place = batched.only(0)
    if batched.node.has(2) and batched.constant(2).any():
        batched.refuse("it drops elements by chance")
    return BatchedNode((place,))


def of_first_dimension(batched: Batched) -> BatchedNode:
    """Convolutions, pools and what else computes each index of dimension 0 from the same index, with constants."""
    place = batched.only(0)
    if place.axis:
        batched.refuse(f"images lie in dimension {place.axis} of its operand, and it takes them in dimension 0")
    return BatchedNode((place,))


def convolution(batched: Batched) -> BatchedNode:
    """Conv: images in dimension 0, or in one along which the kernel has one element and moves by one."""
    place = batched.only(0)
    at = place.axis - 2
    if at < 0 or batched.shape(1)[place.axis] != 1:
        return of_first_dimension(batched)
    strides, pads = batched.node.integers("strides"), batched.node.integers("pads") or ()
    moves_by_one = strides is None or strides[at] == 1
    is_padded = any(pads[at :: len(batched.shape(1)) - 2])
    return BatchedNode((place,)) if moves_by_one and not is_padded else of_first_dimension(batched)


def pool(batched: Batched) -> BatchedNode:
    """A pool; positions of the largest elements count through all images."""
    if len(batched.node.outputs) > 1 and batched.node.outputs[1]:
        batched.refuse("positions of the largest elements count through all images")
    return of_first_dimension(batched)


def batch_normalization(batched: Batched) -> BatchedNode:
    """With the statistics of the file."""
    place = batched.only(0)
    if batched.number("training_mode", 0):
        batched.refuse("it normalises by the images of the batch")
    batched.require_apart(place, (1,), "has parameters", len(batched.shape(0)))
    return BatchedNode((place,))


def softmax(batched: Batched) -> BatchedNode:
    """Softmax, LogSoftmax, Hardmax."""
    return _softmax(batched.opset, batched)


def quantized_softmax(batched: Batched) -> BatchedNode:
    """QLinearSoftmax of the domain com.microsoft, which says of which opset it is."""
    _require_parameters(batched, (0,))
    return _softmax(batched.number("opset", NEW_SOFTMAX), batched)


def _softmax(opset: int, batched: Batched) -> BatchedNode:
    place, rank = batched.only(0), len(batched.shape(0))
    axis = batched.number("axis", -1 if opset >= NEW_SOFTMAX else 1) % rank
    axes = (axis,) if opset >= NEW_SOFTMAX else tuple(range(axis, rank))
    batched.require_apart(place, axes, "sums", rank)
    return BatchedNode((place,))


def along_one(batched: Batched) -> BatchedNode:
    """LpNormalization, and TopK with its constant number: along the dimension `axis`."""
    place = batched.only(0)
    batched.require_apart(place, (batched.number("axis", -1),), "works", len(batched.shape(0)))
    return BatchedNode((place,))


def layer_normalization(batched: Batched) -> BatchedNode:
    """LayerNormalization, RMSNormalization: along the dimensions from `axis` on."""
    place, rank = batched.only(0), len(batched.shape(0))
    batched.require_apart(place, range(batched.number("axis", -1) % rank, rank), "normalises", rank)
    return broadcast(batched, range(len(batched.node.inputs)))


def cumulative(batched: Batched) -> BatchedNode:
    """CumSum along a constant dimension."""
    place = batched.only(0)
    batched.require_apart(place, map(int, batched.constant(1).ravel()), "sums", len(batched.shape(0)))
    return BatchedNode((place,))


def reduce(batched: Batched) -> BatchedNode:
    """Sums, means, largest values over some dimensions."""
    place, rank = batched.only(0), len(batched.shape(0))
    axes = batched.integers(1, "axes") or ()
    if not axes and batched.number("noop_with_empty_axes", 0):
        return BatchedNode((place,))
    return _reduced(batched, axes or tuple(range(rank)))


def quantized_mean(batched: Batched) -> BatchedNode:
    """QLinearReduceMean of the domain com.microsoft."""
    _require_parameters(batched, (0,))
    return _reduced(batched, batched.node.integers("axes") or tuple(range(len(batched.shape(0)))))


def arg_reduce(batched: Batched) -> BatchedNode:
    """ArgMax, ArgMin."""
    return _reduced(batched, (batched.number("axis", 0),))


def _reduced(batched: Batched, axes: tuple[int, ...]) -> BatchedNode:
    place, rank = batched.only(0), len(batched.shape(0))
    batched.require_apart(place, axes, "reduces", rank)
    gone = 0 if batched.number("keepdims", 1) else sum(axis % rank < place.axis for axis in axes)
    return BatchedNode((place.at(place.axis - gone),))
