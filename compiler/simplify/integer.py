"""From QDQ to integer operators: quantize(op(dequantize(q), …)) becomes one operator on quantised tensors.

Layouts, maxima and limits commute with (de)quantisation, so they move to the side that has integers. Products, sums and
averages are left between a dequantize and a quantize, and become operators on integers together with these.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tilewright.compiler.graph.graph import Operator, Quantization, TensorType
from tilewright.compiler.graph.saturation import saturated
from tilewright.compiler.simplify.binary import BINARY
from tilewright.compiler.simplify.kinds import REORDERING
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.small_floats import SMALL_FLOATS

MONOTONE = ("reshape", "max_pool", "channel_max", "transpose", "take", "space_to_depth", "depth_to_space")
"""Operators that pick some of their input's elements, in an order that does not depend on the scale."""

SUMS = ("conv", "conv_transpose", "product", "average_pool", "interpolate", "softmax", "normalize")

LIMITS = ("low", "high")

EXACT_GRID = 1e-6
"""A real number this close to a multiple of the scale counts as one."""


# -- dequantize moves down ---------------------------------------------------------------------------------------------


def before_dequantize(operator: Operator, view: GraphView) -> Replacement | None:
    """reshape(dequantize(q)) → dequantize(reshape(q)); the same for all of MONOTONE."""
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None:
        return None
    source = dequantize.inputs[0]
    if view.constant(source) is not None:
        return None
    moved = replace(view.type(source), shape=view.type(operator.outputs[0]).shape)
    return below(dequantize, replace(operator, inputs=(source,)), moved, view)


def clamp_before_dequantize(operator: Operator, view: GraphView) -> Replacement | None:
    """clamp(dequantize(q)) → dequantize(q within limits), if the limits are multiples of the scale."""
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None or _is_only_quantized(operator.outputs[0], view):
        return None
    tensor_type = view.type(dequantize.inputs[0])
    assert tensor_type.quantization is not None
    for limit in (operator.attributes["low"], operator.attributes["high"]):
        steps = limit / tensor_type.quantization.scale
        if math.isfinite(limit) and (
            abs(steps - round(steps)) > EXACT_GRID or not is_number(round(steps), tensor_type)
        ):
            return None
    attributes = integer_limits(operator, tensor_type, *tensor_type.limits)
    assert attributes is not None  # of one scale
    rescale = replace(operator, kind="rescale", inputs=dequantize.inputs, attributes=attributes)
    return below(dequantize, rescale, tensor_type, view)


def is_number(steps: int, tensor_type: TensorType) -> bool:
    """Whether a number of steps is one that the type has, or beyond its ends; floats have gaps between them."""
    small = SMALL_FLOATS.get(tensor_type.dtype)
    return small is None or abs(steps) > small.greatest_steps or small.holds(np.array([steps]))


def _is_only_quantized(name: str, view: GraphView) -> bool:
    """True when every reader of a tensor quantises it: limits then go into the quantisation, without rounding them."""
    users = view.users(name)
    return bool(users) and name not in view.outputs and all(user.kind == "quantize" for user in users)


def below(dequantize: Operator, operator: Operator, result_type: TensorType, view: GraphView) -> Replacement:
    """op(dequantize(q)) → dequantize(op(q)), where `operator` is op on q with a result of `result_type`."""
    result = operator.outputs[0]
    integers = view.fresh(f"{result}.integers")
    made = replace(operator, outputs=(integers,))
    return Replacement((made, replace(dequantize, inputs=(integers,), outputs=(result,))), {integers: result_type})


def quantization_goes_on(operator: Operator, view: GraphView) -> Replacement | None:
    """Integers that are picked without a DequantizeLinear before keep their meaning."""
    result = operator.outputs[0]
    before, after = view.type(operator.inputs[0]), view.type(result)
    if after.quantization is not None or before.quantization is None or before.dtype != after.dtype:
        return None
    return Replacement((operator,), {result: replace(after, quantization=before.quantization)})


