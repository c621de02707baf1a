"""Pools over windows, over the whole image, and means over it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.errors import CompileError
from compiler.graph import Operator, describe, stored_shape
from compiler.simplify.attributes import attributes_of
from compiler.simplify.rewrite import Replacement, View, joined
from compiler.simplify.windows import Window, read_window


def pool(operator: Operator, view: View) -> Replacement | None:
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    is_max = operator.kind == "onnx.MaxPool"
    if any(name in view.outputs or view.users(name) for name in filter(None, operator.outputs[1:])):
        raise CompileError(f"{describe(operator)}: its second result (Indices) is used; it has no lowering")
    with attributes_of(operator) as attributes:
        kernel = attributes.integers("kernel_shape") or ()
        window = read_window(attributes, kernel, source, result)
        attributes.ignore("ceil_mode")  # inferred shapes tell it
        if is_max:
            attributes.ignore("storage_order")  # of Indices
        else:
            counts_padding = attributes.integer("count_include_pad", 0)
    extra = {} if is_max else {"counts_padding": counts_padding}
    return _pool(operator, "max_pool" if is_max else "average_pool", window, extra)


def global_pool(operator: Operator, view: View) -> Replacement | None:
    _, _, height, width = stored_shape(view.type(operator.inputs[0]).shape, describe(operator))
    with attributes_of(operator):
        pass
    window = Window((height, width), (1, 1), (0,) * 4, (1, 1))
    is_max = operator.kind == "onnx.GlobalMaxPool"
    return _pool(operator, "max_pool" if is_max else "average_pool", window, {} if is_max else {"counts_padding": 0})


def reduce_mean(operator: Operator, view: View) -> Replacement | None:
    """The mean over all spatial dimensions is a global average pool; without kept dimensions, reshaped."""
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    axes = view.constant(operator.inputs[1]) if len(operator.inputs) > 1 else None
    with attributes_of(operator) as attributes:
        given = attributes.integers("axes") or (() if axes is None else tuple(int(axis) for axis in axes))
        keeps = attributes.integer("keepdims", 1)
        attributes.ignore("noop_with_empty_axes")
    rank = len(source.shape)
    if rank not in (3, 4) or {axis % rank for axis in given} != set(range(2, rank)):
        return None
    pooled = operator.outputs[0] if keeps else view.fresh(f"{operator.outputs[0]}.pooled")
    _, _, height, width = stored_shape(source.shape)
    window = Window((height, width), (1, 1), (0,) * 4, (1, 1))
    change = _pool(replace(operator, outputs=(pooled,)), "average_pool", window, {"counts_padding": 0})
    if keeps:
        return change
    reshape = Operator(f"{operator.name}.reshape", "reshape", (pooled,), operator.outputs)
    shape = source.shape[:2] + (1,) * (rank - 2)
    return joined(change, Replacement((reshape,), {pooled: replace(result, shape=shape)}))


def _pool(operator: Operator, kind: str, window: Window, extra: dict[str, Any]) -> Replacement:
    attributes = {**window.attributes, **extra}
    return Replacement(
        (Operator(operator.name, kind, operator.inputs[:1], operator.outputs[:1], attributes, operator.nodes),)
    )
