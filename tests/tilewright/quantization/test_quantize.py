"""Whole networks, quantised: near the float ones, standard QDQ, taken by the compiler, the same bytes each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright
from tests import digits
from tests.compiler.models import run_onnx
from tests.tilewright.quantization.float_networks import (
    CHANNELS,
    IMAGE,
    NETWORKS,
    FloatBuilder,
    cnn,
    decibel,
    mlp,
    run_all,
    samples,
)
from tilewright.compiler.errors import CompileError
from tilewright.errors import InputError
from tilewright.quantization.quantize import quantize

AGREES_DB = 25.0
"""Eight bits after a few layers: less would be a fault, such as a lost bias or a wrong limit."""


def dequantized_constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """What the DequantizeLinear nodes of weights and biases read."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in constants]
    return {node.input[0]: constants[node.input[0]] for node in nodes}


def operators(model: onnx.ModelProto) -> list[str]:
    """Without those that quantise."""
    return [
        node.op_type
        for node in model.graph.node
        if not node.op_type.endswith("quantizeLinear") and node.op_type != "QuantizeLinear"
    ]


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize("network", NETWORKS)
def test_computes_nearly_what_the_float_network_does(network: str, activations: str) -> None:
    model = NETWORKS[network]()
    quantized = quantize(model, samples(model, 256), activations=activations)
    unseen = samples(model, 8, seed=2)
    assert decibel(run_all(model, unseen), run_all(quantized.model, unseen)) > AGREES_DB


@pytest.mark.parametrize("network", NETWORKS)
def test_the_compiler_takes_the_result_whole(network: str) -> None:
    model = NETWORKS[network]()
    data = samples(model, 4)
    program = tilewright.compile(model, "base16", calibration=data)
    assert program.host_nodes == ()
    quantized = quantize(model, data).model
    step = output_step(quantized)
    inputs = {name: array[:1] for name, array in samples(model, 1, seed=3).items()}
    expected, came = run_onnx(quantized, inputs), program.run(inputs).outputs
    for name, values in expected.items():
        assert np.abs(values - came[name]).max() <= 1.001 * step


def output_step(model: onnx.ModelProto) -> float:
    """The scale of the first output."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    last = next(node for node in model.graph.node if model.graph.output[0].name in node.output)
    return float(constants[last.input[1]])


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_digits_stay_right(method: str) -> None:
    model = onnx.load(digits.FOLDER / "digits.onnx")
    data = {"image": digits.images()[:32]}
    quantized = quantize(model, data, method=method)
    unseen = {"image": digits.images()[32:132]}
    agree = run_all(quantized.model, unseen).argmax(1) == run_all(model, unseen).argmax(1)
    assert agree.mean() >= 0.98


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_of_four_bits_are_those_of_products(network: str) -> None:
    """A step is sixteen times as wide as with eight bits, which is 24 dB."""
    model = NETWORKS[network]()
    quantized = quantize(model, samples(model, 256), weights="int4").model
    narrow = {name: value for name, value in dequantized_constants(quantized).items() if value.dtype.name == "int4"}
    read = {real.input[0]: real.output[0] for real in quantized.graph.node if real.op_type == "DequantizeLinear"}
    users = {node.op_type for node in quantized.graph.node for name in narrow if read[name] in node.input}
    assert narrow and users <= {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    assert [o.version for o in quantized.opset_import] == [21]
    unseen = samples(model, 8, seed=2)
    assert decibel(run_all(model, unseen), run_all(quantized, unseen)) > AGREES_DB - 24


@pytest.mark.parametrize("opset", [7, 9, 11, 22])
def test_takes_any_opset_and_writes_a_common_one(opset: int) -> None:
    b = FloatBuilder(opset=opset)
    x = b.batch_norm("bn", b.conv("conv", b.input(), 3, CHANNELS), CHANNELS)
    limits = {"min": 0.0, "max": 6.0} if opset < 11 else {}
    bounds = () if limits else (b.constant("low", np.array(0.0)), b.constant("high", np.array(6.0)))
    model = b.build(b.node("Clip", "six", x, *bounds, **limits))
    quantized = quantize(model, samples(model, 4)).model
    assert [o.version for o in quantized.opset_import] == [min(max(opset, 17), 21)]
    assert quantized.ir_version <= 10
    assert operators(quantized) == ["Conv"]


def test_takes_weights_that_are_listed_as_inputs() -> None:
    """As files of the format's version 3 do."""
    b = FloatBuilder(opset=8)
    model = b.build(b.node("Relu", "relu", b.batch_norm("bn", b.conv("conv", b.input(), 3, CHANNELS), CHANNELS)))
    data = samples(model, 4)
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    model.ir_version = 3
    quantized = quantize(model, data).model
    assert [value.name for value in quantized.graph.input] == ["image"]
    assert operators(quantized) == ["Conv"]


