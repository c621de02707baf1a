"""Constant folding: what depends only on constants and shapes is computed now, by ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.graph.reference import evaluate_onnx_operator
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

KEPT = ("onnx.QuantizeLinear", "onnx.DequantizeLinear")
"""Quantised constants stay quantised."""


def fold_constants(operator: Operator, view: GraphView) -> Replacement | None:
    """An ONNX operator whose every operand is constant becomes its value."""
    if not operator.kind.startswith("onnx.") or operator.kind in KEPT or not operator.inputs:
        return None
    values = [view.constant(name) if name else None for name in operator.inputs]
    if any(name and value is None for name, value in zip(operator.inputs, values, strict=True)):
        return None
    results = evaluate_onnx_operator(operator, values, view.opset)
    return _constants(dict(zip(operator.outputs, results, strict=False)))


def fold_shape(operator: Operator, view: GraphView) -> Replacement | None:
    """ONNX's Shape is a constant, because every shape is known."""
    shape = np.array(view.type(operator.inputs[0]).shape, np.int64)
    first, last = operator.attributes.get("start", 0), operator.attributes.get("end")
    return _constants({operator.outputs[0]: shape[first:last]})


def _constants(values: dict[str, NDArray[Any]]) -> Replacement:
    types = {name: TensorType(value.dtype.name, value.shape) for name, value in values.items()}
    return Replacement(tensors=types, constants=values)


FOLD_RULES = {"onnx.Shape": (fold_shape,), "*": (fold_constants,)}
