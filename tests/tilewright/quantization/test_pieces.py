"""Curves in pieces: the same function, with more of it left in eight bits, and all of it on the machine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import tilewright
from tests.compiler.models import run_onnx
from tests.front_ends import forms, front_end, norm, sounds
from tests.tilewright.quantization.float_networks import FloatBuilder
from tilewright.quantization.attempt import CalibratedNetwork, Settings, calibrated
from tilewright.quantization.finer import made_finer
from tilewright.quantization.float_model import read_float_model
from tilewright.quantization.pieces import Pieces, curve_of, in_pieces
from tilewright.quantization.quantize import QuantizedModel
from tilewright.quantization.samples import read_samples


def network(model: onnx.ModelProto, data: dict[str, NDArray[np.float32]]) -> CalibratedNetwork:
    read = read_float_model(model)
    return calibrated(read, Settings(read_samples(data, read.inputs), "minmax", 99.999, "int8", "int8"))


def output_ratio(quantized: QuantizedModel) -> float:
    (ratio,) = (
        layer.snr_db for layer in quantized.layers if layer.tensor in {v.name for v in quantized.model.graph.output}
    )
    assert ratio is not None
    return ratio


@pytest.mark.parametrize("pieces", [Pieces(2, 1), Pieces(4, 1), Pieces(2, 3), Pieces(3, 2)])
@pytest.mark.parametrize("name", ["magnitude", "log"])
def test_pieces_are_the_same_function(name: str, pieces: Pieces) -> None:
    """In float, on sounds that calibrated it and, but for what is beyond the range, on others."""
    model = front_end("magnitude", "epsilon")
    whole = network(model, {"x": sounds()})
    (layer,) = (each for each in whole.quantized_but(())[1] if each.tensor == f"{name}.out")
    curve = curve_of(layer, whole.model.prepared, whole.ranges)
    assert curve is not None
    made = in_pieces(whole.model.prepared, curve, pieces, whole.ranges)
    for x in sounds(3):
        expected, found = (run_onnx(each, {"x": x[None]})["last.out"] for each in (model, made))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def curve(kind: str, shift: float) -> QuantizedModel:
    """A product, a shift, a curve."""
    b = FloatBuilder()
    x = b.node("MatMul", "first", b.input("x", (1, 12, 64)), b.normal("weights", 64, 32, scale=0.2))
    x = b.node("Add", "shifted", x, b.constant("by", np.array(shift)))
    return tilewright.quantize(b.build(b.node(kind, "curve", x)), {"x": sounds()})


def test_only_curves_that_lose_much_are_in_pieces() -> None:
    assert [each.name for each in tilewright.quantize(norm("mean"), {"x": sounds()}).pieces] == ["apart"]
    assert tilewright.quantize(norm("mean"), {"x": sounds()}, keep=["root"]).pieces == ()
    assert curve("Sqrt", 30.0).pieces == ()
    assert curve("Sigmoid", -0.5).pieces == ()


def test_a_curve_in_pieces_is_one_layer() -> None:
    quantized = tilewright.quantize(norm("of a row"), {"x": sounds()})
    assert [layer.name for layer in quantized.layers] == ["x", "first", "squares", "total", "apart"]
    (pieces,) = quantized.pieces
    assert pieces.gain_db > 12
    assert (quantized.losses, quantized.warnings) == ((), ())


def test_a_norm_is_on_every_machine_as_it_is_in_onnx_runtime() -> None:
    quantized = tilewright.quantize(norm("of a row"), {"x": sounds()})
    assert output_ratio(quantized) > 40
    for isa in ("base16", "sequence16"):
        program = tilewright.compile(quantized.content, isa, effort=0)
        assert program.host_nodes == ()
        feed = {"x": sounds(1, seed=7)}
        found, expected = program.run(feed).outputs["root.out"], run_onnx(quantized.model, feed)["root.out"]
        assert np.abs(found - expected).max() <= 2 * 255**-1 * expected.max()


def test_steps_of_a_recurrence_stay_as_they_are() -> None:
    read = network(norm("of a row"), {"x": sounds()})
    names = tuple(name for node in read.model.prepared.graph.node for name in node.output)
    object.__setattr__(read.model, "alike", {"cell/step/hidden": names})
    assert made_finer(read, frozenset())[1] == ()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param(*form, id=form[0], marks=pytest.mark.long if number % 4 else pytest.mark.slow)
        for number, form in enumerate(forms())
    ],
)
def test_front_ends_keep_their_precision_on_the_machine(name: str, model: onnx.ModelProto) -> None:
    """Eight bits of each step left 3.5 to 5.8 dB behind logarithms and 15.2 dB of magnitudes."""
    quantized = tilewright.quantize(model, {"x": sounds()})
    least = 30.0 if "none" in name or "norm" in name else 28.0 if "magnitude" in name else 19.0
    assert output_ratio(quantized) > least
    assert tilewright.compile(quantized.content, "base16", effort=0).host_nodes == ()
