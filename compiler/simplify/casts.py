"""Cast between floats: nothing, between operators that compute with real numbers; at an end, what the host does anyway.

Source: https://onnx.ai/onnx/operators/onnx__Cast.html.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.compiler.graph.graph import Operator
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

DIGITS = {"float16": 11, "float32": 24}
"""Types of reals, and the bits of their significands."""

PASSING = ("onnx.Identity", "onnx.Dropout")
"""Operators that hand their operand on."""


def cast(operator: Operator, view: GraphView) -> Replacement | None:
    """None for other types, and where a Cast at an end rounds what the host would not round.

    An input may become wider, as float16 does in float32: the host quantises it so. The result of a DequantizeLinear
    may become narrower as an output: the host rounds it so.
    """
    source, result = operator.inputs[0], operator.outputs[0]
    before, after = view.type(source).dtype, view.type(result).dtype
    if before not in DIGITS or after not in DIGITS:
        return None
    with attributes_of(operator) as attributes:
        attributes.ignore("to", "saturate", "round_mode")
    if source in view.inputs and DIGITS[after] < DIGITS[before]:
        return None
    if any(user.kind in PASSING for user in view.users(result)):
        return None  # once these are gone, it is known whether this is an output
    if result not in view.outputs:
        return Replacement(aliases={result: source})
    dequantize = view.producer(source, "dequantize")
    if dequantize is None or DIGITS[after] > DIGITS[before]:
        return None
    nodes = (*dequantize.nodes, *operator.nodes)
    return Replacement((replace(dequantize, name=operator.name, outputs=(result,), nodes=nodes),))


CAST_RULES = {"onnx.Cast": (cast,)}
