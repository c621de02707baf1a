"""Which nodes have weights of a narrower type in the file than in the machine's memory."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from tilewright.compiler.importers.model_checks import SMALL_FLOATS_BY_NAME
from tilewright.isa.program.program import Program
from tilewright.isa.program.stored_types import SHORT, STORED_TYPES
from tilewright.isa.templates.systolic import systolic_weights

BITS = {name: STORED_TYPES[name].values.bits for name in SHORT} | {
    name: each.bits for name, each in SMALL_FLOATS_BY_NAME.items()
}
"""Types that a machine may have to widen, by their names in ONNX."""


def remarks_on_weights(model: onnx.ModelProto, program: Program) -> dict[str, str]:
    """A remark for each node of a program whose weights take more bits there than in the file."""
    of_file = dict(_dequantised_weights(model.graph))
    remarks = {}
    for instruction, layer in zip(program.instructions, program.provenance, strict=False) if of_file else ():
        format = instruction.format
        if format.statement.dot is None:
            continue
        held = systolic_weights(format).element.type
        for node in of_file.keys() & set(program.layers[layer].nodes):
            if held is not None and BITS[of_file[node]] < held.bits:
                told = f"they are {of_file[node]} in the model, and {held} in memory"
                remarks[f"weights of {node}"] = f"{told}: {format.mnemonic} multiplies by these"
    return dict(sorted(remarks.items()))


def _dequantised_weights(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """The nodes that read a constant of a narrow type behind its DequantizeLinear, and that type."""
    types = {held.name: onnx.TensorProto.DataType.Name(held.data_type).lower() for held in graph.initializer}
    real = {
        node.output[0]: types[node.input[0]]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and types.get(node.input[0]) in BITS
    }
    for node in graph.node:
        yield from ((node.name, real[name]) for name in node.input if name in real)
