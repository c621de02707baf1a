"""Reshapes: merged, moved to the edges, and folded into the convolution that reads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.compiler.graph.graph import CHANNEL, Operator, stored_shape
from tilewright.compiler.simplify.attributes import ConstantTensor, constant_weights, stored_weights
from tilewright.compiler.simplify.binary import BINARY, MOST_DIMENSIONS
from tilewright.compiler.simplify.reordered_concats import is_ordered_for_concat
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


def drop_reshape_to_same(operator: Operator, view: GraphView) -> Replacement | None:
    source, result = operator.inputs[0], operator.outputs[0]
    if view.type(source).shape != view.type(result).shape:
        return None
    return Replacement(aliases={result: source})


def merge_reshapes(operator: Operator, view: GraphView) -> Replacement | None:
    before = view.producer(operator.inputs[0], "reshape")
    if before is None:
        return None
    return Replacement((replace(operator, inputs=before.inputs, nodes=before.nodes + operator.nodes),))


def reshape_after_rescale(operator: Operator, view: GraphView) -> Replacement | None:
    """rescale(reshape(q)) → reshape(rescale(q)), so that the reshape (or transpose) meets a reader that absorbs it.

    The same for a lookup in one table for all channels.
    """
    if operator.kind == "lookup" and operator.attributes["table"].ndim > 1:
        return None
    before = view.producer(operator.inputs[0], "reshape", "transpose")
    source, result = operator.inputs[0], operator.outputs[0]
    if before is None or (before.kind == "transpose" and before.inputs[0] in view.inputs):
        return None  # the host orders an input's elements
    if is_ordered_for_concat(source, result, view):
        return None
    source = before.inputs[0]
    middle = view.fresh(f"{result}.unshaped")
    tensor_type = replace(view.type(result), shape=view.type(source).shape)
    rescale = replace(operator, inputs=(source,), outputs=(middle,))
    reshape = replace(before, inputs=(middle,), outputs=(result,))
    return Replacement((rescale, reshape), {middle: tensor_type})


def reshape_after_binary(operator: Operator, view: GraphView) -> Replacement | None:
    """add(reshape(a), reshape(b)) → reshape(add(a, b)), where a has more channels: words of one element become full.

    The same for all operators of two operands of one shape. In place of a reshaped tensor, an operand may be an input,
    which the host stores in any shape, or one that other operators read in the new shape already.
    """
    shape = view.type(operator.outputs[0]).shape
    before = next((o for name in operator.inputs if (o := view.producer(name, "reshape")) is not None), None)
    if before is None or any(view.type(name).shape != shape for name in operator.inputs):
        return None
    within = view.type(before.inputs[0]).shape
    if max(len(shape), len(within)) > MOST_DIMENSIONS or stored_shape(within)[CHANNEL] <= stored_shape(shape)[CHANNEL]:
        return None
    inputs: list[str] = []
    shaped: list[Operator] = []
    types = {}
    for name in operator.inputs:
        producer = view.producer(name, "reshape")
        source = name if producer is None else producer.inputs[0]
        if producer is None or not _is_stored_as(within, source, view):
            source = name
            if not _is_read_as(within, name, operator, view):
                return None
        if view.type(source).shape != within:
            fresh = view.fresh(f"{source}.shaped")
            types[fresh] = replace(view.type(source), shape=within)
            shaped.append(replace(before, name=f"{operator.name}.shape", inputs=(source,), outputs=(fresh,)))
            source = fresh
        inputs.append(source)
    result = operator.outputs[0]
    middle = view.fresh(f"{result}.unshaped")
    types[middle] = replace(view.type(result), shape=within)
    made = replace(operator, inputs=tuple(inputs), outputs=(middle,))
    return Replacement((*shaped, made, replace(before, inputs=(middle,), outputs=(result,))), types)


def _is_stored_as(shape: tuple[int, ...], name: str, view: GraphView) -> bool:
    own = view.type(name).shape
    return len(own) <= MOST_DIMENSIONS and stored_shape(own) == stored_shape(shape)


def _is_read_as(shape: tuple[int, ...], name: str, reader: Operator, view: GraphView) -> bool:
    """Whether all other readers of a tensor reshape it so; an input need have no other."""
    others = [user for user in view.users(name) if user.outputs != reader.outputs]
    is_shaped = all(user.kind == "reshape" and _is_stored_as(shape, user.outputs[0], view) for user in others)
    return is_shaped and (bool(others) or view.producer(name, "quantize") is not None) and name not in view.outputs


def flatten_into_conv(operator: Operator, view: GraphView) -> Replacement | None:
    """A 1×1 product over a flattened [N, C, H, W] is a convolution whose kernel is all of H × W.

    Example: [1, 4, 3, 3] → [1, 36] · [6, 36]ᵀ is a convolution with weights [6, 4, 3, 3] and no padding.
    """
    flatten = view.producer(operator.inputs[0], "reshape")
    weights = constant_weights(operator.inputs[1], view)
    if flatten is None or weights is None or operator.attributes["group"] != 1:
        return None
    source = flatten.inputs[0]
    if len(view.type(source).shape) > 4:
        return None
    n, c, h, w = stored_shape(view.type(source).shape)
    if c == 1 and h * w > 1:
        return None  # a kernel of one channel would fill one lane; the reshape fills them, and an input's is free
    outputs, inputs, *kernel = weights.values.shape
    is_plain = kernel == [1, 1] and operator.attributes["pads"] == (0,) * 4
    flattened = stored_shape(view.type(operator.inputs[0]).shape)
    if not is_plain or flattened != (n, c * h * w, 1, 1):
        return None
    quantization = weights.quantization
    if quantization is not None and quantization.axis not in (None, 0):
        return None
    kernels = ConstantTensor(np.ascontiguousarray(weights.values.reshape(outputs, c, h, w)), quantization)
    real, change = stored_weights(kernels, f"{operator.name}.weight", view)
    is_integer = view.type(operator.inputs[0]).quantization is not None
    name = change.operators[0].inputs[0] if is_integer and change.operators else real
    operators = () if is_integer else change.operators
    attributes = {**operator.attributes, "strides": (1, 1)}
    made = replace(operator, inputs=(source, name, *operator.inputs[2:]), attributes=attributes)
    return replace(change, operators=(*operators, replace(made, nodes=flatten.nodes + operator.nodes)))


LAYOUT_RULES = {
    "reshape": (drop_reshape_to_same, merge_reshapes),
    "rescale": (reshape_after_rescale,),
    "lookup": (reshape_after_rescale,),
    "conv": (flatten_into_conv,),
    **dict.fromkeys(BINARY, (reshape_after_binary,)),
}
