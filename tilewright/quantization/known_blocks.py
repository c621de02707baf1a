"""Float networks whose matrices are quantised in blocks already, as those of MatMulNBits: these keep their integers.

While such a network is calibrated, the floats that its DequantizeLinear gives stand for the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

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
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    known = {
        node.output[0]: KnownBlocks(tuple(constants[name] for name in node.input if name), tuple(node.attribute))
        for node in model.graph.node
        if _is_matrix_in_blocks(node, model, constants.keys())
    }
    if not known:
        return model, known
    made = onnx.ModelProto()
    made.CopyFrom(model)
    kept = [node for node in made.graph.node if node.output[0] not in known]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    for name, blocks in known.items():
        made.graph.initializer.append(numpy_helper.from_array(_floats(blocks), name))
    read = {name for node in made.graph.node for name in node.input} | {value.name for value in made.graph.output}
    left = [tensor for tensor in made.graph.initializer if tensor.name in read]
    del made.graph.initializer[:]
    made.graph.initializer.extend(left)
    return made, known


def _floats(blocks: KnownBlocks) -> NDArray[np.float32]:
    """What the DequantizeLinear gives."""
    axis, block = (next(a.i for a in blocks.attributes if a.name == name) for name in ("axis", "block_size"))
    codes, scales, *zeros = (numpy_helper.to_array(each).astype(np.float32) for each in blocks.constants)
    size = codes.shape[axis]
    spread = [each.repeat(block, axis).take(range(size), axis) for each in (scales, *zeros)]
    return np.asarray((codes - spread[1] if zeros else codes) * spread[0], np.float32)


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
