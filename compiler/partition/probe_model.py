"""One ONNX operator in one form, as a small quantised model that the compiler can try to compile.

The operator is one node between quantised tensors: operand → QuantizeLinear → DequantizeLinear → node →
QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.graph.graph import Attribute
from tilewright.compiler.importers.onnx_microsoft import DOMAIN
from tilewright.compiler.importers.opsets import WRITTEN_IR_VERSION, WRITTEN_OPSET
from tilewright.compiler.importers.shapes import infer_shapes
from tilewright.isa.program.stored_types import DEFAULT_TYPE

SCALE = np.float32(0.05)
RESULT_SCALE = np.float32(0.0627)

IMAGE = (1, 8, 6, 6)
"""The shape [N, C, H, W] of most probes."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An operand that is an input of the model, quantised."""

    shape: tuple[int, ...] = IMAGE


@dataclass(frozen=True, slots=True)
class Weights:
    """A constant operand of integers that a DequantizeLinear reads."""

    shape: tuple[int, ...]
    dtype: str = DEFAULT_TYPE.name
    axis: int | None = 0  # of its scales; None: one scale
    zero_point: int = 0


@dataclass(frozen=True, slots=True)
class Integers:
    """An operand that is an input of the model, as the integers themselves."""

    shape: tuple[int, ...] = IMAGE


@dataclass(frozen=True)
class Numbers:
    """A plain constant operand; it has the activations' type where `dtype` is empty."""

    values: Attribute
    dtype: str = "float32"


Operand = Activation | Integers | Weights | Numbers | None
"""None means an optional input that is left out."""


@dataclass(frozen=True)
class Probe:
    """An operator in one form; `form` says which."""

    operator: str
    form: str
    operands: tuple[Operand, ...] = (Activation(),)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    results: int = 1
    is_quantised: bool = True  # a QuantizeLinear follows each result
    domain: str = ""


def probe_model(probe: Probe, dtype: str) -> onnx.ModelProto:
    """The probe's model with activations of a type. Raises onnx.shape_inference.InferenceError and the like."""
    graph = _Graph(np.dtype(dtype))
    operands = [graph.operand(operand) for operand in probe.operands]
    results = [f"result{number}" for number in range(probe.results)]
    node = helper.make_node(probe.operator, operands, results, probe.operator, domain=probe.domain)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in probe.attributes.items())
    graph.nodes.append(node)
    graph.outputs += [graph.quantized(result) if probe.is_quantised else result for result in results]
    return graph.model()


class _Graph:
    """A model under construction."""

    def __init__(self, activation: np.dtype[Any]) -> None:
        self.activation = activation
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[str] = []
        self.constants: list[onnx.TensorProto] = []

    def operand(self, operand: Operand) -> str:
        match operand:
            case None:
                return ""
            case Numbers():
                return self.constant(np.array(operand.values, operand.dtype or self.activation))
            case Integers():
                return self.input(operand.shape, self.activation)
            case Weights():
                return self.weights(operand)
            case Activation():
                return self.dequantized(self.quantized(self.input(operand.shape, np.dtype(np.float32))))
            case _:
                assert_never(operand)

    def input(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape))
        return name

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def weights(self, weights: Weights) -> str:
        limits = np.iinfo(weights.dtype)
        low, high = max(limits.min, -99), min(limits.max, 99)
        values = np.random.default_rng(0).integers(low, high, weights.shape).astype(weights.dtype)
        counts = () if weights.axis is None else (weights.shape[weights.axis],)
        inputs = [values, np.full(counts, SCALE), np.full(counts, weights.zero_point, weights.dtype)]
        name = f"w{len(self.nodes)}"
        node = helper.make_node("DequantizeLinear", [*map(self.constant, inputs)], [name], name)
        if weights.axis is not None:
            node.attribute.append(helper.make_attribute("axis", weights.axis))
        self.nodes.append(node)
        return name

    def quantized(self, tensor: str) -> str:
        zero = 3 if self.activation.kind == "i" else 131
        return self._convert("QuantizeLinear", tensor, zero)

    def dequantized(self, tensor: str) -> str:
        zero = 3 if self.activation.kind == "i" else 131
        return self._convert("DequantizeLinear", tensor, zero)

    def _convert(self, operator: str, tensor: str, zero: int) -> str:
        name = f"{tensor}.{operator[0].lower()}"
        inputs = [tensor, self.constant(np.array(SCALE)), self.constant(np.array(zero, self.activation))]
        self.nodes.append(helper.make_node(operator, inputs, [name], name))
        return name

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "probe", self.inputs, [], self.constants)
        opsets = [helper.make_opsetid("", WRITTEN_OPSET), helper.make_opsetid(DOMAIN, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=WRITTEN_IR_VERSION)
        inferred = infer_shapes(model)
        types = {value.name: value for value in inferred.graph.value_info}
        model.graph.output.extend(types[name] for name in self.outputs)
        return model
