"""Normalisations that exporters wrote as many nodes, found again before anything else is simplified.

    d = x - mean(x)         mean of d² = mean(d · d), or d to the power of 2
    LayerNormalization      d / √(mean of d² + epsilon), or d times that root's reciprocal; by γ and β afterwards; or
                            x · s + (β - mean · s) with s = γ / √(…)
    RMSNormalization        the same of x itself
    LpNormalization         x / √(sum of x²), or over ReduceL2

Every mean is along the last dimension, or along the same last ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.rewrite import GraphView, Replacement

RECIPROCAL_ROOT, ROOT = -0.5, 0.5


@dataclass(frozen=True)
class _Root:
    """The root of the mean square of a tensor's rows, and the operators that compute it."""

    of: str
    axis: int  # from the end, so negative: along it and all dimensions after it
    epsilon: float
    is_sum: bool
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class _Mean:
    of: str
    axis: int
    operator: Operator


def quotient(operator: Operator, view: GraphView) -> Replacement | None:
    """d / √(mean(d²) + epsilon), also with the reciprocal or the power of the root."""
    for value, factor in _quotients(operator, view):
        found = _root(factor.name, view, factor.power)
        if found is None:
            continue
        operators = (*found.operators, *factor.operators, operator)
        if found.of == value and found.is_sum:
            return _lp(operator, value, found, operators) if found.epsilon == 0 and found.axis == -1 else None
        mean = _centred(value, view)
        if found.of != value or found.is_sum:
            continue
        if mean is None or mean[0].axis != found.axis:
            return _normalization(operator, value, found, operators, "onnx.RMSNormalization", view)
        operators = (mean[0].operator, mean[1], *operators)
        return _normalization(operator, mean[0].of, found, operators, "onnx.LayerNormalization", view)
    return None


@dataclass(frozen=True)
class _Factor:
    """A tensor, and the power of it that a value is multiplied with."""

    name: str
    power: float
    operators: tuple[Operator, ...] = ()


def _quotients(operator: Operator, view: GraphView) -> Iterator[tuple[str, _Factor]]:
    """The ways to read an operator as a value times a power of a mean square."""
    a, b = operator.inputs
    if operator.kind == "onnx.Div":
        yield a, _Factor(b, -1.0)
        return
    for value, factor in ((a, b), (b, a)):
        yield from ((value, found) for found in _inverted(factor, view))


def _inverted(name: str, view: GraphView) -> Iterator[_Factor]:
    producer = view.producer(name, "onnx.Reciprocal", "onnx.Div", "onnx.Pow")
    if producer is None:
        return
    if producer.kind == "onnx.Reciprocal":
        yield _Factor(producer.inputs[0], -1.0, (producer,))
    elif producer.kind == "onnx.Div" and _number(producer.inputs[0], view) == 1:
        yield _Factor(producer.inputs[1], -1.0, (producer,))
    elif producer.kind == "onnx.Pow" and _number(producer.inputs[1], view) == RECIPROCAL_ROOT:
        yield _Factor(producer.inputs[0], RECIPROCAL_ROOT, (producer,))


def _root(name: str, view: GraphView, power: float) -> _Root | None:
    """A tensor to the power of -1 (or of -1/2) as the reciprocal root of a mean square."""
    operators: tuple[Operator, ...] = ()
    if power == -1.0:
        length = view.producer(name, "onnx.ReduceL2")
        if length is not None:
            axis = _reduced(length, view)
            return None if axis is None else _Root(length.inputs[0], axis, 0.0, True, (length,))
        root = view.producer(name, "onnx.Sqrt", "onnx.Pow")
        if root is None or (root.kind == "onnx.Pow" and _number(root.inputs[1], view) != ROOT):
            return None
        name, operators = root.inputs[0], (root,)
    epsilon, added = 0.0, view.producer(name, "onnx.Add")
    if added is not None:
        numbers = [(other, _number(one, view)) for one, other in (added.inputs, added.inputs[::-1])]
        known = next(((other, number) for other, number in numbers if number is not None), None)
        if known is None:
            return None
        (name, epsilon), operators = known, (added, *operators)
    reduced = view.producer(name, "onnx.ReduceMean", "onnx.ReduceSum")
    axis = None if reduced is None else _reduced(reduced, view)
    if reduced is None or axis is None:
        return None
    square = view.producer(reduced.inputs[0], "onnx.Mul", "onnx.Pow")
    if square is None:
        return None
    is_square = square.inputs[0] == square.inputs[1]
    if square.kind == "onnx.Pow":
        is_square = _number(square.inputs[1], view) == 2
    if not is_square:
        return None
    is_sum = reduced.kind == "onnx.ReduceSum"
    return _Root(square.inputs[0], axis, epsilon, is_sum, (square, reduced, *operators))


