"""Float networks to int8, by ONNX Runtime's static quantiser: QDQ around every operator.

Weights int8 with a scale per output channel, activations int8 with a zero point, ranges the minimum and maximum over
seeded random images. `quantise_ends` is `tilewright quantize`, which leaves float what passes between nodes that are
one operation, and writes recurrent nodes out as steps.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

Feed = Mapping[str, NDArray[np.float32]]

KEEP_PARAMETERS = {"BatchNormalization"}
"""Operators whose parameters stay float, as the quantiser leaves them by itself; their neighbours quantise around."""

CALIBRATION_SAMPLES = 2
COARSE = 8
"""Random images are made of patches, one for this many pixels a side, so that averages differ between images."""


class _Feeds(CalibrationDataReader):
    def __init__(self, feeds: list[Feed]) -> None:
        self._feeds: Iterator[Feed] = iter(feeds)

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


def quantise(model: onnx.ModelProto) -> onnx.ModelProto:
    """The int8 network; the same bytes for the same network, on one machine with the same packages."""
    feeds = [random_inputs(model, seed) for seed in range(CALIBRATION_SAMPLES)]
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it recommends a preprocessing that has nothing to do here
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "int8.onnx"
            quantize_static(
                model,
                path,
                _Feeds(feeds),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=sorted({node.op_type for node in model.graph.node} - KEEP_PARAMETERS),
                per_channel=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=CalibrationMethod.MinMax,
                extra_options={
                    "ActivationSymmetric": False,
                    "WeightSymmetric": True,
                    "ForceQuantizeNoInputCheck": True,
                },
            )
            return onnx.load(path)
    finally:
        root.setLevel(level)


def quantise_ends(model: onnx.ModelProto, samples: Mapping[str, NDArray[np.float32]]) -> onnx.ModelProto:
    """The int8 network by `tilewright quantize`, for samples of its inputs."""
    import tilewright

    return tilewright.quantize(model, samples).model


def random_samples(model: onnx.ModelProto) -> Mapping[str, NDArray[np.float32]]:
    """The inputs for which `quantise` finds ranges, all in an array for each."""
    feeds = [random_inputs(model, seed) for seed in range(CALIBRATION_SAMPLES)]
    return {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}


def random_inputs(model: onnx.ModelProto, seed: int) -> Feed:
    """One seeded sample for each input of a network: coarse patches and fine noise, zero mean, about one deviation."""
    random = np.random.default_rng(seed)
    feed = {}
    for value in model.graph.input:
        shape = tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        feed[value.name] = _patches(random, shape) + random.standard_normal(shape, np.float32) * np.float32(0.5)
    return feed


def _patches(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    spatial = range(2, len(shape))
    coarse = tuple(-(-length // COARSE) if axis in spatial else length for axis, length in enumerate(shape))
    patches = random.standard_normal(coarse, np.float32)
    for axis in spatial:
        patches = np.repeat(patches, COARSE, axis)
    return patches[tuple(slice(length) for length in shape)]
