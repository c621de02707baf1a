"""Operators that only move elements: Concat is `concat`; Slice, Split, Gather, Expand and Tile are `take`.

They commute with (de)quantisation: on integers they only copy, and round nothing.
Source: https://onnx.ai/onnx/operators, opsets 11 to 21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import TAKEN, Operator, TensorType, stored_axis, stored_shape
from tilewright.compiler.graph.saturation import saturated
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.integer import EXACT_GRID
from tilewright.compiler.simplify.rewrite import Replacement, View, joined
from tilewright.compiler.simplify.weights import constant_weights

Indices = Sequence[int]
"""For each index of the result along a dimension, the operand's index."""


# -- from ONNX ---------------------------------------------------------------------------------------------------------


def concat(operator: Operator, view: View) -> Replacement | None:
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 0)
    types = [view.type(name) for name in operator.inputs]
    inputs = tuple(name for name, operand in zip(operator.inputs, types, strict=True) if 0 not in operand.shape)
    if all(constant_weights(name, view) is not None for name in inputs):
        return None
    if len(inputs) == 1:
        return Replacement(aliases={operator.outputs[0]: inputs[0]})
    given = {"axis": _stored_axis(operator, axis, view)}
    return Replacement((replace(operator, kind="concat", inputs=inputs, attributes=given),))


def slice_(operator: Operator, view: View) -> Replacement | None:
    """Slice; starts and ends beyond the tensor mean its ends, as in Python."""
    if view.constant(operator.inputs[0]) is not None:
        return None
    with attributes_of(operator):
        pass
    starts, ends, axes, steps = (_integers(operator, position, view) for position in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise CompileError(operator, "its starts or ends are left out", expected="constants")
    shape = view.type(operator.inputs[0]).shape
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise CompileError(
            operator,
            f"starts {starts}, ends {ends}, axes {axes}, steps {steps}",
            expected="as many of each, and no step 0",
        )
    taken = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[axis % len(shape)]
        taken[axis] = range(*slice(start, end, step).indices(size))
    return take(operator, operator.inputs[0], operator.outputs[0], taken, view)


def split(operator: Operator, view: View) -> Replacement | None:
    """Split: a take for each of its results; shape inference has found their sizes."""
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 0)
        attributes.ignore("split", "num_outputs")
    source = operator.inputs[0]
    if view.constant(source) is not None:
        return None
    change, first = Replacement(), 0
    for position, result in enumerate(operator.outputs):
        if not result:
            raise CompileError(operator, f"its result {position} is left out", expected="a name for each")
        size = view.type(result).shape[axis]
        piece = replace(operator, name=f"{operator.name}.{position}")
        change = joined(change, take(piece, source, result, {axis: range(first, first + size)}, view))
        first += size
    return change


def gather(operator: Operator, view: View) -> Replacement | None:
    """Gather with constant indices: a list, or a single one, which removes the dimension."""
    source, result = operator.inputs[0], operator.outputs[0]
    indices = view.constant(operator.inputs[1])
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 0)
    if indices is None or indices.ndim > 1:
        raise CompileError(operator, "its indices are computed or a matrix", expected="a constant list")
    shape = view.type(source).shape
    axis %= len(shape)
    outside = [int(index) for index in indices.ravel() if not -shape[axis] <= index < shape[axis]]
    if outside:
        raise CompileError(operator, f"index {outside[0]} is outside of axis {axis}, which has {shape[axis]} elements")
    taken = [int(index) % shape[axis] for index in indices.ravel()]
    if indices.ndim == 1:
        return take(operator, source, result, {axis: taken}, view)
    kept = view.fresh(f"{result}.kept")
    kept_type = replace(view.type(result), shape=(*shape[:axis], 1, *shape[axis + 1 :]))
    change = take(operator, source, kept, {axis: taken}, view)
    reshape = Operator(f"{operator.name}.reshape", "reshape", (kept,), (result,), {}, operator.nodes)
    return joined(Replacement((), {kept: kept_type}), joined(change, Replacement((reshape,))))


def expand(operator: Operator, view: View) -> Replacement | None:
    """Expand, Tile: the operand repeated along some dimensions."""
    with attributes_of(operator):
        pass
    source, result = operator.inputs[0], operator.outputs[0]
    if view.constant(source) is not None:
        return None
    before, after = view.type(source).shape, view.type(result).shape
    shaped = (1,) * (len(after) - len(before)) + before
    taken = {axis: [i % size for i in range(after[axis])] for axis, size in enumerate(shaped) if after[axis] != size}
    if len(before) == len(after):
        return take(operator, source, result, taken, view)
    middle = view.fresh(f"{result}.shaped")
    reshape = Operator(f"{operator.name}.reshape", "reshape", (source,), (middle,), {}, operator.nodes)
    first = Replacement((reshape,), {middle: replace(view.type(source), shape=shaped)})
    if not taken:
        return replace(first, operators=(replace(reshape, outputs=(result,)),))
    return joined(first, take(operator, middle, result, taken, view, rank=len(after)))


