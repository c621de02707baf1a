"""Weights of E4M3, E5M2 and E2M1 in files: their values, and one error for each thing that makes no sense."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.compiler.float_models import LARGEST, RESULTS, SUMMED, float_model, quantised
from tilewright.api import compile as compile_whole
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

STEP = LARGEST / 127
"""Of the result."""


def refused(model: onnx.ModelProto, machine: str = "base16") -> str:
    with pytest.raises(CompileError) as error:
        compile_model(model, load_machine(machine))
    return str(error.value)


def most_steps_off(model: onnx.ModelProto, machine: str) -> float:
    """The largest difference from what ONNX's evaluator computes."""
    x = np.random.default_rng(1).normal(0, 1, (4, SUMMED)).astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    found = compile_whole(model, machine).run({"x": x}).outputs["y"]
    return float(np.abs(found - expected).max() / STEP)


def constant(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    (found,) = [each for each in model.graph.initializer if each.name == name]
    return found


def node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    (found,) = [each for each in model.graph.node if each.name == name]
    return found


@pytest.mark.parametrize("axis", [None, 1])
def test_e2m1_weights_are_integers_of_bytes(axis: int | None) -> None:
    model = float_model("e2m1", axis)
    assert not compile_whole(model, "base16").host_nodes
    assert most_steps_off(model, "base16") < 1.001


def test_e2m1_weights_in_blocks_with_e8m0_scales_run_where_blocks_do() -> None:
    model = float_model("e2m1", 0, 32, is_e8m0=True)
    assert not compile_whole(model, "llm16").host_nodes
    assert most_steps_off(model, "llm16") < 1.001


def test_scales_of_blocks_may_be_float16() -> None:
    model = float_model("e2m1", 0, 32)
    scales = constant(model, "w_scale")
    scales.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scales).astype(np.float16), "w_scale"))
    assert most_steps_off(model, "llm16") < 1.001


def test_e5m2_weights_of_bytes_are_integers_too() -> None:
    """All values are 1, 1.5 or 2: what they have in common is in their scale."""
    model = float_model("e5m2", None)
    codes = np.random.default_rng(2).choice([1, -1.5, 2], (SUMMED, RESULTS)).astype(ml_dtypes.float8_e5m2)
    constant(model, "w").CopyFrom(numpy_helper.from_array(codes, "w"))
    constant(model, "w_scale").CopyFrom(numpy_helper.from_array(np.array(0.1, np.float32), "w_scale"))
    assert not compile_whole(model, "base16").host_nodes
    assert most_steps_off(model, "base16") < 1.001


@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
def test_other_weights_are_the_hosts_and_the_reason_says_what_is_missing(element: str) -> None:
    model = float_model(element)
    assert refused(model) == (
        "node 'matmul' (conv): its weights take float8_e4m3fn, and those of the machine are int8; "
        "expected a memory of e4m3 for weights. take a machine that has one, or integer weights"
    )
    assert [each.name for each in compile_whole(model, "base16").host_nodes] == ["matmul"]
    assert most_steps_off(model, "base16") == 0


def test_weights_in_blocks_that_no_memory_holds_are_refused() -> None:
    assert "its weights take float8_e4m3fn" in refused(float_model("e4m3", 0, 32), "llm16")


def test_weights_that_take_more_bits_are_said_to() -> None:
    told = "they are float4e2m1 in the model, and int8 in memory: mma multiplies by these"
    assert compile_whole(float_model("e2m1"), "base16").binary.metadata["weights of matmul"] == told


