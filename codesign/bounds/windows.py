"""Which elements the windows of convolutions and pools read, by row and by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import ROW, Graph, Operator, stored_shape

Mask = NDArray[np.bool_]


def kernel_of(operator: Operator, graph: Graph) -> tuple[int, int]:
    """The height and width of a window."""
    if operator.kind == "conv":
        height, width = graph.constants[operator.inputs[1]].shape[-2:]
    else:
        height, width = operator.attributes["kernel"]
    return int(height), int(width)


def reads(operator: Operator, graph: Graph, axis: int) -> NDArray[np.int64]:
    """[results, taps]: the row (axis 0) or column (1) that each tap reads for each of the result's; -1 outside."""
    size = stored_shape(graph.tensors[operator.inputs[0]].shape)[ROW + axis]
    results = stored_shape(graph.tensors[operator.outputs[0]].shape)[ROW + axis]
    stride, pad, dilation = (operator.attributes[key][axis] for key in ("strides", "pads", "dilations"))
    taps = np.arange(kernel_of(operator, graph)[axis]) * dilation
    places = (np.arange(results) * stride - pad)[:, None] + taps
    return np.where((places >= 0) & (places < size), places, -1)


def tap_counts(operator: Operator, graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many taps are inside of the tensor, for each row and each column of the result."""
    rows, columns = ((reads(operator, graph, axis) >= 0).sum(axis=1) for axis in (0, 1))
    return rows, columns


def read_by(operator: Operator, graph: Graph, rows: Mask, columns: Mask) -> tuple[Mask, Mask]:
    """The rows and columns of the operand that those of the result read."""
    found = []
    for axis, needed in ((0, rows), (1, columns)):
        places = reads(operator, graph, axis)[needed]
        mask = np.zeros(stored_shape(graph.tensors[operator.inputs[0]].shape)[ROW + axis], bool)
        mask[places[places >= 0]] = True
        found.append(mask)
    return found[0], found[1]