def meaning_goes_up(operator: Operator, view: GraphView) -> Replacement | None:
    """Integers that are only put in another order mean what they mean afterwards: transpose(x) is dequantised, so is x.

    Example: an image of integers, [N, H, W, C], is transposed, and a DequantizeLinear says only then what they mean.
    """
    source = operator.inputs[0]
    before, after = view.type(source), view.type(operator.outputs[0])
    if before.quantization is not None or after.quantization is None or before.dtype != after.dtype:
        return None
    if after.quantization.axis is not None or view.constant(source) is not None:
        return None
    return Replacement((operator,), {source: replace(before, quantization=after.quantization)})


# -- quantize moves up -------------------------------------------------------------------------------------------------


def clamp_into_quantize(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(clamp(x)) → quantize(x) with closer limits: rounding keeps the order of values."""
    clamp = view.producer(operator.inputs[0], "clamp")
    if clamp is None:
        return None
    result_type = view.type(operator.outputs[0])
    attributes = integer_limits(clamp, result_type, operator.attributes["low"], operator.attributes["high"])
    if attributes is None:
        return None
    made = replace(operator, inputs=clamp.inputs, attributes=attributes, nodes=clamp.nodes + operator.nodes)
    return Replacement((made,))


def quantize_before(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(reshape(x)) → reshape(quantize(x)); the same for all of MONOTONE."""
    before = view.producer(operator.inputs[0], *MONOTONE)
    if before is None or _has_channels(operator, view):
        return None
    return above(operator, before, view)


def above(quantize: Operator, operator: Operator, view: GraphView) -> Replacement:
    """quantize(op(x)) → op(quantize(x)), where `operator` is op with its attributes for integers."""
    source, result = operator.inputs[0], quantize.outputs[0]
    integers = view.fresh(f"{result}.source")
    tensor_type = replace(view.type(result), shape=view.type(source).shape)
    made = replace(quantize, inputs=(source,), outputs=(integers,))
    return Replacement((made, replace(operator, inputs=(integers,), outputs=(result,))), {integers: tensor_type})


def requantize(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(dequantize(q)) → rescale(q), or q itself where nothing changes."""
    dequantize = view.producer(operator.inputs[0], "dequantize")
    if dequantize is None or _has_channels(operator, view):
        return None
    made = replace(operator, kind="rescale", inputs=dequantize.inputs)
    return Replacement((made,))


def integer_operator(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(op(dequantize(q), …)) → op(q, …) on quantised tensors."""
    computed = view.producer(operator.inputs[0], *SUMS, *BINARY)
    if computed is None or (computed.kind != "conv" and _has_channels(operator, view)):
        return None
    inputs = [_integers(name, view) for name in computed.inputs[:2]] + list(map(_bias, computed.inputs[2:], [view] * 3))
    if any(name is None for name in inputs):
        return None
    attributes = {**computed.attributes, **operator.attributes}
    names = tuple(name for name in inputs if name is not None)
    extra = tuple(node for node in operator.nodes[:-1] if node not in computed.nodes)
    made = Operator(computed.name, computed.kind, names, operator.outputs, attributes, computed.nodes + extra)
    return Replacement((made,))


def _has_channels(quantize: Operator, view: GraphView) -> bool:
    """Whether each channel of the result has its own scale, which only a convolution can give it."""
    quantization = view.type(quantize.outputs[0]).quantization
    return quantization is not None and quantization.axis is not None


def _integers(name: str, view: GraphView) -> str | None:
    """The quantised tensor that a float tensor is dequantised from."""
    dequantize = view.producer(name, "dequantize")
    return None if dequantize is None else dequantize.inputs[0]


def _bias(name: str, view: GraphView) -> str | None:
    """A bias may be quantised or float; it must be constant."""
    source = _integers(name, view) or name
    return source if view.constant(source) is not None else None


# -- integer operators among themselves --------------------------------------------------------------------------------


def drop_rescale_to_same(operator: Operator, view: GraphView) -> Replacement | None:
    """A rescale to the same type that limits nothing is its input."""
    result_type = view.type(operator.outputs[0])
    limits = operator.attributes["low"], operator.attributes["high"]
    if view.type(operator.inputs[0]) != result_type or limits != result_type.limits:
        return None
    return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})


