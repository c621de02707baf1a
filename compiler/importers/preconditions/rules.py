"""Which preconditions each operator has, and the check of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from tilewright.compiler.importers.preconditions import elements, moves, quantizers, windows
from tilewright.compiler.importers.preconditions.node import ModelNode, node_of
from tilewright.compiler.importers.shapes import known_shapes

REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

OF_AN_AXIS = (
    *("Concat", "Split", "Gather", "Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "LayerNormalization"),
    *("GatherElements", "ScatterElements", "CumSum", "LpNormalization", "RMSNormalization"),
)
"""Operators whose attribute `axis` is a dimension of their first operand."""

RULES: Mapping[str, Callable[[ModelNode], None]] = {
    "Conv": windows.conv,
    "ConvInteger": windows.conv_integer,
    "QLinearConv": windows.qlinear_conv,
    "ConvTranspose": windows.conv_transpose,
    "MaxPool": windows.max_pool,
    "AveragePool": windows.average_pool,
    "LpPool": windows.lp_pool,
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), windows.global_pool),
    "Transpose": moves.transpose,
    "Split": moves.split,
    "Slice": moves.slice_,
    "Squeeze": moves.squeeze,
    "Pad": moves.pad,
    "Reshape": moves.reshape,
    "Flatten": elements.flatten,
    "Gather": moves.gather,
    "SpaceToDepth": moves.space_to_depth,
    "DepthToSpace": moves.depth_to_space,
    "MatMul": elements.matmul,
    "Gemm": elements.gemm,
    **dict.fromkeys((*(f"Reduce{name}" for name in REDUCTIONS), "ArgMax", "ArgMin"), elements.reduce),
    "Clip": elements.clip,
    "PRelu": elements.prelu,
    "Gelu": elements.gelu,
    "Resize": elements.resize,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantizers.scales),
    "MatMulInteger": quantizers.matmul_integer,
}
"""Operator of ONNX's own domain → what raises DamagedModel for a node that breaks its preconditions."""


def check_preconditions(model: onnx.ModelProto, opset: int, names: Sequence[str]) -> None:
    """Raises DamagedModel for the first node that breaks what ONNX requires. Shapes are inferred.

    `names` are what messages call the nodes, in their order.
    """
    shapes, constants = known_shapes(model), Constants(model)
    for name, node in zip(names, model.graph.node, strict=True):
        if rules := _rules(node):
            seen = node_of(name, node, opset, shapes, constants)
            for rule in rules:
                rule(seen)


def _rules(node: onnx.NodeProto) -> list[Callable[[ModelNode], None]]:
    if node.domain not in ("", "ai.onnx"):
        return []
    has_numbers = any(attribute.type == onnx.AttributeProto.FLOAT for attribute in node.attribute)
    general = [elements.numbers] if has_numbers else []
    general += [elements.axis] if node.op_type in OF_AN_AXIS else []
    return general + ([RULES[node.op_type]] if node.op_type in RULES else [])


class Constants(Mapping[str, NDArray[Any]]):
    """Constant tensors by name, each read when it is first asked for."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant":
                values = [a.t for a in node.attribute if a.name == "value"]
                self._tensors |= dict.fromkeys(node.output, *values) if values else {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return np.asarray(numpy_helper.to_array(self._tensors[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
