"""Runs TFLite files by way of their translation and ONNX Runtime, and holds the results to real arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.random import Generator
from numpy.typing import NDArray

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tilewright.compiler.importers.tflite.translate import translate_tflite

TIE = 1e-3
"""How far from a tie, in steps of the scale, float32 arithmetic may still round to the other side."""

Arrays = Mapping[str, NDArray[Any]]


def translate(file: TfliteFile, *outputs: Tensor) -> onnx.ModelProto:
    """The translation of a file, which is a valid model."""
    model = translate_tflite(file.content(*outputs), "net")
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model: onnx.ModelProto, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The results by name, every optimisation off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def random_inputs(file: TfliteFile, rng: Generator) -> dict[str, NDArray[Any]]:
    """Integers over the whole range of each input's type; floats within what the tests' scales hold."""
    return {tensor.name: random_values(tensor.shape, tensor.dtype, rng) for tensor in file.inputs}


def random_values(shape: tuple[int, ...], dtype: np.dtype[Any], rng: Generator) -> NDArray[Any]:
    if dtype.kind == "f":
        return rng.uniform(-6, 6, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def require_close(output: Tensor, came: NDArray[Any], expected: NDArray[Any]) -> None:
    """A result is the integer nearest to its real value (a tie may go either way), and not constant."""
    assert came.shape == expected.shape == output.shape
    assert came.dtype == output.dtype
    if output.scales:
        limits = np.iinfo(output.dtype)
        steps = np.clip(expected / output.scales[0] + output.zeros[0], limits.min, limits.max)
        assert np.abs(came - steps).max() <= 0.5 + TIE
    else:
        assert np.abs(came - expected).max() <= TIE
    assert came.size == 1 or np.ptp(came.astype(np.float64)) > 0


def reals(file: TfliteFile, inputs: Arrays) -> list[NDArray[np.float64]]:
    """The real values of a file's inputs."""
    return [tensor.real(inputs[tensor.name]) for tensor in file.inputs]