def rescale_of_constant(operator: Operator, view: GraphView) -> Replacement | None:
    """A constant in other steps is another constant."""
    source, result = operator.inputs[0], operator.outputs[0]
    value, before, after = view.constant(source), view.type(source).quantization, view.type(result)
    if value is None or before is None or before.axis is not None or after.quantization is None:
        return None
    real = ((value.astype(np.int64) - before.zero_point) * np.float32(before.scale)).astype(np.float32)
    if after.quantization.axis is not None or after.dtype in SMALL_FLOATS:
        return None
    steps = np.rint(real / np.float32(after.quantization.scale)) + after.quantization.zero_point
    integers = np.clip(steps, operator.attributes["low"], operator.attributes["high"]).astype(after.dtype)
    return Replacement(tensors={result: after}, constants={result: integers})


def limits_into_producer(operator: Operator, view: GraphView) -> Replacement | None:
    """rescale(op(…)) to the same scale only limits: op's own limits become closer. The same for a quantisation."""
    source, result = operator.inputs[0], operator.outputs[0]
    before = view.producer(source, "quantize", "rescale", *SUMS, *BINARY)
    if before is None or (before.kind == "quantize" and before.inputs[0] in view.inputs):
        return None
    if view.type(source) != view.type(result) or not view.is_read_once(source):
        return None
    low, high = operator.attributes["low"], operator.attributes["high"]
    limits = {name: min(max(before.attributes[name], low), high) for name in ("low", "high")}
    nodes = before.nodes + operator.nodes
    return Replacement((replace(before, outputs=(result,), attributes={**before.attributes, **limits}, nodes=nodes),))


def integer_limits(clamp: Operator, tensor_type: TensorType, low: int, high: int) -> dict[str, int] | None:
    """The integers between which a quantised value stays when its real value is clamped, within low … high.

    None if channels have scales of their own, and these give different limits.
    """
    assert tensor_type.quantization is not None
    meanings = zip(tensor_type.quantization.scales, tensor_type.quantization.zero_points, strict=True)
    channels = [replace(tensor_type, quantization=Quantization((scale,), (zero,))) for scale, zero in meanings]
    least, most = ({quantized_value(clamp.attributes[name], channel) for channel in channels} for name in LIMITS)
    if len(least) > 1 or len(most) > 1:
        return None
    low = min(max(low, *least), *most)
    return {"low": low, "high": max(low, min(high, *most))}


def quantized_value(value: float, tensor_type: TensorType) -> int:
    """As QuantizeLinear to a type of one scale: divided in float32, ties to even, saturated."""
    quantization, small = tensor_type.quantization, SMALL_FLOATS.get(tensor_type.dtype)
    assert quantization is not None
    with np.errstate(over="ignore"):
        steps = np.float32(value) / np.float32(quantization.scale)
    if small is not None:
        return int(small.nearest(np.asarray(steps * small.least)))
    return int(saturated(np.float64(np.rint(steps) + quantization.zero_point), *tensor_type.limits))


INTEGER_RULES = {
    # dequantize moves down
    **dict.fromkeys(MONOTONE, (before_dequantize, quantization_goes_on)),
    **dict.fromkeys(REORDERING, (before_dequantize, quantization_goes_on, meaning_goes_up)),
    "concat": (quantization_goes_on,),
    "pad": (quantization_goes_on,),
    "clamp": (clamp_before_dequantize,),
    # quantize moves up
    "quantize": (clamp_into_quantize, quantize_before, requantize, integer_operator),
    # integer operators among themselves
    "rescale": (rescale_of_constant, drop_rescale_to_same, limits_into_producer),
}
