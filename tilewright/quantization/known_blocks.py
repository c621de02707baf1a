"""Float networks whose matrices are quantised in blocks already, as those of MatMulNBits: these keep their integers.

While such a network is calibrated, the floats that its DequantizeLinear gives stand for the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import onnx

from tilewright.quantization.constants import constants_of, dequantized, with_constants

PRODUCTS = ("MatMul", "Gemm")


@dataclass(frozen=True)
class KnownBlocks:
    """The constants of a DequantizeLinear with blocks: integers, scales, perhaps zero points; and its attributes."""

    constants: tuple[onnx.TensorProto, ...]
    attributes: tuple[onnx.AttributeProto, ...]


Known = Mapping[str, KnownBlocks]
"""By the name of the float matrix."""


def with_float_matrices(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Known]:
    """The model with constant matrices in blocks as floats, and what they are made of."""
    constants = constants_of(model)
    readers = [node for node in model.graph.node if _is_matrix_in_blocks(node, model, constants.keys())]
    known = {
        node.output[0]: KnownBlocks(tuple(constants[name] for name in node.input if name), tuple(node.attribute))
        for node in readers
    }
    return with_constants(model, {node.output[0]: dequantized(node, constants) for node in readers}), known


def _is_matrix_in_blocks(node: onnx.NodeProto, model: onnx.ModelProto, constants: Set[str]) -> bool:
    """Whether a node dequantises constants in blocks, and products alone read them, as their second operand."""
    if node.op_type != "DequantizeLinear" or not {"axis", "block_size"} <= {a.name for a in node.attribute}:
        return False
    if not {name for name in node.input if name} <= constants:
        return False
    readers = [reader for reader in model.graph.node if node.output[0] in reader.input]
    return bool(readers) and all(
        reader.op_type in PRODUCTS and [*reader.input].count(node.output[0]) == 1 and reader.input[1] == node.output[0]
        for reader in readers
    )
