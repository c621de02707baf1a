"""Products with matrices of which each is repeated for several others, as heads share keys and values.

Heads 2 g and 2 g + 1 of q are multiplied with the same matrix g. Their rows, one after the other as one matrix, are
multiplied with it once. What exporters write is an Unsqueeze, an Expand and a Reshape of the matrices: copies that a
machine would make one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.graph.graph import Operator, TensorType
from tilewright.compiler.simplify.rewrite import GraphView, Replacement, joined

BATCHED = 4
"""Dimensions of [N, matrices, rows, columns]."""


@dataclass(frozen=True)
class _Repeated:
    """A tensor of matrices, each of which is repeated `times` in a row; turned if its last two dimensions are."""

    source: str
    times: int
    is_turned: bool


def repeated_matrices(operator: Operator, view: GraphView) -> Replacement | None:
    """MatMul whose right operand repeats matrices → MatMul of more rows with each of them once."""
    a, b = operator.inputs
    result = operator.outputs[0]
    shape, of_result = view.type(a).shape, view.type(result).shape
    found = _repeated(b, view)
    if found is None or len(shape) != BATCHED or len(of_result) != BATCHED or view.constant(a) is not None:
        return None
    n, matrices, rows, inner = shape
    if matrices % found.times or view.type(b).shape[1] != matrices:
        return None
    made = _Replacement(operator, view)
    groups, more = matrices // found.times, found.times * rows
    rows_of_all = made.reshape(a, (n, groups, more, inner))
    right = made.turned(found.source) if found.is_turned else found.source
    product = made.add("", "MatMul", (rows_of_all, right), (n, groups, more, of_result[-1]))
    made.last("Reshape", product, made.sizes(of_result))
    return made.replacement


def _repeated(name: str, view: GraphView) -> _Repeated | None:
    """The matrices that an operand repeats."""
    name = _before_quantization(name, view)
    turn = view.producer(name, "onnx.Transpose")
    if turn is not None:
        if tuple(turn.attributes.get("perm", ())) != (0, 1, 3, 2):
            return None
        name = _before_quantization(turn.inputs[0], view)
    whole_maker = view.producer(name, "onnx.Reshape")
    if whole_maker is None:
        return None
    copies = view.producer(_before_quantization(whole_maker.inputs[0], view), "onnx.Expand")
    if copies is None:
        return None
    wide = view.producer(_before_quantization(copies.inputs[0], view), "onnx.Unsqueeze", "onnx.Reshape")
    if wide is None:
        return None
    source = wide.inputs[0]
    given, spread, repeated, whole = (
        view.type(each).shape for each in (source, wide.outputs[0], copies.outputs[0], whole_maker.outputs[0])
    )
    if len(given) != BATCHED or len(repeated) != BATCHED + 1:
        return None
    n, groups, *matrix = given
    times = repeated[2]
    shapes = (n, groups, 1, *matrix), (n, groups, times, *matrix), (n, groups * times, *matrix)
    return _Repeated(source, times, turn is not None) if (spread, repeated, whole) == shapes and times > 1 else None


def _before_quantization(name: str, view: GraphView) -> str:
    """What a tensor was before it was quantised and dequantised once more in the steps that it had."""
    dequantize = view.producer(name, "onnx.DequantizeLinear")
    quantize = None if dequantize is None else view.producer(dequantize.inputs[0], "onnx.QuantizeLinear")
    if dequantize is None or quantize is None or not _same_steps(dequantize, quantize, view):
        return name
    moved = view.producer(quantize.inputs[0], "onnx.Transpose", "onnx.Reshape", "onnx.Expand", "onnx.Unsqueeze")
    before = None if moved is None else view.producer(moved.inputs[0], "onnx.DequantizeLinear")
    return name if before is None or not _same_steps(before, quantize, view) else quantize.inputs[0]


def _same_steps(one: Operator, other: Operator, view: GraphView) -> bool:
    """Whether two (de)quantisations have the same constant scale and zero point."""
    pairs = zip(one.inputs[1:], other.inputs[1:], strict=False)
    constants = [(view.constant(a), view.constant(b)) for a, b in pairs]
    return len(one.inputs) == len(other.inputs) == 3 and all(
        a is not None and b is not None and a.size == 1 and a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in constants
    )


class _Replacement:
    """Collects what takes the place of a product."""

    def __init__(self, operator: Operator, view: GraphView) -> None:
        self.replacement = Replacement()
        self._operator, self._view = operator, view

    def sizes(self, shape: tuple[int, ...]) -> str:
        name = self._view.fresh(f"{self._operator.name}.shape{len(self.replacement.constants)}")
        values = np.array(shape, np.int64)
        change = Replacement((), {name: TensorType("int64", values.shape)}, {name: values})
        self.replacement = joined(self.replacement, change)
        return name

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        return self.add("rows", "Reshape", (name, self.sizes(shape)), shape)

    def turned(self, name: str) -> str:
        n, groups, rows, columns = self._view.type(name).shape
        return self.add("turned", "Transpose", (name,), (n, groups, columns, rows), perm=(0, 1, 3, 2))

    def add(self, suffix: str, kind: str, inputs: tuple[str, ...], shape: tuple[int, ...], **attributes: object) -> str:
        title = f"{self._operator.name}.{suffix}" if suffix else self._operator.name
        name = self._view.fresh(f"{self._operator.name}.{suffix or 'product'}")
        given = replace(self._view.type(self._operator.outputs[0]), shape=shape)
        made = Operator(title, f"onnx.{kind}", inputs, (name,), attributes, self._operator.nodes)
        self.replacement = joined(self.replacement, Replacement((made,), {name: given}))
        return name

    def last(self, kind: str, *inputs: str) -> None:
        title, of = f"{self._operator.name}.back", self._operator
        made = Operator(title, f"onnx.{kind}", inputs, of.outputs, {}, of.nodes)
        self.replacement = joined(self.replacement, Replacement((made,)))


REPETITION_FORMS = {"onnx.MatMul": (repeated_matrices,)}
"""Tried before all other rules."""
