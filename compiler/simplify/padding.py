"""Pad as a node: its padding becomes that of the convolution or pool that reads it, where the numbers are the same.

Example: Pad of one zero on each side, then a 3×3 Conv with pads 0, is that Conv with pads 1. On quantised tensors a
convolution's padding holds the zero point and a maximum's the least integer, so a Pad must have that value.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from compiler.errors import CompileError
from compiler.graph import Operator, describe
from compiler.simplify.attributes import attributes_of
from compiler.simplify.integer import EXACT_GRID, quantized_value
from compiler.simplify.rewrite import Replacement, View
from compiler.simplify.weights import constant_weights


def pad(operator: Operator, view: View) -> Replacement | None:
    """ONNX's Pad with a constant: in the units of its operand, real or integer."""
    if view.constant(operator.inputs[0]) is not None:
        return None
    with attributes_of(operator) as attributes:
        attributes.only("mode", "constant")
    pads, value, axes = (_constant(operator, position, view) for position in (1, 2, 3))
    rank = len(view.type(operator.inputs[0]).shape)
    along = range(rank) if axes is None else [int(axis) % rank for axis in axes.ravel()]
    around = np.zeros((2, rank), np.int64)
    if pads is not None:
        around[:, list(along)] = pads.reshape(2, -1)
    if not around.any():
        return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})
    if rank not in (3, 4) or around[:, :2].any() or around.min() < 0:
        raise CompileError(
            f"{describe(operator)}: pads = {around.ravel().tolist()}; expected padding of height and "
            "width, none negative"
        )
    (top, left), (bottom, right) = np.pad(around[:, 2:], ((0, 0), (4 - rank, 0))).tolist()
    around_value = 0.0 if value is None else float(value.reshape(-1)[0])
    if math.isnan(around_value):
        raise CompileError(f"{describe(operator)}: pads with NaN; expected a number")
    given = {"pads": (top, left, bottom, right), "value": around_value}
    return Replacement((Operator(operator.name, "pad", operator.inputs[:1], operator.outputs, given, operator.nodes),))


def _constant(operator: Operator, position: int, view: View) -> NDArray[np.float64] | None:
    """An operand that must be constant; None where it is left out."""
    name = operator.inputs[position] if position < len(operator.inputs) else ""
    if not name:
        return None
    found = constant_weights(name, view)
    if found is None:
        raise CompileError(f"{describe(operator)}: {name!r} is computed; expected constant pads and a constant value")
    return found.real


# -- beside the (de)quantisation ---------------------------------------------------------------------------------------


def pad_before_dequantize(operator: Operator, view: View) -> Replacement | None:
    """pad(dequantize(q), v) → dequantize(pad(q, integer of v)), if v has one."""
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None:
        return None
    source, result = dequantize.inputs[0], operator.outputs[0]
    of = view.type(source)
    assert of.quantization is not None
    steps = operator.attributes["value"] / of.quantization.scale
    if not math.isfinite(steps) or abs(steps - round(steps)) > EXACT_GRID:
        return None
    value = round(steps) + of.quantization.zero_point
    if not of.limits[0] <= value <= of.limits[1]:
        return None
    integers = view.fresh(f"{result}.integers")
    attributes = {**operator.attributes, "value": float(value)}
    made = replace(operator, inputs=(source,), outputs=(integers,), attributes=attributes)
    types = {integers: replace(of, shape=view.type(result).shape)}
    return Replacement((made, replace(dequantize, inputs=(integers,), outputs=(result,))), types)


def quantize_before_pad(operator: Operator, view: View) -> Replacement | None:
    """quantize(pad(x, v)) → pad(quantize(x), quantised v)."""
    before = view.producer(operator.inputs[0], "pad")
    if before is None:
        return None
    source, result = before.inputs[0], operator.outputs[0]
    of = view.type(result)
    assert of.quantization is not None
    value = quantized_value(before.attributes["value"], of.quantization, of.limits)
    value = min(max(value, operator.attributes["low"]), operator.attributes["high"])
    integers = view.fresh(f"{result}.source")
    quantize = replace(operator, inputs=(source,), outputs=(integers,))
    attributes = {**before.attributes, "value": float(value)}
    made = replace(before, inputs=(integers,), outputs=(result,), attributes=attributes)
    return Replacement((quantize, made), {integers: replace(of, shape=view.type(source).shape)})


# -- into the reader ---------------------------------------------------------------------------------------------------


def pad_into_reader(operator: Operator, view: View) -> Replacement | None:
    """op(pad(q)) on integers → op(q) with the sum of both paddings, if the values around are those of op's padding."""
    before = view.producer(operator.inputs[0], "pad")
    of = view.type(operator.inputs[0])
    if before is None or of.quantization is None or view.type(operator.outputs[0]).quantization is None:
        return None
    outside = of.limits[0] if operator.kind == "max_pool" else of.quantization.zero_point
    if before.attributes["value"] != outside:
        return None
    attributes = dict(operator.attributes)
    if operator.kind == "average_pool":
        if any(attributes["pads"]) and not attributes["counts_padding"]:
            return None
        attributes["counts_padding"] = 1
    attributes["pads"] = tuple(a + b for a, b in zip(attributes["pads"], before.attributes["pads"], strict=True))
    source = before.inputs[0]
    types = {} if view.type(source).quantization else {source: replace(view.type(source), quantization=of.quantization)}
    nodes = before.nodes + operator.nodes
    made = replace(operator, inputs=(source, *operator.inputs[1:]), attributes=attributes, nodes=nodes)
    return Replacement((made,), types)


PADDING = {
    "pad": (pad_before_dequantize,),
    "quantize": (quantize_before_pad,),
    "conv": (pad_into_reader,),
    "max_pool": (pad_into_reader,),
    "average_pool": (pad_into_reader,),
}
