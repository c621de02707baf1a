"""From QDQ form in integers to floats of few bits: activations of E4M3, weights of E4M3 or E2M1.

An activation's scale takes its range to the greatest value of the type, 448. What has no end at 0, as integers with a
zero point have, keeps its Relu; the pair between a product and its Relu goes. Biases and other constants become floats:
the compiler folds them. Weights have a scale for each output channel; in blocks, E8M0 (OCP MX specification v1.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilewright.compiler.importers.opsets import convert
from tilewright.isa.program.small_floats import BY_SHORT_NAME, SMALL_FLOATS, SmallFloat
from tilewright.quantization.blocks import constant_of, in_blocks, scales_of
from tilewright.quantization.constants import (
    constants_of,
    dequantized,
    dequantizers,
    drop_unread,
    put_constants,
    with_constants,
)
from tilewright.quantization.grids import grid_of
from tilewright.quantization.known_blocks import Known
from tilewright.quantization.moments import Moments
from tilewright.quantization.narrow_weights import PRODUCTS, product_weights

ACTIVATIONS = ("e4m3",)
WEIGHTS = ("e4m3", "e2m1")
"""What `quantize` makes."""

LIMITING = ("Relu", "Clip")
"""Operators that, of integers, are the range of the operator before."""

QUANTIZED = "_quantized"
"""What ONNX Runtime's quantiser adds to the name of a constant for its integers."""

OPSETS = {"e4m3": (21, 10), "e2m1": (23, 11)}
OPSET_OF_E8M0 = (24, 12)
"""The first opset and version of the file format that have a type; 21 has blocks."""


def in_small_floats(
    quantized: onnx.ModelProto, floats: onnx.ModelProto, activations: str, weights: str, block: int, read: Moments,
    known: Known, name: str,
) -> onnx.ModelProto:  # fmt: skip
    """The network in QDQ form with these types in place of integers; `floats` is the network before.

    Activations of integers stay as they are. Raises CompileError for a model that cannot be converted.
    """
    needed = [OPSETS[each] for each in (activations, weights) if each in OPSETS]
    opset, version = max([*needed, *([OPSET_OF_E8M0] if block else [])])
    made = convert(quantized, name, opset)
    made.ir_version = max(made.ir_version, version)
    if activations in BY_SHORT_NAME:
        _drop_pairs_before_limits(made)
        _with_float_constants(made, floats)
        _with_float_activations(made, BY_SHORT_NAME[activations])
    _with_scales_of_channels(made, floats, weights)
    return in_blocks(made, floats, weights, block, read, known)


def with_float_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with floats in place of constants of few bits and their DequantizeLinear: ONNX Runtime has no E2M1."""
    constants = constants_of(model)
    readers = [node for node in model.graph.node if _reads_small_floats(node, constants)]
    return with_constants(model, {node.output[0]: dequantized(node, constants) for node in readers})


def _reads_small_floats(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    if node.op_type != "DequantizeLinear" or node.input[0] not in constants:
        return False
    return numpy_helper.to_array(constants[node.input[0]]).dtype.name in SMALL_FLOATS


# -- activations -------------------------------------------------------------------------------------------------------


def _pairs(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Each QuantizeLinear with the DequantizeLinear nodes behind it."""
    makers = {node.output[0]: node for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in makers:
            yield makers[node.input[0]], node


def _drop_pairs_before_limits(model: onnx.ModelProto) -> None:
    """Let a Relu or Clip whose result is quantised read what it limits as it is computed."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in model.graph.output}
    gone = set()
    for quantize, dequantize in list(_pairs(model)):
        behind = readers.get(dequantize.output[0], [])
        is_alone = len(behind) == 1 == len(readers[quantize.output[0]]) and dequantize.output[0] not in outputs
        if not is_alone or behind[0].op_type not in LIMITING:
            continue
        if all(each.op_type == "QuantizeLinear" for each in readers.get(behind[0].output[0], [quantize])):
            behind[0].input[0] = quantize.input[0]
            gone |= {quantize.output[0], dequantize.output[0]}
    kept = [node for node in model.graph.node if node.output[0] not in gone]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    drop_unread(model)


def _with_float_constants(model: onnx.ModelProto, floats: onnx.ModelProto) -> None:
    """Biases and other constants that are no weights as the floats that they were."""
    real = {tensor.name: numpy_helper.to_array(tensor) for tensor in floats.graph.initializer}
    constants = {tensor.name for tensor in model.graph.initializer}
    weights = {node.input[1] for node in model.graph.node if len(node.input) > 1 and node.op_type in PRODUCTS}
    values = {}
    for node in model.graph.node:
        source = node.input[0].removesuffix(QUANTIZED) if node.input else ""
        if node.op_type == "DequantizeLinear" and node.input[0] in constants and source in real:
            if node.output[0] not in weights:
                values[node.output[0]] = real[source]
    put_constants(model, values)


def _with_float_activations(model: onnx.ModelProto, element: SmallFloat) -> None:
    """Scales and zero points of the type, of the same ranges."""
    constants = constants_of(model)
    changed = {}
    for pair in _pairs(model):
        scale, zero = pair[0].input[1:3]
        held = numpy_helper.to_array(constants[zero])
        if held.dtype.kind not in "iu":
            continue  # another pair has it, too
        limits = np.iinfo(held.dtype)
        reach = max(abs(int(end) - int(held)) for end in (limits.min + 1, limits.max))
        real = numpy_helper.to_array(constants[scale]).astype(np.float64) * reach / element.largest
        changed[scale] = numpy_helper.from_array(np.asarray(real, np.float32), scale)
        changed[zero] = numpy_helper.from_array(np.zeros(held.shape, element.dtype), zero)
    for name, tensor in changed.items():
        constants[name].CopyFrom(tensor)


# -- weights -----------------------------------------------------------------------------------------------------------


def _with_scales_of_channels(model: onnx.ModelProto, floats: onnx.ModelProto, weights: str) -> None:
    """The weights of products, each output channel with a scale."""
    constants, real, readers = constants_of(model), constants_of(floats), dequantizers(model)
    axes = dict(product_weights(floats.graph.node, real))
    before = {node.name: node for node in floats.graph.node}
    grid = grid_of(weights)
    for node in model.graph.node:
        source = before.get(node.name)
        name = source.input[1] if source is not None and node.op_type in PRODUCTS else ""
        if name not in axes or node.input[1] not in readers:
            continue
        reader, axis = readers[node.input[1]], axes[name]
        values = numpy_helper.to_array(real[name]).astype(np.float64)
        moved = values.reshape(-1, 1) if axis is None else np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
        scales = grid.scales(moved)
        codes = grid.nearest(moved / scales)
        if axis is not None:
            turned = np.moveaxis(values, axis, -1).shape
            codes = np.moveaxis(codes.reshape(turned), -1, axis)
        constants[reader.input[0]].CopyFrom(constant_of(reader.input[0], codes.reshape(values.shape), weights))
        kept = scales_of(reader.input[1], scales if axis is not None else scales.reshape(()), weights, is_shared=False)
        constants[reader.input[1]].CopyFrom(kept)
        del reader.input[2:]
        del reader.attribute[:]
        if axis is not None:
            reader.attribute.append(helper.make_attribute("axis", axis))
    drop_unread(model)
