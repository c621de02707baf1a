"""Weights of few bits: each channel is limited where its integers come nearest to it, before its range makes a scale.

With sixteen steps, the few largest weights of a channel cost all others their precision. A limit below them costs these
few alone. Of some limits, from the largest weight downwards, the one with the least sum of squared differences is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.isa.language.numeric import IntegerType, Interval

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators whose constant second operand is weights; the constants of others stay as wide as activations."""

LEAST, TRIED = 0.4, 61
"""The lowest limit, in parts of the largest weight, and how many are tried from there on."""


def limit_weights(model: onnx.ModelProto, axes: Iterable[tuple[str, int | None]], held: IntegerType) -> onnx.ModelProto:
    """The model with limited constants: those named, each with the dimension of its channels; None: all are one."""
    limited = onnx.ModelProto()
    limited.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in limited.graph.initializer}
    for name, axis in axes:
        values = numpy_helper.to_array(constants[name])
        limits = _limits(values.astype(np.float64), axis, held.interval)
        made = np.clip(values, -limits, limits).astype(values.dtype)
        constants[name].CopyFrom(numpy_helper.from_array(made, name))
    return limited


def product_weights(
    nodes: Iterable[onnx.NodeProto], constants: Mapping[str, onnx.TensorProto]
) -> Iterator[tuple[str, int | None]]:
    """The constant weights of products, each with the dimension of its results; None where these share a scale."""
    for node in nodes:
        if node.op_type not in PRODUCTS or node.input[1] not in constants:
            continue
        said = {attribute.name: attribute.i for attribute in node.attribute}
        match node.op_type:
            case "Conv":
                yield node.input[1], 0
            case "ConvTranspose":
                yield node.input[1], 1 if said.get("group", 1) == 1 else None
            case "Gemm":
                yield node.input[1], 0 if said.get("transB", 0) else 1
            case _:
                yield node.input[1], 1 if len(constants[node.input[1]].dims) == 2 else None


def _limits(values: NDArray[np.float64], axis: int | None, held: Interval) -> NDArray[np.float64]:
    """The limit of each channel, with the other dimensions of size 1."""
    others = tuple(each for each in range(values.ndim) if each != axis)
    largest = np.abs(values).max(axis=others, keepdims=True, initial=0)
    best, least = largest, np.full(largest.shape, np.inf)
    for limit in (largest * part for part in np.linspace(1, LEAST, TRIED)):
        scale = np.where(limit > 0, 2 * limit / held.span, 1)
        nearest = np.clip(np.rint(values / scale), held.low, held.high) * scale
        squares = ((nearest - values) ** 2).sum(axis=others, keepdims=True)
        best, least = np.where(squares < least, limit, best), np.minimum(squares, least)
    return best
