"""Ranges that are nearly even about zero become even, where a product reads the tensor in place of weights.

A product of two computed matrices has three sums besides its own: of either matrix times the other's zero point. With
zero points of 0 the array reads its tiles once; with others it reads them three or four times.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from tilewright.quantization.ranges import Range
from tilewright.quantization.same_scale import SAME_SCALE, back_through

MOST_WIDENING = 1.25
"""A range may become wider by this factor: a third of a bit is lost."""


def even_ranges(model: onnx.ModelProto, ranges: Mapping[str, Range], bits: int) -> dict[str, Range]:
    """The ranges, those of both operands of a MatMul of computed tensors even about zero, if they nearly are.

    `bits` are those of the type that they are quantised to.
    """
    even = dict(ranges)
    makers = {output: node for node in model.graph.node for output in node.output}
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "MatMul" and not constants.intersection(node.input):
            for tensor in node.input:
                *_, root = back_through(SAME_SCALE | {"Split"}, tensor, makers)
                if root in even:
                    even[root] = _even(even[root], bits)
    return even


def _even(found: Range, bits: int) -> Range:
    """With one step more below zero than above, as a signed type has, so that the zero point is 0."""
    below = 1 << (bits - 1)
    reach = np.float32(max(-found.low, found.high))
    if reach <= 0 or 2 * reach > MOST_WIDENING * (found.high - found.low):
        return found
    return Range(np.float32(reach * below / (1 - below)), reach)