def take(
    operator: Operator, source: str, result: str, taken: Mapping[int, Indices], view: View, rank: int | None = None
) -> Replacement:
    """The canonical take of some of the source's indices along some axes, or the source itself where it is all."""
    rank = len(view.type(source).shape) if rank is None else rank
    for axis, indices in taken.items():
        if not len(indices):
            raise CompileError(operator, f"nothing is left of axis {axis}", expected="at least one element")
    attributes = taken_attributes({_axis(operator, axis, rank): tuple(map(int, i)) for axis, i in taken.items()})
    made = Operator(operator.name, "take", (source,), (result,), attributes, operator.nodes)
    return Replacement((made,))


def taken_attributes(taken: Mapping[int, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """A take's attributes from its indices along dimensions of [N, C, H, W]."""
    return {name: taken.get(axis, ()) for axis, name in enumerate(TAKEN)}


def _axis(operator: Operator, axis: int, rank: int) -> int:
    if not 1 <= rank <= 4:
        raise CompileError(operator, f"its operand has {rank} dimensions", expected="1 to 4: [N, C, H, W]")
    return stored_axis(axis % rank, rank)


def _stored_axis(operator: Operator, axis: int, view: View) -> int:
    return _axis(operator, axis, len(view.type(operator.outputs[0]).shape))


def _integers(operator: Operator, position: int, view: View) -> list[int] | None:
    """An operand of integers, which must be constant; None where it is left out."""
    name = operator.inputs[position] if position < len(operator.inputs) else ""
    if not name:
        return None
    value = view.constant(name)
    if value is None:
        raise CompileError(operator, f"{name!r} is computed", expected="a constant")
    return [int(item) for item in value.ravel()]


# -- among themselves --------------------------------------------------------------------------------------------------


def merge_takes(operator: Operator, view: View) -> Replacement | None:
    """take(take(x)) → one take."""
    before = view.producer(operator.inputs[0], "take")
    if before is None:
        return None
    merged = {}
    for name in TAKEN:
        outer, inner = operator.attributes[name], before.attributes[name]
        merged[name] = tuple(inner[i] for i in outer) if inner and outer else inner or outer
    nodes = before.nodes + operator.nodes
    return Replacement((replace(operator, inputs=before.inputs, attributes=merged, nodes=nodes),))


def drop_take_of_all(operator: Operator, view: View) -> Replacement | None:
    """A take of all indices in order is its operand."""
    source, result = operator.inputs[0], operator.outputs[0]
    sizes = stored_shape(view.type(source).shape)
    attributes = {
        name: () if operator.attributes[name] == tuple(range(size)) else operator.attributes[name]
        for name, size in zip(TAKEN, sizes, strict=True)
    }
    if not any(attributes.values()):
        return Replacement(aliases={result: source})
    if attributes == operator.attributes:
        return None
    return Replacement((replace(operator, attributes=attributes),))


# -- beside the (de)quantisation ---------------------------------------------------------------------------------------


def concat_before_dequantize(operator: Operator, view: View) -> Replacement | None:
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


def into_concat(operator: Operator, view: View) -> Replacement | None:
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


def rescale_before_take(operator: Operator, view: View) -> Replacement | None:
    """rescale(take(q)) → take(rescale(q)), if nothing else reads the take, and its operand is no larger."""
    source = operator.inputs[0]
    before = view.producer(source, "take")
    if before is None or not view.is_read_once(source):
        return None
    x, result = before.inputs[0], operator.outputs[0]
    if np.prod(view.type(x).shape) > np.prod(view.type(source).shape):
        return None
    middle = view.fresh(f"{result}.source")
    rescale = replace(operator, inputs=(x,), outputs=(middle,))
    made = replace(before, inputs=(middle,), outputs=(result,))
    return Replacement((rescale, made), {middle: replace(view.type(result), shape=view.type(x).shape)})


def quantize_constant(operator: Operator, view: View) -> Replacement | None:
    """A quantised constant, for example an operand of a concatenation, is a constant."""
    source, result = constant_weights(operator.inputs[0], view), view.type(operator.outputs[0])
    if source is None:
        return None
    return Replacement(constants={operator.outputs[0]: _quantized(source.real, result, operator)})


def _quantized(real: NDArray[np.float64], tensor_type: TensorType, operator: Operator) -> NDArray[np.int64]:
    assert tensor_type.quantization is not None
    scale, zero = tensor_type.quantization.scale, tensor_type.quantization.zero_point
    steps = np.rint(real.astype(np.float32) / np.float32(scale)) + zero
    limits = operator.attributes["low"], operator.attributes["high"]
    values: NDArray[np.int64] = saturated(steps, *limits).astype(tensor_type.dtype)
    return values


MOVE_RULES = {
    "take": (merge_takes, drop_take_of_all),
    "concat": (concat_before_dequantize,),
    "quantize": (quantize_constant, into_concat),
    "rescale": (into_concat, rescale_before_take),
}
