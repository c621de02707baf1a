"""Ranges that are nearly even about zero become even, where a product reads the tensor in place of weights.

A product of two computed matrices has three sums besides its own: of either matrix times the other's zero point. With
zero points of 0 the array reads its tiles once; with others it reads them three or four times.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.quantization.ranges import Range
from tilewright.quantization.same_scale import SAME_SCALE, back_through

MOST_WIDENING = 1.25
"""A range may become wider by this factor: a third of a bit is lost."""

STEPS_BELOW, STEPS_ABOVE = -DEFAULT_TYPE.limits[0], DEFAULT_TYPE.limits[1]
"""The zero point of the default type is in their middle when a range has so many steps on either side of zero."""


def even_ranges(model: onnx.ModelProto, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges, those of both operands of a MatMul of computed tensors even about zero, if they nearly are."""
    even = dict(ranges)
    makers = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "MatMul" and not constants.intersection(node.input):
            for tensor in node.input:
                *_, root = back_through(SAME_SCALE | {"Split"}, tensor, makers)
                if root in even:
                    even[root] = _even(even[root])
    return even


def _even(found: Range) -> Range:
    """From -128 to 127 steps, so that the zero point is 0."""
    reach = np.float32(max(-found.low, found.high))
    if reach <= 0 or 2 * reach > MOST_WIDENING * (found.high - found.low):
        return found
    return Range(np.float32(reach * STEPS_BELOW / -STEPS_ABOVE), reach)
