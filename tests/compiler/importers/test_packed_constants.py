"""Constants whose elements share bytes: each fault of theirs is one error that names the node and the tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.compiler.models import conv_model, random_inputs, run_onnx
from tests.compiler.narrow_weights import with_narrow_weights
from tests.compiler.pipelines import simulated
from tilewright.compiler.errors import CompileError
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine


def model(element: str = "INT4") -> onnx.ModelProto:
    """5 · 3 · 3 · 3 weights: an odd number of them."""
    return with_narrow_weights(conv_model(np.random.default_rng(3), 3, 5, 6), element)


def weights(of: onnx.ModelProto) -> onnx.TensorProto:
    return next(tensor for tensor in of.graph.initializer if len(tensor.dims) == 4)


def zero_points(of: onnx.ModelProto) -> onnx.TensorProto:
    (reader,) = [node for node in of.graph.node if node.input[0] == weights(of).name]
    return next(tensor for tensor in of.graph.initializer if tensor.name == reader.input[2])


def refused(of: onnx.ModelProto) -> str:
    with pytest.raises(CompileError) as error:
        compile_model(of, load_machine("base16"))
    return str(error.value)


@pytest.mark.parametrize("element", ["INT4", "UINT4"])
def test_an_odd_number_of_elements_is_what_it_is(element: str) -> None:
    odd = model(element)
    inputs = random_inputs(odd, np.random.default_rng(0))
    results = simulated(compile_model(odd, load_machine("base16")), inputs)
    for name, expected in run_onnx(odd, inputs).items():
        np.testing.assert_array_equal(results[name], expected)


def with_bytes(count: int) -> Callable[[onnx.TensorProto], None]:
    def change(tensor: onnx.TensorProto) -> None:
        tensor.ClearField("int32_data")
        tensor.raw_data = bytes(count)

    return change


@pytest.mark.parametrize("count", [69, 135])
def test_bytes_that_are_no_halves_of_the_elements_are_refused(count: int) -> None:
    damaged = model()
    with_bytes(count)(weights(damaged))
    expected = f"has {count} bytes for 135 elements of int4; expected 68, with 2 elements in each"
    assert refused(damaged).endswith(expected) and "(DequantizeLinear) reads" in refused(damaged)


def test_a_code_that_is_no_byte_is_refused() -> None:
    damaged = model()
    tensor = weights(damaged)
    tensor.ClearField("raw_data")
    tensor.ClearField("int32_data")
    tensor.int32_data.extend([0] * 67 + [300])
    assert refused(damaged).endswith("has 300 in place of a byte with 2 elements of int4; expected 0 to 255")


def test_a_zero_point_of_another_type_is_refused() -> None:
    damaged = model()
    held = zero_points(damaged)
    held.CopyFrom(helper.make_tensor(held.name, TensorProto.UINT4, held.dims, [0] * 5))
    expected = "(DequantizeLinear): its operand is int4, and the zero point uint4; expected the same type of both"
    assert refused(damaged).endswith(expected)
