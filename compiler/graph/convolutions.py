"""What every reader of a convolution needs to know of its weights [O, I / group, R, S]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import MACS, Graph, Operator, stored_shape


def has_scales_of_outputs(constant: str, graph: Graph) -> bool:
    """Whether weights have one scale and zero point, or one for each output channel: the form that is computed."""
    quantization = graph.tensors[constant].quantization
    return quantization is None or quantization.axis in (None, 0)


def zeros_of(constant: str, graph: Graph) -> NDArray[Any]:
    """[O]: the integer that means 0 for each output channel of weights that `has_scales_of_outputs`."""
    values, quantization = graph.constants[constant], graph.tensors[constant].quantization
    points = (0,) if quantization is None else quantization.zero_points
    return np.broadcast_to(np.array(points, values.dtype), values.shape[:1])


def block_diagonal(weights: NDArray[Any], group: int, zero: NDArray[Any]) -> NDArray[Any]:
    """[O, I, R, S] of [O, I / group, R, S]: weights for all input channels, `zero` [O] between the groups."""
    if group == 1:
        return weights
    outputs, own, rows, taps = weights.shape
    full = np.empty((group, outputs // group, group, own, rows, taps), weights.dtype)
    full[:] = zero.reshape(group, -1, 1, 1, 1, 1)
    each = np.arange(group)
    full[each, :, each] = weights.reshape(group, outputs // group, own, rows, taps)
    return full.reshape(outputs, group * own, rows, taps)


def model_macs(conv: Operator, graph: Graph) -> int:
    """The multiplications of the model's convolution, whatever weights this one has."""
    batch, _, height, width = stored_shape(graph.tensors[conv.outputs[0]].shape)
    return int(conv.attributes.get(MACS, graph.constants[conv.inputs[1]].size * batch * height * width))
