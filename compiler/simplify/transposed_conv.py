"""ConvTranspose: each element of the operand times the kernel, added into the result `stride` apart.

Source: https://onnx.ai/onnx/operators/onnx__ConvTranspose.html. The canonical operator has its weights as a convolution
has them, [O, I / group, R, S], and the padding at the start; that at the end follows from the result's shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import Operator, Quantization
from tilewright.compiler.simplify.attributes import (
    SPATIAL,
    ConstantTensor,
    attributes_of,
    constant_weights,
    stored_weights,
)
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined


@dataclass(frozen=True, slots=True)
class _ElementSpread:
    """How elements are spread over the result, one number for each spatial dimension."""

    group: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    crops: tuple[int, ...]  # how many sums are cut off at the start


def conv_transpose(operator: Operator, view: GraphView) -> Replacement | None:
    weights = constant_weights(operator.inputs[1], view)
    if weights is None:
        return None
    source, result = view.type(operator.inputs[0]).shape, view.type(operator.outputs[0]).shape
    rank = weights.values.ndim - 2
    if rank not in (1, 2) or len(source) != rank + 2:
        raise CompileError(operator, f"its input has the shape {list(source)}", expected="[N, C, H, W]")
    if len(result) != len(source):
        raise CompileError(operator, f"its result is {list(result)}", expected="an output_shape that fits")
    spread = _read(operator, weights.values.shape, source, result)
    name, change = stored_weights(_as_kernels(operator, weights, spread.group, rank), f"{operator.name}.weight", view)
    attributes = {
        "strides": ((1,) + spread.strides)[-2:],
        "crops": ((0,) + spread.crops)[-2:],
        "dilations": ((1,) + spread.dilations)[-2:],
        "group": spread.group,
    }
    inputs = (operator.inputs[0], name, *filter(None, operator.inputs[2:]))
    return joined(
        change, Replacement((replace(operator, kind="conv_transpose", inputs=inputs, attributes=attributes),))
    )


def _read(
    operator: Operator, weights: tuple[int, ...], source: tuple[int, ...], result: tuple[int, ...]
) -> _ElementSpread:
    """The operator's attributes; raises CompileError for those that do not fit its operands."""
    kernel, rank = weights[2:], len(weights) - 2
    with attributes_of(operator) as attributes:
        group = attributes.integer("group", 1)
        given = attributes.integers("kernel_shape") or kernel
        strides = attributes.integers("strides") or (1,) * rank
        dilations = attributes.integers("dilations") or (1,) * rank
        pads = attributes.integers("pads") or (0,) * (2 * rank)
        auto_pad = attributes.text("auto_pad", "NOTSET")
        extra = attributes.integers("output_padding") or (0,) * rank
        shape = attributes.integers("output_shape")
    if given != kernel:
        raise CompileError(operator, f"kernel_shape = {list(given)}, the weights have {list(weights)}")
    if min(*strides, *dilations) < 1 or (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank):
        raise CompileError(operator, f"strides, dilations or pads do not fit {rank} spatial dimensions")
    if group < 1 or source[1] != weights[0] or source[1] % group:
        raise CompileError(operator, f"{source[1]} channels in {group} groups do not fit its weights, {list(weights)}")
    if len(extra) != rank or not all(0 <= e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise CompileError(operator, f"output_padding = {list(extra)}", expected="less than the stride or the dilation")
    if auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"):
        raise CompileError(operator, f"auto_pad = {auto_pad!r}", expected="NOTSET, SAME_UPPER, SAME_LOWER, VALID")
    crops = (0,) * rank if auto_pad == "VALID" else pads[:rank]
    if shape is not None or auto_pad.startswith("SAME"):
        sizes = zip(source[SPATIAL:], result[SPATIAL:], kernel, strides, dilations, extra, strict=True)
        totals = [max(0, (i - 1) * s + e + (k - 1) * d + 1 - o) for i, o, k, s, d, e in sizes]
        crops = tuple(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2 for total in totals)
    if min(crops) < 0:
        raise CompileError(operator, f"pads = {list(pads)}", expected="no negative padding")
    return _ElementSpread(group, strides, dilations, crops)


def _as_kernels(operator: Operator, weights: ConstantTensor, group: int, rank: int) -> ConstantTensor:
    """[I, O / group, R, S] as [O, I / group, R, S]."""
    inputs, outputs, *kernel = weights.values.shape
    kernel = [1] * (2 - rank) + kernel
    grouped = weights.values.reshape(group, inputs // group, outputs, *kernel)
    values = np.ascontiguousarray(grouped.swapaxes(1, 2)).reshape(group * outputs, inputs // group, *kernel)
    quantization = weights.quantization
    if quantization is None or quantization.axis is None:
        return ConstantTensor(values, quantization)
    if quantization.axis == 1:
        return ConstantTensor(values, Quantization(quantization.scales * group, quantization.zero_points * group, 0))
    if quantization.axis == 0 and inputs == group:
        scales = tuple(scale for scale in quantization.scales for _ in range(outputs))
        zeros = tuple(zero for zero in quantization.zero_points for _ in range(outputs))
        return ConstantTensor(values, replace(quantization, scales=scales, zero_points=zeros))
    raise CompileError(operator, "its weights have scales along another dimension than the output channels, axis 1")
