"""Stores images with few channels as windows in DRAM, so that the first convolution fills the lanes.

A word of the activation memory holds the channels of one pixel, and an image has only three. Where that makes fewer
vectors for the array, the host stores windows of the image (isa/program/windows.py), and the convolution has new
weights [O, elements of a window, windows below each other, 1] in that order. Whole windows take the fewest vectors;
windows of a few rows overlap less, so that less is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import (
    COLUMN,
    MACS,
    ROW,
    Attribute,
    Graph,
    Operator,
    TensorType,
    has_scales_of_outputs,
    model_macs,
    stored_shape,
    zeros_of,
)
from tilewright.compiler.simplify.kinds import REORDERING
from tilewright.compiler.templates.systolic import weight_tiles
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.windows import Windows


@dataclass(frozen=True)
class WindowedInput:
    """An input of the graph that the host stores as windows."""

    windows: Windows
    host: TensorType  # as the model has it


def window_inputs(graph: Graph, machine: Machine) -> tuple[Graph, Mapping[str, WindowedInput]]:
    """The graph with convolutions on windows where these take fewer vectors of the array, and their inputs."""
    found: dict[str, WindowedInput] = {}
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    operators = []
    for operator in graph.operators:
        name = _whole_input_of(operator, graph)
        windows = _windows(operator, graph, machine) if name is not None else None
        if name is None or windows is None:
            operators.append(operator)
            continue
        found[name] = WindowedInput(windows, graph.tensors[name])
        x, w = operator.inputs[:2]
        values = _reordered(graph.constants[w], zeros_of(w, graph), windows.fold)
        batch, _, height, width = stored_shape(graph.tensors[operator.outputs[0]].shape)
        _, channels, taps, _ = values.shape
        step = operator.attributes["strides"][0] // windows.down
        tensors[x] = replace(tensors[x], shape=(batch, channels, (height - 1) * step + taps, width))
        fresh = f"{w}.{operator.name}.windows"
        constants[fresh], tensors[fresh] = values, replace(tensors[w], shape=values.shape)
        attributes: dict[str, Attribute] = {"strides": (step, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1}
        attributes |= {MACS: model_macs(operator, graph)}
        attributes = {**operator.attributes, **attributes}
        operators.append(replace(operator, inputs=(x, fresh, *operator.inputs[2:]), attributes=attributes))
    return replace(graph, operators=tuple(operators), tensors=tensors, constants=constants), found


def _whole_input_of(operator: Operator, graph: Graph) -> str | None:
    """The graph's input, if this convolution alone reads it, quantised before or not; else None."""
    if operator.kind != "conv" or operator.attributes["group"] != 1 or operator.attributes["dilations"] != (1, 1):
        return None
    if not has_scales_of_outputs(operator.inputs[1], graph):
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


def _windows(operator: Operator, graph: Graph, machine: Machine) -> Windows | None:
    """The windows that take the fewest cycles to multiply and to load; None if plain pixels take as few vectors."""
    weights = graph.constants[operator.inputs[1]]
    outputs, channels, taps_down, taps_across = weights.shape
    shape = stored_shape(graph.tensors[operator.inputs[0]].shape)
    result = stored_shape(graph.tensors[operator.outputs[0]].shape)
    (down, across), (top, left, _, _) = operator.attributes["strides"], operator.attributes["pads"]

    def tiles(fold: int) -> int:
        return -(-taps_down // fold) * weight_tiles(machine, outputs, taps_across * fold * channels)

    def cycles(fold: int) -> int:
        multiplying = tiles(fold) * result[ROW] * result[COLUMN]
        rows = result[ROW] if fold == taps_down else (result[ROW] - 1) * down // fold + -(-taps_down // fold)
        stored = weight_tiles(machine, 1, taps_across * fold * channels) * machine.array.rows * rows * result[COLUMN]
        return max(multiplying, stored // machine.dram.bus_bytes)

    fold = min((*_divisors(down), taps_down), key=cycles)
    if tiles(fold) >= taps_down * taps_across * weight_tiles(machine, outputs, channels):
        return None
    return Windows((channels, *shape[ROW:]), top, left, fold, down if fold == taps_down else fold, across)


def _divisors(number: int) -> Iterator[int]:
    return (divisor for divisor in range(1, number + 1) if number % divisor == 0)


def _reordered(weights: NDArray[Any], zero: NDArray[Any], fold: int) -> NDArray[Any]:
    """[O, C, R, S] as [O, S · fold · C, ceil(R / fold), 1], `zero` [O] for rows beyond R."""
    outputs, channels, height, width = weights.shape
    rows = -(-height // fold)
    full = np.empty((outputs, channels, rows * fold, width), weights.dtype)
    full[:] = zero[:, None, None, None]
    full[:, :, :height] = weights
    folded = full.reshape(outputs, channels, rows, fold, width).transpose(0, 4, 3, 1, 2)
    return np.ascontiguousarray(folded.reshape(outputs, width * fold * channels, rows, 1))
