"""Between the values that a host has (ONNX's shapes and types) and those that a program holds (int8, [N, C, H, W])."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.errors import CompileError
from isa.numeric import IntegerType
from isa.program import Tensor, in_host_order

STORED = IntegerType(8, True)
UINT8_OFFSET = 128


def from_host(values: NDArray[Any], tensor: Tensor) -> NDArray[np.int8]:
    """Quantise as ONNX's QuantizeLinear (in float32, ties to even, saturated), or shift uint8; raises CompileError."""
    if values.shape != tensor.shape or values.dtype.name != tensor.dtype:
        raise CompileError(
            f"input {tensor.name!r}: expected {tensor.dtype} {list(tensor.shape)}, came {values.dtype.name} "
            f"{list(values.shape)}"
        )
    stored: NDArray[Any]
    match tensor.dtype:
        case "float32":
            steps = np.rint(values / np.float32(tensor.scale)) + np.float32(tensor.zero_point)
            stored = np.clip(steps, STORED.interval.low, STORED.interval.high)
        case "uint8":
            stored = values.astype(np.int64) - UINT8_OFFSET
        case _:
            stored = values
    ordered = stored.astype(np.int8).transpose(tensor.axes or range(stored.ndim))
    if tensor.windows is None:
        return ordered.reshape(tensor.stored)
    content = tensor.windows.pack(
        ordered.reshape(tensor.stored[0], *tensor.windows.image), tensor.zero_point, tensor.stored[2], 1
    )
    gathered: NDArray[np.int8] = tensor.windows.gather(content, tensor.stored)
    return gathered


def to_host(stored: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Dequantise as ONNX's DequantizeLinear, or shift back to uint8."""
    values = in_host_order(stored.astype(np.int64), tensor)
    match tensor.dtype:
        case "float32":
            return (values - tensor.zero_point).astype(np.float32) * np.float32(tensor.scale)
        case "uint8":
            return (values + UINT8_OFFSET).astype(np.uint8)
        case _:
            return values.astype(tensor.dtype)
