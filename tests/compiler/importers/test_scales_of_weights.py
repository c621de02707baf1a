"""Scales and types of weights that make no sense: one error each, with the node, what came and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compiler.block_models import block_model
from tests.compiler.models import ModelBuilder
from tilewright.compiler.errors import DamagedModel
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine

SUMMED, RESULTS = 64, 32

AGAIN = "; expected positive numbers. Quantise it anew; what is all zeros has a scale of 1"


def refused(model: onnx.ModelProto) -> str:
    with pytest.raises(DamagedModel) as error:
        compile_model(model, load_machine("llm16"))
    return str(error.value)


def with_constant(name: str, tensor: onnx.TensorProto) -> onnx.ModelProto:
    """Two blocks of 32 weights for each of 32 results, with another tensor in place of one of its constants."""
    model = block_model(SUMMED, RESULTS, 32)
    model.opset_import[0].version, model.ir_version = 24, 12
    (held,) = [each for each in model.graph.initializer if each.name == name]
    held.CopyFrom(tensor)
    (reader,) = [node for node in model.graph.node if node.name == "weights"]
    reader.attribute.append(helper.make_attribute("output_dtype", TensorProto.FLOAT))
    return model


def scales_of_bytes(first: int) -> onnx.TensorProto:
    """E8M0, each a power of two: 127 is 1, 255 is NaN."""
    held = bytes([first, *[127] * 63])
    return onnx.TensorProto(name="w_scale", data_type=TensorProto.FLOAT8E8M0, dims=[2, RESULTS], raw_data=held)


@pytest.mark.parametrize(
    ("shape", "block", "where"),
    [((2, RESULTS), 32, " in 1 of 64 blocks"), ((RESULTS,), 0, " in 1 of 32 channels"), ((), 0, "")],
)
def test_a_scale_of_zero_is_refused(shape: Sequence[int], block: int, where: str) -> None:
    scales = np.full(shape, 0.1, np.float32)
    scales[(0,) * len(shape)] = 0
    model = with_constant("w_scale", numpy_helper.from_array(scales, "w_scale"))
    (reader,) = [node for node in model.graph.node if node.name == "weights"]
    del reader.attribute[:]
    reader.attribute.extend(
        [helper.make_attribute("axis", 0 if block else 1), helper.make_attribute("block_size", block)]
    )
    assert refused(model) == f"node 'weights' (DequantizeLinear): the scale of its int4 is 0{where}{AGAIN}"


def test_a_bias_whose_scale_float32_rounds_to_zero_is_none() -> None:
    """Its scale is that of the activations times that of the weights; the bias itself is beneath every step."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 8]), 0.1, 3)
    w = builder.node("DequantizeLinear", [builder.constant(*each) for each in WEIGHTS])
    bias = builder.node("DequantizeLinear", [builder.constant(*each) for each in BIAS])
    builder.output(builder.quantize(builder.node("Gemm", [x, w, bias]), 0.2, -4))
    assert compile_model(builder.build(), load_machine("base16")).instructions


WEIGHTS = (("w", np.ones((8, 4), np.int8)), ("w_scale", np.float32(1e-20)), ("w_zero", np.int8(0)))

BIAS = (("b", np.ones(4, np.int32)), ("b_scale", np.float32(0)), ("b_zero", np.int32(0)))


def test_e8m0_scales_are_powers_of_two_and_none_is_nan() -> None:
    assert compile_model(with_constant("w_scale", scales_of_bytes(126)), load_machine("llm16")).instructions
    text = refused(with_constant("w_scale", scales_of_bytes(255)))
    reads = "node 'weights' (DequantizeLinear) reads 'w_scale', which holds NaN or infinity in 1 of 64 places"
    assert text == f"the ONNX model: {reads}; train or export the model anew"


def test_weights_of_a_type_that_onnx_has_for_scales_alone_are_refused() -> None:
    codes = onnx.TensorProto(
        name="w", data_type=TensorProto.FLOAT8E8M0, dims=[SUMMED, RESULTS], raw_data=bytes([127] * SUMMED * RESULTS)
    )
    known = "float4e2m1, float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, int16, int32, int4, int8"
    assert refused(with_constant("w", codes)) == (
        f"node 'weights' (DequantizeLinear): its operand x, 'w', is float8e8m0; expected {known}, uint16, uint4, uint8"
    )


def test_a_code_that_its_type_does_not_hold_is_refused() -> None:
    zero = onnx.TensorProto(name="x_zero", data_type=TensorProto.INT8, int32_data=[300])
    assert refused(with_constant("x_zero", zero)) == (
        "the ONNX model: node 'quantize' (QuantizeLinear) reads 'x_zero', int8 that holds 300; expected -128 to 127"
    )
