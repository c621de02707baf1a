"""How far a machine's results are from what ONNX Runtime computes without optimisations, for one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from compiler.partition.probes import Probe, probe_model
from compiler.partition.support import Support, probe_of
from isa.machine import Machine
from tests.compiler.models import random_inputs, rescaled, run_onnx
from tilewright.api import compile

RUNS = 4
ODD = np.float32(1.01372)


@dataclass(frozen=True, slots=True)
class Exactness:
    """Over all results of some random inputs: the largest distance in steps, and how many are equal."""

    steps: int
    equal: int
    count: int

    @property
    def share(self) -> float:
        return self.equal / self.count


def measured(support: Support, machine: Machine) -> Exactness | None:
    """None for what runs on the host."""
    if not support.dtypes:
        return None
    return exactness(calibrated(probe_of(support), support.dtypes[0]), machine)


def calibrated(probe: Probe, dtype: str) -> onnx.ModelProto:
    """The probe's model with a scale of each quantised result that its values fill.

    The scale is no simple multiple of the operands': many results would lie half-way between two steps, where ONNX
    Runtime's result is a matter of how float32 rounds.
    """
    model = rescaled(probe_model(probe, dtype), 2)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    made = {output for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] in made:
            scale = constants[node.input[1]]
            scale.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(scale) * ODD, scale.name))
    return model


def exactness(model: onnx.ModelProto, machine: Machine, runs: int = RUNS, seed: int = 0) -> Exactness:
    """Compile for the machine alone, and compare in the simulator; outputs are integers, or multiples of a scale."""
    program = compile(model, machine, host=False)
    scales = {tensor.name: tensor.scale if tensor.dtype == "float32" else 1.0 for tensor in program.binary.outputs}
    steps, equal, count = 0, 0, 0
    for run in range(runs):
        inputs = random_inputs(model, np.random.default_rng(seed + run))
        expected, computed = run_onnx(model, inputs), program.run(inputs).outputs
        for name, apart in _steps_apart(computed, expected, scales).items():
            assert computed[name].shape == expected[name].shape
            assert computed[name].dtype == expected[name].dtype
            steps, equal, count = max(steps, int(apart.max())), equal + int(np.sum(apart == 0)), count + apart.size
    return Exactness(steps, equal, count)


def _steps_apart(
    computed: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], scales: Mapping[str, float]
) -> dict[str, NDArray[np.int64]]:
    return {
        name: np.rint(np.abs(values.astype(np.float64) - expected[name].astype(np.float64)) / scales[name]).astype(int)
        for name, values in computed.items()
    }
