"""Float networks with matrices in blocks: quantising their activations leaves the integers as they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from tests.compiler.importers.test_packed_blocks import SUMMED, packed_model
from tests.compiler.models import run_onnx
from tests.compiler.pipelines import simulated
from tilewright.compiler.importers.packed_blocks import with_plain_blocks
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.quantization.quantize import quantize


def constants(model: onnx.ModelProto, element: int) -> list[bytes]:
    found = (numpy_helper.to_array(each) for each in model.graph.initializer if each.data_type == element)
    return sorted(values.astype(np.uint8).tobytes() for values in found)


@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_integers_and_zero_points_stay(zeros: str) -> None:
    model = packed_model(4, 32, zeros)
    made = quantize(model, "random").model
    onnx.checker.check_model(made, full_check=True)
    meant = constants(with_plain_blocks(model, "net"), TensorProto.UINT4)
    found = constants(made, TensorProto.UINT4)
    assert len(found) == 2 and found == meant


@pytest.mark.parametrize("zeros", ["", "uint8"])
def test_a_packed_product_runs_on_the_machine(zeros: str) -> None:
    x = np.random.default_rng(1).normal(size=(8, 3, SUMMED)).astype(np.float32)
    made = quantize(packed_model(4, 32, zeros), {"x": x}).model
    program = compile_model(made, load_machine("llm16"), Options(effort=0))
    (found,), (meant,) = simulated(program, {"x": x[0]}).values(), run_onnx(made, {"x": x[0]}).values()
    steps = [float(each) for each in {abs(v) for v in np.diff(np.unique(meant.ravel()))} if each > 1e-6]
    assert np.abs(found - meant).max() <= min(steps) * 1.01
    assert (found == meant).mean() >= 0.9
