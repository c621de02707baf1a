"""Converts the host's values (ONNX's shapes and types) to those of a program (as stored, [N, C, H, W]), and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import stored_dtype
from tilewright.isa.language.numeric import FloatType
from tilewright.isa.program.program import Tensor, element_scales, in_host_order, in_stored_order
from tilewright.isa.program.small_floats import small_float_of
from tilewright.isa.program.stored_types import REALS


def from_host(values: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Quantise as ONNX's QuantizeLinear (in float32, ties to even, saturated), or shift; raises CompileError."""
    if values.shape != tensor.shape or values.dtype.name != tensor.dtype:
        raise CompileError(
            f"input {tensor.name!r}",
            f"expected {tensor.dtype} {list(tensor.shape)}, got {values.dtype.name} {list(values.shape)}",
        )
    stored: NDArray[Any]
    small = small_float_of(tensor.element) if isinstance(tensor.element, FloatType) else None
    if small is not None:
        scales, _ = element_scales(tensor)
        is_real = tensor.dtype in REALS
        stored = small.nearest(values.astype(np.float32) / scales * small.least) if is_real else small.steps(values)
    elif tensor.dtype in REALS:
        scales, zeros = element_scales(tensor)
        limits = tensor.element.interval
        stored = np.clip(np.rint(values.astype(np.float32) / scales) + zeros, limits.low, limits.high)
    else:
        stored = values.astype(np.int64) - tensor.kind.offset
    sign = "i" if tensor.element.is_signed else "u"
    held = np.dtype(f"{sign}{tensor.element_bytes}") if small is None else stored_dtype(tensor.kind.element)
    ordered = in_stored_order(stored.astype(held), tensor)
    if tensor.windows is None:
        return ordered.reshape(tensor.stored)
    images = ordered.reshape(tensor.stored[0], *tensor.windows.image)
    return tensor.windows.gather(images, tensor.zero_point, tensor.stored)


def to_host(stored: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """Dequantise as ONNX's DequantizeLinear, or shift integers back."""
    values = in_host_order(stored.astype(np.int64), tensor)
    if tensor.dtype in REALS:
        scales, zeros = element_scales(tensor)
        return np.asarray((values - zeros).astype(np.float32) * scales).astype(tensor.dtype)
    if isinstance(tensor.element, FloatType):
        return small_float_of(tensor.element).values(values)
    return (values + tensor.kind.offset).astype(tensor.dtype)
