"""Shortcuts through the front of the compiler, and the distance between its results and the specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import random_inputs, run_onnx
from tilewright.compiler.graph.graph import Graph
from tilewright.compiler.importers.import_onnx import import_onnx
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.simplify.steps import simplify_graph
from tilewright.host.tensors import dram_image, read_outputs
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, Tensor, place_regions
from tilewright.simulator.values import simulate_values

DIGITS = Path(__file__).resolve().parents[2] / "programs" / "digits"


@cache
def base16() -> Machine:
    return load_machine("base16")


def simplified(model: onnx.ModelProto) -> Graph:
    return simplify_graph(import_onnx(model.SerializeToString()))


def lowered(model: onnx.ModelProto) -> NestProgram:
    return lower(simplified(model), base16())


def count_copies(program: NestProgram) -> int:
    """How many nests only copy."""
    return sum(nest.expr.op is Op.SOURCE for nest in program.nests)


def copies_left(before: NestProgram, after: NestProgram, model: onnx.ModelProto) -> tuple[int, int]:
    """Copies before and after a pass; the results are checked to be the same."""
    for seed in range(2):
        inputs = random_inputs(model, np.random.default_rng(seed))
        expected, computed = run_nests(before, inputs), run_nests(after, inputs)
        assert all(np.array_equal(expected[name], computed[name]) for name in expected)
    return count_copies(before), count_copies(after)


def simulated(program: Program, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs of a compiled program on the simulator."""
    final = simulate_values(program, dram_image(program, inputs), place_regions(program.limits))
    return read_outputs(program, final.dram)


def steps_apart(computed: NDArray[Any], expected: NDArray[Any], tensor: Tensor) -> NDArray[np.int64]:
    """How many quantisation steps each value of an output is from the expected one."""
    step = tensor.scale if tensor.dtype == "float32" else 1.0
    return np.rint(np.abs(computed.astype(np.float64) - expected.astype(np.float64)) / step).astype(np.int64)


Run = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]


def distances(model: onnx.ModelProto, run: Run, count: int = 4, seed: int = 0) -> NDArray[np.int64]:
    """Steps between what `run` computes and what ONNX Runtime does, over all outputs for some random inputs."""
    tensors = lowered(model).outputs
    found = []
    for position in range(count):
        inputs = random_inputs(model, np.random.default_rng(seed + position))
        expected, computed = run_onnx(model, inputs), run(inputs)
        for tensor in tensors:
            assert computed[tensor.name].shape == expected[tensor.name].shape
            found.append(steps_apart(computed[tensor.name], expected[tensor.name], tensor).ravel())
    return np.concatenate(found)


def compiled_distances(
    model: onnx.ModelProto, machine: str, count: int = 2, overrides: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Steps between what the compiled program computes in the simulator and what ONNX Runtime does."""
    program = compile_model(model, load_machine(machine, list(overrides)))
    return distances(model, lambda inputs: simulated(program, inputs), count)
