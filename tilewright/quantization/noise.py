"""What quantising does to each layer: the signal-to-noise ratio of its result against the float network.

Both networks run on the same samples. The noise of a tensor is the difference between its dequantised and its float
values; the ratio is 10 · log10(Σ float² / Σ noise²), over all elements of all samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx

from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.quantization.float_model import float_outputs
from tilewright.quantization.samples import Samples
from tilewright.quantization.steps import Steps, steps_of
from tilewright.quantization.tensors import Tensors

FULL_SCALE_DB = round(6.02 * DEFAULT_TYPE.values.bits + 1.76, 1)
"""The ratio of a full-scale sine in the default type, 49.9 for eight bits; no layer is blamed for falling to it."""

LOWEST_DB = -100.0
"""The ratio of noise without a signal."""

TOO_MUCH_DB = 6.0
"""What a layer may lose before a user has to know: more is less than half of the signal's precision left."""

HURTS_DB = 3.0
"""A layer hurts if it at least doubles the power of the noise."""

MOST_NAMED = 5
"""The most layers that are named as hurting."""

INPUT = "input"
"""Stands for the operator of a network's input."""


@dataclass(frozen=True, slots=True)
class NoisyLayer:
    """The nodes that compute one tensor from others that are quantised."""

    name: str  # of the first node that computes
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    tensor: str
    operands: tuple[str, ...]  # tensors that are quantised, too


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """A layer's signal-to-noise ratio, and by how much it is lower than that of its worst operand.

    `snr_db` is None if there is no noise at all; `drop_db` is None for inputs and for exact results. `own_db` is the
    ratio that the result would have if nothing but itself were quantised; None where it has no steps of its own.
    """

    name: str
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    tensor: str
    operands: tuple[str, ...]
    snr_db: float | None
    drop_db: float | None
    own_db: float | None = None

    @property
    def range_costs_db(self) -> float:
        """By how much the ratio is lower because this result has eight bits in this range, its operands as they are.

        0 where the result is not worse than its operands, or has no steps.
        """
        if self.snr_db is None or self.own_db is None or self.drop_db is None:
            return 0.0
        others = 1 - 10 ** ((self.snr_db - self.own_db) / 10)  # the part of the noise that comes from elsewhere
        return min(max(0.0, self.drop_db), -10 * math.log10(others) if others > 0 else math.inf)


def measure_noise(
    model: onnx.ModelProto, quantized: onnx.ModelProto, names: Mapping[str, str], samples: Samples, name: str
) -> tuple[LayerNoise, ...]:
    """The noise of every layer, in order; `names` says what tensors of `model` are called in `quantized`."""
    names = {**names, **{output: output for output in float_outputs(model)}}
    exact, noisy = Tensors(model, list(names), name), Tensors(quantized, list(names.values()), name)
    own: dict[str, float | None] = {}
    ratios = signal_to_noise(exact, noisy, names, samples, steps_of(quantized, names), own)
    return tuple(_noise(layer, ratios, own) for layer in find_layers(model, names))


def signal_to_noise(
    exact: Tensors,
    noisy: Tensors,
    names: Mapping[str, str],
    samples: Samples,
    steps: Mapping[str, Steps] = MappingProxyType({}),
    own: dict[str, float | None] | None = None,
) -> dict[str, float | None]:
    """The ratio in dB of each tensor, given by its names in both networks; None where nothing differs.

    `own` gets the ratios of tensors that are nothing but rounded to their own `steps`.
    """
    signal, noise, rounding = (dict.fromkeys(names, 0.0) for _ in range(3))
    for feed in samples:
        expected, came = exact(feed), noisy(feed)
        for tensor, other in names.items():
            real = expected[tensor].astype(np.float64)
            signal[tensor] += float(np.square(real).sum())
            noise[tensor] += float(np.square(real - came[other]).sum())
            if tensor in steps:
                rounding[tensor] += float(np.square(real - steps[tensor].rounded(real)).sum())
    if own is not None:
        own |= {tensor: _decibel(signal[tensor], rounding[tensor]) for tensor in steps}
    return {tensor: _decibel(signal[tensor], noise[tensor]) for tensor in names}


def _decibel(signal: float, noise: float) -> float | None:
    if noise == 0:
        return None
    if signal == 0 or not math.isfinite(noise):  # the logarithm of a value that became 0, for example
        return LOWEST_DB
    return max(LOWEST_DB, 10 * math.log10(signal / noise))


def hurting(layers: Sequence[LayerNoise]) -> tuple[LayerNoise, ...]:
    """The layers that add most noise, the worst first; few, and only those that at least double it."""
    found = [layer for layer in layers if layer.drop_db is not None and layer.drop_db >= HURTS_DB]
    return tuple(sorted(found, key=lambda layer: -(layer.drop_db or 0)))[:MOST_NAMED]


def find_layers(model: onnx.ModelProto, names: Mapping[str, str]) -> list[NoisyLayer]:
    """The layers that make each of these tensors, in the order of the nodes; inputs are layers without nodes."""
    makers = {output: node for node in model.graph.node for output in node.output}
    order = {node.name: position for position, node in enumerate(model.graph.node)}
    layers = []
    for tensor in names:
        found: dict[str, onnx.NodeProto] = {}
        operands: dict[str, None] = {}
        _collect(tensor, makers, names, found, operands)
        nodes = sorted(found.values(), key=lambda node: order[node.name])
        operators = tuple(node.op_type for node in nodes) or (INPUT,)
        label = nodes[0].name if nodes else tensor
        layers.append(NoisyLayer(label, tuple(node.name for node in nodes), operators, tensor, tuple(operands)))
    return sorted(layers, key=lambda layer: order[layer.nodes[-1]] if layer.nodes else -1)


def _collect(
    tensor: str,
    makers: Mapping[str, onnx.NodeProto],
    names: Mapping[str, str],
    found: dict[str, onnx.NodeProto],
    operands: dict[str, None],
) -> None:
    """The nodes between a tensor and the nearest ones before it that are quantised."""
    waiting = [tensor]
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or node.name in found:
            continue
        found[node.name] = node
        for source in node.input:
            if source in names:
                operands[source] = None
            elif source:
                waiting.append(source)


def _noise(layer: NoisyLayer, ratios: Mapping[str, float | None], own: Mapping[str, float | None]) -> LayerNoise:
    ratio = ratios[layer.tensor]
    drop = None
    if ratio is not None and layer.operands:
        best = min(or_full_scale(ratios[operand]) for operand in layer.operands)
        drop = best - ratio
    return LayerNoise(
        layer.name, layer.nodes, layer.operators, layer.tensor, layer.operands, ratio, drop, own.get(layer.tensor)
    )


def or_full_scale(ratio: float | None) -> float:
    """A ratio, as far as the bits of the default type allow one."""
    return FULL_SCALE_DB if ratio is None else min(ratio, FULL_SCALE_DB)
