"""ReduceMean, ReduceSum and ReduceMax: pools over height and width; over channels, convolutions with ones or a maximum.

Source: https://onnx.ai/onnx/operators, opsets 11 to 21; axes are an attribute or, from 13 or 18 on, an operand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import (
    BATCH,
    CHANNEL,
    COLUMN,
    ROW,
    Operator,
    Quantization,
    stored_axis,
    stored_shape,
)
from tilewright.compiler.simplify.attributes import ConstantTensor, KernelWindow, attributes_of, stored_weights
from tilewright.compiler.simplify.pools import pooled
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined
from tilewright.isa.program.stored_types import DEFAULT_TYPE


def reduction(operator: Operator, view: GraphView) -> Replacement | None:
    """A reduction over any dimensions of [N, C, H, W] except N, reshaped afterwards if they are not kept."""
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    if view.constant(operator.inputs[0]) is not None:
        return None
    axes = _axes(operator, len(source.shape), view)
    if axes is None:
        return Replacement(aliases={operator.outputs[0]: operator.inputs[0]})
    if not 1 <= len(source.shape) <= 4:
        raise CompileError(operator, f"its operand is {list(source.shape)}", expected="up to 4 dimensions")
    along = {stored_axis(axis, len(source.shape)) for axis in axes}
    sizes = stored_shape(source.shape)
    along = {axis for axis in along if sizes[axis] > 1}
    if BATCH in along:
        raise CompileError(
            operator,
            f"reduces the dimensions {sorted(axes)} of {list(source.shape)}",
            expected="channels, height and width",
        )
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
    output = operator.outputs[0] if kept == result.shape else view.fresh(f"{operator.outputs[0]}.kept")
    made = _reduced(replace(operator, outputs=(output,)), along, sizes, view)
    if kept == result.shape:
        return made
    reshape = Operator(f"{operator.name}.reshape", "reshape", (output,), operator.outputs, {}, operator.nodes)
    return joined(made, Replacement((reshape,), {output: replace(result, shape=kept)}))


def _axes(operator: Operator, rank: int, view: GraphView) -> set[int] | None:
    """The dimensions that are reduced; None if the operator says that none are."""
    named = operator.inputs[1] if len(operator.inputs) > 1 else ""
    constant = view.constant(named) if named else None
    with attributes_of(operator) as attributes:
        given = attributes.integers("axes")
        attributes.ignore("keepdims")  # shapes tell it
        is_noop = bool(attributes.integer("noop_with_empty_axes", 0))
    if named and constant is None:
        raise CompileError(operator, f"its axes {named!r} are computed", expected="constants")
    if constant is not None:
        given = tuple(map(int, constant.ravel()))
    if not given:
        return None if is_noop else set(range(rank))
    return {axis % rank for axis in given}


def _reduced(operator: Operator, along: set[int], sizes: tuple[int, int, int, int], view: GraphView) -> Replacement:
    kernel = (sizes[ROW] if ROW in along else 1, sizes[COLUMN] if COLUMN in along else 1)
    window = KernelWindow(kernel, (1, 1), (0,) * 4, (1, 1))
    if operator.kind == "onnx.ReduceMax":
        return _largest(operator, CHANNEL in along, window, sizes, view)
    if operator.kind == "onnx.ReduceMean" and CHANNEL not in along:
        return pooled(operator, "average_pool", window, {"counts_padding": 0})
    return _sum(operator, CHANNEL in along, kernel, sizes[CHANNEL], view)


def _largest(
    operator: Operator, over_channels: bool, window: KernelWindow, sizes: tuple[int, int, int, int], view: GraphView
) -> Replacement:
    """The maximum, over height and width first: that leaves fewer elements for the channels."""
    if not over_channels:
        return pooled(operator, "max_pool", window, {})
    (source,), outputs = operator.inputs[:1], operator.outputs
    if window.kernel == (1, 1):
        return Replacement((Operator(operator.name, "channel_max", (source,), outputs, {}, operator.nodes),))
    between = view.fresh(f"{outputs[0]}.pooled")
    pixels = (size - k + 1 for size, k in zip(sizes[ROW:], window.kernel, strict=True))
    pooled_type = replace(view.type(source), shape=(*sizes[:ROW], *pixels))
    pool = pooled(replace(operator, name=f"{operator.name}.pool", outputs=(between,)), "max_pool", window, {})
    last = Operator(operator.name, "channel_max", (between,), outputs, {}, operator.nodes)
    return joined(pool, Replacement((last,), {between: pooled_type}))


def _sum(
    operator: Operator, over_channels: bool, kernel: tuple[int, int], channels: int, view: GraphView
) -> Replacement:
    """A convolution with ones; in a mean, each stands for 1 over the number of elements."""
    shape = (1, channels, *kernel) if over_channels else (channels, 1, *kernel)
    unit = 1.0 / (shape[1] * kernel[0] * kernel[1]) if operator.kind == "onnx.ReduceMean" else 1.0
    ones = ConstantTensor(np.ones(shape, DEFAULT_TYPE.dtype), Quantization((unit,), (0,)))
    name, change = stored_weights(ones, f"{operator.name}.ones", view)
    attributes = {
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "group": 1 if over_channels else channels,
    }
    inputs = (operator.inputs[0], name)
    made = Operator(operator.name, "conv", inputs, operator.outputs, attributes, operator.nodes)
    return joined(change, Replacement((made,)))
