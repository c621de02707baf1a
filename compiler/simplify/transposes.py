"""Transposes and reshapes: merged, moved to the ends of the graph, and folded into the products that read them.

Everything on the machine is [N, C, H, W]. Example: Transpose to [N, H, W, C], Relu, Transpose back is Relu. A
transpose that stays may only be at an end of the graph, where the host orders the elements; others are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, stored_shape
from tilewright.compiler.simplify.attributes import ConstantTensor, attributes_of, constant_weights, stored_weights
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


EXCHANGED = (0, 3, 2, 1)
"""The axes of a transposition that exchanges channels and columns."""


def exchange(name: str, source: str, result: str, of: Operator) -> Operator:
    """The transposition of a tensor that an operator needs exchanged."""
    return Operator(name, "transpose", (source,), (result,), {"axes": EXCHANGED}, of.nodes)


def exchanged_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape after channels and columns were exchanged."""
    return tuple(shape[axis] for axis in EXCHANGED)


def transpose(operator: Operator, view: GraphView) -> Replacement | None:
    """ONNX's Transpose; without `perm` the dimensions are reversed."""
    if view.constant(operator.inputs[0]) is not None:
        return None
    rank = len(view.type(operator.inputs[0]).shape)
    with attributes_of(operator) as attributes:
        axes = attributes.integers("perm") or tuple(reversed(range(rank)))
    weights = constant_weights(operator.inputs[0], view)
    if weights is not None:
        real, change = stored_weights(turned(weights, axes), f"{operator.name}.turned", view)
        return replace(change, aliases={operator.outputs[0]: real})
    return Replacement((replace(operator, kind="transpose", attributes={"axes": axes}),))


def turned(weights: ConstantTensor, axes: tuple[int, ...]) -> ConstantTensor:
    """A constant transposed, together with the meaning of its integers."""
    quantization = weights.quantization
    if quantization is not None and quantization.axis is not None:
        quantization = replace(quantization, axis=axes.index(quantization.axis))
    return ConstantTensor(np.ascontiguousarray(weights.values.transpose(axes)), quantization)


def merge_transposes(operator: Operator, view: GraphView) -> Replacement | None:
    """transpose(transpose(x)) → one transpose."""
    before = view.producer(operator.inputs[0], "transpose")
    if before is None:
        return None
    axes = tuple(before.attributes["axes"][axis] for axis in operator.attributes["axes"])
    nodes = before.nodes + operator.nodes
    return Replacement((replace(operator, inputs=before.inputs, attributes={"axes": axes}, nodes=nodes),))


def transpose_to_reshape(operator: Operator, view: GraphView) -> Replacement | None:
    """A transpose that only moves dimensions of size 1 is a reshape: [1, 1, H, W] → [1, H, W, 1]."""
    shape = view.type(operator.inputs[0]).shape
    moved = [axis for axis in operator.attributes["axes"] if shape[axis] != 1]
    if moved != sorted(moved):
        return None
    return Replacement((replace(operator, kind="reshape", attributes={}),))


def transpose_after_binary(operator: Operator, view: GraphView) -> Replacement | None:
    """add(transpose(a), transpose(b)) → transpose(add(a, b)), so that the transpose meets one that undoes it.

    The same for all operators of two operands. A constant operand is transposed here, an input by the host. For any
    other operand, the result of a transpose that another operator reads already is taken.
    """
    before = next((o for name in operator.inputs if (o := view.producer(name, "transpose")) is not None), None)
    if before is None:
        return None
    axes = before.attributes["axes"]
    back = tuple(int(axis) for axis in np.argsort(axes))
    inputs: list[str] = []
    turns: list[Operator] = []
    types, constants = {}, {}
    for name in operator.inputs:
        producer, value = view.producer(name, "transpose"), view.constant(name)
        if producer is not None and producer.attributes["axes"] == axes:
            inputs += producer.inputs
        elif value is not None and value.ndim <= len(axes) and _has_one_scale(name, view):
            turned = view.fresh(f"{name}.untransposed")
            full = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
            constants[turned] = np.ascontiguousarray(full.transpose(back))
            types[turned] = replace(view.type(name), shape=constants[turned].shape)
            inputs.append(turned)
        elif _is_from_host(name, view) and not _is_from_host(before.inputs[0], view):
            ordered, tensor_type = view.fresh(f"{name}.untransposed"), view.type(name)
            if len(tensor_type.shape) != len(axes):
                return None
            types[ordered] = replace(tensor_type, shape=tuple(tensor_type.shape[axis] for axis in back))
            turns.append(replace(before, name=f"{operator.name}.turn", inputs=(name,), outputs=(ordered,),
                                 attributes={"axes": back}))  # fmt: skip
            inputs.append(ordered)
        else:
            turned_already = (o.outputs[0] for o in view.users(name) if o.kind == "transpose")
            found = next((o for o in turned_already if _turned_by(o, back, view)), None)
            if found is None or found in operator.inputs or not _is_for_one(operator, axes, view):
                return None
            inputs.append(found)
    result = operator.outputs[0]
    middle = view.fresh(f"{result}.untransposed")
    tensor_type = view.type(result)
    types[middle] = replace(tensor_type, shape=tuple(tensor_type.shape[axis] for axis in back))
    made = replace(operator, inputs=tuple(inputs), outputs=(middle,))
    after = replace(before, inputs=(middle,), outputs=(result,))
    return Replacement((*turns, made, after), types, constants)


