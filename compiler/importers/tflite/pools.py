"""Pools, and reductions over axes."""

from __future__ import annotations

from tilewright.compiler.graph.graph import Attribute
from tilewright.compiler.importers.tflite.layout import DimensionOrder, to_file
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation
from tilewright.compiler.importers.tflite.windows import read_windows


def average_pool_2d(operation: TfliteOperation) -> None:
    """The mean of the elements inside the image; padding does not count."""
    _pool(operation, "AveragePool", count_include_pad=0)


def max_pool_2d(operation: TfliteOperation) -> None:
    _pool(operation, "MaxPool")


def _pool(operation: TfliteOperation, op_type: str, **attributes: Attribute) -> None:
    image = operation.input(0)
    _, height, width, _ = operation.require_rank(image, 4)
    kernel = operation.positive("filter_height"), operation.positive("filter_width")
    if kernel[0] > 2 * height or kernel[1] > 2 * width:
        raise operation.error(f"has windows of {list(kernel)}, each larger than all of the image, {[height, width]}")
    windows = read_windows(operation, (height, width), kernel, dilated=False)
    value = operation.writer.node(
        op_type,
        operation.writer.real(image, DimensionOrder.FIRST),
        kernel_shape=kernel,
        strides=windows.strides,
        pads=windows.pads,
        **attributes,
    )
    operation.write_activated(value, DimensionOrder.FIRST)


def reduce(operation: TfliteOperation, op_type: str) -> None:
    """Inputs: elements, constant axes. Without keep_dims the axes vanish, and the layouts' difference with them."""
    source = operation.input(0)
    rank = len(operation.shape(source))
    axes = {operation.axis(axis, rank) for axis in operation.writer.integers(operation.input(1), "the axes")}
    keeps = operation.flag("keep_dims")
    # Batch and channels must remain for the result's dimensions to be in the order of the layout.
    is_inner = bool(axes) and not axes & {0, rank - 1}
    layout = operation.writer.layout_of(source) if keeps or is_inner else DimensionOrder.LAST
    stored = sorted(to_file(rank, layout)[axis] for axis in axes)
    value = operation.writer.node(
        op_type,
        operation.writer.real(source, layout),
        operation.writer.int64(stored),
        keepdims=int(keeps),
        noop_with_empty_axes=1,
    )
    operation.write(value, layout)


def mean(operation: TfliteOperation) -> None:
    reduce(operation, "ReduceMean")


def reduce_max(operation: TfliteOperation) -> None:
    reduce(operation, "ReduceMax")


def reduce_min(operation: TfliteOperation) -> None:
    reduce(operation, "ReduceMin")


def total(operation: TfliteOperation) -> None:
    reduce(operation, "ReduceSum")


def product(operation: TfliteOperation) -> None:
    reduce(operation, "ReduceProd")


POOLS = {
    "AVERAGE_POOL_2D": OperatorRow(average_pool_2d, "Pool2DOptions", keeps_scale=True),
    "MAX_POOL_2D": OperatorRow(max_pool_2d, "Pool2DOptions", keeps_scale=True),
    "MEAN": OperatorRow(mean, "ReducerOptions", (2, 2)),
    "SUM": OperatorRow(total, "ReducerOptions", (2, 2)),
    "REDUCE_PROD": OperatorRow(product, "ReducerOptions", (2, 2)),
    "REDUCE_MIN": OperatorRow(reduce_min, "ReducerOptions", (2, 2), keeps_scale=True),
    "REDUCE_MAX": OperatorRow(reduce_max, "ReducerOptions", (2, 2), keeps_scale=True),
}
