"""QuantizeLinear and DequantizeLinear: their constants become part of the tensors' types.

Some constants are no more than that: which are weights, which scales make no sense, and floats of few bits as
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError, DamagedModel
from tilewright.compiler.graph.graph import CHANNEL, Graph, Operator, Quantization, TensorType, spread_scales
from tilewright.compiler.graph.interpreter import dequantize
from tilewright.compiler.graph.saturation import saturated
from tilewright.compiler.simplify.attributes import attributes_of
from tilewright.compiler.simplify.integer import integer_limits
from tilewright.compiler.simplify.rewrite import GraphView, Replacement
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import COMPUTED, COMPUTED_NAMES, DEFAULT_TYPE, ENDS, FLOATS, SHORT

DEQUANTIZERS = ("dequantize", "onnx.DequantizeLinear")

BIASES = "int32"
"""The type of biases, whose scale is a product of two, which float32 may round to 0."""

KNOWN = f"integers, {', '.join(FLOATS[:-1])} or {FLOATS[-1]}"

FLOAT32 = int(onnx.TensorProto.FLOAT)


def quantize_linear(operator: Operator, view: GraphView) -> Replacement | None:
    """None for a type that only inputs and outputs of the model may have, if the tensor is neither."""
    with attributes_of(operator) as attributes:
        axis, block = attributes.integer("axis", 1), attributes.integer("block_size", 0)
        attributes.only("saturate", 1)
        attributes.only("precision", 0, FLOAT32)
        attributes.ignore("output_dtype")
    source, output = operator.inputs[0], operator.outputs[0]
    tensor_type = view.type(output)
    if tensor_type.dtype not in (*COMPUTED, *ENDS):
        raise CompileError(operator, f"quantises to {tensor_type.dtype}", expected=KNOWN)
    quantization = _quantization(operator, axis, block, view, tensor_type.dtype)
    known = tensor_type.quantization  # what a reader that was seen before has said
    if known is not None and known != quantization:
        raise CompileError(
            operator, f"{output!r} has another scale or zero point where it is read", expected="the same"
        )
    tensor_type = replace(tensor_type, quantization=quantization)
    low, high = tensor_type.limits
    value = view.constant(source)
    if value is not None and tensor_type.dtype in FLOATS:
        raise CompileError(operator, f"quantises {source!r}, which is constant", expected="a constant of the file")
    if value is not None:
        scales, zeros = (array.astype(np.float32) for array in spread_scales(quantization, value.shape))
        integers = saturated(np.rint(value / scales) + zeros, low, high).astype(tensor_type.dtype)
        return Replacement(tensors={output: tensor_type}, constants={output: integers})
    _require_positive(operator, quantization)
    if only_at_an_end(tensor_type):
        is_convolved = _is_of_channels(tensor_type) and _is_convolved(source, tensor_type, view)
        is_made_so = source in view.inputs or is_convolved
        if not is_made_so or not _is_only_dequantized(output, view):
            return None
    made = Operator(operator.name, "quantize", (source,), (output,), {"low": low, "high": high}, operator.nodes)
    return Replacement((made,), {output: tensor_type})


def dequantize_linear(operator: Operator, view: GraphView) -> Replacement | None:
    """None for a type that only inputs and outputs of the model may have, if the tensor is neither."""
    with attributes_of(operator) as attributes:
        axis, block = attributes.integer("axis", 1), attributes.integer("block_size", 0)
        attributes.ignore("output_dtype")
    source, result = operator.inputs[0], operator.outputs[0]
    tensor_type = view.type(source)
    value = view.constant(source)
    if value is not None:
        found = _quantization(operator, axis, block, view, tensor_type.dtype)
        return _dequantize_constant(operator, value, found, view)
    if tensor_type.dtype not in (*COMPUTED, *ENDS):
        raise CompileError(operator, f"dequantises {tensor_type.dtype}", expected=KNOWN)
    meant = replace(tensor_type, quantization=_quantization(operator, axis, block, view, tensor_type.dtype))
    _require_positive(operator, meant.quantization)
    if only_at_an_end(meant):
        is_made_so = source in view.inputs or tensor_type == meant
        if not is_made_so or view.users(result) or not _is_only_dequantized(source, view):
            return None
    if tensor_type.quantization is not None and tensor_type != meant:
        raise CompileError(
            operator, f"{source!r} has another scale or zero point where it is made", expected="the same"
        )
    made = Operator(operator.name, "dequantize", (source,), (result,), {}, operator.nodes)
    return Replacement((made,), {source: meant})


def _dequantize_constant(
    operator: Operator, value: NDArray[Any], quantization: Quantization, view: GraphView
) -> Replacement:
    """Integers of fewer bits take the default type; a constant that already has another meaning is copied."""
    source = operator.inputs[0]
    tensor_type = view.type(source)
    if tensor_type.dtype in SMALL_FLOATS:
        return dequantize_small_floats(operator, value, quantization, view)
    if tensor_type.dtype not in (*COMPUTED, *SHORT, BIASES):
        expected = f"{COMPUTED_NAMES} (or an {BIASES} constant)"
        raise CompileError(operator, f"dequantises {tensor_type.dtype}", expected=expected)
    if quantization.block and not are_weights(operator.outputs[0], view):
        raise CompileError(operator, f"block_size = {quantization.block} has no lowering for constants", expected="0")
    if tensor_type.dtype != BIASES:
        require_no_zero(operator, tensor_type.dtype, quantization)
    meant = replace(tensor_type, quantization=quantization)
    made = Operator(operator.name, "dequantize", (source,), operator.outputs, {}, operator.nodes)
    if tensor_type.dtype not in SHORT and tensor_type.quantization in (None, quantization):
        return Replacement((made,), {source: meant})
    copy = view.fresh(source)
    if tensor_type.dtype in SHORT:
        meant, value = replace(meant, dtype=DEFAULT_TYPE.name), value.astype(DEFAULT_TYPE.dtype)
    return Replacement((replace(made, inputs=(copy,)),), {copy: meant}, {copy: value})


def only_at_an_end(tensor_type: TensorType) -> bool:
    """Whether a quantised tensor may only be an input or output of the model, as no operator takes it."""
    quantization = tensor_type.quantization
    return tensor_type.dtype in ENDS or (quantization is not None and quantization.axis is not None)


def _is_of_channels(tensor_type: TensorType) -> bool:
    """Whether each channel has its own scale, as the sums of a product have anyway, and all have one zero point."""
    quantization = tensor_type.quantization
    if tensor_type.dtype not in COMPUTED or quantization is None:
        return False
    return (quantization.axis, quantization.block) == (CHANNEL, 0) and len(set(quantization.zero_points)) == 1


def _is_convolved(name: str, tensor_type: TensorType, view: GraphView) -> bool:
    """Whether a float tensor is the result of a convolution, within limits that are the same for all its channels."""
    clamp = view.producer(name, "clamp")
    if clamp is not None and integer_limits(clamp, tensor_type, *tensor_type.limits) is None:
        return False
    return view.producer(name if clamp is None else clamp.inputs[0], "conv") is not None


def _is_only_dequantized(name: str, view: GraphView) -> bool:
    return all(user.kind in DEQUANTIZERS for user in view.users(name))


def unread_quantizer(operator: Operator, graph: Graph) -> CompileError:
    """Why a QuantizeLinear or DequantizeLinear of an activation was left as it is."""
    is_quantize = operator.kind == "onnx.QuantizeLinear"
    tensor_type = graph.tensors[operator.outputs[0] if is_quantize else operator.inputs[0]]
    scale = graph.constants.get(operator.inputs[1])
    if scale is None:
        return CompileError(operator, "its scale is computed", expected="a constant")
    block = operator.attributes.get("block_size", 0)
    fact, expected = f"an activation has a scale for each {'block' if block else 'channel'}", "one scale"
    if tensor_type.dtype in ENDS:
        fact, expected = f"an activation is {tensor_type.dtype}", COMPUTED_NAMES
    if tensor_type.dtype in FLOATS:
        expected = f"{' or '.join(name for name in FLOATS if name in COMPUTED)}, {expected}"
    if tensor_type.dtype in COMPUTED and not block:
        expected += ", or a Conv before it and an output of the model after it, and one zero point"
    elif tensor_type.dtype in COMPUTED:
        expected += (
            ", or blocks along the sum of a MatMul or Gemm with constant weights, the same for all rows, which an "
            "operator of the model makes"
        )
    else:
        expected += "; others only go from an input of the model to an output"
    return CompileError(operator, fact, expected=expected)


def quantization_of(operator: Operator, view: GraphView) -> Quantization:
    """The quantisation that a QuantizeLinear or DequantizeLinear of an activation gives."""
    integers = operator.outputs[0] if operator.kind == "onnx.QuantizeLinear" else operator.inputs[0]
    axis, block = (operator.attributes.get(name, missing) for name, missing in (("axis", 1), ("block_size", 0)))
    return _quantization(operator, axis, block, view, view.type(integers).dtype)


def _quantization(operator: Operator, axis: int, block: int, view: GraphView, elements: str) -> Quantization:
    """The quantisation that a QuantizeLinear or DequantizeLinear gives: one scale, if all are the same.

    Of floats of few bits, a scale is that of a step of theirs; they have no zero point.
    """
    scale = view.constant(operator.inputs[1])
    has_zero = len(operator.inputs) > 2 and operator.inputs[2] != ""
    zero = view.constant(operator.inputs[2]) if has_zero else np.zeros(() if scale is None else scale.shape, np.int64)
    if scale is None or zero is None:
        raise CompileError(operator, "its scale or zero point is computed", expected="constants")
    scales, zeros = tuple(map(float, scale.ravel().tolist())), tuple(map(int, zero.ravel().tolist()))
    if not all(0 <= each < inf for each in scales):
        raise DamagedModel(operator, f"its scale is {scale.min()}", expected="positive numbers")
    if elements in SMALL_FLOATS:
        scales = _scales_of_steps(operator, scales, zeros, elements)
    if len(zeros) != len(scales):
        raise CompileError(operator, f"{len(scales)} scales and {len(zeros)} zero points", expected="as many")
    if len(set(scales)) == 1 and len(set(zeros)) == 1:
        return Quantization(scales[:1], zeros[:1])
    shape = view.type(operator.inputs[0]).shape
    rank = len(shape)
    if not -rank <= axis < rank or scale.shape != _shape_of_scales(shape, axis % rank, block):
        of_blocks = f" in blocks of {block}" if block else ""
        raise CompileError(
            operator, f"{len(scales)} scales do not fit axis {axis} of its input, which is {list(shape)}{of_blocks}"
        )
    return Quantization(scales, zeros, 0 if block == 1 else axis % rank, block)  # blocks of 1 are along every axis


def _scales_of_steps(
    operator: Operator, scales: tuple[float, ...], zeros: tuple[int, ...], elements: str
) -> tuple[float, ...]:
    """The scales of the least values of floats of few bits."""
    if any(zeros):
        fact = f"the zero point of its {elements} is {next(filter(None, zeros))}"
        raise CompileError(operator, fact, expected="0, as ONNX has it for floats")
    least = SMALL_FLOATS[elements].least
    made = tuple(float(np.float32(scale * least)) for scale in scales)
    if any(scale > 0 == step for scale, step in zip(scales, made, strict=True)):
        raise CompileError(operator, f"its scale times {least:g} is no number of float32", expected="a larger scale")
    return made


def _shape_of_scales(shape: tuple[int, ...], axis: int, block: int) -> tuple[int, ...]:
    """One scale for each index of an axis; with blocks, for each block along it and each index of all others."""
    if block < 1:
        return (shape[axis],)
    return tuple(-(-size // block) if dimension == axis else size for dimension, size in enumerate(shape))


def _require_positive(operator: Operator, quantization: Quantization | None) -> None:
    if quantization is not None and min(quantization.scales) <= 0:
        raise DamagedModel(operator, f"its scale is {min(quantization.scales)}", expected="a positive number")


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
