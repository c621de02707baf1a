"""TFLite files: of its converters, of the forms that are met on devices, and like those of Edge Impulse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.networks import NetworkBuilder, mobilenet, resnet
from tests.files.trial import Trial
from tests.formats.forms import Form
from tests.formats.test_tflite_detections import FORMS as DETECTORS
from tests.formats.tflite_states import FORMS as STATES

CONVERTER, DEVICES, IMPULSE = "TFLite converter", "TFLite on devices", "Edge Impulse-like"


def _content(make: Callable[[], tuple[TfliteFile, Any]]) -> bytes:
    file, outputs = make()
    return file.content(*([outputs] if isinstance(outputs, Tensor) else outputs))


def _state(name: str) -> bytes:
    return STATES[name](np.random.default_rng(1)).content


def _softmax(net: NetworkBuilder, x: Tensor) -> Tensor:
    y = net.file.tensor("shares", x.shape, 1 / 256, net.middle - 128, net.dtype)
    net.file.operator("SOFTMAX", [x], y, "SoftmaxOptions", Beta=1.0)
    return y


def _reshape(net: NetworkBuilder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    y = net.result("reshape", shape, like=x)
    net.file.operator("RESHAPE", [x], y, "ReshapeOptions", NewShape=list(shape))
    return y


def keywords() -> tuple[TfliteFile, Tensor]:
    """MFCC features in one row; two convolutions along time, each with a pool; dense, softmax."""
    net = NetworkBuilder((1, 49 * 13), 3)
    x = _reshape(net, net.x, (1, 1, 49, 13))
    for channels in (8, 16):
        x = net.conv(x, channels, 3, activation=1)
        x = net.pool(_reshape(net, x, (1, x.shape[2], 1, channels)), "MAX_POOL_2D", 2, 0)
        x = _reshape(net, x, (1, 1, x.shape[1], channels)) if x.shape[2] == 1 else x
    flat = _reshape(net, x, (1, int(np.prod(x.shape))))
    return net.file, _softmax(net, net.dense(flat, 4))


def motion() -> tuple[TfliteFile, Tensor]:
    """Spectral features; three dense layers, softmax."""
    net = NetworkBuilder((1, 39), 4)
    return net.file, _softmax(net, net.dense(net.dense(net.dense(net.x, 20), 10), 5))


def images() -> tuple[TfliteFile, Tensor]:
    """A small image; convolutions with strides, a depthwise one, mean, dense, softmax."""
    net = NetworkBuilder((1, 24, 24, 3), 5)
    x = net.conv(net.x, 8, 3, 2, 3)
    x = net.conv(net.depthwise(x, 2), 16, 1, 1, 3)
    return net.file, _softmax(net, net.dense(net.mean(x), 3))


def objects() -> tuple[TfliteFile, Tensor]:
    """Of FOMO: an image cut off early, a class for each of its cells."""
    net = NetworkBuilder((1, 24, 24, 3), 6)
    x = net.conv(net.conv(net.x, 8, 3, 2, 3), 8, 1, 1, 1)
    return net.file, _softmax(net, net.conv(x, 3, 1))


FORMS: list[tuple[str, Form]] = [
    ("int8, per channel", Form("tflite", last=True, is_real=False)),
    ("int8, per tensor, float inputs and outputs", Form("tflite", last=True, per_channel=False)),
    ("uint8 of TensorFlow 1", Form("tflite", "uint8", last=True, is_real=False, per_channel=False, weights="uint8")),
]

TRIALS = [
    *(Trial(CONVERTER, name, form.model) for name, form in FORMS),
    Trial(CONVERTER, "int8 MobileNet", partial(_content, mobilenet)),
    Trial(CONVERTER, "int8 ResNet", partial(_content, resnet)),
    *(Trial(DEVICES, name, partial(_state, name), is_float="floats" in name, has_reference="8 bits" not in name)
      for name in STATES),
    *(Trial(DEVICES, f"detections, {name}", partial(_content, DETECTORS[name].made))
      for name in ("of boxes", "of each class", "all of uint8")),
    *(Trial(IMPULSE, make.__doc__.split(";")[0].rstrip(".") if make.__doc__ else "", partial(_content, make))
      for make in (keywords, motion, images, objects)),
]  # fmt: skip
