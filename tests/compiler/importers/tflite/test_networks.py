"""Whole TFLite networks compile, and the machine computes what the translation means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.networks import NetworkBuilder, mobilenet, resnet
from tests.compiler.importers.tflite.runs import random_inputs, run, translate

NETWORKS: dict[str, Callable[[], tuple[TfliteFile, Tensor]]] = {
    "mobilenet": mobilenet,
    "mobilenet of uint8": partial(mobilenet, np.uint8),
    "resnet": resnet,
}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_runs_on_the_machine(network: str, tmp_path: Path) -> None:
    file, output = NETWORKS[network]()
    path = tmp_path / "net.tflite"
    path.write_bytes(file.content(output))
    program = tilewright.compile(path, "base16")
    assert program.host_nodes == ()
    assert [(tensor.name, tuple(tensor.shape)) for tensor in program.inputs] == [
        ("serving_default_input:0", file.inputs[0].shape)
    ]
    inputs = random_inputs(file, np.random.default_rng(7))
    came = program.run(inputs).outputs[output.name]
    expected = run(translate(file, output), inputs)[output.name]
    assert came.dtype == expected.dtype
    assert came.shape == output.shape
    assert np.abs(came.astype(int) - expected.astype(int)).max() <= 1
    assert np.ptp(expected.astype(int)) > 20


def test_an_image_comes_out_channels_last(tmp_path: Path) -> None:
    net = NetworkBuilder((1, 6, 5, 3), 3)
    output = net.conv(net.x, 7)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file.content(output))
    program = tilewright.compile(path, "base16")
    assert program.host_nodes == ()
    inputs = random_inputs(net.file, np.random.default_rng(7))
    expected = run(translate(net.file, output), inputs)[output.name]
    np.testing.assert_array_equal(program.run(inputs).outputs[output.name], expected)


def test_uint8_images_of_an_int8_network_go_to_the_machine(tmp_path: Path) -> None:
    net = NetworkBuilder((1, 6, 5, 3), 3)
    image = net.file.tensor("image", (1, 6, 5, 3), 2 / 255, 127, np.uint8)
    net.file.inputs[:] = [image]
    net.file.operator("QUANTIZE", [image], net.x, "QuantizeOptions")
    output = net.conv(net.x, 7)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.file.content(output))
    program = tilewright.compile(path, "base16")
    assert program.host_nodes == ()
    inputs = random_inputs(net.file, np.random.default_rng(7))
    expected = run(translate(net.file, output), inputs)[output.name]
    np.testing.assert_array_equal(program.run(inputs).outputs[output.name], expected)
