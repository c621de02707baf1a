"""Concat: tensors one after the other along a dimension, and where it stands beside (de)quantisation.

Source: https://onnx.ai/onnx/operators, opsets 11 to 21.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights
from tilewright.compiler.simplify.binary import MOST_DIMENSIONS
from tilewright.compiler.simplify.integer import EXACT_GRID
from tilewright.compiler.simplify.moves import axis_of_four
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.compiler.simplify.views import groups_of_four, joined_shape


def concat(operator: Operator, view: GraphView) -> Replacement | None:
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 0)
    types = [view.type(name) for name in operator.inputs]
    inputs = tuple(name for name, operand in zip(operator.inputs, types, strict=True) if 0 not in operand.shape)
    if all(constant_weights(name, view) is not None for name in inputs):
        return None
    if len(inputs) == 1:
        return Replacement(aliases={operator.outputs[0]: inputs[0]})
    rank = len(types[0].shape)
    if rank > MOST_DIMENSIONS:
        return _concat_of_view(operator, inputs, axis % rank, view)
    given = {"axis": axis_of_four(operator, axis, rank)}
    return Replacement((replace(operator, kind="concat", inputs=inputs, attributes=given),))


def _concat_of_view(operator: Operator, inputs: Sequence[str], axis: int, view: GraphView) -> Replacement:
    """A Concat of more than four dimensions, of tensors seen as four, in which its axis begins a dimension."""
    result = operator.outputs[0]
    shape = view.type(result).shape
    groups = groups_of_four(shape, outermost=(axis,))
    assert groups is not None
    joins, types = [], {}
    for position, name in enumerate(inputs):
        whole = view.fresh(f"{operator.name}.whole{position}")
        types[whole] = replace(view.type(name), shape=joined_shape(view.type(name).shape, groups))
        joins.append(Operator(f"{operator.name}.join{position}", "reshape", (name,), (whole,), {}, operator.nodes))
    joint = view.fresh(f"{operator.name}.joint")
    given = {"axis": next(position for position, group in enumerate(groups) if axis in group)}
    made = replace(operator, inputs=tuple(types), outputs=(joint,), attributes=given)
    part = Operator(f"{operator.name}.part", "reshape", (joint,), (result,), {}, operator.nodes)
    types[joint] = replace(view.type(result), shape=joined_shape(shape, groups))
    return Replacement((*joins, made, part), types)


def concat_before_dequantize(operator: Operator, view: GraphView) -> Replacement | None:
    """concat(dequantize(a), dequantize(b), …) → dequantize(concat(a, b, …)), if all have one scale and zero point.

    Constants among the operands are quantised as well, if they are multiples of the scale.
    """
    constants = {name: constant_weights(name, view) for name in operator.inputs}
    sources = [view.producer(name, "dequantize") for name in operator.inputs if constants[name] is None]
    integers = [producer.inputs[0] for producer in sources if producer is not None]
    types = [view.type(name) for name in integers]
    if not types or len(integers) < len(sources):
        return None
    tensor_type = types[0]
    if any((other.dtype, other.quantization) != (tensor_type.dtype, tensor_type.quantization) for other in types):
        return None
    result = operator.outputs[0]
    joint = view.fresh(f"{result}.integers")
    after = Operator(f"{operator.name}.dequantize", "dequantize", (joint,), (result,))
    change = Replacement((), {joint: replace(tensor_type, shape=view.type(result).shape)})
    inputs = []
    for position, name in enumerate(operator.inputs):
        constant = constants[name]
        if constant is None:
            inputs.append(integers.pop(0))
            continue
        values = _on_grid(constant.real, tensor_type)
        if values is None:
            return None
        inputs.append(view.fresh(f"{result}.constant{position}"))
        stored = Replacement((), {inputs[-1]: replace(tensor_type, shape=values.shape)}, {inputs[-1]: values})
        change = joined(change, stored)
    return joined(change, Replacement((replace(operator, inputs=tuple(inputs), outputs=(joint,)), after)))


def _on_grid(real: NDArray[np.float64], tensor_type: TensorType) -> NDArray[np.int64] | None:
    """Real numbers as integers of a type; None if some of them have none."""
    assert tensor_type.quantization is not None
    steps = real / tensor_type.quantization.scale + tensor_type.quantization.zero_point
    values = np.rint(steps)
    low, high = tensor_type.limits
    if np.abs(steps - values).max(initial=0) > EXACT_GRID or values.min() < low or values.max() > high:
        return None
    return values.astype(tensor_type.dtype)


def constants_in_concat(operator: Operator, view: GraphView) -> Replacement | None:
    """Integers that are constant mean the same as those beside them, where only the concatenation is dequantised."""
    result = view.type(operator.outputs[0])
    if result.quantization is None or result.quantization.axis is not None:
        return None
    plain = {
        name: replace(view.type(name), quantization=result.quantization)
        for name in operator.inputs
        if view.constant(name) is not None
        and view.type(name).quantization is None
        and view.type(name).dtype == result.dtype
    }
    return Replacement((operator,), plain) if plain else None


def into_concat(operator: Operator, view: GraphView) -> Replacement | None:
    """quantize(concat(a, b)) → concat(quantize(a), quantize(b)). The same for a rescale that alone reads the concat."""
    before = view.producer(operator.inputs[0], "concat")
    if before is None or (operator.kind == "rescale" and not view.is_read_once(operator.inputs[0])):
        return None
    result = operator.outputs[0]
    result_type = view.type(result)
    made, types = [], {}
    for position, source in enumerate(before.inputs):
        name = view.fresh(f"{result}.{position}")
        types[name] = replace(result_type, shape=view.type(source).shape)
        made.append(replace(operator, name=f"{operator.name}.{position}", inputs=(source,), outputs=(name,)))
    after = replace(before, inputs=tuple(types), outputs=(result,))
    return Replacement((*made, after), types)


CONCAT_RULES = {
    "concat": (concat_before_dequantize, constants_in_concat),
    "quantize": (into_concat,),
    "rescale": (into_concat,),
}
