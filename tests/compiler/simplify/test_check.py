"""What is left when a model is not quantised, or not everywhere."""

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder
from tests.compiler.pipelines import DIGITS, simplified
from tilewright.compiler.errors import CompileError


def refusal(model: onnx.ModelProto) -> str:
    with pytest.raises(CompileError) as caught:
        simplified(model)
    return str(caught.value)


def test_a_float_model_is_refused() -> None:
    assert refusal(onnx.load(DIGITS / "digits.onnx")) == (
        "digits: the model is float; expected an int8 one. Quantise it with samples of its inputs: "
        "--calibration data.npz, or --calibration random if only cycles matter"
    )


def builder_with_input() -> tuple[ModelBuilder, str]:
    builder = ModelBuilder(np.random.default_rng(1))
    return builder, builder.quantize(builder.input("x", [1, 3, 6, 6]), 0.1, name="x.q")


def conv(builder: ModelBuilder, x: str, name: str = "conv") -> str:
    weight, _ = builder.weights(name, [3, 3, 1, 1])
    return builder.node("Conv", [x, weight], name=name, kernel_shape=[1, 1])


def test_a_float_result_at_the_end() -> None:
    builder, x = builder_with_input()
    builder.output(conv(builder, x))
    assert refusal(builder.build()) == "node 'conv' (conv): its result is float; expected a QuantizeLinear after it"


def test_a_float_tensor_between_two_operators() -> None:
    builder, x = builder_with_input()
    builder.output(builder.quantize(conv(builder, conv(builder, x, "first"), "second"), 0.2))
    assert refusal(builder.build()) == "node 'first' (conv): its result is float; expected a QuantizeLinear after it"


def test_a_float_input() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    builder.output(builder.quantize(conv(builder, builder.input("x", [1, 3, 6, 6])), 0.2))
    assert refusal(builder.build()) == (
        "node 'conv' (conv): its operand 'x' is a float input of the model; expected QuantizeLinear and "
        "DequantizeLinear between them"
    )
