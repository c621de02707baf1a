"""Sums of three tensors and more, or of a product and a tensor, before one QuantizeLinear: with tensors between.

quantize(op(a, …) + b)  →  quantize(dequantize(quantize(op(a, …))) + b)
"""

from __future__ import annotations

from tilewright.compiler.graph.graph import BETWEEN, FACTOR, Operator
from tilewright.compiler.simplify.between import (
    MOST_OFF,
    READY,
    Between,
    computed_operand,
    inserted,
    is_ready,
    range_of,
)
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

MOST_SUMS = 4
"""The longest chain that is looked at: each of its sums costs a part of a step."""


def round_inside_sum(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(add(x, b)), where x is computed and b is dequantised: x is quantised first. The same for chains of them.

    Beyond the result's limits, less what else is added, the values of x do not matter.
    """
    path = _path(operator.inputs[0], view)
    result = view.type(operator.outputs[0]).quantization
    if path is None or result is None or result.axis is not None:
        return None
    steps = [(operator.attributes[name] - result.zero_point) * result.scale for name in ("low", "high")]
    low, high, slope = steps[0] - result.scale, steps[1] + result.scale, 1.0
    for each in path[:-1]:  # from the result inwards
        position = computed_operand(each, view)
        least, most = range_of(each.inputs[1 - position], view)
        factor = each.attributes.get(FACTOR, 1.0)
        low, high, slope = low / factor, high / factor, slope * factor
        if each.kind == "add":
            low, high = low - most, high - least
        elif position == 0:
            low, high = low + least, high + most
        else:
            low, high = least - high, most - low
    source = path[-1].outputs[0]
    known = range_of(source, view)
    low, high = max(min(low, 0.0), min(known[0], 0.0)), min(max(high, 0.0), max(known[1], 0.0))
    if not low < high:
        return None
    between = Between(low, high, 0.0)
    off = between.quantization.scale / 2 * slope / result.scale + operator.attributes.get(BETWEEN, 0.0)
    if off > MOST_OFF:
        return None
    return inserted(operator, source, path[-2::-1], between, off, view)


def _path(name: str, view: GraphView) -> list[Operator] | None:
    """Sums and differences from a float tensor inwards, each of one dequantised operand, to what can be quantised.

    None if there is no such chain, or it is one operator that can be quantised itself.
    """
    path: list[Operator] = []
    while (operator := view.producer(name, *READY)) is not None and len(path) < MOST_SUMS:
        path.append(operator)
        if is_ready(operator, view):
            return path if len(path) > 1 else None
        if operator.kind not in ("add", "sub") or computed_operand(operator, view) < 0:
            return None
        name = operator.inputs[computed_operand(operator, view)]
        if view.type(name).shape != view.type(operator.outputs[0]).shape:
            return None
    return None


BETWEEN_SUMS_RULES = {"quantize": (round_inside_sum,)}
"""Tried where all other rules have left something in float."""
