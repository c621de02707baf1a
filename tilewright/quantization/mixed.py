"""Chooses the type of each product's weights: the narrow one where it saves most for the noise that it adds.

Two networks are there, which differ in these types alone: all wide, and all narrow. Each layer is tried alone: what the
narrow type saves, and how much noisier it leaves the worst output. Then the layers become narrow one after the other,
those that save most for their noise first, and each stays so if the worst output is within the budget. All is measured:
cost by the program for a machine, noise by running the network on the calibration data. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.quantization.narrow_weights import PRODUCTS
from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors


@dataclass(frozen=True, slots=True)
class Taken:
    """What a network takes on a machine, and how many of its nodes are the host's, which takes nothing of that."""

    cost: float
    host_nodes: int


Cost = Callable[[onnx.ModelProto], Taken]
"""What a network in QDQ form takes, such as the cycles of its program; raises CompileError."""

WEIGHTS_AND_BIAS = (1, 2)
"""The operands of a product that have another type or scale where its weights have."""

LEAST_NOISE = 1e-12
"""What stands for no noise, or less than none, in parts of the signal's power."""


@dataclass(frozen=True)
class NoiseBudget:
    """By how many dB the worst output may be noisier than with wide weights, and what is to be saved for that."""

    loses_db: float
    cost: Cost
    unit: str  # of the cost, such as cycles
    machine: str  # whose programs cost it


@dataclass(frozen=True, slots=True)
class Point:
    """A network: the ratio of signal to noise of its worst output, None where nothing differs, and its cost."""

    snr_db: float | None
    taken: Taken


@dataclass(frozen=True, slots=True)
class MixedLayer:
    """Nodes with the same weights, the type that these got, and what the narrow type does in this layer alone."""

    nodes: tuple[str, ...]
    weights: str
    saves: float | None  # None where the host would compute it
    loses_db: float

    @property
    def name(self) -> str:
        return self.nodes[0]


@dataclass(frozen=True, slots=True)
class Mixed:
    """The types that were chosen, and the network with them beside those that have one type."""

    budget: NoiseBudget
    layers: tuple[MixedLayer, ...]  # in the network's order
    types: tuple[str, str]  # the wide one, and the narrow one
    wide: Point
    mixed: Point
    narrow: Point


def mix(
    floats: onnx.ModelProto,
    wide: onnx.ModelProto,
    narrow: onnx.ModelProto,
    types: tuple[str, str],
    outputs: Sequence[str],
    samples: Samples,
    budget: NoiseBudget,
    name: str,
) -> tuple[onnx.ModelProto, Mixed]:
    """The network with a type for each layer, and how these were chosen; `floats` is the network before.

    `types` are the wide and the narrow one. Raises CompileError for a network that has no program, or cannot be run.
    """
    noise = _OutputNoise(floats, outputs, samples, name)
    layers = _layers(narrow, wide)

    def with_narrow(chosen: Collection[tuple[str, ...]]) -> onnx.ModelProto:
        kept = {node for layer in layers if layer not in chosen for node in layer}
        return _with_operands_of(narrow, wide, kept)

    def point(model: onnx.ModelProto) -> Point:
        return Point(_decibel(noise(model)), budget.cost(model))

    unmixed = with_narrow(())
    least = noise(unmixed)
    base = Point(_decibel(least), budget.cost(unmixed))
    allowed = least * 10 ** (budget.loses_db / 10)
    alone = {layer: with_narrow([layer]) for layer in layers}
    noises = {layer: noise(model) for layer, model in alone.items()}
    saves = {layer: _saves(budget.cost(model), base.taken) for layer, model in alone.items()}
    chosen: list[tuple[str, ...]] = []
    for layer in sorted(layers, key=lambda each: -_worth(saves[each], noises[each] - least)):
        if (saves[layer] or 0) > 0 and noise(with_narrow([*chosen, layer])) <= allowed:
            chosen.append(layer)
    found = tuple(
        MixedLayer(layer, types[layer in chosen], saves[layer], _loses(noises[layer], least)) for layer in layers
    )
    made = with_narrow(chosen)
    return made, Mixed(budget, found, types, base, point(made), point(narrow))


