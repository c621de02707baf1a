"""Operators that only move elements: Slice, Split, Gather, Expand and Tile are `take`.

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
from tilewright.compiler.simplify.attributes import attributes_of, constant_weights
from tilewright.compiler.simplify.binary import MOST_DIMENSIONS
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.compiler.simplify.views import groups_of_four, joined_indices, joined_shape

Indices = Sequence[int]
"""For each index of the result along a dimension, the operand's index."""


# -- from ONNX ---------------------------------------------------------------------------------------------------------


def slice_(operator: Operator, view: GraphView) -> Replacement | None:
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


def split(operator: Operator, view: GraphView) -> Replacement | None:
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


def gather(operator: Operator, view: GraphView) -> Replacement | None:
    """Gather with constant indices: a list; a single one, which removes the dimension; or an array, which adds some."""
    source, result = operator.inputs[0], operator.outputs[0]
    indices = view.constant(operator.inputs[1])
    if view.constant(source) is not None:
        return None
    with attributes_of(operator) as attributes:
        axis = attributes.integer("axis", 0)
    if indices is None:
        raise CompileError(operator, "its indices are computed", expected="constants")
    shape = view.type(source).shape
    axis %= len(shape)
    outside = [int(index) for index in indices.ravel() if not -shape[axis] <= index < shape[axis]]
    if outside:
        raise CompileError(operator, f"index {outside[0]} is outside of axis {axis}, which has {shape[axis]} elements")
    taken = [int(index) % shape[axis] for index in indices.ravel()]
    if indices.ndim == 1:
        return take(operator, source, result, {axis: taken}, view)
    kept = view.fresh(f"{result}.kept")
    kept_type = replace(view.type(result), shape=(*shape[:axis], len(taken), *shape[axis + 1 :]))
    change = take(operator, source, kept, {axis: taken}, view)
    reshape = Operator(f"{operator.name}.reshape", "reshape", (kept,), (result,), {}, operator.nodes)
    return joined(Replacement((), {kept: kept_type}), joined(change, Replacement((reshape,))))


def expand(operator: Operator, view: GraphView) -> Replacement | None:
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
    return joined(first, take(operator, middle, result, taken, view, first.tensors[middle]))


def take(
    operator: Operator,
    source: str,
    result: str,
    taken: Mapping[int, Indices],
    view: GraphView,
    source_type: TensorType | None = None,
) -> Replacement:
    """The canonical take of some of the source's indices along some axes, or the source itself where it is all.

    `source_type` is the source's where the view does not know it yet.
    """
    source_type = source_type or view.type(source)
    rank = len(source_type.shape)
    for axis, indices in taken.items():
        if not len(indices):
            raise CompileError(operator, f"nothing is left of axis {axis}", expected="at least one element")
    if rank > MOST_DIMENSIONS:
        every = {axis % rank: tuple(map(int, indices)) for axis, indices in taken.items()}
        return _take_before(operator, source, result, every, view) or _take_of_view(
            operator, source, result, every, view, source_type
        )
    attributes = taken_attributes({axis_of_four(operator, axis, rank): tuple(map(int, i)) for axis, i in taken.items()})
    made = Operator(operator.name, "take", (source,), (result,), attributes, operator.nodes)
    return Replacement((made,))


def _take_before(
    operator: Operator, source: str, result: str, taken: Mapping[int, Indices], view: GraphView
) -> Replacement | None:
    """take(transpose(x)) → transpose(take(x)), and the same for dequantize: there it may meet a reshape."""
    before = view.producer(source, "transpose", "dequantize")
    if before is None or view.constant(before.inputs[0]) is not None:
        return None
    operand = view.type(before.inputs[0])
    axes = before.attributes.get("axes", range(len(operand.shape)))
    moved = {axes[axis]: indices for axis, indices in taken.items()}
    middle = view.fresh(f"{result}.taken")
    change = take(operator, before.inputs[0], middle, moved, view)
    after = replace(before, name=f"{operator.name}.{before.kind}", inputs=(middle,), outputs=(result,))
    typed = Replacement((), {middle: replace(operand, shape=_sizes(operand.shape, moved))})
    return joined(typed, joined(change, Replacement((after,))))


