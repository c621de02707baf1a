"""Operators on indices: where the largest element is, elements at computed places; and what repeats or stacks."""

from __future__ import annotations

import numpy as np

from tilewright.compiler.graph.graph import Attribute
from tilewright.compiler.importers.tflite.layout import DimensionOrder, stored, to_file
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation

INDICES = ("int32", "int64")


def _arg(op_type: str, options: str) -> OperatorRow:
    def translate(operation: TfliteOperation) -> None:
        """Inputs: elements, a constant axis, which vanishes."""
        operation.ignore("output_type")  # the result's own type says it
        writer, source = operation.writer, operation.input(0)
        axes = writer.integers(operation.input(1), "the axis")
        if len(axes) != 1:
            raise operation.error(f"names {len(axes)} axes", expected="1")
        axis = operation.axis(axes[0], len(operation.shape(source)))
        found = writer.node(op_type, writer.real(source, DimensionOrder.LAST), axis=axis, keepdims=0)
        operation.write(writer.cast(found, operation.tensor(operation.output).dtype), DimensionOrder.LAST)

    return OperatorRow(translate, options, (2, 2))


def gather(operation: TfliteOperation) -> None:
    """Inputs: elements, indices along an axis. Indices in one list keep the layout."""
    operation.only("batch_dims", 0)
    writer, source, places = operation.writer, operation.input(0), operation.input(1)
    rank = len(operation.shape(source))
    axis = operation.axis(operation.integer("axis"), rank)
    layout = writer.layout_of(source) if len(operation.shape(places)) == 1 else DimensionOrder.LAST
    there = to_file(rank, layout)[axis]
    value = writer.node("Gather", writer.real(source, layout), _indices(operation, places), axis=there)
    operation.write(value, layout)


def gather_nd(operation: TfliteOperation) -> None:
    """Inputs: elements, and for each result the first indices of its place."""
    writer = operation.writer
    places = writer.cast(_indices(operation, operation.input(1)), np.dtype(np.int64))
    operation.write(
        writer.node("GatherND", writer.real(operation.input(0), DimensionOrder.LAST), places), DimensionOrder.LAST
    )


def _indices(operation: TfliteOperation, index: int) -> str:
    if operation.tensor(index).dtype.name not in INDICES:
        raise operation.error(f"is {operation.tensor(index).dtype.name}", index, expected=" or ".join(INDICES))
    return operation.writer.real(index, DimensionOrder.LAST)


def pack(operation: TfliteOperation) -> None:
    """Tensors of one shape along a new dimension."""
    operation.only("values_count", len(operation.inputs))
    writer, rank = operation.writer, len(operation.shape(operation.output))
    axis = operation.axis(operation.integer("axis"), rank)
    values = [
        writer.node("Unsqueeze", writer.real(index, DimensionOrder.LAST), writer.int64([axis]))
        for index in operation.inputs
    ]
    operation.write(writer.node("Concat", *values, axis=axis), DimensionOrder.LAST)


def unpack(operation: TfliteOperation) -> None:
    """The slices along a dimension, which vanishes."""
    writer, source, outputs = operation.writer, operation.input(0), operation.operator.outputs
    shape = operation.shape(source)
    axis = operation.axis(operation.integer("axis"), len(shape))
    operation.only("num", len(outputs))
    if shape[axis] != len(outputs):
        raise operation.error(f"has {len(outputs)} outputs", expected=f"{shape[axis]}, the size of dimension {axis}")
    base = operation.tensor(source).name
    sizes = writer.int64([1] * len(outputs))
    values = writer.nodes_outputs(
        "Split", (writer.real(source, DimensionOrder.LAST), sizes), len(outputs), base, axis=axis
    )
    for output, value in zip(outputs, values, strict=True):
        writer.write(output, writer.node("Squeeze", value, writer.int64([axis])), DimensionOrder.LAST)


