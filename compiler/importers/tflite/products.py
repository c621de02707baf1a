"""Convolutions and matrix products. The file's weights are [O, H, W, I]; a bias has the scale of the products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.importers.tflite.biases import write_bias
from tilewright.compiler.importers.tflite.layout import DimensionOrder
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation
from tilewright.compiler.importers.tflite.windows import read_windows
from tilewright.isa.program.stored_types import BYTES, COMPUTED_INTEGERS, DEFAULT_TYPE, SHORT


@dataclass(frozen=True, slots=True)
class _ConstantWeights:
    """Constant weights in ONNX's order; `scales` go along the results' channels, or there is one."""

    name: str
    scales: NDArray[np.float32] | None


def conv_2d(operation: TfliteOperation) -> None:
    """Inputs: image, weights [O, H, W, I / groups], bias."""
    image, kernel = operation.input(0), operation.input(1)
    n, height, width, channels = operation.require_rank(image, 4)
    outputs, rows, columns, inputs = operation.require_rank(kernel, 4)
    if channels % inputs or outputs % (channels // inputs):
        raise operation.error(f"has weights {list(operation.shape(kernel))} for {channels} channels", kernel)
    _convolve(operation, image, kernel, (0, 3, 1, 2), (0, channels // inputs), ((height, width), (rows, columns)))


def depthwise_conv_2d(operation: TfliteOperation) -> None:
    """Inputs: image, weights [1, H, W, C · multiplier], bias. Result channel c · multiplier + m is of channel c."""
    image, kernel = operation.input(0), operation.input(1)
    n, height, width, channels = operation.require_rank(image, 4)
    one, rows, columns, outputs = operation.require_rank(kernel, 4)
    if one != 1 or outputs % channels:
        raise operation.error(f"has weights {list(operation.shape(kernel))} for {channels} channels", kernel)
    operation.only("depth_multiplier", 0, outputs // channels)
    _convolve(operation, image, kernel, (3, 0, 1, 2), (3, channels), ((height, width), (rows, columns)))


def _convolve(
    operation: TfliteOperation,
    image: int,
    kernel: int,
    order: tuple[int, ...],
    channels: tuple[int, int],
    sizes: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    """`order`: of the weights' dimensions in ONNX; `channels`: the weights' axis of results, and how many groups."""
    operation.only("quantized_bias_type", *BIAS_TYPES)
    axis, groups = channels
    windows = read_windows(operation, *sizes, dilated=True)
    weights = _weights(operation, image, kernel, order, axis)
    value = operation.writer.node(
        "Conv",
        operation.writer.real(image, DimensionOrder.FIRST),
        weights.name,
        *write_bias(operation, image, weights.scales, 2, operation.shape(kernel)[axis]),
        kernel_shape=sizes[1],
        strides=windows.strides,
        dilations=windows.dilations,
        pads=windows.pads,
        group=groups,
    )
    operation.write_activated(value, DimensionOrder.FIRST)


def transpose_conv(operation: TfliteOperation) -> None:
    """Inputs: the result's shape, weights [O, H, W, I], image, bias.

    The padding is that of the convolution whose gradient this is: from the result to the image.
    """
    image, kernel = operation.input(2), operation.input(1)
    _, height, width, channels = operation.require_rank(image, 4)
    outputs, rows, columns, inputs = operation.require_rank(kernel, 4)
    size = operation.writer.integers(operation.input(0), "a shape")
    if inputs != channels:
        raise operation.error(f"has weights {list(operation.shape(kernel))} for {channels} channels", kernel)
    if len(size) != 4 or size[3] != outputs or size[0] != operation.shape(image)[0]:
        raise operation.error(f"its result's shape is {list(size)}", expected=f"4 sizes, the last of them {outputs}")
    operation.only("quantized_bias_type", *BIAS_TYPES)
    strides = operation.positive("stride_h"), operation.positive("stride_w")
    is_same = operation.name_of("padding", "Padding") == "SAME"
    before, after, extra = [], [], []
    for out, source, window, stride in zip(size[1:3], (height, width), (rows, columns), strides, strict=True):
        if source != (-(-out // stride) if is_same else (out - window) // stride + 1):
            raise operation.error(
                f"its result's shape is {list(size)}, which no convolution takes to {[height, width]}"
            )
        surplus = (source - 1) * stride + window - out  # never more than 0 for VALID
        before.append(max(surplus, 0) // 2)
        after.append(max(surplus, 0) - before[-1])
        extra.append(max(-surplus, 0))
    weights = _weights(operation, image, kernel, (3, 0, 1, 2), 0)
    value = operation.writer.node(
        "ConvTranspose",
        operation.writer.real(image, DimensionOrder.FIRST),
        weights.name,
        *write_bias(operation, image, weights.scales, 3, outputs),
        kernel_shape=(rows, columns),
        strides=strides,
        pads=(*before, *after),
        output_padding=extra,
    )
    operation.write_activated(value, DimensionOrder.FIRST)


def fully_connected(operation: TfliteOperation) -> None:
    """Inputs: elements as rows of I, weights [O, I], bias. The result is [rows, O]; keep_num_dims keeps what leads."""
    source, kernel = operation.input(0), operation.input(1)
    outputs, inputs = operation.require_rank(kernel, 2)
    operation.only("quantized_bias_type", *BIAS_TYPES)
    operation.ignore("asymmetric_quantize_inputs")  # of float inputs only
    weights_format = operation.name_of("weights_format", "FullyConnectedOptionsWeightsFormat")
    if weights_format != "DEFAULT":
        raise operation.error(f"weights_format = {weights_format} has no lowering", expected="DEFAULT")
    shape = operation.shape(source)
    if prod(shape) % inputs:
        raise operation.error(f"is {list(shape)}", source, expected=f"rows of {inputs} elements")
    keeps = operation.flag("keep_num_dims")
    if keeps and (not shape or shape[-1] != inputs):
        raise operation.error(f"is {list(shape)}", source, expected=f"a last dimension of {inputs}")
    matrix = (prod(shape) // inputs, inputs)
    result = (*shape[:-1], outputs) if keeps else (matrix[0], outputs)
    operation.require_result(result)
    writer = operation.writer
    rows = writer.real(source, DimensionOrder.LAST)
    if shape != matrix:
        rows = writer.reshape(rows, matrix, operation.tensor(source).name)
    if kernel in writer.constants:
        weights = _weights(operation, source, kernel, (0, 1), 0)
    else:
        weights = _ConstantWeights(writer.real(kernel, DimensionOrder.LAST), _activation_scale(operation, kernel))
    value = writer.node(
        "Gemm", rows, weights.name, *write_bias(operation, source, weights.scales, 2, outputs), transB=1
    )
    if result != (matrix[0], outputs):
        value = writer.reshape(value, result, operation.tensor(operation.output).name)
    operation.write_activated(value, DimensionOrder.LAST)


def batch_matmul(operation: TfliteOperation) -> None:
    """The products of the last two dimensions, either of them transposed first."""
    operation.ignore("asymmetric_quantize_inputs")  # of float inputs only
    writer, factors = operation.writer, []
    for index, is_adjoint in zip(operation.inputs, (operation.flag("adj_x"), operation.flag("adj_y")), strict=True):
        rank = len(operation.shape(index))
        if rank < 2:
            raise operation.error(f"is {list(operation.shape(index))}", index, expected="at least 2 dimensions")
        factor = writer.real(index, DimensionOrder.LAST)
        if is_adjoint:
            factor = writer.node("Transpose", factor, perm=(*range(rank - 2), rank - 1, rank - 2))
        factors.append(factor)
    operation.write(writer.node("MatMul", *factors), DimensionOrder.LAST)


# -- weights ----------------------------------------------------------------------------------------------------------


def _weights(
    operation: TfliteOperation, source: int, index: int, order: tuple[int, ...], axis: int
) -> _ConstantWeights:
    """Constant weights transposed to `order`; scales may go along the file's `axis`."""
    writer, info = operation.writer, operation.tensor(index)
    values = np.ascontiguousarray(writer.value_of(index, "weights").transpose(order))
    if writer.is_real(index) != writer.is_real(source):
        raise operation.error(
            f"is {values.dtype.name}, but the input {operation.tensor(source).dtype.name}: computing with float "
            "inputs and integer weights has no lowering",
            index,
            remedy="quantise the activations too",
        )
    _check_weights(operation, source, index)
    name = writer.constant(info.name, values)
    if writer.is_real(index):
        return _ConstantWeights(name, None)
    assert info.quantized is not None
    if info.quantized.axis not in (None, axis):
        raise operation.error(
            f"has scales along dimension {info.quantized.axis}", index, expected=f"{axis}, the results'"
        )
    along = None if info.quantized.axis is None else order.index(axis)
    real = writer.dequantize(name, info.quantized, info.dtype, along, info.name)
    return _ConstantWeights(real, np.array(info.quantized.scales, np.float32))