@pytest.mark.parametrize("element", ["e4m3", "e5m2", "e2m1"])
def test_weights_that_the_file_quantises_are_what_onnx_makes_of_them(element: str) -> None:
    model = float_model(element)
    real = np.random.default_rng(3).normal(0, 0.2, (SUMMED, RESULTS)).astype(np.float32)
    codes, scales = quantised(real, element, 1)
    stored = constant(model, "w")
    stored.CopyFrom(numpy_helper.from_array(real, "w"))
    constant(model, "w_scale").CopyFrom(numpy_helper.from_array(scales, "w_scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(scales.shape, codes.dtype), "w_zero"))
    node(model, "weights").input[0] = "w_codes"
    model.graph.node.insert(
        0, helper.make_node("QuantizeLinear", ["w", "w_scale", "w_zero"], ["w_codes"], "codes", axis=1)
    )
    assert most_steps_off(model, "base16") < 1.001


@pytest.mark.parametrize(("element", "code"), [("e4m3", 0x7F), ("e5m2", 0x7E), ("e5m2", 0x7C)])
def test_codes_that_are_no_number_are_refused(element: str, code: int) -> None:
    """NaN of E4M3 and E5M2, and infinity of the latter."""
    model = float_model(element)
    tensor = constant(model, "w")
    tensor.raw_data = bytes([code]) + tensor.raw_data[1:]
    reads = "node 'weights' (DequantizeLinear) reads 'w', which holds NaN or infinity in 1 of 2048 places"
    assert refused(model) == f"the ONNX model: {reads}; train or export the model anew"


def test_a_code_that_is_no_byte_is_refused() -> None:
    model = float_model("e4m3")
    tensor = constant(model, "w")
    tensor.ClearField("raw_data")
    tensor.int32_data.extend([300] + [0] * (SUMMED * RESULTS - 1))
    assert refused(model).endswith("reads 'w', float8e4m3fn that holds 300; expected 0 to 255")


def test_e2m1_codes_share_bytes() -> None:
    model = float_model("e2m1")
    constant(model, "w").raw_data = bytes(7)
    expected = "reads 'w', which has 7 bytes for 2048 elements of float4e2m1; expected 1024, with 2 elements in each"
    assert refused(model).endswith(expected)


def test_a_scale_of_zero_is_refused() -> None:
    model = float_model("e4m3", None)
    constant(model, "w_scale").CopyFrom(numpy_helper.from_array(np.array(0, np.float32), "w_scale"))
    assert refused(model) == (
        "node 'weights' (DequantizeLinear): the scale of its float8_e4m3fn is 0; expected positive numbers. "
        "Quantise it anew; what is all zeros has a scale of 1"
    )


def test_a_zero_point_of_a_float_is_refused() -> None:
    model = float_model("e4m3", None)
    model.graph.initializer.append(numpy_helper.from_array(np.array(2, ml_dtypes.float8_e4m3fn), "w_zero"))
    node(model, "weights").input.append("w_zero")
    assert refused(model) == (
        "node 'weights' (DequantizeLinear): the zero point of its float8_e4m3fn is 2; "
        "expected 0, as ONNX has it for floats"
    )


def test_a_block_that_does_not_divide_has_as_many_scales_as_onnx_says() -> None:
    model = float_model("e2m1", 0, 32)
    (block,) = [each for each in node(model, "weights").attribute if each.name == "block_size"]
    block.i = 48
    model.graph.initializer.remove(constant(model, "w_scale"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3, RESULTS), np.float32), "w_scale"))
    assert "scales [3, 32] for blocks of 48 in [64, 32]; expected [2, 32]" in refused(model)


def test_e8m0_nan_is_refused() -> None:
    model = float_model("e2m1", 0, 32, is_e8m0=True)
    scales = constant(model, "w_scale")
    scales.raw_data = b"\xff" + scales.raw_data[1:]
    assert TensorProto.DataType.Name(scales.data_type) == "FLOAT8E8M0"
    assert "reads 'w_scale', which holds NaN or infinity in 1 of 64 places" in refused(model, "llm16")


def test_what_does_not_saturate_is_refused() -> None:
    model = float_model("e2m1", activations="e4m3")
    for name in ("quantize", "quantize_y"):
        node(model, name).attribute.append(helper.make_attribute("saturate", 0))
    assert "saturate = 0 has no lowering; expected 1" in refused(model)