def tile(operation: TfliteOperation) -> None:
    """Inputs: elements, how often each dimension is repeated."""
    writer, source = operation.writer, operation.input(0)
    repeats = writer.integers(operation.input(1), "the repeats")
    shape, layout = operation.shape(source), writer.layout_of(source)
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise operation.error(f"repeats {list(repeats)} of {list(shape)}", expected="one number for each dimension")
    operation.require_result(tuple(size * count for size, count in zip(shape, repeats, strict=True)))
    value = writer.node("Tile", writer.real(source, layout), writer.int64(stored(repeats, layout)))
    operation.write(value, layout)


def broadcast_to(operation: TfliteOperation) -> None:
    """Inputs: elements, a shape."""
    writer = operation.writer
    shape = writer.integers(operation.input(1), "the shape")
    operation.require_result(shape)
    value = writer.node("Expand", writer.real(operation.input(0), DimensionOrder.LAST), writer.int64(shape))
    operation.write(value, DimensionOrder.LAST)


def reverse(operation: TfliteOperation) -> None:
    """Inputs: elements, the axes along which they are turned round."""
    writer, source = operation.writer, operation.input(0)
    shape, layout = operation.shape(source), writer.layout_of(source)
    axes = sorted({operation.axis(axis, len(shape)) for axis in writer.integers(operation.input(1), "the axes")})
    there = [to_file(len(shape), layout)[axis] for axis in axes]
    ends = writer.int64([-(2**63)] * len(axes))
    steps = writer.int64([-1] * len(axes))
    starts = writer.int64([shape[axis] - 1 for axis in axes])
    value = writer.node("Slice", writer.real(source, layout), starts, ends, writer.int64(there), steps)
    operation.write(value, layout)


def top_k(operation: TfliteOperation) -> None:
    """Inputs: elements, how many; outputs: the largest of the last dimension, and where they stand."""
    writer, source = operation.writer, operation.input(0)
    counts, outputs = writer.integers(operation.input(1), "how many"), operation.operator.outputs
    if len(counts) != 1 or len(outputs) != 2:
        raise operation.error(f"has {len(outputs)} outputs and {len(counts)} counts", expected="2 and 1")
    base = operation.tensor(source).name
    values, places = writer.nodes_outputs(
        "TopK", (writer.real(source, DimensionOrder.LAST), writer.int64(counts)), 2, base
    )
    writer.write(outputs[0], values, DimensionOrder.LAST)
    writer.write(outputs[1], writer.cast(places, operation.tensor(outputs[1]).dtype), DimensionOrder.LAST)


def cumsum(operation: TfliteOperation) -> None:
    writer, source = operation.writer, operation.input(0)
    axes = writer.integers(operation.input(1), "the axis")
    if len(axes) != 1:
        raise operation.error(f"names {len(axes)} axes", expected="1")
    flags: dict[str, Attribute] = {name: int(operation.flag(name)) for name in ("exclusive", "reverse")}
    axis = writer.constant("integers", np.array(operation.axis(axes[0], len(operation.shape(source))), np.int64))
    operation.write(writer.node("CumSum", writer.real(source, DimensionOrder.LAST), axis, **flags), DimensionOrder.LAST)


ON_INDICES = {
    "ARG_MAX": _arg("ArgMax", "ArgMaxOptions"),
    "ARG_MIN": _arg("ArgMin", "ArgMinOptions"),
    "BROADCAST_TO": OperatorRow(broadcast_to, "BroadcastToOptions", (2, 2), keeps_scale=True),
    "CUMSUM": OperatorRow(cumsum, "CumsumOptions", (2, 2)),
    "GATHER": OperatorRow(gather, "GatherOptions", (2, 2), keeps_scale=True),
    "GATHER_ND": OperatorRow(gather_nd, "GatherNdOptions", (2, 2), keeps_scale=True),
    "PACK": OperatorRow(pack, "PackOptions", (1, 1024), keeps_scale=True),
    "REVERSE_V2": OperatorRow(reverse, "ReverseV2Options", (2, 2), keeps_scale=True),
    "TILE": OperatorRow(tile, "TileOptions", (2, 2), keeps_scale=True),
    "TOPK_V2": OperatorRow(top_k, "TopKV2Options", (2, 2), keeps_scale=True),
    "UNPACK": OperatorRow(unpack, "UnpackOptions", keeps_scale=True),
}
