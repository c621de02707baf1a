"""How far a machine's results are from what ONNX Runtime computes without optimisations, for one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.compiler.models import random_inputs, rescaled, run_onnx
from tilewright.api import compile
from tilewright.compiler.partition.probe_model import RESULT_SCALE, Probe, probe_model
from tilewright.compiler.partition.support import Support, probe_of
from tilewright.isa.machine.machine import Machine

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
            found = onnx.numpy_helper.to_array(scale)
            usable = found * ODD if np.isfinite(found) else np.array(RESULT_SCALE)
            scale.CopyFrom(onnx.numpy_helper.from_array(usable, scale.name))
    return model


def exactness(model: onnx.ModelProto, machine: Machine, runs: int = RUNS, seed: int = 0) -> Exactness:
    """Compile for the machine alone, and compare in the simulator; outputs are integers, or multiples of a scale."""
    program = compile(model, machine, host=False, effort=0)
    scales = {tensor.name: tensor.scale if tensor.dtype == "float32" else 1.0 for tensor in program.binary.outputs}
    steps, equal, count = 0, 0, 0
    for run in range(runs):
        inputs = random_inputs(model, np.random.default_rng(seed + run))
        expected, computed = run_onnx(model, inputs), program.run(inputs).outputs
        finite = _finite_results(model, inputs)
        for name, apart in _steps_apart(computed, expected, scales).items():
            assert computed[name].shape == expected[name].shape
            assert computed[name].dtype == expected[name].dtype
            apart = apart[finite[name]] if name in finite else apart
            steps, equal, count = (
                max(steps, int(apart.max(initial=0))),
                equal + int(np.sum(apart == 0)),
                count + apart.size,
            )
    return Exactness(steps, equal, count)


def _finite_results(model: onnx.ModelProto, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
    """Where an output quantises a number: what NaN and infinity become is nobody's promise."""
    makers = {output: node for node in model.graph.node for output in node.output}
    sources: dict[str, str] = {}
    for value in model.graph.output:
        maker = makers[value.name]
        maker = makers.get(maker.input[0], maker) if maker.op_type == "DequantizeLinear" else maker
        if maker.op_type == "QuantizeLinear" and maker.input[0] in makers:
            sources[value.name] = maker.input[0]
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    for name in dict.fromkeys(sources.values()):
        probe.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    results = run_onnx(probe, inputs)
    return {name: np.isfinite(results[source]) for name, source in sources.items()}


def _steps_apart(
    computed: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]], scales: Mapping[str, float]
) -> dict[str, NDArray[np.int64]]:
    return {
        name: np.rint(np.abs(values.astype(np.float64) - expected[name].astype(np.float64)) / scales[name]).astype(int)
        for name, values in computed.items()
    }
