"""Operators that reorder, cut, join, pad or repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.compiler.importers.tflite.layout import DimensionOrder, keeps_order, stored, to_file, to_stored
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation

TO_THE_FRONT = -(2**63)
"""The end of an ONNX Slice that goes backwards up to its first element."""


# -- shapes ------------------------------------------------------------------------------------------------------------


def reshape(operation: TfliteOperation) -> None:
    """The elements in the file's order get the shape of the result; the wanted shape is an input or an option."""
    result = operation.shape(operation.output)
    listed = operation.list_of_integers("new_shape")
    if operation.optional(1) is not None:
        listed = operation.writer.integers(operation.input(1), "a shape")
    if not _fits(listed, result):
        raise operation.error(f"wants the shape {list(listed)}; its result is {list(result)}")
    _reshape(operation)


def squeeze(operation: TfliteOperation) -> None:
    shape = operation.shape(operation.input(0))
    axes = {operation.axis(axis, len(shape)) for axis in operation.list_of_integers("squeeze_dims")}
    axes = axes or {axis for axis, size in enumerate(shape) if size == 1}
    expected = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    operation.require_result(expected)
    _reshape(operation)


def expand_dims(operation: TfliteOperation) -> None:
    shape = operation.shape(operation.input(0))
    axes = operation.writer.integers(operation.input(1), "the axis")
    if len(axes) != 1:
        raise operation.error(f"names {len(axes)} axes", expected="1")
    axis = operation.axis(axes[0], len(shape) + 1)
    operation.require_result((*shape[:axis], 1, *shape[axis:]))
    _reshape(operation)


def _reshape(operation: TfliteOperation) -> None:
    """Batch and channels that stay let both layouts stay in order: [1, 4, 4, 8] to [1, 16, 8] and the like."""
    source, result = operation.input(0), operation.shape(operation.output)
    shape = operation.shape(source)
    if prod(shape) != prod(result):
        raise operation.error(f"has {list(shape)} elements for a result of {list(result)}")
    keeps_ends = min(len(shape), len(result)) >= 3 and (shape[0], shape[-1]) == (result[0], result[-1])
    layout = operation.writer.layout_of(source) if keeps_ends else DimensionOrder.LAST
    value = operation.writer.real(source, layout)
    if shape != result:
        value = operation.writer.reshape(value, stored(result, layout), operation.tensor(operation.output).name)
    operation.write(value, layout)


def transpose(operation: TfliteOperation) -> None:
    """The result is stored in the layout, if there is one, in which no element moves."""
    writer, source = operation.writer, operation.input(0)
    shape, rank = operation.shape(source), len(operation.shape(source))
    permutation = operation.writer.integers(operation.input(1), "a permutation")
    if sorted(permutation) != list(range(rank)):
        raise operation.error(f"its permutation is {list(permutation)}", expected=f"each of {rank} dimensions once")
    before = writer.layout_of(source)
    there = stored(shape, before)
    orders = {
        after: tuple(to_file(rank, before)[permutation[axis]] for axis in to_stored(rank, after))
        for after in DimensionOrder
    }
    free = [layout for layout, order in orders.items() if keeps_order(there, order)]
    layout = free[0] if free else DimensionOrder.LAST
    value, base = writer.real(source, before), operation.tensor(operation.output).name
    if free:
        value = writer.reshape(value, [there[axis] for axis in orders[layout]], base)
    else:
        value = writer.node("Transpose", value, perm=orders[layout], base=base)
    operation.write(value, layout)


