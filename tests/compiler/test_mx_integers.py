"""MXINT8 in files: weights of int8 in blocks of 32, each with a power of two as its scale, on machines of integers."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.block_models import block_model
from tilewright.api import compile as compile_whole
from tilewright.compiler.errors import DamagedModel
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine, load_machine_text
from tilewright.isa.machine.machine import Machine

SUMMED, RESULTS, ROWS, BLOCK = 256, 40, 64, 32

NARROW_SCALES = """
extends: base16
memories:
  scl: {element: uint8, width: lanes, kib: 16, banks: 2}
engines:
  load: {writes: [act, wgt, acc, par, lut, scl]}
  vec:  {reads: [act, acc, par, lut, scl]}
instructions:
  load_scl: {engine: load, loops: {i: 10, j: 10, k: 12}, from: {d: dram}, to: {y: scl}, do: y = d}
  sum_blocks:
    engine: vec
    loops:  {c: 8, y: 10, x: 10, b: 8}
    reduce: [b]
    from:   {a: acc, w: "scl[c, b]"}
    to:     {y: "acc[c, y, x]"}
    do: y = wrap(sum(a * w), acc)
"""
"""A machine whose scales reach 2^7 times the least of their channel, as those of mx16 do."""


def machine(name: str) -> Machine:
    return load_machine(name) if name != "narrow scales" else load_machine_text(NARROW_SCALES, "narrow.yaml")


def mx_model(least: int, most: int, is_e8m0: bool) -> onnx.ModelProto:
    """Scales are 2^least to 2^most, as FLOAT8E8M0 or as float32."""
    model = block_model(SUMMED, RESULTS, BLOCK, ROWS, element="INT8")
    exponents = np.random.default_rng(5).integers(least, most + 1, (SUMMED // BLOCK, RESULTS))
    scales = np.ldexp(np.float32(1), exponents).astype(np.float32)
    put(model, "w_scale", scales.astype(ml_dtypes.float8_e8m0fnu) if is_e8m0 else scales)
    put(model, "y_scale", np.float32(0.3))
    if is_e8m0:
        model.opset_import[0].version, model.ir_version = 24, 12
        (reader,) = [node for node in model.graph.node if node.name == "weights"]
        reader.attribute.append(helper.make_attribute("output_dtype", TensorProto.FLOAT))
    return model


def put(model: onnx.ModelProto, name: str, values: NDArray | np.float32) -> onnx.TensorProto:
    (held,) = [each for each in model.graph.initializer if each.name == name]
    held.CopyFrom(numpy_helper.from_array(np.asarray(values), name))
    return held


def inputs() -> dict[str, NDArray[np.float32]]:
    return {"x": np.random.default_rng(3).normal(0, 1, (ROWS, SUMMED)).astype(np.float32)}


def steps_off(model: onnx.ModelProto, found: NDArray[np.float32]) -> NDArray[np.float64]:
    """How many steps each result is from what the file means in float64."""
    held = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in model.graph.initializer}
    weights = held["w"] * held["w_scale"].repeat(BLOCK, 0)
    codes = np.clip(np.rint(inputs()["x"] / held["x_scale"]) + held["x_zero"], -128, 127)
    sums = (codes - held["x_zero"]) * held["x_scale"] @ weights
    meant = np.clip(np.rint(sums / held["y_scale"]) + held["y_zero"], -128, 127)
    assert len(np.unique(meant)) > 90
    return np.abs(np.rint(found / held["y_scale"] + held["y_zero"]) - meant)


@pytest.mark.parametrize("is_e8m0", [True, False], ids=["e8m0", "float32"])
@pytest.mark.parametrize("name", ["llm16", "narrow scales"])
def test_results_are_what_the_file_means(name: str, is_e8m0: bool) -> None:
    """Scales of a channel are at most 2^6 apart, which both machines hold."""
    model = mx_model(-13, -7, is_e8m0)
    program = compile_whole(model, machine(name))
    assert not program.host_nodes
    assert "sum_blocks" in {each.format.mnemonic for each in program.binary.instructions}
    assert not [key for key in program.binary.metadata if key.startswith("precision")]
    assert not steps_off(model, program.run(inputs()).outputs["y"]).any()


def test_scales_far_apart_are_within_a_step_where_scales_have_sixteen_bits() -> None:
    model = mx_model(-16, -3, is_e8m0=True)
    off = steps_off(model, compile_whole(model, machine("llm16")).run(inputs()).outputs["y"])
    assert off.max() <= 1 and np.mean(off == 0) >= 0.995


def test_a_remark_says_how_far_off_results_are_where_scales_have_eight_bits() -> None:
    model = mx_model(-16, -3, is_e8m0=True)
    program = compile_whole(model, machine("narrow scales"))
    told = program.binary.metadata["precision of matmul"]
    found = re.fullmatch(r"the scales of its blocks are integers, and leave results up to ([0-9.]+) steps off", told)
    assert found is not None
    off = steps_off(model, program.run(inputs()).outputs["y"])
    assert 1 < off.max() <= float(found[1]) + 1  # both are rounded


def test_a_machine_without_scales_of_blocks_leaves_the_product_to_the_host() -> None:
    model = mx_model(-13, -7, is_e8m0=True)
    program = compile_whole(model, "base16")
    (reason,) = [each.reason for each in program.host_nodes if each.name == "matmul"]
    assert reason.startswith("its weights have a scale for each block of 32, and no instruction adds up sums of blocks")
    assert steps_off(model, program.run(inputs()).outputs["y"]).max() <= 1


def test_a_scale_that_is_nan_is_refused() -> None:
    model = mx_model(-13, -7, is_e8m0=True)
    (scales,) = [each for each in model.graph.initializer if each.name == "w_scale"]
    scales.raw_data = b"\xff" + scales.raw_data[1:]
    with pytest.raises(DamagedModel) as error:
        compile_model(model, machine("llm16"))
    reads = "node 'weights' (DequantizeLinear) reads 'w_scale', which holds NaN or infinity in 1 of 320 places"
    assert str(error.value) == f"the ONNX model: {reads}; train or export the model anew"
