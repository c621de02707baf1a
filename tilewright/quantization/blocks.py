"""Weights with a scale for each block along the sum: those of matrix products in QDQ form, quantised again.

A block's scale is the one of some, from its largest weight downwards, with the least sum of squared differences.
Weights are rounded one row after the other, and the rows after it make up for what a row is off, as far as they are
multiplied by values that go with its own (GPTQ, arXiv:2210.17323, algorithm 1: H is the moments of what is multiplied).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tilewright.isa.program.small_floats import BY_SHORT_NAME
from tilewright.quantization.constants import constants_of, dequantizers, drop_unread
from tilewright.quantization.grids import Grid, grid_of
from tilewright.quantization.known_blocks import Known, KnownBlocks
from tilewright.quantization.moments import Moments

SIZES = (16, 32, 64, 128)
"""The sizes of blocks that are made."""

DAMPING = 0.01
"""What is added to the moments of each row, in parts of their mean: the samples are few."""


def in_blocks(
    quantized: onnx.ModelProto, floats: onnx.ModelProto, weights: str, block: int, read: Moments, known: Known
) -> onnx.ModelProto:
    """The network in QDQ form, with constant matrices of MatMul and Gemm in blocks of so many rows of their sum.

    `floats` is the network before, which has the weights; nodes are known by their names.
    `read` is of what they multiply. Those that are `known` keep their integers, also where no block is asked for.
    """
    made = onnx.ModelProto()
    made.CopyFrom(quantized)
    before = {node.name: node for node in floats.graph.node}
    real, constants, readers = constants_of(floats), constants_of(made), dequantizers(made)
    done = set()
    for node in made.graph.node:
        axis = _summed_axis(node)
        source = before.get(node.name)
        if axis is None or source is None or source.input[1] not in real or node.input[1] not in readers:
            continue
        reader = readers[node.input[1]]
        if source.input[1] in known:
            _write_known(reader, known[source.input[1]], made)
            done.add(reader.input[0])
        if not block or reader.input[0] in done:
            continue
        matrix = numpy_helper.to_array(real[source.input[1]]).astype(np.float64)
        if matrix.ndim != 2:
            continue
        done.add(reader.input[0])
        grid = grid_of(weights, block)
        codes, scales = quantized_blocks(np.moveaxis(matrix, axis, 0), block, grid, read.get(source.input[0]))
        turned = np.moveaxis(codes, 0, axis), np.moveaxis(scales, 0, axis)
        _write(reader, *turned, axis, block, weights, constants)
    drop_unread(made)
    return made


def quantized_blocks(
    matrix: NDArray[np.float64], block: int, grid: Grid, moments: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Values of the grid for a matrix [K, N], and the scale of each block along K, which may be shorter at the end.

    `moments` [K, K] are of what it is multiplied by; without them every weight is rounded to the nearest.
    Example: 70 rows and 3 columns in blocks of 32 have scales of [3, 3].
    """
    left = matrix.copy()
    count = len(left)
    factors = np.eye(count) if moments is None else _factors(moments)
    codes, scales = np.zeros(left.shape), []
    for start in range(0, count, block):
        own = slice(start, min(start + block, count))
        scale = grid.scales(left[own])
        off = np.zeros(left[own].shape)
        for row in range(own.start, own.stop):
            codes[row] = grid.nearest(left[row] / scale)
            off[row - start] = (left[row] - codes[row] * scale) / factors[row, row]
            left[row + 1 : own.stop] -= np.outer(factors[row, row + 1 : own.stop], off[row - start])
        left[own.stop :] -= factors[own, own.stop :].T @ off
        scales.append(scale)
    return codes, np.stack(scales)


def _factors(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """The upper triangular matrix U with UᵀU = (moments + damping)⁻¹."""
    damping = DAMPING * np.trace(moments) / len(moments) or 1.0
    inverse = np.linalg.inv(moments + damping * np.eye(len(moments)))
    return np.asarray(np.linalg.cholesky((inverse + inverse.T) / 2).T, np.float64)


def _summed_axis(node: onnx.NodeProto) -> int | None:
    """The dimension of a matrix that a product sums over; None for other nodes."""
    if node.op_type == "MatMul":
        return 0
    if node.op_type != "Gemm":
        return None
    return 1 if any(attribute.name == "transB" and attribute.i for attribute in node.attribute) else 0


def _write(
    reader: onnx.NodeProto,
    codes: NDArray[np.float64],
    scales: NDArray[np.float32],
    axis: int,
    block: int,
    weights: str,
    constants: Mapping[str, onnx.TensorProto],
) -> None:
    """Put integers and scales in place of those that a DequantizeLinear reads."""
    name, scale = reader.input[:2]
    constants[name].CopyFrom(constant_of(name, codes, weights))
    constants[scale].CopyFrom(scales_of(scale, scales, weights, is_shared=True))
    del reader.input[2:]
    del reader.attribute[:]
    reader.attribute.extend([helper.make_attribute("axis", axis), helper.make_attribute("block_size", block)])
    if weights in BY_SHORT_NAME:  # the result would be of the type of the scales
        reader.attribute.append(helper.make_attribute("output_dtype", onnx.TensorProto.FLOAT))


def constant_of(name: str, codes: NDArray[np.float64], weights: str) -> onnx.TensorProto:
    """A tensor of values of a type of weights."""
    if weights in BY_SHORT_NAME:
        return numpy_helper.from_array(codes.astype(np.float32).astype(BY_SHORT_NAME[weights].dtype), name)
    element = onnx.TensorProto.DataType.Value(weights.upper())
    return helper.make_tensor(name, element, codes.shape, codes.astype(np.int64).ravel().tolist())


def scales_of(name: str, scales: NDArray[np.float32], weights: str, is_shared: bool) -> onnx.TensorProto:
    """A tensor of scales: of blocks of floats of few bits, E8M0."""
    held = np.ascontiguousarray(scales)
    if weights in BY_SHORT_NAME and is_shared:
        import ml_dtypes

        held = held.astype(ml_dtypes.float8_e8m0fnu)
    return numpy_helper.from_array(held, name)


def _write_known(reader: onnx.NodeProto, blocks: KnownBlocks, model: onnx.ModelProto) -> None:
    """Let a DequantizeLinear read the constants that the file has."""
    there = {tensor.name for tensor in model.graph.initializer}
    model.graph.initializer.extend(tensor for tensor in blocks.constants if tensor.name not in there)
    reader.input[:] = [tensor.name for tensor in blocks.constants]
    del reader.attribute[:]
    reader.attribute.extend(blocks.attributes)
