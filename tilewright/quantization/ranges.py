"""Calibration: between which values each tensor of a network lies, on all samples.

`minmax` takes the least and greatest value. `percentile` and `entropy` cut off rare ones: ONNX Runtime's calibration
finds where, from a histogram of each tensor. The histograms' edges come from a first pass over the samples, so that
one sample at a time is in memory, and the result does not depend on the samples' order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tilewright.errors import InputError
from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors

METHODS = ("minmax", "percentile", "entropy")

HISTOGRAM_BINS = {"percentile": 2048, "entropy": 512}
"""2048 is ONNX Runtime's own number. Its 128 leave `entropy` no choice; the time of that grows with their square."""

QUANTIZED_BINS = 128
"""The bins of the histograms that `entropy` compares with, as in ONNX Runtime."""

DEFAULT_PERCENTILE = 99.999
"""ONNX Runtime's: one value in 100 000 is cut off."""


@dataclass(frozen=True, slots=True)
class Range:
    """A tensor's values lie between `low` and `high`; rare ones beyond may be cut off."""

    low: np.float32
    high: np.float32


def find_ranges(
    model: onnx.ModelProto,
    samples: Samples,
    method: str,
    percentile: float,
    name: str,
    without: Set[str] = frozenset(),
) -> Mapping[str, Range]:
    """The range of every float32 tensor that the model reads or computes, but for some.

    Raises InputError for a method or percentile that there is not, and for values that are not finite.
    """
    if method not in METHODS:
        raise InputError(f"no calibration method {method!r}; there are: {', '.join(METHODS)}")
    if not 50 < percentile <= 100:
        raise InputError(f"the percentile is {percentile:g}; expected more than 50 and at most 100, such as 99.99")
    tensors = Tensors(model, [tensor for tensor in float_tensors(model) if tensor not in without], name)
    ranges = _extremes(tensors, samples, model, name)
    if method != "minmax":
        ranges = {**ranges, **_without_rare(tensors, samples, ranges, method, percentile)}
    return ranges


def float_tensors(model: onnx.ModelProto) -> list[str]:
    """Inputs and results of nodes that are float32, in the order in which they are computed."""
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    made = [value.name for value in model.graph.input]
    made += [output for node in model.graph.node for output in node.output if output]
    return [tensor for tensor in made if types.get(tensor) == onnx.TensorProto.FLOAT]


def _extremes(tensors: Tensors, samples: Samples, model: onnx.ModelProto, name: str) -> dict[str, Range]:
    ranges: dict[str, Range] = {}
    for number, feed in enumerate(samples):
        for tensor, value in tensors(feed).items():
            if not value.size:
                continue
            low, high = value.min(), value.max()
            if not (np.isfinite(low) and np.isfinite(high)):
                raise InputError(f"{name}: {_maker(tensor, model)} is NaN or infinite on sample {number}")
            old = ranges.get(tensor, Range(low, high))
            ranges[tensor] = Range(np.minimum(old.low, low), np.maximum(old.high, high))
    return ranges


def _maker(tensor: str, model: onnx.ModelProto) -> str:
    for node in model.graph.node:
        if tensor in node.output:
            return f"tensor {tensor!r}, the result of node {node.name!r} ({node.op_type}),"
    return f"tensor {tensor!r}"


def _without_rare(
    tensors: Tensors, samples: Samples, ranges: Mapping[str, Range], method: str, percentile: float
) -> dict[str, Range]:
    """The ranges that ONNX Runtime's method chooses from histograms over all samples.

    Tensors that are constant, or whose range float32 cannot divide into as many bins, are left out.
    """
    from onnxruntime.quantization.calibrate import HistogramCollector

    bins = HISTOGRAM_BINS[method]
    wanted = [tensor for tensor, values in ranges.items() if _has_bins(values, method, bins)]
    if not wanted:
        return {}
    collector = HistogramCollector(method, method == "percentile", bins, QUANTIZED_BINS, percentile, scenario="same")
    collector.histogram_dict = {tensor: _empty_histogram(ranges[tensor], method, bins) for tensor in wanted}
    with redirect_stdout(StringIO()):  # it prints what it does
        for feed in samples:
            found = tensors(feed)
            collector.collect({tensor: found[tensor] for tensor in wanted})
        chosen = collector.compute_collection_result()
    return {tensor: Range(np.float32(chosen[tensor][0]), np.float32(chosen[tensor][1])) for tensor in wanted}


def _has_bins(values: Range, method: str, bins: int) -> bool:
    """Whether a histogram of this range has bins of a width that is more than 0 and finite."""
    if not values.low < values.high:
        return False
    with np.errstate(all="ignore"):
        edges = _empty_histogram(values, method, bins)[1]
        return bool(np.isfinite(edges).all() and (edges[:-1] < edges[1:]).all())


def _empty_histogram(values: Range, method: str, bins: int) -> Sequence[Any]:
    """A histogram as the collector keeps it: of absolute values for percentiles, else symmetric around 0."""
    largest = np.maximum(np.abs(values.low), np.abs(values.high))
    counts: NDArray[np.int64] = np.zeros(bins, np.int64)
    if method == "percentile":
        return counts, np.linspace(0, largest, bins + 1).astype(np.float32), values.low, values.high
    return counts, np.linspace(-largest, largest, bins + 1).astype(np.float32), values.low, values.high, largest
