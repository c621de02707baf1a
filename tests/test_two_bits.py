"""Weights of two bits: a machine file says so, and networks of them run on it, in hardware as in the simulator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.random import default_rng
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.narrow_weights import VERSIONS, with_narrow_weights
from tests.compiler.pipelines import simulated
from tests.test_simulator_equals_rtl import assert_equal
from tilewright.compiler.pipeline import compile_model
from tilewright.host import tensors as host
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import place_regions

SIZES = ("array.rows=4", "array.cols=4", "lanes=4", "dram.bus_bytes=4")
"""Hardware that is built sooner: four weights of two bits are a byte, and a word."""


def machine(*settings: str) -> Machine:
    return load_machine("w4-only", ["memories.wgt.element=int2", *settings])


def model(seed: int, element: str = "INT2") -> onnx.ModelProto:
    return with_narrow_weights(conv_model(default_rng(seed), 8, 12, 6), element)


def in_bytes(narrow: onnx.ModelProto) -> onnx.ModelProto:
    """The same network with each weight in a byte, as ONNX Runtime takes it."""
    wide = onnx.ModelProto.FromString(narrow.SerializeToString())
    of_bytes = {TensorProto.INT2: TensorProto.INT8, TensorProto.UINT2: TensorProto.UINT8}
    for held in wide.graph.initializer:
        if held.data_type in of_bytes:
            codes = numpy_helper.to_array(held).astype(np.int64)
            held.CopyFrom(helper.make_tensor(held.name, of_bytes[held.data_type], codes.shape, codes.ravel().tolist()))
    wide.opset_import[0].version, wide.ir_version = VERSIONS[4]
    return wide


def test_results_are_those_of_onnx_runtime() -> None:
    inputs = random_inputs(model(3), default_rng(1))
    results = simulated(compile_model(model(3), machine()), inputs)
    for name, expected in run_onnx(in_bytes(model(3)), inputs).items():
        np.testing.assert_array_equal(results[name], expected)


def test_codes_without_a_sign_are_sums_and_what_bytes_are() -> None:
    """The greatest int2 is 1, so 3 is a sum of three; base16 has it in a byte."""
    narrow = model(3, "UINT2")
    inputs = random_inputs(narrow, default_rng(1))
    program = compile_model(narrow, machine())
    expected = simulated(compile_model(in_bytes(narrow), load_machine("base16")), inputs)
    for name, values in simulated(program, inputs).items():
        np.testing.assert_array_equal(values, expected[name])
    assert program.metadata["weights of conv"].startswith("each is a sum of 3 int2")


@pytest.mark.slow
def test_a_network_is_the_simulators_on_the_hardware() -> None:
    small = machine(*SIZES)
    jobs = []
    for seed in range(2):
        program = compile_model(model(seed), small)
        inputs = random_inputs(model(seed), default_rng(seed))
        jobs.append((program, host.dram_image(program, inputs), place_regions(program.limits)))
    assert_equal(small, jobs, range(len(jobs)))
