"""The bias of a product: integers in the steps of the product, which are input scale times weight scale.

They are int32; beside activations of 16 bits int64, as far as int32 holds them.

TFLite's kernels take the integers as they are, whatever scale the file gives them. A scale that differs by no more than
rounding means the same; one that differs by more makes the bias another real number, and its integers are converted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.importers.tflite.model import Quantized
from tilewright.compiler.importers.tflite.operation import TfliteOperation

ROUNDING = 0.02
"""How far, relatively, a bias's own scale may be from that of the products without meaning another number."""

OF_ANY_SHAPE = ("CONV_2D", "FULLY_CONNECTED")
"""Products of which LiteRT takes a bias of more dimensions than one."""


def write_bias(
    operation: TfliteOperation, source: int, weight_scales: NDArray[np.float32] | None, position: int, outputs: int
) -> tuple[str, ...]:
    """The bias's real values, if there is one; `weight_scales` is None where the product is float."""
    index = operation.optional(position)
    if index is None:
        return ()
    writer, info = operation.writer, operation.tensor(index)
    values = writer.value_of(index, "a bias")
    if values.size != outputs or (values.ndim != 1 and operation.operator.kind not in OF_ANY_SHAPE):
        raise operation.error(f"is {list(info.shape)}", index, expected=f"a list of {outputs} numbers")
    expected = np.float32 if weight_scales is None else np.int32
    if values.dtype == np.int64 and operation.tensor(source).dtype.itemsize > 1 and weight_scales is not None:
        limits = np.iinfo(np.int32)
        if values.min() < limits.min or values.max() > limits.max:
            fact = f"is a bias from {values.min()} to {values.max()}"
            raise operation.error(fact, index, expected="what int32 holds")
        values = values.astype(np.int32)
    if values.dtype != expected:
        raise operation.error(f"is {values.dtype.name}", index, expected=f"{expected.__name__} for a bias")
    values = values.reshape(outputs)
    if weight_scales is None:
        return (writer.constant(info.name, values),)
    scales = _scales(operation, source, weight_scales, index)
    name = writer.constant(info.name, _in_steps(operation, index, values, scales))
    quantized = Quantized(tuple(map(float, scales)), (0,) * len(scales))
    return (writer.dequantize(name, quantized, values.dtype, 0 if len(scales) > 1 else None, info.name),)


def _scales(
    operation: TfliteOperation, source: int, weight_scales: NDArray[np.float32], index: int
) -> NDArray[np.float32]:
    """The steps of the product: one, or one for each result."""
    quantized = operation.tensor(source).quantized
    assert quantized is not None
    with np.errstate(over="ignore"):
        scales = np.float32(quantized.scale) * weight_scales
    if not np.isfinite(scales).all():
        raise operation.error("is a bias whose scale, input scale times weight scale, is beyond float32", index)
    return scales


def _in_steps(
    operation: TfliteOperation, index: int, values: NDArray[np.int32], scales: NDArray[np.float32]
) -> NDArray[np.int32]:
    """The integers for these scales; a remark where they are not the file's."""
    quantized = operation.tensor(index).quantized
    if quantized is None:
        return values
    if any(quantized.zero_points):
        raise operation.error(f"is a bias with the zero point {max(quantized.zero_points)}", index, expected="0")
    given = np.array(quantized.scales)
    if given.size not in (1, values.size):
        raise operation.error(f"is a bias with {given.size} scales", index, expected=f"1 or {values.size}")
    if given.size in (1, scales.size) and np.allclose(given, scales, rtol=ROUNDING, atol=0):
        return values
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        converted = np.rint(values * (given / scales.astype(np.float64)))
    limits = np.iinfo(np.int32)
    if not (np.abs(converted) <= limits.max).all():  # also where it is no number
        raise operation.error(
            f"is a bias with the scale {given[0]:.6g}, of which int32 holds no multiple of input scale times weight "
            f"scale, {scales[0]:.6g}",
            index,
        )
    operation.remark(
        f"its bias has the scale {given[0]:.6g}, and input scale times weight scale is {scales[0]:.6g}: converted to "
        "the latter; TFLite's kernels would take the integers as they are",
        index,
    )
    return converted.astype(np.int32)