def _check_weights(operation: TfliteOperation, source: int, index: int) -> None:
    """Constants of 8 bits, of one type with an input of so many; a convolution's signed weights are symmetric."""
    info, given = operation.tensor(index), operation.tensor(source).dtype
    if info.dtype.name in COMPUTED_INTEGERS and info.dtype.name not in BYTES:
        raise operation.error(f"is {info.dtype.name}", index, expected=" or ".join(BYTES))
    is_narrow = info.dtype.name in SHORT and given.kind == "i"
    if given.itemsize == 1 and info.dtype.itemsize == 1 and info.dtype != given and not is_narrow:
        raise operation.error(f"is {info.dtype.name}", index, expected=f"{given.name}, as the input")
    is_convolution = len(info.shape) == 4
    if (
        is_convolution
        and info.dtype == DEFAULT_TYPE.dtype
        and info.quantized is not None
        and any(info.quantized.zero_points)
    ):
        zero = next(zero for zero in info.quantized.zero_points if zero)
        raise operation.error(
            f"has weights with the zero point {zero}", index, expected=f"0, as all {info.dtype.name} weights have"
        )


def _activation_scale(operation: TfliteOperation, index: int) -> NDArray[np.float32] | None:
    quantized = operation.tensor(index).quantized
    return None if quantized is None else np.array([quantized.scale], np.float32)


BIAS_TYPES: tuple[int, ...] = (0, 2, 4)
"""FLOAT32 means that there is no bias, INT32 is the usual type, INT64 that of 16-bit activations."""

PRODUCTS = {
    "CONV_2D": OperatorRow(conv_2d, "Conv2DOptions", (2, 3)),
    "DEPTHWISE_CONV_2D": OperatorRow(depthwise_conv_2d, "DepthwiseConv2DOptions", (2, 3)),
    "TRANSPOSE_CONV": OperatorRow(transpose_conv, "TransposeConvOptions", (3, 4)),
    "FULLY_CONNECTED": OperatorRow(fully_connected, "FullyConnectedOptions", (2, 3)),
    "BATCH_MATMUL": OperatorRow(batch_matmul, "BatchMatMulOptions", (2, 2)),
}
