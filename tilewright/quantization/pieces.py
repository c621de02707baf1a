"""Curves that are steep near 0, such as a square root or a logarithm, in pieces: each has eight bits of its own.

    f(x)  =  f(min(x, b1))  +  (f(min(max(x, b1), b2)) - f(b1))  +  (f(max(x, b2)) - f(b2))

With eight bits from 0 to the greatest x, the small values have one or two steps, and a curve that is steep there makes
much of that. Here x is computed once for each piece, with a range that ends where the piece does: what computes it has
more bits inside than its result, so each piece is exact to a part of itself, and all of it stays on the machine.
Example: √x for x up to 65536 in pieces that end at 256, 4096 and 65536; 100 has steps of 1 and not of 257.

If x is a sum of values that are never negative, such as a band of a spectrum, these have parts of their own: a sum of
sums of parts. Example: the parts of p up to 16 and above, min(p, 16) and max(p - 16, 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tilewright.compiler.partition.source import reads
from tilewright.isa.program.stored_types import DEFAULT_TYPE
from tilewright.quantization.islands import CURVES, JOINED, MOVES
from tilewright.quantization.noise import LayerNoise
from tilewright.quantization.ranges import Range

RATIO = 2.0 ** (DEFAULT_TYPE.values.bits // 2)
"""Between the ends of two pieces: half of the bits are left where a piece begins."""

SUMS = frozenset(("Add", "Conv", "Gemm", "MatMul", "ReduceMean", "ReduceSum", "Sub"))
"""Operators with more bits inside than in their operands, which are computed again for a smaller range."""

MOST_PIECES = 4
"""Sixteen bits from the least to the greatest, and four more."""


@dataclass(frozen=True)
class Curve:
    """A function of one tensor, element by element: its nodes in order, what they read and what they make."""

    nodes: tuple[onnx.NodeProto, ...]
    root: str
    result: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """How many pieces a curve has, and how many parts what is summed before it."""

    count: int
    parts: int


def curve_of(layer: LayerNoise, model: onnx.ModelProto, ranges: Mapping[str, Range]) -> Curve | None:
    """A layer as a curve of one tensor, for which negative values are as 0; None if it is something else."""
    if len(layer.operands) != 1 or layer.operands[0] not in ranges:
        return None
    (root,), inside = layer.operands, set(layer.nodes)
    nodes = tuple(node for node in model.graph.node if node.name in inside)
    numbers = {tensor.name for tensor in model.graph.initializer if all(size == 1 for size in tensor.dims)}
    made = {root, *(name for node in nodes for name in node.output)}
    is_known = all(node.op_type in CURVES | JOINED and {*filter(None, node.input)} <= made | numbers for node in nodes)
    if not is_known or not any(node.op_type in CURVES for node in nodes):
        return None
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    is_positive = ranges[root].low >= 0 or all(_limits(node, tensors) for node in nodes if root in node.input)
    return Curve(nodes, root, layer.tensor) if is_positive and ranges[root].high > 0 else None


def _limits(node: onnx.NodeProto, tensors: Mapping[str, onnx.TensorProto]) -> bool:
    """Whether negative values are to a node as 0 is."""
    if node.op_type == "Relu":
        return True
    least = [tensors[name] for name in node.input[1:2] if name in tensors] if node.op_type in ("Clip", "Max") else []
    return any(float(numpy_helper.to_array(each).max()) >= 0 for each in least)


def in_pieces(model: onnx.ModelProto, curve: Curve, pieces: Pieces, ranges: Mapping[str, Range]) -> onnx.ModelProto:
    """The same function with a curve in pieces; `ranges` are those of the model's tensors."""
    made, count = onnx.ModelProto(), pieces.count
    made.CopyFrom(model)
    writer = _PieceWriter(model, ranges, pieces.parts)
    ends = _ends(ranges[curve.root], count)
    total = ""
    for number, end in enumerate(ends):
        source = writer.limited(curve.root, end)
        begin = ends[number - 1] if number else None
        piece = writer.piece(curve, source, begin, end, number)
        is_last = number == count - 1
        total = piece if not number else writer.add(total, piece, curve.result if is_last else "")
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += writer.nodes if node.name == curve.nodes[-1].name else [node]
    del made.graph.node[:]
    made.graph.node.extend(_read(nodes, {value.name for value in model.graph.output}))
    made.graph.initializer.extend(writer.constants)
    return made


def _read(nodes: Sequence[onnx.NodeProto], outputs: Set[str]) -> list[onnx.NodeProto]:
    """The nodes of which something is read, in their order."""
    wanted, found = set(outputs), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(reads(node))
            found.append(node)
    return found[::-1]


def _ends(values: Range, count: int) -> list[np.float32]:
    """Where pieces end, the first of them first; the last is the greatest value."""
    return [np.float32(float(values.high) / RATIO**step) for step in range(count)][::-1]


