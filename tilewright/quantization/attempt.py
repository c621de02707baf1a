"""One way to quantise a network: its ranges, the network in QDQ form, and the noise of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import onnx

from tilewright.isa.program.small_floats import BY_SHORT_NAME
from tilewright.isa.program.stored_types import STORED_TYPES
from tilewright.quantization.float_model import FloatModel, inferred
from tilewright.quantization.islands import inner_tensors, ranges_of_choices, with_masks
from tilewright.quantization.moments import Moments, moments
from tilewright.quantization.noise import LayerNoise, measure_noise
from tilewright.quantization.qdq import dequantized_names, quantize_model
from tilewright.quantization.ranges import Range, find_ranges
from tilewright.quantization.same_scale import join_ranges, join_steps
from tilewright.quantization.samples import Samples
from tilewright.quantization.small_floats import with_float_weights
from tilewright.quantization.symmetric import even_ranges


@dataclass(frozen=True)
class Settings:
    """How ranges are found and what becomes of them."""

    samples: Samples
    method: str
    percentile: float
    activations: str
    weights: str
    block: int = 0  # rows of a matrix that share a scale; 0: all of a channel


@dataclass(frozen=True)
class CalibratedNetwork:
    """A float network and the ranges of its tensors."""

    model: FloatModel
    ranges: Mapping[str, Range]
    settings: Settings
    read: Moments  # of what products read; none without blocks

    def quantized_but(self, kept: Iterable[str]) -> tuple[onnx.ModelProto, tuple[LayerNoise, ...]]:
        """The network in QDQ form but for some nodes, and its noise."""
        prepared, name = self.model.prepared, self.model.name
        types = self.settings.activations, name, frozenset(kept), self.settings.weights, self.settings.block
        made = quantize_model(prepared, self.ranges, *types, self.read, self.model.known)
        return made, self.noise_of(made)

    def noise_of(self, made: onnx.ModelProto) -> tuple[LayerNoise, ...]:
        """The noise of the network in QDQ form."""
        prepared, name = self.model.prepared, self.model.name
        names = dequantized_names(prepared, made)
        return measure_noise(prepared, with_float_weights(made), names, self.settings.samples, name)

    def on_few_samples(self, count: int) -> CalibratedNetwork:
        """The network with the ranges that it has on the first samples."""
        if len(self.settings.samples) <= count:
            return self
        first = Samples({name: array[:count] for name, array in self.settings.samples.arrays.items()})
        return calibrated(self.model, replace(self.settings, samples=first))

    def written_as(self, prepared: onnx.ModelProto) -> CalibratedNetwork:
        """The same function with other nodes."""
        return calibrated(replace(self.model, prepared=inferred(prepared, self.model.name)), self.settings)


def calibrated(model: FloatModel, settings: Settings) -> CalibratedNetwork:
    """A network with its ranges on all samples."""
    prepared, samples, name = model.prepared, settings.samples, model.name
    inner = inner_tensors(prepared)
    found = find_ranges(prepared, samples, settings.method, settings.percentile, name, inner)
    ranges = with_masks(prepared, ranges_of_choices(prepared, found), samples, name)
    joined = join_ranges(prepared, even_ranges(prepared, join_steps(model.alike, ranges), _bits(settings.activations)))
    read = moments(prepared, samples, name) if settings.block else {}
    return CalibratedNetwork(model, joined, settings, read)


def _bits(activations: str) -> int:
    small = BY_SHORT_NAME.get(activations)
    return STORED_TYPES[activations].values.bits if small is None else small.bits
