"""Pools over windows and over the whole image."""

from __future__ import annotations

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Attribute, Operator, stored_shape
from tilewright.compiler.simplify.attributes import KernelWindow, attributes_of, read_window
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


def pool(operator: Operator, view: GraphView) -> Replacement | None:
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    is_max = operator.kind == "onnx.MaxPool"
    if any(name in view.outputs or view.users(name) for name in filter(None, operator.outputs[1:])):
        raise CompileError(operator, "its second result (Indices) is used; it has no lowering")
    with attributes_of(operator) as attributes:
        kernel = attributes.integers("kernel_shape") or ()
        window = read_window(attributes, kernel, source, result)
        attributes.ignore("ceil_mode")  # inferred shapes tell it
        if is_max:
            attributes.ignore("storage_order")  # of Indices
        else:
            counts_padding = attributes.integer("count_include_pad", 0)
    extra = {} if is_max else {"counts_padding": counts_padding}
    return pooled(operator, "max_pool" if is_max else "average_pool", window, extra)


def global_pool(operator: Operator, view: GraphView) -> Replacement | None:
    _, _, height, width = stored_shape(view.type(operator.inputs[0]).shape, operator)
    with attributes_of(operator):
        pass
    window = KernelWindow((height, width), (1, 1), (0,) * 4, (1, 1))
    is_max = operator.kind == "onnx.GlobalMaxPool"
    return pooled(operator, "max_pool" if is_max else "average_pool", window, {} if is_max else {"counts_padding": 0})


def pooled(operator: Operator, kind: str, window: KernelWindow, extra: dict[str, Attribute]) -> Replacement:
    attributes = {**window.attributes, **extra}
    return Replacement(
        (Operator(operator.name, kind, operator.inputs[:1], operator.outputs[:1], attributes, operator.nodes),)
    )
