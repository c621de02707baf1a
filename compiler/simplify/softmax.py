"""Softmax along any dimension: `softmax`, which is over channels, with the moves of elements around it.

Source: https://onnx.ai/onnx/operators/onnx__Softmax.html. From opset 13 on it is along `axis`; before, along `axis` and
all dimensions after it.
"""

from __future__ import annotations

from math import prod

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.over_channels import over_channels
from tilewright.compiler.simplify.rewrite import Replacement, View

ALONG_ONE = 13
"""From this opset on, a softmax is along one dimension."""


def softmax(operator: Operator, view: View) -> Replacement | None:
    """The softmax over channels; a last dimension becomes the channels by a transposition, any other by a reshape."""
    source = operator.inputs[0]
    shape = view.type(source).shape
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", -1 if view.opset >= ALONG_ONE else 1)
    axis %= max(1, len(shape))
    if view.opset < ALONG_ONE:
        shape = (prod(shape[:axis]), prod(shape[axis:]))
        axis = 1
    return over_channels(operator, view, "softmax", {}, shape, axis)
