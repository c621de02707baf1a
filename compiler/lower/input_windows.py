"""Stores images with few channels as windows of rows in DRAM, so that the first convolution fills the lanes.

A word of the activation memory holds the channels of one pixel, and an image has only three. Where that makes fewer
vectors for the array, the host stores the image in another order (isa/program/windows.py), DMA reads each row of a
window (or all of its rows) as consecutive bytes, and the convolution has new weights in that order: [O, bytes of a
window's row, rows, 1]. DMA needs a burst for each window that overlaps with others. So they are stored apart, each by
itself, if the image does not become much larger by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import COLUMN, ROW, Graph, Operator, TensorType, stored_shape
from tilewright.compiler.simplify.kinds import REORDERING
from tilewright.isa.program.windows import Windows

MACS = "macs"
"""An attribute of a convolution on windows: the multiplications of the original, whose weights have fewer zeros."""


MOST_COPIES = 8
"""An image is stored at most so many times as large, for the sake of windows that DMA reads faster."""


@dataclass(frozen=True)
class WindowedInput:
    """An input of the graph that the host stores as windows."""

    windows: Windows
    host: TensorType  # as the model has it


def window_inputs(graph: Graph, vector: int, lanes: int) -> tuple[Graph, Mapping[str, WindowedInput]]:
    """The graph with convolutions on windows where these take fewer vectors of `vector` channels, and their inputs.

    A word has `lanes` channels.
    """
    found: dict[str, WindowedInput] = {}
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    operators = []
    for operator in graph.operators:
        name = _whole_input_of(operator, graph)
        windows = _windows(operator, graph, vector, lanes) if name is not None else None
        if name is None or windows is None:
            operators.append(operator)
            continue
        found[name] = WindowedInput(windows, graph.tensors[name])
        x, w = operator.inputs[:2]
        values = _reordered(graph.constants[w], graph.tensors[w], windows.fold)
        batch, _, height, width = stored_shape(graph.tensors[operator.outputs[0]].shape)
        step = operator.attributes["strides"][0] // windows.down
        _, channels, taps, _ = values.shape
        tensors[x] = replace(tensors[x], shape=(batch, channels, (height - 1) * step + taps, width))
        fresh = f"{w}.{operator.name}.windows"
        constants[fresh], tensors[fresh] = values, replace(tensors[w], shape=values.shape)
        attributes: dict[str, Any] = {"strides": (step, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
        attributes |= {MACS: graph.constants[w].size * batch * height * width}
        attributes = {**operator.attributes, **attributes}
        operators.append(replace(operator, inputs=(x, fresh, *operator.inputs[2:]), attributes=attributes))
    return replace(graph, operators=tuple(operators), tensors=tensors, constants=constants), found


def _whole_input_of(operator: Operator, graph: Graph) -> str | None:
    """The graph's input, if this convolution alone reads it, quantised before or not; else None."""
    if operator.kind != "conv" or operator.attributes["group"] != 1 or operator.attributes["dilations"] != (1, 1):
        return None
    name = operator.inputs[0]
    while graph.uses[name] == 1:
        producer = graph.producers.get(name)
        if producer is None:
            return name if name in graph.inputs else None
        if producer.kind not in ("quantize", *REORDERING):
            return None
        name = producer.inputs[0]
    return None


def _windows(operator: Operator, graph: Graph, vector: int, lanes: int) -> Windows | None:
    """The windows that take the fewest vectors for a pixel of the result; None if plain pixels take as few."""
    weights = graph.constants[operator.inputs[1]]
    _, channels, taps_down, taps_across = weights.shape
    shape = stored_shape(graph.tensors[operator.inputs[0]].shape)
    result = stored_shape(graph.tensors[operator.outputs[0]].shape)
    (down, across), (top, left, _, _) = operator.attributes["strides"], operator.attributes["pads"]
    columns = (result[COLUMN] - 1) * across + taps_across

    def vectors(fold: int) -> int:
        return -(-taps_down // fold) * -(-taps_across * fold * channels // vector)

    folds = {fold: fold for fold in _divisors(down)}
    if taps_down <= MOST_COPIES * down:
        folds[taps_down] = down  # all rows of a window lie together, also those that the next one has too
    fold = min(folds, key=vectors)
    if vectors(fold) >= taps_down * taps_across * -(-channels // vector):
        return None
    whole = -(-taps_across * fold * channels // lanes) * lanes
    copies = whole / (channels * folds[fold] * across)
    apart = copies <= MOST_COPIES
    return Windows((channels, *shape[ROW:]), top, left, fold, columns, across, folds[fold], apart)


def _divisors(number: int) -> Iterator[int]:
    return (divisor for divisor in range(1, number + 1) if number % divisor == 0)


def _reordered(weights: NDArray[Any], weight_type: TensorType, fold: int) -> NDArray[Any]:
    """[O, C, R, S] as [O, S · fold · C, ceil(R / fold), 1], real zeros for rows beyond R."""
    outputs, channels, height, width = weights.shape
    rows = -(-height // fold)
    zeros = np.array(weight_type.quantization.zero_points if weight_type.quantization is not None else 0, weights.dtype)
    full = np.empty((outputs, channels, rows * fold, width), weights.dtype)
    full[:] = zeros.reshape(-1, 1, 1, 1)
    full[:, :, :height] = weights
    folded = full.reshape(outputs, channels, rows, fold, width).transpose(0, 4, 3, 1, 2)
    return np.ascontiguousarray(folded.reshape(outputs, width * fold * channels, rows, 1))
