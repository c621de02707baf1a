"""Quantised constants: which are weights, which scales make no sense, and floats of few bits as integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.graph.graph import Operator, Quantization, TensorType
from tilewright.compiler.graph.interpreter import dequantize
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import DEFAULT_TYPE

PRODUCTS = ("onnx.MatMul", "onnx.Gemm", "onnx.Conv")
"""Operators whose constant second operand may have a scale for each block of it."""

WIDE = "int32"
"""The type of a constant whose integers the default type does not hold."""


def are_weights(name: str, view: GraphView, kinds: Sequence[str] = PRODUCTS) -> bool:
    """Whether operators of these kinds alone read a tensor, as their weights."""
    return all(user.kind in kinds and user.inputs[1] == name for user in view.users(name))


def require_no_zero(operator: Operator, elements: str, quantization: Quantization) -> None:
    """A scale of 0 makes nothing of its constants: whoever wrote it has lost them."""
    if zeros := quantization.scales.count(0.0):
        parts = "blocks" if quantization.block else "channels"
        where = f" in {zeros} of {len(quantization.scales)} {parts}" if quantization.axis is not None else ""
        remedy = "Quantise it anew; what is all zeros has a scale of 1"
        fact = f"the scale of its {elements} is 0{where}"
        raise DamagedModel(operator, fact, expected="positive numbers", remedy=remedy)


def dequantize_small_floats(
    operator: Operator, value: NDArray[Any], quantization: Quantization, view: GraphView
) -> Replacement:
    """Weights of products become the integers that their codes are, with the step in the scale; others a constant.

    Example: 1.5 of E2M1 with a scale of 0.25 is 3 with a scale of 0.125. What the machine's weights hold of these
    integers is for lowering to see. A power of two that all of them have in common goes into the scale, too.
    """
    element = SMALL_FLOATS[value.dtype.name]
    require_no_zero(operator, element.name, quantization)
    result, steps, factor = operator.outputs[0], element.steps(value), 1
    if not are_weights(result, view, (*PRODUCTS, "onnx.ConvTranspose")):
        real = dequantize(steps, TensorType(element.name, value.shape, quantization))
        return Replacement(constants={result: real.astype(view.type(result).dtype)})
    if _held(steps) != DEFAULT_TYPE.name:
        factor = int(np.gcd.reduce(steps, axis=None))
        factor &= -factor
        steps //= factor
    dtype = _held(steps)
    if not dtype:
        reach = f"are {int(np.abs(steps).max()):,} times the least of them"
        raise CompileError(operator, f"its {element.name} {reach}", expected=f"at most {np.iinfo(WIDE).max:,} times")
    meant = replace(quantization, scales=tuple(float(np.float32(scale * factor)) for scale in quantization.scales))
    if not all(0 < scale < inf for scale in meant.scales):
        raise CompileError(
            operator, f"its scales times {factor:g} are no numbers of float32", expected="smaller scales"
        )
    copy = view.fresh(operator.inputs[0])
    made = Operator(operator.name, "dequantize", (copy,), operator.outputs, {}, operator.nodes)
    return Replacement((made,), {copy: TensorType(dtype, value.shape, meant)}, {copy: steps.astype(dtype)})


def _held(steps: NDArray[np.int64]) -> str:
    """The type that holds all integers; none if that takes more than 32 bits."""
    for dtype in (DEFAULT_TYPE.name, WIDE):
        limits = np.iinfo(dtype)
        if not steps.size or (limits.min <= steps.min() and steps.max() <= limits.max):
            return dtype
    return ""
