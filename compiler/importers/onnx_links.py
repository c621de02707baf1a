"""What a model's nodes read: every tensor must come from somewhere before, and constants must be numbers.

The onnx package's checker finds some of this too; here each fault names the node, the tensor and what to do.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tilewright.compiler.errors import DamagedModel, NodeName, describe
from tilewright.isa.machine.memory import BYTE_BITS
from tilewright.isa.program.small_floats import SMALL_FLOATS
from tilewright.isa.program.stored_types import STORED_TYPES

SMALL_FLOATS_BY_NAME = {each.onnx_name: each for each in SMALL_FLOATS.values()}

FLOATS = (
    *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.FLOAT8E8M0),
    *(TensorProto.DataType.Value(name.upper()) for name in SMALL_FLOATS_BY_NAME),
)

READS_NUMBERS = frozenset(
    {"BatchNormalization", "Conv", "ConvTranspose", "DequantizeLinear", "Gemm", "MatMul", "QuantizeLinear"}
)
"""Operators whose constants must be finite; elsewhere an infinite one may be a limit or a mask."""


def check_links(model: onnx.ModelProto, name: str) -> None:
    """Raise DamagedModel for a tensor that nothing makes, nodes in a cycle or out of order, and NaN in constants."""
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    known = {value.name for value in graph.input} | set(constants) | {t.values.name for t in graph.sparse_initializer}
    producers = {output: node for node in graph.node for output in node.output if output}
    checked: set[tuple[str, bool]] = set()  # constants, and whether they must be finite
    for node in graph.node:
        reads_numbers = node.op_type in READS_NUMBERS
        for tensor in filter(None, node.input):
            if tensor in known:
                if tensor in constants and (tensor, reads_numbers) not in checked:
                    checked.add((tensor, reads_numbers))
                    _check_numbers(constants[tensor], node, name)
                    _check_codes(constants[tensor], node, name)
                continue
            reads = f"{_describe(node)} reads {tensor!r}"
            if tensor not in producers:
                fact = f"{reads}, which no node, input or initializer gives"
                raise DamagedModel(name, fact, remedy="export the model with its weights")
            later = _describe(producers[tensor])
            if _depends_on(producers[tensor], node, producers):
                fact = f"{reads}, the result of {later}, which needs this node's: a cycle"
                raise DamagedModel(name, fact, remedy="export it anew")
            fact = f"{reads}, the result of {later}, which comes later"
            raise DamagedModel(name, fact, remedy="sort the nodes topologically")
        known.update(filter(None, node.output))


def _check_numbers(tensor: TensorProto, node: onnx.NodeProto, name: str) -> None:
    if tensor.data_type not in FLOATS or tensor.data_location == TensorProto.EXTERNAL:
        return
    try:
        values = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return  # its size and its data differ: the checker says so
    is_bad = np.isnan(values) if node.op_type not in READS_NUMBERS else ~np.isfinite(values)
    if is_bad.any():
        raise DamagedModel(
            name,
            f"{_describe(node)} reads {tensor.name!r}, which holds NaN or infinity in {int(is_bad.sum())} of "
            f"{values.size} places",
            remedy="train or export the model anew",
        )


def _check_codes(tensor: TensorProto, node: onnx.NodeProto, name: str) -> None:
    """Integers are such that their type holds; elements of less than a byte share bytes, as many as they need."""
    if tensor.data_type not in TensorProto.DataType.values() or tensor.data_location == TensorProto.EXTERNAL:
        return  # the checker says so
    stored = TensorProto.DataType.Name(tensor.data_type).lower()
    small = SMALL_FLOATS_BY_NAME.get(stored)
    if stored not in STORED_TYPES and small is None:
        return
    reads = f"{_describe(node)} reads {tensor.name!r}"
    bits = STORED_TYPES[stored].values.bits if small is None else small.bits
    if bits < BYTE_BITS:
        _check_packed(tensor, stored, bits, reads, name)
        return
    low, high = STORED_TYPES[stored].limits if small is None else (0, (1 << bits) - 1)
    if wrong := [value for value in tensor.int32_data if not low <= value <= high]:
        raise DamagedModel(name, f"{reads}, {stored} that holds {wrong[0]}", expected=f"{low} to {high}")


def _check_packed(tensor: TensorProto, stored: str, bits: int, reads: str, name: str) -> None:
    in_a_byte = BYTE_BITS // bits
    count = prod(tensor.dims)
    needed = -(-count // in_a_byte)
    held = tensor.raw_data if tensor.HasField("raw_data") else tensor.int32_data
    if len(held) != needed:
        fact = f"{reads}, which has {len(held)} bytes for {count} elements of {stored}"
        raise DamagedModel(name, fact, expected=f"{needed}, with {in_a_byte} elements in each")
    if wrong := [value for value in held if not 0 <= value < 1 << BYTE_BITS]:
        fact = f"{reads}, which has {wrong[0]} in place of a byte with {in_a_byte} elements of {stored}"
        raise DamagedModel(name, fact, expected=f"0 to {(1 << BYTE_BITS) - 1}")


def _depends_on(node: onnx.NodeProto, other: onnx.NodeProto, producers: dict[str, onnx.NodeProto]) -> bool:
    """Whether one node needs a result of another, directly or through others."""
    wanted, seen, pending = set(other.output), set(), list(node.input)
    while pending:
        tensor = pending.pop()
        if tensor in wanted:
            return True
        if tensor not in seen and tensor in producers:
            seen.add(tensor)
            pending += producers[tensor].input
    return False


def _describe(node: onnx.NodeProto) -> str:
    return describe(NodeName(node.name or next(iter(node.output), ""), node.op_type))
