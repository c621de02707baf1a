"""Operators on constants, computed at once: the arithmetic of shapes, and weights stored as float16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.importers.tflite.operation import TfliteOperation

Values = Sequence[NDArray[Any]]


def try_fold(operation: TfliteOperation) -> bool:
    """Make an operator's result a constant, if it is SHAPE or all its inputs are constants that a rule takes."""
    kind, writer = operation.operator.kind, operation.writer
    rule = RULES.get(kind)
    if rule is None:
        return False
    indices = operation.operator.inputs
    if kind == "SHAPE":
        values: list[NDArray[Any]] = [np.array(operation.shape(operation.input(0)), np.int64)]
    elif all(index in writer.constants for index in indices):
        values = [writer.constants[index] for index in operation.inputs]
        if kind in ON_INDICES and any(value.dtype.name not in INDEX_TYPES for value in values):
            return False
    else:
        return False
    output = operation.tensor(operation.output)
    if kind != "DEQUANTIZE" and output.dtype.name not in INDEX_TYPES:
        return False
    try:
        folded = rule(values, operation)
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise operation.error(f"cannot be computed of its constants: {error}") from error
    writer.fold(operation.output, np.ascontiguousarray(folded).astype(output.dtype).reshape(np.shape(folded)))
    return True


def _shape(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    kind, result = operation.element_type("out_type"), operation.tensor(operation.output).dtype.name
    if kind.lower() != result:
        raise operation.error(f"out_type = {kind}", operation.output, expected=f"{result.upper()}, the result's type")
    return values[0]


def _pack(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    operation.only("values_count", len(values))
    return np.stack(values, operation.integer("axis"))


def _gather(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    operation.only("batch_dims", 0)
    return np.take(values[0], values[1], operation.integer("axis"))


def _concatenate(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    operation.only("fused_activation_function", 0)
    return np.concatenate(values, operation.integer("axis"))


def _reshape(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    operation.ignore("new_shape", "squeeze_dims")  # the result's own shape says it
    return values[0].reshape(operation.shape(operation.output))


def _slice(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    value, first, sizes = values
    return value[tuple(slice(b, None if n == -1 else b + n) for b, n in zip(first, sizes, strict=True))]


def _strided_slice(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    operation.only("ellipsis_mask", 0)
    operation.only("new_axis_mask", 0)
    operation.only("offset", False)
    starts, ends, shrinks = (operation.integer(f"{name}_mask") for name in ("begin", "end", "shrink_axis"))
    value, *indices = values
    index: list[int | slice] = []
    for axis, (first, last, step) in enumerate(zip(*(map(int, numbers) for numbers in indices), strict=True)):
        if shrinks >> axis & 1:
            index.append(first)
        else:
            index.append(slice(None if starts >> axis & 1 else first, None if ends >> axis & 1 else last, step))
    return np.asarray(value[tuple(index)])


def _arithmetic(function: np.ufunc) -> Callable[[Values, TfliteOperation], NDArray[Any]]:
    def rule(values: Values, operation: TfliteOperation) -> NDArray[Any]:
        operation.only("fused_activation_function", 0)
        operation.ignore("pot_scale_int16")
        a, b = values
        return np.asarray(function(a, b))

    return rule


def _cast(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    for name in ("in_data_type", "out_data_type"):
        operation.element_type(name)  # converters differ in what they write there; the tensors' own types count
    return values[0]


def _product(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    axes = tuple(int(axis) for axis in values[1].ravel())
    return np.asarray(np.prod(values[0], axis=axes, keepdims=operation.flag("keep_dims"), dtype=np.int64))


def _dequantize(values: Values, operation: TfliteOperation) -> NDArray[Any]:
    """The real values of float16 numbers, or of integers with their scales."""
    value, by = values[0], operation.tensor(operation.input(0)).quantized
    if by is None:
        return value.astype(np.float32)
    shape = [1] * value.ndim
    if by.axis is not None:
        shape[by.axis] = len(by.scales)
    scales, zeros = (np.array(numbers, np.float32).reshape(shape) for numbers in (by.scales, by.zero_points))
    return ((value.astype(np.float32) - zeros) * scales).reshape(value.shape)


INDEX_TYPES = ("int32", "int64")
"""Element types of shapes, axes and the like."""

RULES: dict[str, Callable[[Values, TfliteOperation], NDArray[Any]]] = {
    "SHAPE": _shape,
    "PACK": _pack,
    "GATHER": _gather,
    "CONCATENATION": _concatenate,
    "RESHAPE": _reshape,
    "SQUEEZE": _reshape,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "ADD": _arithmetic(np.add),
    "SUB": _arithmetic(np.subtract),
    "MUL": _arithmetic(np.multiply),
    "MAXIMUM": _arithmetic(np.maximum),
    "MINIMUM": _arithmetic(np.minimum),
    "REDUCE_PROD": _product,
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
}
"""Operator → how it is computed from constants, with elements in the order of the file."""

ON_INDICES = tuple(kind for kind in RULES if kind not in ("SHAPE", "DEQUANTIZE"))

FOLDED_ONLY = {"SHAPE": "ShapeOptions"}
"""Operators that are accepted only on constants, and the table of their options."""
