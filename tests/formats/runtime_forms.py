"""Every form in which ONNX Runtime's own static quantiser writes a network: made by that quantiser, as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SHAPE = (1, 3, 16, 16)

TYPES = {"s8": QuantType.QInt8, "u8": QuantType.QUInt8, "s16": QuantType.QInt16, "u16": QuantType.QUInt16}

EXTRAS: Sequence[Mapping[str, Any]] = (
    {},
    {"ActivationSymmetric": True},
    {"WeightSymmetric": False},
    {"ForceQuantizeNoInputCheck": True},
    {"AddQDQPairToWeight": True},
    {"QDQDisableWeightAdjustForInt32Bias": True},
    {"UseQDQContribOps": True},
    {"DedicatedQDQPair": True},
    {"QuantizeBias": False},
    {"QDQKeepRemovableActivations": True},
)
"""Settings of the quantiser, each by itself."""

OPSETS = (13, 17, 21)


@dataclass(frozen=True)
class RuntimeForm:
    """What the quantiser is asked for: types of activations and weights, per channel or not, 7 bits or 8."""

    format: str
    activations: str
    weights: str
    per_channel: bool
    reduces_range: bool
    opset: int
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """What pytest shows of it."""
        per = "channel" if self.per_channel else "tensor"
        bits = "7bits" if self.reduces_range else "8bits"
        settings = "".join(f"-{name}" for name in self.extra)
        return f"{self.format}{self.opset}-{self.activations}-{self.weights}-{per}-{bits}{settings}"

    def model(self) -> onnx.ModelProto:
        """The network as the quantiser writes it."""
        with TemporaryDirectory() as folder:
            source, made = Path(folder) / "float.onnx", Path(folder) / "quantised.onnx"
            onnx.save(network(self.opset), source)
            quantize_static(
                source,
                made,
                Samples(),
                quant_format=QuantFormat[self.format],
                activation_type=TYPES[self.activations],
                weight_type=TYPES[self.weights],
                per_channel=self.per_channel,
                reduce_range=self.reduces_range,
                extra_options=dict(self.extra),
            )
            return onnx.load(made)


def all_forms() -> Iterator[RuntimeForm]:
    """All that the quantiser takes with 8 bits; it does not take int8 activations with uint8 weights."""
    number = 0
    for format in ("QDQ", "QOperator"):
        for activations, weights in (("u8", "s8"), ("u8", "u8"), ("s8", "s8")):
            for per_channel in (False, True):
                for reduces_range in (False, True):
                    for extra in EXTRAS:
                        opset = OPSETS[number % len(OPSETS)]
                        yield RuntimeForm(format, activations, weights, per_channel, reduces_range, opset, extra)
                        number += 1


class Samples(CalibrationDataReader):  # type: ignore[misc]
    """Four random images."""

    def __init__(self) -> None:
        self._left = iter([image(seed) for seed in range(4)])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        found = next(self._left, None)
        return None if found is None else {"x": found}


def image(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


@cache
def network(opset: int) -> onnx.ModelProto:
    """A float network with an operator of each kind that the quantiser knows."""
    rng = np.random.default_rng(3)
    kept: list[onnx.TensorProto] = []

    def constant(name: str, *shape: int, scale: float = 0.3) -> str:
        kept.append(numpy_helper.from_array((rng.normal(size=shape) * scale).astype(np.float32), name))
        return name

    def node(kind: str, inputs: Sequence[str], result: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs, [result], f"{kind.lower()}.{result}", **attributes)

    half: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["x", constant("w1", 8, 3, 3, 3), constant("b1", 8)], "c1", pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], "a1"),
        node("MaxPool", ["a1"], "p1", **half),
        node("Conv", ["p1", constant("w2", 8, 1, 3, 3)], "c2", pads=[1, 1, 1, 1], group=8),
        node("Sigmoid", ["c2"], "s2"),
        node("Mul", ["c2", "s2"], "m2"),
        node("Add", ["m2", "p1"], "a2"),
        node("Concat", ["a2", "p1"], "j2", axis=1),
        node("LeakyRelu", ["j2"], "l2", alpha=0.1),
        node("AveragePool", ["l2"], "p2", **half),
        node("GlobalAveragePool", ["p2"], "g2"),
        node("Flatten", ["g2"], "f2"),
        node("Gemm", ["f2", constant("w3", 10, 16), constant("b3", 10)], "g3", transB=1),
        node("MatMul", ["g3", constant("w4", 10, 6)], "y"),
    ]
    x, y = (
        helper.make_tensor_value_info(*of) for of in (("x", TensorProto.FLOAT, SHAPE), ("y", TensorProto.FLOAT, (1, 6)))
    )
    graph = helper.make_graph(nodes, "network", [x], [y], kept)
    version = 8 if opset < 21 else 10
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version)