@dataclass
class _PieceWriter:
    """Collects the nodes of pieces, and of what each of them needs."""

    model: onnx.ModelProto
    ranges: Mapping[str, Range]
    parts: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._makers = {output: node for node in self.model.graph.node for output in node.output}
        self._taken = {name for node in self.model.graph.node for name in (node.name, *node.output)}
        self._tensors = {tensor.name: tensor for tensor in self.model.graph.initializer}
        self._taken |= {*self._tensors, *(value.name for value in self.model.graph.input)}
        self._limited: dict[tuple[str, float], str] = {}
        self._parts: dict[str, list[str]] = {}

    def limited(self, tensor: str, end: np.float32) -> str:
        """A tensor that is never negative, with nothing above a number; what computes it is computed again."""
        if self.ranges[tensor].high <= end:
            return tensor
        key = tensor, float(end)
        if key not in self._limited:
            self._limited[key] = self._again(tensor, end)
        return self._limited[key]

    def _again(self, tensor: str, end: np.float32) -> str:
        maker, clipped = self._makers.get(tensor), tensor
        if maker is not None and maker.op_type in MOVES:
            return self._copy(maker, {maker.input[0]: self.limited(maker.input[0], end)})
        while maker is not None and maker.op_type == "Relu":  # the limit at 0 is one, too
            clipped, maker = maker.input[0], self._makers.get(maker.input[0])
        if maker is not None and self.parts > 1 and self._is_sum(maker):
            sums = [
                self._cut(self._copy(maker, {maker.input[0]: part}), end) for part in self._in_parts(maker.input[0])
            ]
            clipped = reduce(self.add, sums)
        elif maker is not None and len(maker.output) == 1 and maker.op_type != "Clip":
            limited = {}
            if self._is_square(maker):
                limited = {maker.input[0]: self._within(maker.input[0], np.sqrt(end))}
            elif maker.op_type == "Add" and all(self._is_positive(name) for name in maker.input):
                limited = {name: self.limited(name, end) for name in maker.input}
            clipped = self._copy(maker, limited)
        return self._cut(clipped, end)

    def _cut(self, tensor: str, end: np.float32) -> str:
        return self.node("Clip", [tensor, self.constant(np.float32(0)), self.constant(end)], f"{tensor}.to")

    def _is_square(self, maker: onnx.NodeProto) -> bool:
        if maker.op_type == "Mul":
            return maker.input[0] == maker.input[1]
        two = self._tensors.get(maker.input[1]) if maker.op_type == "Pow" else None
        return two is not None and bool((numpy_helper.to_array(two) == 2).all())

    def _within(self, tensor: str, end: np.float32) -> str:
        """A tensor with no absolute value above a number, if what computes it can be computed again."""
        values, maker = self.ranges.get(tensor), self._makers.get(tensor)
        if values is None or maker is None or maker.op_type not in SUMS or max(-values.low, values.high) <= end:
            return tensor
        key = f"within {tensor}", float(end)
        if key not in self._limited:
            limits = [self.constant(-end), self.constant(end)]
            self._limited[key] = self.node("Clip", [self._copy(maker, {}), *limits], f"{tensor}.within")
        return self._limited[key]

    def _is_sum(self, maker: onnx.NodeProto) -> bool:
        """Whether a node sums values that are never negative, each times a constant that is not."""
        if not self._is_positive(maker.input[0]) or maker.input[0] not in self._makers:
            return False
        if maker.op_type in ("ReduceSum", "ReduceMean"):
            return True
        weights = self._tensors.get(maker.input[1]) if maker.op_type == "MatMul" else None
        return weights is not None and bool((numpy_helper.to_array(weights) >= 0).all())

    def _in_parts(self, tensor: str) -> list[str]:
        """Tensors whose sum is this one: what is between the ends of its parts."""
        if tensor not in self._parts:
            found, begin = list[str](), None
            for end in _ends(self.ranges[tensor], self.parts):
                part = self.limited(tensor, end)
                if begin is not None:
                    above = self.node("Sub", [part, self.constant(begin)], f"{tensor}.above")
                    part = self.node("Relu", [above], f"{tensor}.part")
                found.append(part)
                begin = end
            self._parts[tensor] = found
        return self._parts[tensor]

    def _is_positive(self, name: str) -> bool:
        return name in self.ranges and bool(self.ranges[name].low >= 0)

    def piece(self, curve: Curve, source: str, begin: np.float32 | None, end: np.float32, number: int) -> str:
        """The curve from one end to the other, less what it is at the beginning."""
        if begin is not None:
            source = self.node("Clip", [source, self.constant(begin), self.constant(end)], f"{curve.root}.from")
        names = {curve.root: source}
        for node in curve.nodes:
            names[node.output[0]] = self._copy(node, names)
        result = names[curve.result]
        if begin is None:
            return result
        offset = self.constant(_value_at(curve, self.model, begin))
        return self.node("Sub", [result, offset], f"{curve.result}.piece")

    def add(self, one: str, other: str, result: str = "") -> str:
        return self.node("Add", [one, other], result or f"{one}.sum", result)

    def constant(self, value: np.float32) -> str:
        name = self._fresh("piece.constant")
        self.constants.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], title: str, result: str = "") -> str:
        name = self._fresh(title)
        self.nodes.append(helper.make_node(kind, inputs, [result or name], name))
        return result or name

    def _copy(self, node: onnx.NodeProto, names: Mapping[str, str]) -> str:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.name = self._fresh(node.name)
        made.input[:] = [names.get(name, name) for name in node.input]
        made.output[:] = [made.name]
        self.nodes.append(made)
        return made.name

    def _fresh(self, title: str) -> str:
        number = 1
        while (name := f"{title}.{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name


def _value_at(curve: Curve, model: onnx.ModelProto, value: np.float32) -> np.float32:
    """A curve's value at one number."""
    read = {name for node in curve.nodes for name in node.input}
    number = helper.make_tensor_value_info(curve.root, onnx.TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info(curve.result, onnx.TensorProto.FLOAT, None)
    constants = [tensor for tensor in model.graph.initializer if tensor.name in read]
    graph = helper.make_graph(curve.nodes, "curve", [number], [result], constants)
    function = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    (found,) = ReferenceEvaluator(function).run(None, {curve.root: np.array([value], np.float32)})
    return np.float32(np.asarray(found).ravel()[0])
