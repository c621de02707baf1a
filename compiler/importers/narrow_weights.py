"""Which nodes have weights of a narrower type in the file than in the machine's memory."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.stored_types import STORED_TYPES


def remarks_on_weights(model: onnx.ModelProto, machine: Machine) -> dict[str, str]:
    """A remark for each node whose weights take more bits on the machine than in the file."""
    held = arithmetic_of(machine).weight
    return {
        f"weights of {name}": f"they are {dtype} in the model, and {held} in memory: {machine.name} multiplies by these"
        for name, dtype in _dequantised_weights(model.graph)
        if STORED_TYPES[dtype].values.bits < held.bits
    }


def _dequantised_weights(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """The nodes that read a constant behind its DequantizeLinear, and the constant's element type."""
    types = {held.name: onnx.TensorProto.DataType.Name(held.data_type).lower() for held in graph.initializer}
    real = {
        node.output[0]: types[node.input[0]]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and types.get(node.input[0]) in STORED_TYPES
    }
    for node in graph.node:
        yield from ((node.name or node.output[0], real[name]) for name in node.input if name in real)
