"""Networks of floats of few bits, and how many codes two results are apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilewright.isa.program.small_floats import SmallFloat
from tilewright.quantization.quantize import quantize

SHAPE = (1, 8, 12, 12)


def float_network() -> onnx.ModelProto:
    """Convolutions with a Relu and with limits, an Add, a MaxPool, an average and a Gemm."""
    rng = np.random.default_rng(5)
    shapes = {"w1": (32, 8, 3, 3), "b1": (32,), "w2": (32, 32, 3, 3), "b2": (32,), "w3": (32, 32, 1, 1), "w4": (32, 10)}
    constants = [
        numpy_helper.from_array(rng.normal(0, 1.5 / np.sqrt(np.prod(s[1:]) or 1), s).astype(np.float32), name)
        for name, s in shapes.items()
    ]
    constants += [numpy_helper.from_array(np.float32(each), name) for name, each in (("least", 0), ("most", 3))]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "first", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2", "b2"], ["c"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c", "least", "most"], ["d"], "clip"),
        helper.make_node("Conv", ["d", "w3"], ["e"], "third"),
        helper.make_node("Add", ["e", "b"], ["f"], "add"),
        helper.make_node("MaxPool", ["f"], ["g"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["g"], ["h"], "mean"),
        helper.make_node("Flatten", ["h"], ["i"], "flatten"),
        helper.make_node("Gemm", ["i", "w4"], ["y"], "dense"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", SHAPE), ("y", (1, 10)))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


LAYERS = {
    "conv": [("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]})],
    "relu": [("Conv", ["x", "w", "b"], {"strides": [2, 2]}), ("Relu", ["0"], {})],
    "clip": [("Conv", ["x", "w"], {}), ("Clip", ["0", "least", "most"], {})],
    "groups": [("Conv", ["x", "narrow"], {"group": 8})],
    "max_pool": [("MaxPool", ["x"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]})],
    "average": [("AveragePool", ["x"], {"kernel_shape": [3, 3], "strides": [2, 2]})],
    "add": [("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}), ("Add", ["0", "x"], {})],
    "mul": [("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}), ("Mul", ["0", "x"], {})],
    "transposed": [("ConvTranspose", ["x", "w"], {"strides": [2, 2]})],
    "concat": [("Conv", ["x", "w"], {"pads": [1, 1, 1, 1]}), ("Concat", ["0", "x"], {"axis": 1})],
}
"""A layer or two: operators with their operands, of which a number is an earlier one's result."""


def layer_network(name: str) -> onnx.ModelProto:
    rng = np.random.default_rng(6)
    shapes = {"w": (8, 8, 3, 3), "b": (8,), "narrow": (8, 1, 3, 3)}
    constants = [numpy_helper.from_array(rng.normal(0, 0.2, s).astype(np.float32), n) for n, s in shapes.items()]
    constants += [numpy_helper.from_array(np.float32(each), n) for n, each in (("least", -1), ("most", 2))]
    nodes = [
        helper.make_node(kind, read, [str(at)], f"{kind.lower()}{at}", **attributes)
        for at, (kind, read, attributes) in enumerate(LAYERS[name])
    ]
    nodes[-1].output[0] = "y"
    read = {each for node in nodes for each in node.input}
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [each for each in constants if each.name in read],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def samples(count: int = 8, seed: int = 4) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, *SHAPE)).astype(np.float32)


def quantised_network(model: onnx.ModelProto | None = None, **options: Any) -> onnx.ModelProto:
    return quantize(model or float_network(), {"x": samples()}, **options).model


def codes_apart(a: NDArray[Any], b: NDArray[Any], scale: float, element: SmallFloat) -> NDArray[np.int64]:
    """How many codes of a type lie between each two reals, which are codes times a scale."""
    places = []
    for real in (a, b):
        codes = element.codes(element.nearest(real.astype(np.float64) / scale)).astype(np.int64)
        sign = 1 << (element.bits - 1)
        places.append(np.where(codes & sign, -(codes & ~sign), codes))
    return np.abs(places[0] - places[1])
