"""A TFLite network whose last operator no instruction computes: the host runs that one, as it does for ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.litert import Litert
from tests.compiler.importers.tflite.runs import random_inputs, run, translate
from tilewright.compiler.errors import CompileError

SHAPE = (1, 6, 6, 8)

Tail = Callable[[TfliteFile, Tensor], list[Tensor]]


def arg_max(file: TfliteFile, x: Tensor) -> list[Tensor]:
    y = file.tensor("y", SHAPE[:3], None, dtype=np.int32)
    file.operator("ARG_MAX", [x, file.constant("axis", np.int32(3))], y, "ArgMaxOptions", OutputType=2)
    return [y]


def l2_normalization(file: TfliteFile, x: Tensor) -> list[Tensor]:
    y = file.tensor("y", SHAPE, 1 / 128)
    file.operator("L2_NORMALIZATION", [x], y, "L2NormOptions")
    return [y]


def gather(file: TfliteFile, x: Tensor) -> list[Tensor]:
    places = file.input("places", (3,), None, dtype=np.int32)
    y = file.tensor("y", (1, 6, 6, 3))
    file.operator("GATHER", [x, places], y, "GatherOptions", Axis=3)
    return [y]


def floats(file: TfliteFile, x: Tensor) -> list[Tensor]:
    real, power = (file.tensor(name, SHAPE, None, dtype=np.float32) for name in ("real", "power"))
    halves = [file.tensor(name, (1, 6, 6, 4), None, dtype=np.float32) for name in ("first", "second")]
    file.operator("DEQUANTIZE", [x], real, "DequantizeOptions")
    file.operator("EXP", [real], power, "ExpOptions")
    file.operator("SPLIT", [file.constant("axis", np.int32(3)), power], halves, "SplitOptions", NumSplits=2)
    return halves


def softmax(file: TfliteFile, x: Tensor) -> list[Tensor]:
    y = file.tensor("y", SHAPE, 1 / 256, -128)
    file.operator("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1.0)
    return [y]


TAILS: Mapping[str, tuple[Tail, set[str]]] = {
    "arg max": (arg_max, {"ArgMax", "Cast"}),
    "l2 normalization": (l2_normalization, {"LpNormalization", "Transpose"}),
    "gather": (gather, {"Gather", "Transpose"}),
    "floats": (floats, {"Exp", "Split", "Transpose"}),
    "softmax": (softmax, {"Softmax", "Transpose"}),
}
"""The operators after a convolution, and what the host runs of their translation."""


@pytest.mark.parametrize("name", TAILS)
def test_the_host_runs_what_no_instruction_computes(name: str) -> None:
    tail, on_host = TAILS[name]
    rng = np.random.default_rng(1)
    file = TfliteFile()
    x, y = file.input("x", (1, 6, 6, 3), 0.03), file.tensor("conv", SHAPE, 0.05)
    weights = file.constant("w", rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), [0.01] * 8)
    file.operator("CONV_2D", [x, weights, None], y, "Conv2DOptions", StrideW=1, StrideH=1)
    outputs = tail(file, y)
    inputs: dict[str, NDArray[Any]] = random_inputs(file, rng)
    if "places" in inputs:
        inputs["places"] = np.int32([5, 0, 5])
    program = tilewright.compile(file.content(*outputs), "base16")
    found, expected = program.run(inputs).outputs, run(translate(file, *outputs), inputs)
    assert {node.op_type for node in program.host_nodes} == on_host
    assert len(program.programs) == 1
    for output in outputs:
        assert (found[output.name] == expected[output.name]).mean() > 0.98


def alone(tail: Tail, dtype: Any = np.int8) -> tuple[TfliteFile, list[Tensor]]:
    """A file of these operators only."""
    file = TfliteFile()
    x = file.input("x", SHAPE, 0.05 if dtype == np.int8 else None, dtype=dtype)
    return file, tail(file, x)


def split(file: TfliteFile, x: Tensor) -> list[Tensor]:
    halves = [file.tensor(name, (1, 6, 6, 4), None, dtype=np.float32) for name in ("first", "second")]
    file.operator("SPLIT", [file.constant("axis", np.int32(3)), x], halves, "SplitOptions", NumSplits=2)
    return halves


@pytest.mark.parametrize(
    ("tail", "dtype"), [(softmax, np.int8), (l2_normalization, np.int8), (arg_max, np.int8), (split, np.float32)]
)
def test_a_file_of_which_the_machine_can_do_nothing_is_the_hosts(tail: Tail, dtype: Any) -> None:
    file, outputs = alone(tail, dtype)
    program = tilewright.compile(file.content(*outputs), "base16", effort=0)
    inputs = random_inputs(file, np.random.default_rng(1))
    found, expected = program.run(inputs).outputs, Litert(file.content(*outputs)).run(inputs)
    assert not program.programs
    assert program.host_nodes and all(node.reason for node in program.host_nodes)
    for output in outputs:
        assert np.abs(found[output.name].astype(np.float64) - expected[output.name]).max() <= 1
    with pytest.raises(CompileError):
        tilewright.compile(file.content(*outputs), "base16", effort=0, host=False)


def test_a_float_file_that_computes_is_still_to_be_quantised() -> None:
    file = TfliteFile()
    x, y = (file.input("x", (1, 4), None, dtype=np.float32), file.tensor("y", (1, 4), None, dtype=np.float32))
    file.operator("EXP", [x], y, "ExpOptions")
    with pytest.raises(CompileError, match="the model is float; expected an int8 one. Quantise it"):
        tilewright.compile(file.content(y), "base16", effort=0)
