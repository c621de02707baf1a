"""Softmax along any dimension: `softmax`, which is over channels, with the moves of elements around it.

Source: https://onnx.ai/onnx/operators/onnx__Softmax.html. From opset 13 on it is along `axis`; before, along `axis` and
all dimensions after it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.over_channels import as_channels, over_channels
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined

ALONG_ONE = 13
"""From this opset on, a softmax is along one dimension."""

MASK = "mask"
"""An attribute that `masked` gives a Softmax; no model has one of this name."""


def _without_repetition(mask: NDArray[Any]) -> NDArray[Any]:
    """One for all images, if they have the same."""
    return mask[:1] if (mask == mask[:1]).all() else mask


def softmax(operator: Operator, view: GraphView) -> Replacement | None:
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
    if len(operator.inputs) == 1:
        return over_channels(operator, view, "softmax", settings, shape, axis)
    kept, change = _in_channels(operator, view)
    return joined(change, over_channels(operator, view, "softmax", settings, shape, axis, (kept,)))


def _in_channels(operator: Operator, view: GraphView) -> tuple[str, Replacement]:
    """The second operand, its last two dimensions exchanged: [1 or N, C, 1, 1 or W]; the first is [N, C, 1, W]."""
    kept = operator.inputs[1]
    given = view.type(kept)
    *outer, rows, along = given.shape
    turned, stored = (view.fresh(f"{kept}.{suffix}") for suffix in ("turned", "stored"))
    rank = len(given.shape)
    axes = (*range(rank - 2), rank - 1, rank - 2)
    transpose = Operator(f"{operator.name}.kept", "transpose", (kept,), (turned,), {"axes": axes}, operator.nodes)
    reshape = Operator(f"{operator.name}.kept", "reshape", (turned,), (stored,), {}, operator.nodes)
    types = {
        turned: replace(given, shape=(*outer, along, rows)),
        stored: replace(given, shape=(prod(outer), along, 1, rows)),
    }
    return stored, Replacement((transpose, reshape), types)
