"""A small int8 network with attention; its weights are a softmax, or a function that every machine has."""

from __future__ import annotations

import onnx

from programs.networks.botnet import attention
from programs.networks.builder import Builder, Value
from programs.networks.quantise import quantise


class Gated(Builder):
    """Attention whose weights are each score's sigmoid, for machines that have no softmax."""

    def softmax(self, name: str, source: Value, axis: int = 1) -> Value:
        return self.sigmoid(source)


def attention_network(channels: int, *, has_softmax: bool) -> onnx.ModelProto:
    """Attention of four heads over 6×5 positions, between two convolutions."""
    net = Builder("attention") if has_softmax else Gated("attention")
    x = net.relu(net.conv("before", net.input("image", channels, 6, 5), channels))
    return quantise(net.model(y=net.conv("after", attention(net, "attention", x), channels)))