def _centred(name: str, view: GraphView) -> tuple[_Mean, Operator] | None:
    """A tensor less its mean."""
    difference = view.producer(name, "onnx.Sub")
    mean = None if difference is None else _mean(difference.inputs[1], view)
    if difference is None or mean is None or mean.of != difference.inputs[0]:
        return None
    return mean, difference


def _mean(name: str, view: GraphView) -> _Mean | None:
    producer = view.producer(name, "onnx.ReduceMean")
    axis = None if producer is None else _reduced(producer, view)
    return None if producer is None or axis is None else _Mean(producer.inputs[0], axis, producer)


def _reduced(operator: Operator, view: GraphView) -> int | None:
    """The first of the last dimensions that a reduction is along, from the end; None if it is along others."""
    rank = len(view.type(operator.inputs[0]).shape)
    axes = operator.attributes.get("axes")
    if axes is None and len(operator.inputs) > 1 and operator.inputs[1]:
        constant = view.constant(operator.inputs[1])
        axes = None if constant is None else constant.ravel().tolist()
    if axes is None or not axes or operator.attributes.get("keepdims", 1) != 1:
        return None
    behind = sorted(int(axis) % rank - rank for axis in axes)
    return behind[0] if behind == list(range(behind[0], 0)) else None


def _number(name: str, view: GraphView) -> float | None:
    """The value of a constant that is one number."""
    value = view.constant(name)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


# -- what takes their place --------------------------------------------------------------------------------------------


def _normalization(
    operator: Operator, source: str, root: _Root, operators: Sequence[Operator], kind: str, view: GraphView
) -> Replacement | None:
    shape = view.type(source).shape[root.axis :]
    if view.type(operator.outputs[0]).shape != view.type(source).shape:
        return None
    scale = view.fresh(f"{operator.outputs[0]}.scale")
    made = Operator(
        operator.name,
        kind,
        (source, scale),
        operator.outputs,
        {"axis": root.axis, "epsilon": root.epsilon},
        _nodes(operators),
    )
    ones = np.ones(shape, np.float32)
    return Replacement((made,), {scale: TensorType("float32", shape)}, {scale: ones})


def _lp(operator: Operator, source: str, root: _Root, operators: Sequence[Operator]) -> Replacement:
    attributes = {"axis": root.axis, "p": 2}
    made = Operator(operator.name, "onnx.LpNormalization", (source,), operator.outputs, attributes, _nodes(operators))
    return Replacement((made,))


def _nodes(operators: Sequence[Operator]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for operator in operators for node in operator.nodes))


def scaled(operator: Operator, view: GraphView) -> Replacement | None:
    """γ · n and n + β are part of the normalisation that gives n, if only they read it."""
    for source, constant in (operator.inputs, operator.inputs[::-1]):
        kinds = ("onnx.LayerNormalization", "onnx.RMSNormalization")[: 2 if operator.kind == "onnx.Mul" else 1]
        before, value = view.producer(source, *kinds), view.constant(constant)
        if before is None or value is None or not view.is_read_once(source) or len(before.outputs) > 1:
            continue
        shape = view.type(before.inputs[1]).shape
        spread = _as_rows(value, shape)
        known = [view.constant(name) for name in before.inputs[1:]]
        if spread is None or any(each is None for each in known) or source in view.outputs:
            continue
        scale, bias = (*(np.broadcast_to(each, shape) for each in known if each is not None), np.zeros(shape))[:2]
        both = (scale * spread, bias * spread) if operator.kind == "onnx.Mul" else (scale, bias + spread)
        count = 2 if before.kind == "onnx.LayerNormalization" else 1
        names = [view.fresh(f"{operator.outputs[0]}.{what}") for what in ("scale", "bias")][:count]
        made = replace(
            before,
            inputs=(before.inputs[0], *names),
            outputs=operator.outputs,
            nodes=_nodes((before, operator)),
        )
        constants = {name: each.astype(np.float32) for name, each in zip(names, both, strict=False)}
        return Replacement((made,), {name: TensorType("float32", shape) for name in names}, constants)
    return None


def _as_rows(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant that is the same for all rows, as an array of one row."""
    trimmed = value.reshape(value.shape[-len(shape) :]) if np.prod(value.shape[: -len(shape)], initial=1) == 1 else None
    try:
        return None if trimmed is None else np.broadcast_to(trimmed, shape)
    except ValueError:
        return None


NORMALIZATION_FORMS = {
    "onnx.Div": (quotient,),
    "onnx.Mul": (quotient, scaled),
    "onnx.Add": (scaled,),
}
"""Tried before all other rules."""
