"""Nodes and constants of an ONNX model, each under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.compiler.graph.graph import Attribute
from tilewright.compiler.importers.tflite.model import OperatorInfo


class NodeWriter:
    """The nodes so far. A method that returns text returns the name of an ONNX value."""

    def __init__(self, taken: Sequence[str]) -> None:
        """`taken` are names that no value may have."""
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._names: set[str] = set(taken)
        self._node_names: set[str] = set()
        self._operator: OperatorInfo | None = None
        self._reason = ""
        self.reasons: dict[str, str] = {}

    def begin(self, operator: OperatorInfo) -> None:
        """From here on, nodes belong to this operator."""
        self._operator, self._reason = operator, ""

    def leave_to_host(self, reason: str) -> None:
        """The nodes of this operator from here on are the host's, for a reason that they do not show themselves."""
        self._reason = reason

    def node(self, op_type: str, *inputs: str, base: str = "", **attributes: Attribute) -> str:
        """Add a node with one output; `base` is what that output's name begins with."""
        return self.nodes_outputs(op_type, inputs, 1, base, **attributes)[0]

    def nodes_outputs(
        self, op_type: str, inputs: Sequence[str], count: int, base: str, **attributes: Attribute
    ) -> list[str]:
        """Add a node with `count` outputs."""
        name = self._node_name(op_type)
        outputs = [self.fresh(f"{base or name}:{op_type}") for _ in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs, name=name, **attributes))
        if self._reason and op_type != "DequantizeLinear":  # which others may read
            self.reasons[name] = self._reason
        return outputs

    @contextmanager
    def body(self) -> Iterator[list[onnx.NodeProto]]:
        """The nodes that are added meanwhile, which become those of another node's graph."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def constant(self, base: str, value: NDArray[Any]) -> str:
        """Add a constant."""
        name = self.fresh(base)
        self.initializers[name] = numpy_helper.from_array(value, name)
        return name

    def int64(self, values: Sequence[int]) -> str:
        """Add a constant list, such as a shape."""
        return self.constant("integers", np.array(values, np.int64))

    def number(self, value: float) -> str:
        """Add a constant float."""
        return self.constant("number", np.array(value, np.float32))

    def reshape(self, value: str, shape: Sequence[int], base: str) -> str:
        return self.node("Reshape", value, self.int64(shape), base=base)

    def fresh(self, base: str) -> str:
        """A name that no value has yet."""
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def _node_name(self, op_type: str) -> str:
        operator = self._operator
        name = base = f"{operator.kind}_{operator.index}/{op_type}" if operator is not None else op_type
        count = 1
        while name in self._node_names:
            count += 1
            name = f"{base}_{count}"
        self._node_names.add(name)
        return name
