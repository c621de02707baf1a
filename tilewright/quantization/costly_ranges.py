"""Ranges that cost too much: of a result itself, or of what is computed from it.

Rounding a tensor to its steps may leave it as it is, measured by its greatest values, and ruin what reads it: scores
whose range a mask stretches have no noise beside -1000, and all of a softmax is noise. So where a layer loses much,
the float network runs with nothing but one operand rounded: if that explains the noise, the operand's range costs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright.compiler.importers.opsets import WRITTEN_OPSET, convert, opset_of
from tilewright.isa.program.stored_types import BYTES, COMPUTED, STORED_TYPES
from tilewright.quantization.noise import MOST_NAMED, TOO_MUCH_DB, LayerNoise, signal_to_noise
from tilewright.quantization.samples import Samples
from tilewright.quantization.steps import Steps
from tilewright.quantization.tensors import Tensors

EXPLAINS_DB = 1.25
"""Noise of three quarters of the power is at most so far below: the rest is not a quarter of it."""


@dataclass(frozen=True, slots=True)
class CostlyRange:
    """A layer, and how many decibels its own range costs: there, or at the layer `at` that reads it."""

    layer: LayerNoise
    costs_db: float
    at: str | None = None

    def __str__(self) -> str:
        layer, place = self.layer, "" if self.at is None else f" at {self.at}"
        return f"{layer.name} ({'+'.join(layer.operators)}) loses {self.costs_db:.1f} dB by its own range{place}"


def costly_ranges(
    model: onnx.ModelProto, layers: Sequence[LayerNoise], steps: Mapping[str, Steps], samples: Samples, name: str
) -> tuple[CostlyRange, ...]:
    """The layers of a float model whose own range costs too much, in order, each with the most that it costs."""
    found = {
        each.tensor: CostlyRange(each, each.range_costs_db) for each in layers if each.range_costs_db > TOO_MUCH_DB
    }
    makers = {layer.tensor: layer for layer in layers}
    losing = [each for each in layers if (each.drop_db or 0) > TOO_MUCH_DB and each.tensor not in found]
    for layer in sorted(losing, key=lambda each: -(each.drop_db or 0))[:MOST_NAMED]:
        for operand in layer.operands:
            if operand not in steps or operand not in makers or layer.snr_db is None:
                continue
            alone = _ratio_with(model, operand, steps[operand], layer.tensor, samples, name)
            costs = CostlyRange(makers[operand], layer.drop_db or 0, layer.name)
            if alone is not None and alone < layer.snr_db + EXPLAINS_DB:
                if operand not in found or found[operand].costs_db < costs.costs_db:
                    found[operand] = costs
    return tuple(found[layer.tensor] for layer in layers if layer.tensor in found)


def _ratio_with(
    model: onnx.ModelProto, tensor: str, steps: Steps, result: str, samples: Samples, name: str
) -> float | None:
    """The ratio of a result in the float network with nothing but one tensor rounded to its steps."""
    exact, rounded = Tensors(model, [result], name), Tensors(_with_rounding(model, tensor, steps), [result], name)
    return signal_to_noise(exact, rounded, {result: result}, samples)[result]


def _with_rounding(model: onnx.ModelProto, tensor: str, steps: Steps) -> onnx.ModelProto:
    """The model, all readers of a tensor reading it rounded."""
    element = next(name for name in COMPUTED if STORED_TYPES[name].limits == (steps.low, steps.high))
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if element not in BYTES and opset_of(made) < WRITTEN_OPSET:
        made = convert(made, "the network", WRITTEN_OPSET)
    graph, names = made.graph, [f"{tensor}.{part} rounded" for part in ("scale", "zero", "integers", "values")]
    scale, zero, integers, values = names
    for node in graph.node:
        node.input[:] = [values if name == tensor else name for name in node.input]
    graph.initializer.append(numpy_helper.from_array(np.array(steps.scale, np.float32), scale))
    graph.initializer.append(numpy_helper.from_array(np.array(steps.zero, STORED_TYPES[element].dtype), zero))
    inner = [
        helper.make_node("QuantizeLinear", [tensor, scale, zero], [integers], integers),
        helper.make_node("DequantizeLinear", [integers, scale, zero], [values], values),
    ]
    place = next((number + 1 for number, node in enumerate(graph.node) if tensor in node.output), 0)
    nodes = [*graph.node[:place], *inner, *graph.node[place:]]
    del graph.node[:]
    graph.node.extend(nodes)
    return made
