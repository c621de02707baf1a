"""Factors and leaks before a QuantizeLinear that the instruction before them can take in: one rounding is left.

quantize(affine(add(a, b)))    →  quantize(add(a, b)), each operand times the factor
quantize(leaky_relu(conv(x)))  →  the larger of two requantisations of one sum
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import FACTOR, LEAK, Operator
from tilewright.compiler.simplify.attributes import constant_weights
from tilewright.compiler.simplify.between import computed_operand, is_ready
from tilewright.compiler.simplify.elementwise import channel_values
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

SUMS = ("add", "sub")


def factor_into_two(operator: Operator, view: GraphView) -> Replacement | None:
    """affine(add(a, b)) → add(a, b) times the factor, if all channels have the same, positive, and nothing is added.

    The same for differences and products; an operand of a sum may be a sum that is rounded later.
    """
    x = operator.inputs[0]
    two, factor = view.producer(x, "add", "sub", "mul"), _only_factor(operator, view)
    if (
        two is None
        or factor is None
        or not view.is_read_once(x)
        or not (is_ready(two, view) or _adds_to_sum(two, view))
    ):
        return None
    attributes = {**two.attributes, FACTOR: two.attributes.get(FACTOR, 1.0) * factor}
    return Replacement(
        (replace(two, outputs=operator.outputs, attributes=attributes, nodes=two.nodes + operator.nodes),)
    )


def _adds_to_sum(two: Operator, view: GraphView) -> bool:
    """Whether this is a sum of something that is dequantised and of another sum."""
    position = computed_operand(two, view)
    return two.kind in SUMS and position >= 0 and view.producer(two.inputs[position], *SUMS) is not None


def _only_factor(affine: Operator, view: GraphView) -> float | None:
    scale, offset = (view.constant(name) for name in affine.inputs[1:])
    if scale is None or offset is None or offset.any() or scale.min() != scale.max() or scale.flat[0] <= 0:
        return None
    return float(scale.flat[0])


def leak_into_sum(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(leaky_relu(conv(x))) → quantize(conv(x)), where negative sums count less.

    Rounding keeps the order of values: the larger of v and v · slope, rounded, is the larger of both rounded.
    """
    leaky = view.producer(operator.inputs[0], "onnx.LeakyRelu", "onnx.PRelu")
    conv = view.producer(leaky.inputs[0], "conv") if leaky is not None else None
    if (
        leaky is None
        or conv is None
        or not view.is_read_once(leaky.inputs[0])
        or not view.is_read_once(leaky.outputs[0])
    ):
        return None
    slopes = _slopes(leaky, view)
    if slopes is None or not all(0 <= slope <= 1 for slope in slopes) or LEAK in conv.attributes:
        return None
    made = replace(
        conv,
        outputs=leaky.outputs,
        attributes={**conv.attributes, LEAK: slopes},
        nodes=conv.nodes + leaky.nodes,
    )
    return Replacement((made, operator))


def _slopes(leaky: Operator, view: GraphView) -> tuple[float, ...] | None:
    """The factors of negative values: one, or one for each channel; None if others differ."""
    if leaky.kind == "onnx.LeakyRelu":
        return (float(leaky.attributes.get("alpha", 0.01)),)
    slope, shape = constant_weights(leaky.inputs[1], view), view.type(leaky.outputs[0]).shape
    values = None if slope is None else channel_values(slope.real, shape)
    if values is None:
        return None
    return tuple(map(float, values[:1] if (values == values[0]).all() else values))


ONE_ROUNDING_RULES = {"affine": (factor_into_two,), "quantize": (leak_into_sum,)}
"""Tried where all other rules have left something in float."""