def test_fixes_open_sizes() -> None:
    b = FloatBuilder()
    model = b.build(b.conv("conv", b.input(shape=("batch", 3, 8, 8)), 3, CHANNELS))
    with pytest.raises(CompileError) as caught:
        quantize(model, "random")
    assert str(caught.value) == (
        "the ONNX model: input 'image' has the open shape [batch, 3, 8, 8]; expected numbers. Say them, as in --shape "
        "image=1x3x8x8"
    )
    quantized = quantize(model, "random", shapes={"image": (2, 3, 8, 8)})
    assert [d.dim_value for d in quantized.model.graph.input[0].type.tensor_type.shape.dim] == [2, 3, 8, 8]


def test_weights_have_a_scale_for_each_channel_and_no_zero_point() -> None:
    b = FloatBuilder()
    model = b.build(b.conv("conv", b.input(), 3, CHANNELS))
    quantized = quantize(model, samples(model, 4)).model
    found = dequantized_constants(quantized)
    constants = {t.name: numpy_helper.to_array(t) for t in quantized.graph.initializer}
    weights = numpy_helper.to_array(model.graph.initializer[0])
    scales = np.abs(weights).reshape(CHANNELS, -1).max(axis=1) / 127.5  # ONNX Runtime's: 255 steps from -max to max
    assert found["conv.weight_quantized"].dtype == np.int8
    assert np.allclose(constants["conv.weight_scale"], scales, rtol=0.01)
    assert not constants["conv.weight_zero_point"].any()
    assert found["conv.bias_quantized"].dtype == np.int32


def test_a_clip_that_is_not_around_zero_keeps_its_limit() -> None:
    """A quantised range always holds 0: dropping the Clip would let through what is between."""
    b = FloatBuilder()
    low, high = b.constant("low", np.array(0.5)), b.constant("high", np.array(2.0))
    model = b.build(b.node("Clip", "clip", b.conv("conv", b.input(), 3, CHANNELS), low, high))
    data = samples(model, 4)
    quantized = quantize(model, data).model
    step = output_step(quantized)
    assert run_all(quantized, data).min() >= 0.5 - step


def test_a_relu_that_was_always_zero_stays_a_relu() -> None:
    b = FloatBuilder()
    negative = b.constant("bias", np.full(CHANNELS, -5.0))
    conv = b.node("Conv", "conv", b.input(), b.normal("weight", CHANNELS, 3, 3, 3), negative, pads=[1] * 4)
    model = b.build(b.node("Relu", "relu", conv))
    quantized = quantize(model, {"image": np.full(IMAGE, 1e-3, np.float32)})
    assert run_all(quantized.model, samples(model, 4)).min() >= 0


def test_layers_keep_the_names_of_their_products() -> None:
    model = cnn()
    found = [(layer.name, layer.operators) for layer in quantize(model, samples(model, 2)).layers]
    assert found == [
        ("image", ("input",)),
        ("conv1", ("Conv", "Relu")),
        ("pool", ("MaxPool",)),
        ("conv2", ("Conv", "Relu")),
        ("average", ("GlobalAveragePool",)),
        ("flat", ("Reshape",)),
        ("dense", ("Gemm",)),
    ]


def test_what_the_compiler_cannot_do_stays_float() -> None:
    b = FloatBuilder()
    x = b.node("Erf", "erf", b.conv("conv", b.input(), 3, CHANNELS))
    model = b.build(b.node("CumSum", "sum", x, b.constant("axis", np.array(1))))
    quantized = quantize(model, samples(model, 2)).model
    makers = {output: node.op_type for node in quantized.graph.node for output in node.output}
    after = next(node for node in quantized.graph.node if node.op_type == "CumSum")
    assert makers[after.input[0]] == "Erf"
    assert makers[quantized.graph.output[0].name] == "CumSum"


