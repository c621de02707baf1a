"""Conv, Gemm and MatMul with constant weights: all are convolutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator, Quantization
from tilewright.compiler.simplify.attributes import (
    ConstantTensor,
    KernelWindow,
    attributes_of,
    constant_weights,
    read_window,
    stored_weights,
)
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined

SINGLE = KernelWindow((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
"""A window of one element: that of a matrix product as a convolution."""


def conv(operator: Operator, view: GraphView) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    if weights is None:
        return None
    source, result = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    with attributes_of(operator) as attributes:
        group = attributes.integer("group", 1)
        kernel = attributes.integers("kernel_shape") or weights.values.shape[2:]
        window = read_window(attributes, kernel, source, result)
    if kernel != weights.values.shape[2:]:
        raise CompileError(operator, f"kernel_shape = {list(kernel)}, the weights have {list(weights.values.shape)}")
    return _convolution(operator, weights, window, group, operator.inputs[2:3], view)


def gemm(operator: Operator, view: GraphView) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    if weights is None:
        return None
    if operator.attributes.get("transA", 0):
        return _of_columns(operator, view)
    with attributes_of(operator) as attributes:
        attributes.only("transA", 0)
        is_transposed = bool(attributes.integer("transB", 0))
        alpha, beta = attributes.number("alpha", 1.0), attributes.number("beta", 1.0)
    if alpha <= 0:
        raise CompileError(operator, f"alpha = {alpha}", expected="a positive number")
    matrix = _scaled(_as_kernel(weights, is_transposed), alpha)
    bias = tuple(filter(None, operator.inputs[2:3]))
    change = Replacement()
    if bias:
        constant = constant_weights(bias[0], view)
        if constant is None:
            raise CompileError(operator, "its bias is computed", expected="a constant")
        if constant.values.shape != (matrix.values.shape[0],) or beta != 1:
            real = _bias_row(operator, constant.real * beta, matrix.values.shape[0])
            name, change = stored_weights(ConstantTensor(real, None), f"{operator.name}.bias", view)
            bias = (name,)
    return joined(change, _convolution(operator, matrix, SINGLE, 1, bias, view))


def _of_columns(operator: Operator, view: GraphView) -> Replacement:
    """Gemm with transA: a transposition of its first operand, and Gemm without transA."""
    x = operator.inputs[0]
    turned, tensor_type = view.fresh(f"{operator.name}.turned"), view.type(x)
    nodes, axes = operator.nodes, {"axes": (1, 0)}
    before = Operator(f"{operator.name}.turn", "transpose", (x,), (turned,), axes, nodes)
    attributes = {name: value for name, value in operator.attributes.items() if name != "transA"}
    plain = replace(operator, inputs=(turned, *operator.inputs[1:]), attributes=attributes)
    return Replacement((before, plain), {turned: replace(tensor_type, shape=tensor_type.shape[::-1])})


def matmul(operator: Operator, view: GraphView) -> Replacement | None:
    """Rows times a constant matrix; of more than two dimensions, the last becomes the channels and then the last."""
    weights = constant_weights(operator.inputs[1], view)
    x, y = operator.inputs[0], operator.outputs[0]
    source, result = view.type(x), view.type(y)
    rank = len(source.shape)
    if weights is None or not 2 <= rank <= 4 or view.constant(x) is not None:
        return None
    if rank >= weights.values.ndim > 2 and weights.values.shape[-3] > 1:
        return _batched(operator, weights, view)
    if not 2 <= weights.values.ndim <= rank or max(weights.values.shape[:-2], default=1) > 1:
        return None
    weights = _matrix(weights)
    with attributes_of(operator):
        pass
    kernel = _as_kernel(weights, is_transposed=False)
    if rank == 2:
        return _convolution(operator, kernel, SINGLE, 1, (), view)
    first, last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    turned, product = view.fresh(f"{operator.name}.turned"), view.fresh(f"{operator.name}.product")
    types = {
        name: replace(tensor_type, shape=tuple(tensor_type.shape[axis] for axis in first))
        for name, tensor_type in ((turned, source), (product, result))
    }
    before = replace(operator, name=f"{operator.name}.turn", kind="transpose", inputs=(x,), outputs=(turned,))
    after = replace(operator, name=f"{operator.name}.back", kind="transpose", inputs=(product,), outputs=(y,))
    inner = replace(operator, inputs=(turned, *operator.inputs[1:]), outputs=(product,))
    change = _convolution(inner, kernel, SINGLE, 1, (), view)
    whole = (
        replace(before, attributes={"axes": first}), *change.operators, replace(after, attributes={"axes": last}),
    )  # fmt: skip
    return replace(change, operators=whole, tensors={**change.tensors, **types})


def _batched(operator: Operator, weights: ConstantTensor, view: GraphView) -> Replacement | None:
    """[B, T, K] · [B, K, N], a matrix for each of the batch: a convolution of [1, B · K, T] in B groups.

    [A, B, T, K] · [B, K, N] is one of [A, B · K, T].
    """
    *outer, batch, rows, inner = (1, 1, *view.type(operator.inputs[0]).shape)
    if weights.values.shape[:-2] not in ((batch,), (1, batch)):
        return None
    if weights.quantization is not None and weights.quantization.axis is not None:
        return None
    with attributes_of(operator):
        pass
    rank, outputs, images = len(view.type(operator.inputs[0]).shape), weights.values.shape[-1], outer[-1]
    matrices = weights.values.reshape(batch, inner, outputs).transpose(0, 2, 1)
    values = np.ascontiguousarray(matrices).reshape(batch * outputs, inner, 1, 1)
    first = (images,) * (rank - 3)
    shapes = [
        (*first, batch, inner, rows), (images, batch * inner, rows), (images, batch * outputs, rows),
        (*first, batch, outputs, rows),
    ]  # fmt: skip
    axes = (*range(rank - 2), rank - 1, rank - 2)
    names = [view.fresh(f"{operator.name}.{suffix}") for suffix in ("turned", "joined", "product", "parted")]
    kinds = view.type(operator.inputs[0]), view.type(operator.outputs[0])
    types = {
        name: replace(kinds[position > 1], shape=shape)
        for position, (name, shape) in enumerate(zip(names, shapes, strict=True))
    }
    turned, joint, product, parted = names

    def move(name: str, kind: str, source: str, result: str, **attributes: tuple[int, ...]) -> Operator:
        return Operator(f"{operator.name}.{name}", kind, (source,), (result,), attributes, operator.nodes)

    inner_product = replace(operator, inputs=(joint, *operator.inputs[1:]), outputs=(product,))
    change = _convolution(inner_product, replace(weights, values=values), SINGLE, batch, (), view)
    operators = (
        move("turn", "transpose", operator.inputs[0], turned, axes=axes),
        move("join", "reshape", turned, joint),
        *change.operators,
        move("part", "reshape", product, parted),
        move("back", "transpose", parted, operator.outputs[0], axes=axes),
    )
    return replace(change, operators=operators, tensors={**change.tensors, **types})


def _matrix(weights: ConstantTensor) -> ConstantTensor:
    """[1, …, K, N] as [K, N]."""
    values, quantization = weights.values, weights.quantization
    if quantization is not None and quantization.axis is not None:
        quantization = replace(quantization, axis=quantization.axis - (values.ndim - 2))
    return ConstantTensor(values.reshape(values.shape[-2:]), quantization)


def _as_kernel(weights: ConstantTensor, is_transposed: bool) -> ConstantTensor:
    """[K, N] (or [N, K] when transposed) as [O, I, 1, 1]."""
    values, quantization = weights.values, weights.quantization
    if not is_transposed:
        if quantization is not None and quantization.axis is not None:
            quantization = _turned(quantization, weights.values.shape)
        values = np.ascontiguousarray(values.T)
    return ConstantTensor(values.reshape(*values.shape, 1, 1), quantization)


def _turned(quantization: Quantization, shape: tuple[int, ...]) -> Quantization:
    """The scales and zero points of a matrix of a shape, for the matrix with its dimensions exchanged."""
    assert quantization.axis is not None
    axis = 1 - quantization.axis
    if not quantization.block:
        return replace(quantization, axis=axis)
    counts = list(shape)
    counts[quantization.axis] = -(-shape[quantization.axis] // quantization.block)
    scales, zeros = (
        tuple(np.array(numbers).reshape(counts).T.ravel().tolist())
        for numbers in (quantization.scales, quantization.zero_points)
    )
    return Quantization(scales, zeros, axis, quantization.block)


def _scaled(weights: ConstantTensor, factor: float) -> ConstantTensor:
    if factor == 1:
        return weights
    if weights.quantization is None:
        return replace(weights, values=weights.values * weights.values.dtype.type(factor))
    scales = tuple(scale * factor for scale in weights.quantization.scales)
    return replace(weights, quantization=replace(weights.quantization, scales=scales))


def _bias_row(operator: Operator, bias: NDArray[np.float64], outputs: int) -> NDArray[np.float64]:
    if bias.ndim == 2 and bias.shape[0] == 1:
        bias = bias[0]
    if bias.ndim > 1 or bias.size not in (1, outputs):
        raise CompileError(
            operator,
            f"its bias has the shape {list(bias.shape)}",
            expected=f"one number for each of the {outputs} columns",
        )
    return np.array(np.broadcast_to(bias.ravel(), (outputs,)))


def _convolution(
    operator: Operator,
    weights: ConstantTensor,
    window: KernelWindow,
    group: int,
    bias: tuple[str, ...],
    view: GraphView,
) -> Replacement:
    """The canonical conv; weights of another shape than [O, I, R, S] are stored again in this one."""
    name, change = operator.inputs[1], Replacement()
    original = constant_weights(name, view)
    shape = weights.values.shape
    if len(shape) == 3:
        weights = replace(weights, values=weights.values.reshape(shape[0], shape[1], 1, shape[2]))
    if original is None or weights.values.shape != original.values.shape:
        name, change = stored_weights(weights, f"{operator.name}.weight", view)
    attributes = {
        "strides": window.strides,
        "pads": window.pads,
        "dilations": window.dilations,
        "group": group,
    }
    inputs = (operator.inputs[0], name, *filter(None, bias))
    made = Operator(operator.name, "conv", inputs, operator.outputs, attributes, operator.nodes)
    return joined(change, Replacement((made,)))
