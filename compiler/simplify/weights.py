"""Constant operands of products: seen through their DequantizeLinear, and put back after a change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, Quantization, TensorType, spread_scales
from tilewright.compiler.simplify.rewrite import GraphView, Replacement


@dataclass(frozen=True)
class ConstantTensor:
    """A constant tensor: integers with what they mean, or floats (`quantization` is None)."""

    values: NDArray[Any]
    quantization: Quantization | None

    @property
    def real(self) -> NDArray[np.float64]:
        """What the values mean, precisely enough for any 32-bit integer."""
        if self.quantization is None:
            return self.values.astype(np.float64)
        scales, zeros = spread_scales(self.quantization, self.values.shape)
        return (self.values.astype(np.float64) - zeros) * scales


def constant_weights(name: str, view: GraphView) -> ConstantTensor | None:
    """The value of a constant, or of a constant that is dequantised; None for anything that is computed."""
    producer = view.producer(name, "dequantize")
    source = producer.inputs[0] if producer is not None else name
    value = view.constant(source)
    return None if value is None else ConstantTensor(value, view.type(source).quantization)


def reshaped(weights: ConstantTensor, shape: tuple[int, ...]) -> ConstantTensor | None:
    """A constant in another shape; None if its scales go along a dimension that the shape cuts or joins."""
    values, quantization = weights.values.reshape(shape), weights.quantization
    if quantization is None or quantization.axis is None:
        return ConstantTensor(values, quantization)
    before, after = ([axis for axis, size in enumerate(sizes) if size != 1] for sizes in (weights.values.shape, shape))
    same_sizes = [weights.values.shape[axis] for axis in before] == [shape[axis] for axis in after]
    if not same_sizes or quantization.axis not in before or quantization.block:
        return None
    return ConstantTensor(values, replace(quantization, axis=after[before.index(quantization.axis)]))


def stored_weights(weights: ConstantTensor, name: str, view: GraphView) -> tuple[str, Replacement]:
    """A constant of these weights: the name of the float tensor, and what has to be added to the graph."""
    quantization = weights.quantization
    constant = view.fresh(name)
    constant_type = TensorType(weights.values.dtype.name, weights.values.shape, quantization)
    if quantization is None:
        return constant, Replacement((), {constant: constant_type}, {constant: weights.values})
    real = view.fresh(f"{name}.real")
    operator = Operator(f"{name}.dequantize", "dequantize", (constant,), (real,))
    types = {constant: constant_type, real: TensorType("float32", constant_type.shape)}
    return real, Replacement((operator,), types, {constant: weights.values})
