"""Signal-to-noise ratios by hand, and which layers are blamed."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tests.tilewright.quantization.float_networks import CHANNELS, FloatBuilder, residual
from tilewright.quantization.noise import (
    FULL_SCALE_DB,
    LOWEST_DB,
    LayerNoise,
    NoisyLayer,
    find_layers,
    hurting,
    measure_noise,
    signal_to_noise,
)
from tilewright.quantization.samples import Samples
from tilewright.quantization.tensors import Tensors


def scaled(factor: float) -> onnx.ModelProto:
    """y = factor · x, z = y + y."""
    b = FloatBuilder()
    y = b.node("Mul", "y", b.input("x", (1, 4)), b.constant("factor", np.array(factor)))
    return b.build(b.node("Add", "z", y, y))


def ratio(factor: float, *samples: list[float]) -> float | None:
    data = Samples({"x": np.array(samples, np.float32).reshape(-1, 1, 4)})
    exact, noisy = (Tensors(scaled(amount), ["y.out"], "it") for amount in (1.0, factor))
    return signal_to_noise(exact, noisy, {"y.out": "y.out"}, data)["y.out"]


def test_a_tenth_of_noise_is_20_decibels() -> None:
    found = ratio(1.1, [1, 2, 3, 4], [5, 6, 7, 8])
    assert found is not None and abs(found - 20) < 1e-4


def test_no_noise_has_no_ratio() -> None:
    assert ratio(1.0, [1, 2, 3, 4]) is None


def test_noise_without_signal_is_the_lowest_ratio() -> None:
    exact, noisy = (Tensors(scaled(amount), ["y.out"], "it") for amount in (0.0, 1.0))
    data = Samples({"x": np.ones((1, 1, 4), np.float32)})
    assert signal_to_noise(exact, noisy, {"y.out": "y.out"}, data) == {"y.out": LOWEST_DB}


def test_samples_are_weighted_by_their_size() -> None:
    """One element of 3 with noise 0.3 and one of 4 with noise 0.4: 25 / 0.25."""
    found = ratio(1.1, [3, 0, 0, 0], [0, 4, 0, 0])
    assert found is not None and math.isclose(found, 10 * math.log10(25 / 0.25), abs_tol=1e-4)


def test_a_layer_is_what_lies_between_quantised_tensors() -> None:
    names = ["image", "relu1.out", "relu2.out", "relu3.out", "average.out"]
    assert find_layers(residual(), dict.fromkeys(names, "")) == [
        NoisyLayer("image", (), ("input",), "image", ()),
        NoisyLayer("conv1", ("conv1", "relu1"), ("Conv", "Relu"), "relu1.out", ("image",)),
        NoisyLayer("conv2", ("conv2", "relu2"), ("Conv", "Relu"), "relu2.out", ("relu1.out",)),
        NoisyLayer(
            "conv3",
            ("conv3", "add", "relu3"),
            ("Conv", "Add", "Relu"),
            "relu3.out",
            ("relu1.out", "relu2.out"),
        ),
        NoisyLayer("average", ("average",), ("GlobalAveragePool",), "average.out", ("relu3.out",)),
    ]


def test_the_drop_is_from_the_worst_operand() -> None:
    """y is exact to 20 dB, and z = y + y adds nothing."""
    data = Samples({"x": np.ones((1, 1, 4), np.float32)})
    names = {"x": "x", "y.out": "y.out"}
    found = {layer.tensor: layer for layer in measure_noise(scaled(1.0), scaled(1.1), names, data, "it")}
    assert found["x"].snr_db is None and found["x"].drop_db is None
    y, z = found["y.out"], found["z.out"]
    assert y.drop_db is not None and math.isclose(y.drop_db, FULL_SCALE_DB - 20, abs_tol=1e-3)
    assert z.drop_db is not None and abs(z.drop_db) < 1e-3


def summed(first: float, second: float) -> onnx.ModelProto:
    """z = first · x + second · x."""
    b = FloatBuilder()
    x = b.input("x", (1, 4))
    products = [b.node("Mul", f"y{n}", x, b.constant(f"by{n}", np.array(by))) for n, by in enumerate((first, second))]
    return b.build(b.node("Add", "z", *products))


def test_of_two_operands_the_worse_one_counts() -> None:
    """20 and 40 dB are noise of 0.1 and 0.01; the sum's is 0.11 of 2, 25.2 dB."""
    data = Samples({"x": np.ones((1, 1, 4), np.float32)})
    names = {"y0.out": "y0.out", "y1.out": "y1.out"}
    *_, z = measure_noise(summed(1.0, 1.0), summed(1.1, 1.01), names, data, "it")
    assert z.drop_db is not None and math.isclose(z.drop_db, 20 - 10 * math.log10(4 / 0.11**2), abs_tol=1e-3)


def test_no_layer_is_blamed_for_more_than_eight_bits_give() -> None:
    """An operand of 60 dB counts as one of 49.9."""
    data = Samples({"x": np.ones((1, 1, 4), np.float32)})
    *_, z = measure_noise(scaled(1.0), scaled(1.001), {"y.out": "y.out"}, data, "it")
    assert z.drop_db is not None and math.isclose(z.drop_db, FULL_SCALE_DB - 60, abs_tol=0.01)


def test_results_that_are_not_real_numbers_are_left_out() -> None:
    b = FloatBuilder()
    x = b.node("Flatten", "flat", b.conv("conv", b.input(), 3, CHANNELS))
    model = b.build(x)
    best = onnx.helper.make_node("ArgMax", [x], ["best"], "best", axis=1)
    model.graph.node.append(best)
    model.graph.output.append(onnx.helper.make_tensor_value_info("best", onnx.TensorProto.INT64, [1, 1]))
    data = Samples({"image": np.ones((1, 1, 3, 12, 12), np.float32)})
    assert [layer.tensor for layer in measure_noise(model, model, {}, data, "it")] == ["flat.out"]


def noisy(*drops: float | None) -> list[LayerNoise]:
    return [LayerNoise(f"l{n}", (), (), "", (), 20.0, drop) for n, drop in enumerate(drops)]


def test_the_layers_that_double_the_noise_are_named() -> None:
    assert [layer.name for layer in hurting(noisy(3.0, None, 9.0, 2.9, -5.0))] == ["l2", "l0"]


def test_only_the_worst_five_are_named() -> None:
    assert [layer.drop_db for layer in hurting(noisy(4.0, 9.0, 3.0, 6.0, 7.0, 8.0, 5.0))] == [9, 8, 7, 6, 5]