def _is_from_host(name: str, view: GraphView) -> bool:
    """Whether a tensor is an input that only one operator reads: the host may order its elements."""
    quantize = view.producer(name, "quantize")
    source = name if quantize is None else quantize.inputs[0]
    return source in view.inputs and view.is_read_once(name) and view.is_read_once(source)


def _is_for_one(operator: Operator, axes: tuple[int, ...], view: GraphView) -> bool:
    """Whether no other operator reads the transposes of an operator's operands: then they go with this rewrite."""
    return all(view.is_read_once(name) for name in operator.inputs if _turned_by(name, axes, view))


def _turned_by(name: str, axes: tuple[int, ...], view: GraphView) -> bool:
    producer = view.producer(name, "transpose")
    return producer is not None and producer.attributes["axes"] == axes


def _has_one_scale(name: str, view: GraphView) -> bool:
    quantization = view.type(name).quantization
    return quantization is None or quantization.axis is None


def transpose_into_product(operator: Operator, view: GraphView) -> Replacement | None:
    """A convolution whose kernel is the whole image takes it in any layout: the weights are transposed instead.

    Example: [1, 4, 4, 8] as [N, H, W, C], flattened, times [128, 10] is a 4×4 convolution of [1, 8, 4, 4].
    """
    before = view.producer(operator.inputs[0], "transpose")
    weights = constant_weights(operator.inputs[1], view)
    if before is None or weights is None or before.attributes["axes"][0] != 0 or operator.attributes["group"] != 1:
        return None
    tensor_type, axes = view.type(operator.inputs[0]), before.attributes["axes"]
    is_whole = tensor_type.shape[1:] == weights.values.shape[1:] and not any(operator.attributes["pads"])
    quantization = weights.quantization
    if not is_whole or tensor_type.quantization is None or quantization is None or quantization.axis not in (None, 0):
        return None
    values = np.ascontiguousarray(weights.values.transpose(*np.argsort(axes)))
    _, change = stored_weights(ConstantTensor(values, quantization), f"{operator.name}.weight", view)
    name = change.operators[0].inputs[0]
    nodes = before.nodes + operator.nodes
    made = replace(operator, inputs=(before.inputs[0], name, *operator.inputs[2:]), nodes=nodes)
    return replace(change, operators=(made,))


def is_at_an_end(operator: Operator, graph: Graph) -> bool:
    """Whether only the host sees one side of a transpose: it then orders the elements of an input or output so."""
    if is_at_the_start(operator, graph):
        return True
    name, outputs = operator.outputs[0], list(graph.outputs.values())
    while graph.uses[name] == 1:
        reader = next((o for o in graph.operators if o.inputs[:1] == (name,)), None)
        if reader is None or reader.kind not in ("dequantize", "reshape"):
            break
        name = reader.outputs[0]
    return graph.uses[name] == outputs.count(name) > 0


def is_at_the_start(operator: Operator, graph: Graph) -> bool:
    """Whether a transpose alone reads an input, in whatever shape: the host then orders that one's elements."""
    name = operator.inputs[0]
    while graph.uses[name] == 1:
        if name in graph.inputs:
            return True
        producer = graph.producers.get(name)
        if producer is None or producer.kind not in ("quantize", "reshape"):
            break
        name = producer.inputs[0]
    return False


TRANSPOSE_RULES = {
    "transpose": (merge_transposes, transpose_to_reshape),
    **dict.fromkeys(BINARY, (transpose_after_binary,)),
    "conv": (transpose_into_product,),
}
