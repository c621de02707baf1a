"""The table of networks: how each is built, and what its paper says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from programs.networks.builder import Builder
from programs.networks.mobilenet import mobilenet_v1, mobilenet_v1_025, mobilenet_v2
from programs.networks.quantise import quantise
from programs.networks.resnet import resnet8, resnet18, resnet50, resnet50_v1_5


@dataclass(frozen=True, slots=True)
class Network:
    """A network that can be made."""

    build: Callable[[Builder], onnx.ModelProto]


NETWORKS = {
    "resnet8": Network(resnet8),
    "resnet18": Network(resnet18),
    "resnet50": Network(resnet50),
    "resnet50v1.5": Network(resnet50_v1_5),
    "mobilenetv1-0.25": Network(mobilenet_v1_025),
    "mobilenetv1": Network(mobilenet_v1),
    "mobilenetv2": Network(mobilenet_v2),
}


def float_network(name: str) -> onnx.ModelProto:
    """A network of the table, in float32."""
    return NETWORKS[name].build(Builder(name))


def int8_network(name: str) -> onnx.ModelProto:
    """A network of the table, quantised to int8."""
    return quantise(float_network(name))
