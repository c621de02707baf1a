"""Tensors that a Concat joins get the range of its result, so that joining them only moves them.

Nothing is lost: the Concat's result has this range in any case. A tensor keeps its own range if others read it too, if
it is averaged and goes beyond the joined range, or if its range is a limit (of a Clip, or of a Relu where the joined
range has negative values).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

import onnx

from tilewright.quantization.qdq import PICKS
from tilewright.quantization.ranges import Range

SAME_SCALE = PICKS | frozenset(
    ("AveragePool", "Flatten", "MaxPool", "Reshape", "Resize", "Slice", "Squeeze", "Transpose", "Unsqueeze")
)
"""Operators whose result is given the scale of their first operand."""

AVERAGES = ("AveragePool", "Resize")
"""Those of them whose result may depend on values beyond its range; the others only pick elements."""


def back_through(kinds: Set[str], tensor: str, makers: Mapping[str, onnx.NodeProto]) -> Iterator[str]:
    """A tensor, and the first operands of the operators of these kinds that lie before it, nearest first."""
    yield tensor
    while tensor in makers and makers[tensor].op_type in kinds:
        tensor = makers[tensor].input[0]
        yield tensor


def join_steps(alike: Mapping[str, Sequence[str]], ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges, with one for what is the same part of each step of a recurrence: one table serves all steps."""
    joined = dict(ranges)
    for tensors in alike.values():
        found = [ranges[tensor] for tensor in tensors if tensor in ranges]
        if found:
            widest = Range(min(each.low for each in found), max(each.high for each in found))
            joined |= {tensor: widest for tensor in tensors if tensor in ranges}
    return joined


def join_ranges(model: onnx.ModelProto, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges, with those of joined tensors widened to what they are joined to."""
    joined = dict(ranges)
    makers = {output: node for node in model.graph.node for output in node.output}
    readers = Counter(tensor for node in model.graph.node for tensor in set(node.input))
    readers.update(value.name for value in model.graph.output)
    for node in reversed(model.graph.node):  # so that a Concat of a Concat comes first
        if node.op_type == "Concat" and node.output[0] in joined:
            for tensor in node.input:
                _widen(tensor, joined[node.output[0]], joined, makers, readers)
    return joined


def _widen(
    tensor: str,
    wanted: Range,
    ranges: dict[str, Range],
    makers: Mapping[str, onnx.NodeProto],
    readers: Mapping[str, int],
) -> None:
    """Give the range to a tensor and to those before it that share its scale, unless one of them must keep its own."""
    chain = list(back_through(SAME_SCALE, tensor, makers))
    averages = any(makers[name].op_type in AVERAGES for name in chain[:-1])
    maker = makers.get(chain[-1])
    if any(name not in ranges or readers[name] != 1 for name in chain):
        return
    if averages and any(ranges[name].low < wanted.low or ranges[name].high > wanted.high for name in chain):
        return
    if maker is not None and (maker.op_type == "Clip" or (maker.op_type == "Relu" and wanted.low < 0)):
        return
    ranges.update(dict.fromkeys(chain, wanted))
