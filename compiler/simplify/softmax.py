"""Softmax along any dimension: `softmax`, which is over channels, with the moves of elements around it.

Source: https://onnx.ai/onnx/operators/onnx__Softmax.html. From opset 13 on it is along `axis`; before, along `axis` and
all dimensions after it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.over_channels import as_channels, over_channels
from tilewright.compiler.simplify.rewrite import Replacement, View

ALONG_ONE = 13
"""From this opset on, a softmax is along one dimension."""

MASK = "mask"
"""An attribute that `masked` gives a Softmax; no model has one of this name."""

NEGLIGIBLE = -5000.0
"""What is added to a score that counts for nothing: at most this, often -10000, float32's least number or -∞."""


def masked(operator: Operator, view: View) -> Replacement | None:
    """Softmax of scores plus a constant of 0 and -∞, or of a Where that puts -∞ in their place."""
    found = _added_mask(operator.inputs[0], view) or _chosen_mask(operator.inputs[0], view)
    if found is None or MASK in operator.attributes:
        return None
    maker, scores, kept = found
    shape = view.type(operator.inputs[0]).shape
    if view.type(scores).shape != shape or not view.is_read_once(operator.inputs[0]):
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1 if view.opset >= ALONG_ONE else 1)
    kept = np.broadcast_to(kept, shape)
    if view.opset < ALONG_ONE or not kept.any(axis=axis).all():
        return None  # a row of which nothing is left is no number
    attributes_with = {**operator.attributes, MASK: kept.astype(np.int8)}
    nodes = tuple(dict.fromkeys((*maker.nodes, *operator.nodes)))
    return Replacement((replace(operator, inputs=(scores,), attributes=attributes_with, nodes=nodes),))


Mask = tuple[Operator, str, NDArray[np.bool_]]
"""The operator that masks, the scores, and where they count."""


def _added_mask(name: str, view: View) -> Mask | None:
    add = view.producer(name, "onnx.Add")
    for scores, other in () if add is None else (add.inputs, add.inputs[::-1]):
        value = view.constant(other)
        if add is not None and value is not None and value.size > 1 and _is_zero_or_negligible(value):
            return add, scores, value == 0
    return None


def _chosen_mask(name: str, view: View) -> Mask | None:
    choice = view.producer(name, "onnx.Where")
    if choice is None:
        return None
    condition, first, second = choice.inputs
    is_first, values = view.constant(condition), (view.constant(first), view.constant(second))
    for scores, value, is_kept in ((first, values[1], True), (second, values[0], False)):
        if is_first is not None and value is not None and (value <= NEGLIGIBLE).all():
            return choice, scores, is_first.astype(bool) == is_kept
    return None


def _is_zero_or_negligible(value: NDArray[Any]) -> bool:
    return bool(((value == 0) | (value <= NEGLIGIBLE)).all())


def _without_repetition(mask: NDArray[Any]) -> NDArray[Any]:
    """One for all images, if they have the same."""
    return mask[:1] if (mask == mask[:1]).all() else mask


MASK_FORMS = {"onnx.Softmax": (masked,)}
"""Tried before all other rules."""


def softmax(operator: Operator, view: View) -> Replacement | None:
    """The softmax over channels; a last dimension becomes the channels by a transposition, any other by a reshape."""
    source = operator.inputs[0]
    shape = view.type(source).shape
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1 if view.opset >= ALONG_ONE else 1)
        mask = attributes.array(MASK)
    axis %= max(1, len(shape))
    if view.opset < ALONG_ONE:
        shape = (prod(shape[:axis]), prod(shape[axis:]))
        axis = 1
    settings = {"mask": () if mask is None else _without_repetition(as_channels(mask, shape, axis))}
    return over_channels(operator, view, "softmax", settings, shape, axis)
