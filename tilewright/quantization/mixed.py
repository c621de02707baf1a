"""Chooses types of weights and of results: the narrow one where it saves most for the noise that it adds.

Networks of one type each are there (`tilewright.quantization.mixed_types`). Each part is tried alone: what the narrow
type saves, and how much noisier it leaves the worst output. Then the parts become narrow one after the other, those
that save most for their noise first, and each stays so if the worst output is within the budget. All is measured: cost
by the program for a machine, noise by running the network on the calibration data. Nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.quantization.mixed_types import Forms, NarrowPart, Types
from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors


@dataclass(frozen=True, slots=True)
class Taken:
    """What a network takes on a machine, and how many of its nodes are the host's, which takes nothing of that."""

    cost: float
    host_nodes: int


Cost = Callable[[onnx.ModelProto], Taken]
"""What a network in QDQ form takes, such as the cycles of its program; raises CompileError."""

LEAST_NOISE = 1e-12
"""What stands for no noise, or less than none, in parts of the signal's power."""


@dataclass(frozen=True)
class NoiseBudget:
    """By how many dB the worst output may be noisier than with wide types, and what is to be saved for that."""

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
class MixedPart:
    """Nodes with the same weights, or whose results have one scale; their type, and what the narrow one does alone."""

    nodes: tuple[str, ...]
    type: str
    saves: float | None  # None where the host would compute it
    from_host: int  # so many of the host's nodes become the machine's
    loses_db: float

    @property
    def name(self) -> str:
        return self.nodes[0]


@dataclass(frozen=True, slots=True)
class Mixed:
    """The types that were chosen, and the network with them beside those that have one type."""

    budget: NoiseBudget
    weights: tuple[MixedPart, ...]  # in the network's order, as results
    results: tuple[MixedPart, ...]
    types: Types
    wide: Point
    mixed: Point
    narrow: Point


def mix(
    floats: onnx.ModelProto,
    forms: Forms,
    types: Types,
    outputs: Sequence[str],
    samples: Samples,
    budget: NoiseBudget,
    name: str,
) -> tuple[onnx.ModelProto, Mixed]:
    """The network with a type for each part, and how these were chosen; `floats` is the network before.

    Raises CompileError for a network that has no program, or cannot be run.
    """
    noise = _OutputNoise(floats, outputs, samples, name)

    def point(model: onnx.ModelProto) -> Point:
        return Point(_decibel(noise(model)), budget.cost(model))

    unmixed = forms.with_narrow(())
    least = noise(unmixed)
    base = Point(_decibel(least), budget.cost(unmixed))
    allowed = least * 10 ** (budget.loses_db / 10)
    tried = {part: _alone(forms.with_narrow([part]), noise, budget, base.taken) for part in forms.parts}
    chosen = _chosen(forms, tried, lambda model: noise(model) <= allowed, budget.cost, base.taken, least)
    weights, results = (
        tuple(tried[part].told(part, pair[part in chosen], least) for part in parts)
        for parts, pair in ((forms.weights, types.weights), (forms.results, types.activations))
    )
    made = forms.with_narrow(chosen)
    return made, Mixed(budget, weights, results, types, base, point(made), point(forms.narrow))


def _chosen(
    forms: Forms,
    tried: Mapping[NarrowPart, _NarrowAlone],
    is_allowed: Callable[[onnx.ModelProto], bool],
    cost: Cost,
    base: Taken,
    least: float,
) -> list[NarrowPart]:
    """The parts that become narrow, in turn. What takes nodes from the host has to do so beside those before it."""
    chosen: list[NarrowPart] = []
    of_host = base.host_nodes
    for part in sorted(tried, key=lambda each: tried[each].order(least)):
        alone, model = tried[part], forms.with_narrow([*chosen, part])
        if not alone.helps or not is_allowed(model):
            continue
        left = cost(model).host_nodes if alone.from_host else of_host
        if left < of_host or (alone.saves or 0) > 0:
            chosen.append(part)
            of_host = min(left, of_host)
    return chosen


@dataclass(frozen=True, slots=True)
class _NarrowAlone:
    """What one part does that alone has the narrow type."""

    noise: float
    saves: float | None
    from_host: int

    @property
    def helps(self) -> bool:
        return self.from_host > 0 or (self.saves or 0) > 0

    def order(self, least: float) -> tuple[float, float]:
        """First what takes most nodes from the host for its noise, then what saves most for it."""
        noise = max(self.noise - least, LEAST_NOISE)
        return -self.from_host / noise, -(self.saves or 0) / noise

    def told(self, part: NarrowPart, name: str, least: float) -> MixedPart:
        loses = 10 * math.log10(max(self.noise, LEAST_NOISE) / max(least, LEAST_NOISE))
        return MixedPart(part.nodes, name, self.saves, self.from_host, loses)


def _alone(
    model: onnx.ModelProto, noise: Callable[[onnx.ModelProto], float], budget: NoiseBudget, base: Taken
) -> _NarrowAlone:
    taken = budget.cost(model)
    saves = None if taken.host_nodes > base.host_nodes else base.cost - taken.cost
    return _NarrowAlone(noise(model), saves, max(0, base.host_nodes - taken.host_nodes))


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