def _take_of_view(
    operator: Operator, source: str, result: str, taken: Mapping[int, Indices], view: GraphView, source_type: TensorType
) -> Replacement:
    """A take of more than four dimensions, of the tensor seen as four; as it was before a reshape, if possible."""
    shape = source_type.shape
    before = view.producer(source, "reshape")
    groups = groups_of_four(shape, () if before is None else view.type(before.inputs[0]).shape)
    assert groups is not None
    whole, some = view.fresh(f"{operator.name}.whole"), view.fresh(f"{operator.name}.some")
    whole_type = replace(source_type, shape=joined_shape(shape, groups))
    some_type = replace(source_type, shape=joined_shape(_sizes(shape, taken), groups))
    join = Operator(f"{operator.name}.join", "reshape", (source,), (whole,), {}, operator.nodes)
    part = Operator(f"{operator.name}.part", "reshape", (some,), (result,), {}, operator.nodes)
    change = take(operator, whole, some, joined_indices(taken, shape, groups), view, whole_type)
    operators = (join, *change.operators, part)
    return Replacement(operators, {whole: whole_type, some: some_type})


def _sizes(shape: Sequence[int], taken: Mapping[int, Indices]) -> tuple[int, ...]:
    """The shape of what is taken."""
    return tuple(len(taken.get(axis, range(size))) for axis, size in enumerate(shape))


def taken_attributes(taken: Mapping[int, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """A take's attributes from its indices along dimensions of [N, C, H, W]."""
    return {name: taken.get(axis, ()) for axis, name in enumerate(TAKEN)}


def axis_of_four(operator: Operator, axis: int, rank: int) -> int:
    """The dimension of [N, C, H, W] that an axis is; raises CompileError for a tensor with none, or with more."""
    if not 1 <= rank <= 4:
        raise CompileError(operator, f"its operand has {rank} dimensions", expected="1 to 4: [N, C, H, W]")
    return stored_axis(axis % rank, rank)


def _integers(operator: Operator, position: int, view: GraphView) -> list[int] | None:
    """An operand of integers, which must be constant; None where it is left out."""
    name = operator.inputs[position] if position < len(operator.inputs) else ""
    if not name:
        return None
    value = view.constant(name)
    if value is None:
        raise CompileError(operator, f"{name!r} is computed", expected="a constant")
    return [int(item) for item in value.ravel()]


# -- among themselves --------------------------------------------------------------------------------------------------


def merge_takes(operator: Operator, view: GraphView) -> Replacement | None:
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


def drop_take_of_all(operator: Operator, view: GraphView) -> Replacement | None:
    """A take of all indices in order is its operand."""
    source, result = operator.inputs[0], operator.outputs[0]
    sizes = stored_shape(view.type(source).shape)
    attributes = {
        name: () if _is_all(operator.attributes[name], size) else operator.attributes[name]
        for name, size in zip(TAKEN, sizes, strict=True)
    }
    if not any(attributes.values()):
        return Replacement(aliases={result: source})
    if attributes == operator.attributes:
        return None
    return Replacement((replace(operator, attributes=attributes),))


def _is_all(indices: tuple[int, ...], size: int) -> bool:
    """Whether indices are all of an axis, in order; mostly their number tells."""
    return len(indices) == size and indices == tuple(range(size))


# -- beside the (de)quantisation ---------------------------------------------------------------------------------------


def rescale_before_take(operator: Operator, view: GraphView) -> Replacement | None:
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


def quantize_constant(operator: Operator, view: GraphView) -> Replacement | None:
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
    "quantize": (quantize_constant,),
    "rescale": (rescale_before_take,),
}