def _fits(listed: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a wanted shape, which may have one -1, is this one."""
    if len(listed) != len(shape) or listed.count(-1) > 1:
        return False
    return all(wanted in (-1, size) for wanted, size in zip(listed, shape, strict=True))


# -- pieces ------------------------------------------------------------------------------------------------------------


def slice_(operation: TfliteOperation) -> None:
    """Inputs: elements, first index and size of each dimension; a size of -1 goes to the end."""
    shape = operation.shape(operation.input(0))
    first = operation.writer.integers(operation.input(1), "the first indices")
    sizes = operation.writer.integers(operation.input(2), "the sizes")
    if len(first) != len(shape) or len(sizes) != len(shape):
        raise operation.error(f"has {len(first)} first indices and {len(sizes)} sizes for {len(shape)} dimensions")
    spans = zip(shape, first, sizes, strict=True)
    last = tuple(length if size == -1 else begin + size for length, begin, size in spans)
    for length, begin, end in zip(shape, first, last, strict=True):
        if not 0 <= begin < end <= length:
            raise operation.error(f"takes {begin} … {end} of a dimension of {length}")
    _slice(operation, [range(begin, end) for begin, end in zip(first, last, strict=True)])


def strided_slice(operation: TfliteOperation) -> None:
    """Inputs: elements, first and last index and step of each dimension; each bit of a mask stands for a dimension."""
    operation.only("ellipsis_mask", 0)
    operation.only("new_axis_mask", 0)
    operation.only("offset", False)
    starts, ends, shrinks = (operation.integer(f"{name}_mask") for name in ("begin", "end", "shrink_axis"))
    shape = operation.shape(operation.input(0))
    first, last, steps = (operation.writer.integers(operation.input(i), "the indices") for i in (1, 2, 3))
    if not len(first) == len(last) == len(steps) <= len(shape) or 0 in steps:
        raise operation.error(f"has {len(first)}, {len(last)} and {len(steps)} indices for {len(shape)} dimensions")
    ranges, gone = [], set()
    for axis, size in enumerate(shape):
        if axis >= len(first):
            ranges.append(range(size))
            continue
        begin: int | None = None if starts >> axis & 1 else first[axis]
        end: int | None = None if ends >> axis & 1 else last[axis]
        step = steps[axis]
        if shrinks >> axis & 1:
            gone.add(axis)
            begin = operation.axis(first[axis], size)
            end, step = begin + 1, 1
        ranges.append(range(*slice(begin, end, step).indices(size)))
        if not ranges[-1]:
            raise operation.error(f"takes nothing of dimension {axis} of {size}")
    _slice(operation, ranges, gone)


def _slice(operation: TfliteOperation, ranges: Sequence[range], gone: set[int] | None = None) -> None:
    """The elements at these indices; the dimensions `gone` have one index each and vanish."""
    writer, source, gone = operation.writer, operation.input(0), gone or set()
    rank = len(ranges)
    expected = tuple(len(indices) for axis, indices in enumerate(ranges) if axis not in gone)
    operation.require_result(expected)
    layout = writer.layout_of(source) if not gone & {0, rank - 1} else DimensionOrder.LAST
    value = writer.real(source, layout)
    shape = operation.shape(source)
    cut = [axis for axis in range(rank) if ranges[axis] != range(shape[axis])]
    if cut:
        value = writer.node(
            "Slice",
            value,
            writer.int64([ranges[axis].start for axis in cut]),
            writer.int64([ranges[axis].stop if ranges[axis].stop >= 0 else TO_THE_FRONT for axis in cut]),
            writer.int64([to_file(rank, layout)[axis] for axis in cut]),
            writer.int64([ranges[axis].step for axis in cut]),
        )
    if gone:
        value = writer.reshape(value, stored(expected, layout), operation.tensor(operation.output).name)
    operation.write(value, layout)


def split(operation: TfliteOperation) -> None:
    """Inputs: an axis, elements. Equal pieces."""
    count, outputs = operation.positive("num_splits"), operation.operator.outputs
    axes, source = operation.writer.integers(operation.input(0), "the axis"), operation.input(1)
    if count != len(outputs):
        raise operation.error(f"num_splits = {count}, but it has {len(outputs)} outputs")
    size = _size_along(operation, source, axes)
    if size % count:
        raise operation.error(f"num_splits = {count} of {size} elements", expected="a number that divides them")
    _split(operation, source, axes, (size // count,) * count)


def split_v(operation: TfliteOperation) -> None:
    """Inputs: elements, the sizes of the pieces, an axis. One size may be -1: what the others leave."""
    count, outputs = operation.positive("num_splits"), operation.operator.outputs
    source, sizes = operation.input(0), operation.writer.integers(operation.input(1), "the sizes")
    if not count == len(outputs) == len(sizes):
        raise operation.error(f"num_splits = {count}, but it has {len(outputs)} outputs and {len(sizes)} sizes")
    axes = operation.writer.integers(operation.input(2), "the axis")
    size = _size_along(operation, source, axes)
    left = size - (sum(sizes) + 1) if sizes.count(-1) == 1 else -1
    pieces = tuple(left if piece == -1 else piece for piece in sizes)
    if min(pieces) < 1 or sum(pieces) != size:
        raise operation.error(f"splits {size} elements into {list(sizes)}")
    _split(operation, source, axes, pieces)


def _size_along(operation: TfliteOperation, source: int, axes: tuple[int, ...]) -> int:
    """The size of the one dimension that is split."""
    if len(axes) != 1:
        raise operation.error(f"names {len(axes)} axes", expected="1")
    shape = operation.shape(source)
    return shape[operation.axis(axes[0], len(shape))]


def _split(operation: TfliteOperation, source: int, axes: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    writer, shape, outputs = operation.writer, operation.shape(source), operation.operator.outputs
    axis = operation.axis(axes[0], len(shape))
    for output, size in zip(outputs, sizes, strict=True):
        piece = (*shape[:axis], size, *shape[axis + 1 :])
        if operation.shape(output) != piece:
            raise operation.error(f"is {list(operation.shape(output))}", output, expected=f"{list(piece)}, the piece")
    layout = writer.layout_of(source)
    stored_axis = to_file(len(shape), layout)[axis]
    listed, base = writer.int64(sizes), operation.tensor(source).name
    real = writer.real(source, layout)
    values = writer.nodes_outputs("Split", (real, listed), len(outputs), base, axis=stored_axis)
    for output, value in zip(outputs, values, strict=True):
        writer.write(output, value, layout)


def concatenation(operation: TfliteOperation) -> None:
    writer, rank = operation.writer, len(operation.shape(operation.output))
    axis = operation.axis(operation.integer("axis"), rank)
    for index in operation.inputs:
        operation.require_rank(index, rank)
    layout = writer.common_layout(operation.inputs)
    values = [writer.real(index, layout) for index in operation.inputs]
    operation.write_activated(writer.node("Concat", *values, axis=to_file(rank, layout)[axis]), layout)


# -- padding -----------------------------------------------------------------------------------------------------------


def pad(operation: TfliteOperation) -> None:
    """Inputs: elements, [before, after] of each dimension. With zeros."""
    _pad(operation, 0.0)


def pad_v2(operation: TfliteOperation) -> None:
    """The same with a constant value, which has the scale of the elements."""
    index, writer = operation.input(2), operation.writer
    value = writer.value_of(index, "a padding value")
    if value.size != 1:
        raise operation.error(f"is {list(value.shape)}", index, expected="one value")
    number = float(value.ravel()[0])
    if not writer.is_real(index):
        by = operation.tensor(index).quantized
        assert by is not None
        number = (number - by.zero_points[0]) * by.scale
    _pad(operation, number)


def _pad(operation: TfliteOperation, value: float) -> None:
    writer, source = operation.writer, operation.input(0)
    rank = len(operation.shape(source))
    pads = writer.value_of(operation.input(1), "padding")
    if pads.shape != (rank, 2) or pads.dtype.kind != "i" or pads.min(initial=0) < 0:
        raise operation.error(f"its padding is {pads.tolist()}", expected="two numbers of 0 or more for each dimension")
    layout = writer.layout_of(source)
    before, after = (stored([int(count) for count in pads[:, side]], layout) for side in (0, 1))
    padded = writer.node("Pad", writer.real(source, layout), writer.int64([*before, *after]), writer.number(value))
    operation.write(padded, layout)


REARRANGEMENTS = {
    # shapes
    "RESHAPE": OperatorRow(reshape, "ReshapeOptions", (1, 2), keeps_scale=True),
    "SQUEEZE": OperatorRow(squeeze, "SqueezeOptions", keeps_scale=True),
    "EXPAND_DIMS": OperatorRow(expand_dims, "ExpandDimsOptions", (2, 2), keeps_scale=True),
    "TRANSPOSE": OperatorRow(transpose, "TransposeOptions", (2, 2), keeps_scale=True),
    # pieces
    "SLICE": OperatorRow(slice_, "SliceOptions", (3, 3), keeps_scale=True),
    "STRIDED_SLICE": OperatorRow(strided_slice, "StridedSliceOptions", (4, 4), keeps_scale=True),
    "SPLIT": OperatorRow(split, "SplitOptions", (2, 2), keeps_scale=True),
    "SPLIT_V": OperatorRow(split_v, "SplitVOptions", (3, 3), keeps_scale=True),
    "CONCATENATION": OperatorRow(concatenation, "ConcatenationOptions", (1, 1024), takes_plain=True),
    # padding
    "PAD": OperatorRow(pad, "PadOptions", (2, 2), keeps_scale=True),
    "PADV2": OperatorRow(pad_v2, "PadV2Options", (3, 3), keeps_scale=True),
}
