"""Operators become canonical ones on quantised tensors, by tables of small rules.

The first of them fold constants: what depends only on constants and shapes is computed now, by ONNX's reference
evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.errors import RAISING, Blame
from tilewright.compiler.graph.graph import Graph, Operator, TensorType
from tilewright.compiler.graph.reference import evaluate_onnx_operator
from tilewright.compiler.session import Session
from tilewright.compiler.simplify.affine import AFFINE_RULES, LONE_AFFINE_RULES
from tilewright.compiler.simplify.between import BETWEEN_RULES
from tilewright.compiler.simplify.between_sums import BETWEEN_SUMS_RULES
from tilewright.compiler.simplify.binary import BINARY_RULES
from tilewright.compiler.simplify.blocks import BLOCK_RULES
from tilewright.compiler.simplify.canonical import CANONICALIZE
from tilewright.compiler.simplify.casts import CAST_RULES
from tilewright.compiler.simplify.concats import CONCAT_RULES
from tilewright.compiler.simplify.found_scales import LONE_CONSTANT_RULES, reads_float_constant
from tilewright.compiler.simplify.heads import HEAD_RULES
from tilewright.compiler.simplify.integer import INTEGER_RULES
from tilewright.compiler.simplify.moves import MOVE_RULES
from tilewright.compiler.simplify.one_rounding import ONE_ROUNDING_RULES
from tilewright.compiler.simplify.padding import PADDING_RULES
from tilewright.compiler.simplify.product_factors import PRODUCT_FACTOR_RULES
from tilewright.compiler.simplify.reordered_concats import REORDERED_CONCAT_RULES
from tilewright.compiler.simplify.resize import RESIZE_RULES
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, Rules, merge_equal_operators, merged, rewrite
from tilewright.compiler.simplify.tables import TABLE_RULES
from tilewright.compiler.simplify.transposes import LAYOUT_RULES, TRANSPOSE_RULES

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

RULES: Sequence[Rules] = (
    FOLD_RULES,
    CANONICALIZE,
    CAST_RULES,
    HEAD_RULES,
    BINARY_RULES,
    PRODUCT_FACTOR_RULES,
    AFFINE_RULES,
    MOVE_RULES,
    CONCAT_RULES,
    BLOCK_RULES,
    RESIZE_RULES,
    INTEGER_RULES,
    TABLE_RULES,
    LAYOUT_RULES,
    PADDING_RULES,
    TRANSPOSE_RULES,
    REORDERED_CONCAT_RULES,
)
"""All rules, in the order in which those of one operator kind are tried."""


def simplify(graph: Graph, blame: Blame = RAISING, session: Session | None = None) -> Graph:
    """The same network as canonical operators on quantised tensors, by small rules; what none of them fits stays."""
    session = session or Session()
    graph = rewrite(graph, BY_KIND, blame, session)
    if any(operator.kind in LONE_AFFINE_RULES for operator in graph.operators):
        graph = rewrite(graph, BY_KIND_WITH_LONE_AFFINE, blame, session)
    if reads_float_constant(graph):
        graph = rewrite(graph, BY_KIND_WITH_LONE_CONSTANTS, blame, session)
    if any(operator.kind == "quantize" and operator.inputs[0] in graph.producers for operator in graph.operators):
        graph = rewrite(graph, BY_KIND_WITH_ROUNDINGS, blame, session)
    return merge_equal_operators(graph)


BY_KIND: Rules = merged(RULES)
BY_KIND_WITH_LONE_CONSTANTS: Rules = merged((*RULES, LONE_AFFINE_RULES, LONE_CONSTANT_RULES))
BY_KIND_WITH_LONE_AFFINE: Rules = merged((*RULES, LONE_AFFINE_RULES))
BY_KIND_WITH_ROUNDINGS: Rules = merged(
    (*RULES, LONE_AFFINE_RULES, LONE_CONSTANT_RULES, ONE_ROUNDING_RULES, BETWEEN_RULES, BETWEEN_SUMS_RULES)
)
"""For what none of these could make an operator on integers."""
