"""Batches through operators that order, cut and join elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.importers.batches.node import Batched, BatchedNode
from tilewright.compiler.importers.batches.place import ImageAxis, reshaped

TO_THE_END = (1 << 31) - 1
"""From this number on, the end of a Slice is that of the dimension, whatever its size."""


def transpose(batched: Batched) -> BatchedNode:
    """Dimensions change places."""
    place, rank = batched.only(0), len(batched.shape(0))
    axes = batched.node.integers("perm") or tuple(reversed(range(rank)))
    return BatchedNode((place.at(axes.index(place.axis)),))


def reshape(batched: Batched) -> BatchedNode:
    """The sizes of the result, one of which holds the images, take the place of the operand that says them."""
    place, result = batched.only(0), batched.result()
    batched.constant(1)
    found = reshaped(place, batched.shape(0), result, batched.images)
    if found is None:
        return batched.refuse(f"no dimension of its result {list(result)} holds the images alone")
    return BatchedNode((found,), constants={1: _sizes(batched, found, result)})


def _sizes(batched: Batched, place: ImageAxis, shape: Sequence[int]) -> NDArray[np.int64]:
    """A shape, for the number of images that is wanted."""
    sizes = list(shape)
    sizes[place.axis] = place.size(batched.wanted)
    return np.array(sizes, np.int64)


def flatten(batched: Batched) -> BatchedNode:
    """Two dimensions: those before `axis`, and those from it on."""
    place, shape = batched.only(0), batched.shape(0)
    cut = batched.number("axis", 1)
    cut += len(shape) if cut < 0 else 0
    first, last, at = (0, cut, 0) if place.axis < cut else (cut, len(shape), 1)
    outer, inner = prod(shape[first : place.axis]), prod(shape[place.axis + 1 : last])
    return BatchedNode((ImageAxis(at, outer * place.outer, place.inner * inner),))


def squeeze(batched: Batched) -> BatchedNode:
    """Dimensions of size 1 go; that of the images may not be among them."""
    place, shape = batched.only(0), batched.shape(0)
    axes = batched.integers(1, "axes")
    if axes is None:
        axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
        if 1 in (place.size(batched.images), place.size(batched.wanted)):
            batched.refuse(f"it takes away every dimension of size 1, also dimension {place.axis} of a single image")
    batched.require_apart(place, axes, "takes away what is", len(shape))
    return BatchedNode((place.at(place.axis - sum(axis % len(shape) < place.axis for axis in axes)),))


def unsqueeze(batched: Batched) -> BatchedNode:
    """New dimensions of size 1."""
    place, rank = batched.only(0), len(batched.result())
    new = {axis % rank for axis in batched.integers(1, "axes") or ()}
    kept = [axis for axis in range(rank) if axis not in new]
    return BatchedNode((place.at(kept[place.axis]),))


def concat(batched: Batched) -> BatchedNode:
    """Operands behind each other; a constant one is there once for each image."""
    return _concat(range(len(batched.node.inputs)), batched)


def quantized_concat(batched: Batched) -> BatchedNode:
    """QLinearConcat: scale and zero point of the result, then each operand with its own."""
    return _concat(range(2, len(batched.node.inputs), 3), batched)


def _concat(operands: range, batched: Batched) -> BatchedNode:
    known = {position: place for position in operands if (place := batched.place(position)) is not None}
    place, joined = next(iter(known.values())), batched.number("axis", 0) % len(batched.result())
    if len(known) < len(batched.dependent) or {(each.axis, each.inner) for each in known.values()} != {
        (place.axis, place.inner)
    }:
        batched.refuse("images lie in different dimensions of its operands")
    if joined == place.axis and len(known) < len(operands):
        batched.refuse(f"it puts a constant beside the images, along dimension {place.axis}")
    if joined == place.axis:
        return BatchedNode((replace(place, outer=sum(each.outer for each in known.values())),))
    if any(each != place for each in known.values()):
        batched.refuse("images lie in different dimensions of its operands")
    return BatchedNode((place,), repeats={each: place for each in operands if each not in known})


def split(batched: Batched) -> BatchedNode:
    """Parts of a dimension; of that of the images, such as hold all of them."""
    place = batched.only(0)
    if batched.number("axis", 0) % len(batched.shape(0)) != place.axis:
        return BatchedNode((place,))
    sizes = [batched.result(position)[place.axis] for position in range(len(batched.node.outputs))]
    outer = [_outer(batched, place, size) for size in sizes]
    places = tuple([replace(place, outer=each) for each in outer])
    given = batched.node.has(1)
    return BatchedNode(places, {1: np.array([each.size(batched.wanted) for each in places])} if given else {})


def _outer(batched: Batched, place: ImageAxis, size: int) -> int:
    """How many times all images lie in a part of their dimension; refuses a part that holds some of them only."""
    outer, rest = divmod(size, batched.images * place.inner)
    if rest or place.outer == 1:
        batched.refuse(f"it cuts along dimension {place.axis}, in which the images lie")
    return outer


def slice_(batched: Batched) -> BatchedNode:
    """Parts of some dimensions; of that of the images all of it, or such as hold all images."""
    place, shape = batched.only(0), batched.shape(0)
    starts, ends = batched.integers(1, "starts") or (), batched.integers(2, "ends") or ()
    axes = batched.integers(3, "axes") or tuple(range(len(starts)))
    steps = batched.integers(4, "steps") or (1,) * len(starts)
    for at, (start, end, axis, step) in enumerate(zip(starts, ends, axes, steps, strict=True)):
        if axis % len(shape) != place.axis or ((start, step) == (0, 1) and end >= TO_THE_END):
            continue
        first, last, _ = slice(start, end).indices(shape[place.axis])
        if step != 1 or last <= first:
            batched.refuse(f"it cuts along dimension {place.axis}, in which the images lie")
        cuts = [replace(place, outer=_outer(batched, place, edge)).size(batched.wanted) for edge in (first, last)]
        changed = {1: batched.constant(1).copy(), 2: batched.constant(2).copy()}
        changed[1][at], changed[2][at] = cuts
        return BatchedNode((replace(place, outer=_outer(batched, place, last - first)),), changed)
    return BatchedNode((place,))


def gather(batched: Batched) -> BatchedNode:
    """Constant indices of what is computed, or computed indices of a constant table."""
    rank, axis = len(batched.shape(0)), batched.number("axis", 0)
    axis += rank if axis < 0 else 0
    indices = batched.place(1)
    if indices is not None:
        batched.only(1)
        return BatchedNode((indices.at(axis + indices.axis),))
    place = batched.only(0)
    batched.require_apart(place, (axis,), "picks", rank)
    return BatchedNode((place if place.axis < axis else place.at(place.axis - 1 + len(batched.shape(1))),))


def pad(batched: Batched) -> BatchedNode:
    """More elements around some dimensions."""
    place, rank = batched.only(0), len(batched.shape(0))
    axes = batched.integers(3, "axes") or tuple(range(rank))
    pads = batched.integers(1, "pads") or ()
    both = zip(pads[: len(axes)], pads[len(axes) :], strict=True)
    padded = [axis for axis, (first, last) in zip(axes, both, strict=True) if first or last]
    batched.require_apart(place, padded, "pads", rank)
    return BatchedNode((place,))


def expand(batched: Batched) -> BatchedNode:
    """Dimensions of size 1 are stretched, that of the images excepted."""
    place, result = batched.only(0), batched.result()
    place = place.at(place.axis + len(result) - len(batched.shape(0)))
    batched.constant(1)
    if result[place.axis] != place.size(batched.images):
        batched.refuse(f"it stretches dimension {place.axis}, in which the images lie")
    return BatchedNode((place,), constants={1: _sizes(batched, place, result)})


def tile(batched: Batched) -> BatchedNode:
    """Repetitions along some dimensions."""
    place = batched.only(0)
    counts = batched.constant(1).ravel()
    batched.require_apart(place, (at for at, count in enumerate(counts) if count != 1), "repeats", len(counts))
    return BatchedNode((place,))


def resize(batched: Batched) -> BatchedNode:
    """Other rows and columns, by factors or by sizes."""
    place, shape = batched.only(0), batched.shape(0)
    if batched.node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        batched.refuse("it cuts by a region of all dimensions")
    if batched.node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        batched.refuse("its sizes follow from each other")
    axes = batched.node.integers("axes") or tuple(range(len(shape)))
    if batched.result()[place.axis] != shape[place.axis]:
        batched.refuse(f"it resizes dimension {place.axis}, in which the images lie")
    if not batched.node.has(3) or place.axis not in axes:
        return BatchedNode((place,))
    sizes = batched.constant(3).copy()
    sizes[axes.index(place.axis)] = place.size(batched.wanted)
    return BatchedNode((place,), constants={3: sizes})