def test_gives_the_same_bytes_again() -> None:
    model = cnn()
    first, second = (quantize(model, samples(model, 4), method="percentile") for _ in range(2))
    assert first.content == second.content
    assert first.layers == second.layers


@pytest.mark.slow
def test_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    made = []
    for number in range(3):
        output = tmp_path / f"{number}.onnx"
        command = [sys.executable, "-m", "tilewright", "quantize", str(tmp_path / "cnn.onnx"), "-o", str(output)]
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run([*command, "--calibration", "random"], env=environment, check=True, capture_output=True)
        made.append(output.read_bytes())
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_the_order_of_the_samples_does_not_matter(method: str) -> None:
    model = mlp()
    data = samples(model, 12)
    turned = {name: array[::-1].copy() for name, array in data.items()}
    assert quantize(model, data, method=method).content == quantize(model, turned, method=method).content


def test_random_samples_are_warned_of() -> None:
    quantized = quantize(mlp(), "random", seed=5)
    assert quantized.warnings == ("calibrated with random data (seed 5): cycles are right, results are not",)
    assert quantized.content != quantize(mlp(), "random", seed=6).content


# -- what is refused ---------------------------------------------------------------------------------------------------


def refusal(model: onnx.ModelProto, **options: object) -> str:
    with pytest.raises((CompileError, InputError)) as caught:
        quantize(model, "random", **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_refuses_a_model_that_is_quantised() -> None:
    model = mlp()
    assert refusal(quantize(model, "random").model) == (
        "the ONNX model: is quantised already; expected a float model. Compile it as it is"
    )


def test_refuses_other_floats() -> None:
    b = FloatBuilder()
    double = TensorProto.DOUBLE
    model = b.build(b.node("Relu", "relu", b.input("x", (1, 4), double)), element=double)
    assert refusal(model) == "the ONNX model: tensor 'x' is float64; expected float32. Export the model in float32"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_refuses_weights_that_are_not_finite(value: float) -> None:
    b = FloatBuilder()
    x = b.node("Gemm", "dense", b.input("x", (1, 2)), b.constant("weight", np.array([[1, value], [2, 3]])))
    assert refusal(b.build(x)) == (
        "the ONNX model: node 'dense' (Gemm) reads 'weight', which holds NaN or infinity in 1 of 4 places; train or "
        "export the model anew"
    )


def test_takes_a_clip_without_an_upper_limit() -> None:
    b = FloatBuilder()
    limits = b.constant("low", np.array(0.0)), b.constant("high", np.array(np.inf))
    model = b.build(b.node("Clip", "clip", b.conv("conv", b.input(), 3, CHANNELS), *limits))
    assert operators(quantize(model, "random").model) == ["Conv"]


def test_refuses_a_model_with_nothing_to_quantise() -> None:
    b = FloatBuilder()
    message = refusal(b.build(b.node("Erf", "erf", b.input())))
    assert message.startswith("the ONNX model: nothing in it can be quantised; the operators that can: Add, ")


def test_refuses_results_that_are_not_finite() -> None:
    b = FloatBuilder()
    x = b.node("Log", "log", b.conv("conv", b.input(), 3, CHANNELS))
    assert refusal(b.build(x)) == (
        "the ONNX model: tensor 'log.out', the result of node 'log' (Log), is NaN or infinite on sample 0"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mean"}, "no calibration method 'mean'; there are: minmax, percentile, entropy"),
        ({"activations": "int4"}, "no type of activations 'int4'; there are: int8, uint8, int16, uint16, e4m3"),
        ({"weights": "uint4"}, "no type of weights 'uint4'; there are: int8, int4, e4m3, e2m1"),
        (
            {"method": "percentile", "percentile": 0.999},
            "the percentile is 0.999; expected more than 50 and at most 100, such as 99.99",
        ),
    ],
)
def test_refuses_options_that_there_are_not(options: dict[str, object], message: str) -> None:
    assert refusal(mlp(), **options) == message


def test_refuses_a_fold_that_changes_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for tensor in changed.graph.initializer:
            if tensor.name == "three.bias":
                tensor.CopyFrom(numpy_helper.from_array(np.array([9], np.float32), tensor.name))
        return changed

    monkeypatch.setattr("tilewright.quantization.float_model.fold", wrong)
    assert refusal(mlp()).startswith("the ONNX model: preparing it for quantising changes its output 'three.out'; ")
