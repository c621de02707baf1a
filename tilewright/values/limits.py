"""How many steps a tensor of the machine may be away: one for each rounding since the tensors it is computed from.

A value that is next to the middle between two steps may be rounded to either. Where the machine holds a tensor after
each quantisation, the limit is one step. Where a layer computes several nodes at once, the tensors between them are
nowhere to be seen or set right, and each of their roundings may add a step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx
from onnx import numpy_helper

ROUNDING = ("QuantizeLinear", "QLinear")
"""What the names of operators begin with that round to steps."""

MOVES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity", "MaxPool")
"""Operators whose results are elements of their first operand."""


class TensorLimits:
    """The limits of a model's tensors, of which the machine holds some."""

    def __init__(self, model: onnx.ModelProto, held: Collection[str]) -> None:
        """`held`: the tensors that are compared, and those that the programs get as inputs."""
        self._held = held
        self._producers = {name: node for node in model.graph.node for name in node.output}
        self._constants: Mapping[str, onnx.TensorProto] = {each.name: each for each in model.graph.initializer}
        self._fed = {value.name for value in model.graph.input} - self._constants.keys()
        self._known: dict[str, int | None] = {}

    def of(self, tensor: str) -> int:
        """The most steps that a tensor may be away: at least 1."""
        return max(1, self._roundings(tensor) or 0)

    def _roundings(self, tensor: str) -> int | None:
        """Roundings on the longest way to a tensor from those that are held; None for what depends on no input."""
        node = self._producers.get(tensor)
        if node is None:
            return 0 if tensor in self._fed else None
        before = [self._before(name) for name in node.input if name]
        known = [count for count in before if count is not None]
        return max(known) + self._rounds(node) if known else None

    def _before(self, name: str) -> int | None:
        if name in self._held:
            return 0
        if name not in self._known:
            self._known[name] = None  # a model is no circle; for one that is damaged this ends, too
            self._known[name] = self._roundings(name)
        return self._known[name]

    def _rounds(self, node: onnx.NodeProto) -> bool:
        """Whether a node may round; a quantisation of an input does not, nor one that gives back what it was before."""
        if not node.op_type.startswith(ROUNDING):
            return False
        name = node.input[0]
        if node.op_type != "QuantizeLinear":
            return True
        while (before := self._producers.get(name)) is not None and before.op_type in MOVES:
            name = before.input[0]
        if before is None:
            return name not in self._fed
        is_same = before.op_type == "DequantizeLinear" and self._numbers(before) == self._numbers(node)
        return not is_same

    def _numbers(self, node: onnx.NodeProto) -> list[list[float]]:
        """Scale and zero point of a node, those that are constant."""
        known = [self._constants[name] for name in node.input[1:] if name in self._constants]
        return [numpy_helper.to_array(each).ravel().tolist() for each in known]
