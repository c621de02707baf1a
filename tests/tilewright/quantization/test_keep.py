"""What stays float: what is named, and what hurts and gains from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import tilewright
from tests.tilewright.quantization.float_networks import CHANNELS, CLASSES, FloatBuilder, cnn, decibel, run_all, samples
from tilewright.cli import app
from tilewright.errors import InputError
from tilewright.quantization.quantize import quantize


def logarithm() -> onnx.ModelProto:
    """Products, then the logarithm of one times half as much: eight bits make zeros of the small ones."""
    b = FloatBuilder()
    x = b.node("Relu", "relu", b.conv("conv", b.input(), 3, CHANNELS))
    x = b.node("Flatten", "flat", b.node("GlobalAveragePool", "average", x))
    weight, bias = b.rng.normal(0, 0.3, (CHANNELS, CLASSES)), b.rng.normal(0, 0.1, CLASSES)

    def dense(name: str, factor: float) -> str:
        parts = {"weight": weight * factor, "bias": bias * factor}
        return b.node("Gemm", name, x, *(b.constant(f"{name}.{part}", value) for part, value in parts.items()))

    one, half = dense("one", 1.0), dense("half", 0.5)
    x = b.node("Add", "more", b.node("Mul", "product", one, half), b.constant("least", np.array([1e-3])))
    return b.build(b.node("Log", "log", x))


def output_ratio(model: onnx.ModelProto, quantized: onnx.ModelProto) -> float:
    unseen = samples(model, 8, seed=2)
    with np.errstate(invalid="ignore"):
        return decibel(run_all(model, unseen), run_all(quantized, unseen))


def test_auto_keeps_what_hurts_back_to_the_products() -> None:
    model = logarithm()
    data = samples(model, 64)
    (kept,) = quantize(model, data, keep=["auto"]).kept
    assert kept.nodes == ("product", "more", "log")
    assert output_ratio(model, quantize(model, data, keep=["auto"]).model) > 35
    assert not output_ratio(model, quantize(model, data).model) > 25


def test_auto_keeps_nothing_where_nothing_gains() -> None:
    model = cnn()
    data = samples(model, 64)
    assert quantize(model, data, keep=["auto"]).content == quantize(model, data).content


@pytest.mark.parametrize("keep", [["Log", "Mul", "Add"], ["log", "more", "product"]])
def test_keeps_nodes_by_name_and_by_operator(keep: list[str]) -> None:
    model = logarithm()
    quantized = quantize(model, samples(model, 64), keep=keep)
    makers = {output: node.op_type for node in quantized.model.graph.node for output in node.output}
    reads = {node.name: [makers.get(x) for x in node.input] for node in quantized.model.graph.node}
    assert (reads["more"][0], reads["log"]) == ("Mul", ["Add"])
    program = tilewright.compile(quantized.content, "tiny8")
    assert {node.name for node in program.host_nodes} == {"product", "more", "log"}


def test_names_what_there_is_to_keep() -> None:
    with pytest.raises(InputError) as caught:
        quantize(cnn(), samples(cnn(), 2), keep=["denze"])
    assert str(caught.value) == (
        "--keep denze: no node has this name or operator (did you mean 'dense'?); expected a node's name, auto, or one "
        "of: Conv, Gemm, GlobalAveragePool, MaxPool, Relu, Reshape"
    )


def test_the_command_says_what_it_kept_and_what_that_gains(tmp_path: Path) -> None:
    onnx.save(logarithm(), tmp_path / "log.onnx")
    (data,) = samples(logarithm(), 64).values()
    np.savez(tmp_path / "data.npz", image=data)
    arguments = ["quantize", str(tmp_path / "log.onnx"), "--calibration", str(tmp_path / "data.npz")]
    done = CliRunner().invoke(app, [*arguments, "--keep", "auto", "-o", str(tmp_path / "int8.onnx")])
    assert done.exit_code == 0, done.output
    assert "kept in float: product, more, log: the worst output gains " in done.output
