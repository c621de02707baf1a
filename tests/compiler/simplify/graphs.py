"""Level 1 written by hand for the tests of single rules, and the comparison of what two graphs compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Graph, Operator, Quantization, TensorType
from tilewright.compiler.graph.interpreter import run_graph
from tilewright.compiler.simplify.rewrite import Rules, rewrite

QUANTIZED = Quantization((0.25,), (-5,))
OTHER = Quantization((0.4,), (11,))


@dataclass
class GraphBuilder:
    """Adds operators one by one; each result is named after its operator. The input is the float tensor `x`."""

    shape: tuple[int, ...] = (1, 3, 6, 6)
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tensors["x"] = TensorType("float32", self.shape)

    def constant(self, name: str, value: Any, quantization: Quantization | None = None) -> str:
        self.constants[name] = np.asarray(value)
        self.tensors[name] = TensorType(self.constants[name].dtype.name, self.constants[name].shape, quantization)
        return name

    def add(self, name: str, kind: str, *inputs: str, tensor_type: TensorType | None = None, **attributes: Any) -> str:
        """An operator whose result has the type of its first input unless another is given."""
        self.operators.append(Operator(name, kind, inputs, (name,), attributes, (name,)))
        self.tensors[name] = self.tensors[inputs[0]] if tensor_type is None else tensor_type
        return name

    def quantize(self, name: str, x: str, quantization: Quantization = QUANTIZED, dtype: str = "int8") -> str:
        tensor_type = TensorType(dtype, self.tensors[x].shape, quantization)
        return self.add(
            name, "quantize", x, tensor_type=tensor_type, low=tensor_type.limits[0], high=tensor_type.limits[1]
        )

    def dequantize(self, name: str, q: str) -> str:
        return self.add(name, "dequantize", q, tensor_type=TensorType("float32", self.tensors[q].shape))

    def pair(self, name: str, x: str, quantization: Quantization = QUANTIZED) -> str:
        return self.dequantize(name, self.quantize(f"{name}.q", x, quantization))

    def conv(self, name: str, x: str, outputs: int = 4, seed: int = 1, **attributes: Any) -> str:
        """A 3×3 convolution without padding, quantised weights and float bias."""
        rng = np.random.default_rng(seed)
        n, c, h, w = self.tensors[x].shape
        weights = rng.integers(-127, 128, size=(outputs, c, 3, 3)).astype(np.int8)
        scales = Quantization(tuple(map(float, rng.uniform(0.001, 0.01, outputs))), (0,) * outputs, 0)
        weight = self.dequantize(f"{name}.w", self.constant(f"{name}.weight", weights, scales))
        bias = self.constant(f"{name}.bias", rng.normal(size=outputs))
        given = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, **attributes}
        return self.add(
            name, "conv", x, weight, bias, tensor_type=TensorType("float32", (n, outputs, h - 2, w - 2)), **given
        )

    def pool(self, name: str, kind: str, x: str) -> str:
        """A 2×2 window with stride 2."""
        n, c, h, w = self.tensors[x].shape
        tensor_type = TensorType(self.tensors[x].dtype, (n, c, h // 2, w // 2), self.tensors[x].quantization)
        extra = {"counts_padding": 0} if kind == "average_pool" else {}
        window = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0), "dilations": (1, 1), **extra}
        return self.add(name, kind, x, tensor_type=tensor_type, **window)

    def reshape(self, name: str, x: str, *shape: int) -> str:
        tensor_type = self.tensors[x]
        return self.add(name, "reshape", x, tensor_type=TensorType(tensor_type.dtype, shape, tensor_type.quantization))

    def graph(self, *outputs: str) -> Graph:
        names = {name: name for name in outputs}
        return Graph("test", tuple(self.operators), self.tensors, self.constants, ("x",), names, 17)


def rewritten(graph: Graph, rules: Rules, tolerance: float = 0.0) -> Graph:
    """The graph after the rules, checked to compute the same for random inputs that go beyond every range."""
    after = rewrite(graph, rules)
    assert_same(graph, after, tolerance)
    return after


def assert_same(before: Graph, after: Graph, tolerance: float = 0.0) -> None:
    shape = before.tensors["x"].shape
    for seed in range(4):
        inputs: Mapping[str, NDArray[Any]] = {
            "x": np.random.default_rng(seed).uniform(-40, 40, size=shape).astype(np.float32)
        }
        expected, computed = run_graph(before, inputs), run_graph(after, inputs)
        for name in expected:
            assert expected[name].shape == computed[name].shape
            difference = np.abs(expected[name].astype(np.float64) - computed[name].astype(np.float64))
            assert difference.max() <= tolerance, name


def kinds(graph: Graph) -> list[str]:
    return [operator.kind for operator in graph.operators]


def only(graph: Graph, kind: str) -> Operator:
    """The one operator of a kind."""
    (found,) = (operator for operator in graph.operators if operator.kind == kind)
    return found