def _saves(taken: Taken, before: Taken) -> float | None:
    return None if taken.host_nodes > before.host_nodes else before.cost - taken.cost


def _worth(saves: float | None, noise: float) -> float:
    """What a layer saves for the noise that it adds."""
    return (saves or 0) / max(noise, LEAST_NOISE)


def _loses(noise: float, least: float) -> float:
    return 10 * math.log10(max(noise, LEAST_NOISE) / max(least, LEAST_NOISE))


def _decibel(noise: float) -> float | None:
    return None if noise == 0 else -10 * math.log10(noise)


class _OutputNoise:
    """The power of the noise of a network's worst output, in parts of the power of its signal."""

    def __init__(self, floats: onnx.ModelProto, outputs: Sequence[str], samples: Samples, name: str) -> None:
        self._outputs, self._samples, self._name = outputs, samples, name
        exact = Tensors(floats, outputs, name)
        self._exact = [{tensor: each.astype(np.float64) for tensor, each in exact(feed).items()} for feed in samples]
        self._signal = {tensor: sum(float(np.square(each[tensor]).sum()) for each in self._exact) for tensor in outputs}

    def __call__(self, model: onnx.ModelProto) -> float:
        noise, noisy = dict.fromkeys(self._outputs, 0.0), Tensors(model, self._outputs, self._name)
        for feed, exact in zip(self._samples, self._exact, strict=True):
            for tensor, value in noisy(feed).items():
                noise[tensor] += float(np.square(exact[tensor] - value).sum())
        return max(noise[tensor] / (self._signal[tensor] or 1.0) for tensor in self._outputs)


# -- networks ----------------------------------------------------------------------------------------------------------


def _layers(narrow: onnx.ModelProto, wide: onnx.ModelProto) -> list[tuple[str, ...]]:
    """The products whose weights have another type in the two networks; those that share weights are one layer."""
    of, other = _constants(narrow), _constants(wide)
    readers, before = _dequantizers(narrow), {node.name: node for node in wide.graph.node}
    others, found = _dequantizers(wide), dict[str, list[str]]()
    for node in narrow.graph.node:
        if node.op_type not in PRODUCTS or node.name not in before:
            continue
        reader, twin = readers.get(node.input[1]), others.get(before[node.name].input[1])
        if reader is None or twin is None or reader.input[0] not in of or twin.input[0] not in other:
            continue
        if of[reader.input[0]].data_type != other[twin.input[0]].data_type:
            found.setdefault(reader.input[0], []).append(node.name)
    return [tuple(nodes) for nodes in found.values()]


def _with_operands_of(model: onnx.ModelProto, other: onnx.ModelProto, nodes: Set[str]) -> onnx.ModelProto:
    """The model in which some products have the weights and biases that they have in the other one."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    before, theirs = {node.name: node for node in other.graph.node}, _dequantizers(other)
    new, readers = _constants(other), _dequantizers(made)
    for node in made.graph.node:
        if node.name not in nodes:
            continue
        for position in WEIGHTS_AND_BIAS:
            if position < len(node.input) and node.input[position] in readers:
                _replace(readers[node.input[position]], theirs[before[node.name].input[position]], made, new)
    return made


def _replace(
    reader: onnx.NodeProto, other: onnx.NodeProto, made: onnx.ModelProto, new: Mapping[str, onnx.TensorProto]
) -> None:
    """Let a DequantizeLinear of constants read what another one reads, which has constants of the same names."""
    constants = _constants(made)
    if reader.input[0] not in constants:
        return
    for name in other.input:
        (constants[name] if name in constants else made.graph.initializer.add()).CopyFrom(new[name])
    reader.input[:] = other.input
    del reader.attribute[:]
    reader.attribute.extend(other.attribute)


def _constants(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {tensor.name: tensor for tensor in model.graph.initializer}


def _dequantizers(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    return {node.output[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
