"""TFLite_Detection_PostProcess, the custom operator at the end of detectors: boxes from anchors, the best of them.

Its results are floats, and how many there are depends on data: the host computes it. With `use_regular_nms` every class
is looked at by itself; without, every box once, with the classes that have the best scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.compiler.importers.tflite.layout import DimensionOrder
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation

LOWEST = float(np.finfo(np.float32).min)
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


@dataclass(frozen=True)
class _Detections:
    """What was found, as ONNX values: boxes [K, 4 · each], classes and scores [K, each], and K."""

    boxes: str
    classes: str
    scores: str
    count: str


def detection_postprocess(operation: TfliteOperation) -> None:
    """Inputs: boxes [1, N, 4 or more] around their anchors, scores [1, N, classes], anchors [N, 4]."""
    writer = operation.writer
    one, count, coordinates = operation.require_rank(operation.input(0), 3)
    again, boxes, scored = operation.require_rank(operation.input(1), 3)
    classes, most = operation.positive("num_classes"), operation.positive("max_detections")
    each, per_class = operation.positive("max_classes_per_detection"), operation.positive("detections_per_class", 100)
    is_regular = operation.flag("use_regular_nms")
    operation.ignore("_output_quantized", "_support_output_type_float_in_quantized_op")
    if (one, again) != (1, 1) or boxes != count or coordinates < 4 or not classes <= scored <= classes + 1:
        shapes = [list(operation.shape(operation.input(position))) for position in (0, 1)]
        raise operation.error(f"has boxes and scores of {shapes} for {classes} classes")
    if len(operation.operator.outputs) != 4:
        raise operation.error(f"has {len(operation.operator.outputs)} outputs", expected="4")
    writer.leave_to_host("how many boxes it finds depends on data")
    limits = _limits(operation)
    decoded = _decoded(operation, count)
    scores = writer.real(operation.input(1), DimensionOrder.LAST)
    if scored > classes:  # the first is the background
        scores = writer.node("Slice", scores, *(writer.int64([n]) for n in (scored - classes, scored, 2)))
    if is_regular:
        found = _by_class(operation, decoded, scores, per_class, most, limits)
    else:
        found = _by_box(operation, decoded, scores, (min(each, classes), each), most, limits)
    rows = most * each
    results = (
        ((1, rows, 4), _filled(operation, found.boxes, rows * 4)),
        ((1, rows), _filled(operation, found.classes, rows)),
        ((1, rows), _filled(operation, found.scores, rows)),
        ((1,), found.count),
    )
    for output, (form, value) in zip(operation.operator.outputs, results, strict=True):
        if not operation.shape(output):  # converters leave it open
            writer.set_shape(output, form)
        writer.write(output, writer.reshape(value, form, operation.tensor(output).name), DimensionOrder.LAST)


def _limits(operation: TfliteOperation) -> tuple[str, str]:
    """The greatest overlap of two boxes, and the score that a box must exceed: TFLite's least score is enough."""
    overlap, least = operation.number("nms_iou_threshold"), np.float32(operation.number("nms_score_threshold"))
    if not 0 <= overlap <= 1:
        raise operation.error(f"nms_iou_threshold = {overlap}", expected="0 to 1")
    return operation.writer.number(overlap), operation.writer.number(float(np.nextafter(least, np.float32(-np.inf))))


def _decoded(operation: TfliteOperation, count: int) -> str:
    """Corners [1, N, 4] of the boxes: their centres and sizes are given in those of the anchors."""
    writer, index = operation.writer, operation.input(2)
    anchors, info = writer.value_of(index, "anchors").astype(np.float32), operation.tensor(index)
    if anchors.shape != (count, 4):
        raise operation.error(f"is {list(anchors.shape)}", index, expected=f"{[count, 4]}")
    if info.quantized is not None:
        anchors = (anchors - np.float32(info.quantized.zero_points[0])) * np.float32(info.quantized.scale)
    scales = np.array([operation.number(name, 1.0) for name in SCALES], np.float32)
    if not (scales > 0).all():
        raise operation.error(f"has the scales {scales.tolist()}", expected="positive numbers")
    centres, sizes = anchors[None, :, :2], anchors[None, :, 2:]
    boxes = writer.real(operation.input(0), DimensionOrder.LAST)
    places, extents = (
        writer.node("Slice", boxes, *(writer.int64([n]) for n in (first, first + 2, 2))) for first in (0, 2)
    )
    moved = writer.node("Mul", places, writer.constant("anchors", sizes / scales[:2]))
    middle = writer.node("Add", moved, writer.constant("anchors", np.ascontiguousarray(centres)))
    grown = writer.node("Exp", writer.node("Mul", extents, writer.constant("scales", 1 / scales[2:])))
    half = writer.node("Mul", grown, writer.constant("anchors", sizes * np.float32(0.5)))
    return writer.node("Concat", writer.node("Sub", middle, half), writer.node("Add", middle, half), axis=2)


def _by_box(
    operation: TfliteOperation, boxes: str, scores: str, counts: tuple[int, int], most: int, limits: tuple[str, str]
) -> _Detections:
    """Boxes by the best of their scores; of each, so many classes, and places for so many."""
    each, room = counts
    writer, base = operation.writer, operation.tensor(operation.operator.outputs[0]).name
    best, classes = writer.nodes_outputs("TopK", (scores, writer.int64([each])), 2, base, axis=2)
    first = writer.node("Slice", best, writer.int64([0]), writer.int64([1]), writer.int64([2]))
    turned = writer.node("Transpose", first, perm=(0, 2, 1))
    chosen = writer.node("NonMaxSuppression", boxes, turned, writer.int64([most]), *limits)
    places = _column(operation, chosen, 2)
    boxes, best, classes = (
        writer.node("Gather", writer.node("Squeeze", value, writer.int64([0])), places, axis=0)
        for value in (boxes, best, classes)
    )
    boxes = writer.node("Tile", boxes, writer.int64([1, each]))
    values = [boxes, writer.cast(classes, np.dtype(np.float32)), best]
    if room > each:
        widths = (4, 1, 1)
        values = [
            writer.node("Pad", value, writer.int64([0, 0, 0, (room - each) * width]))
            for value, width in zip(values, widths, strict=True)
        ]
    found = writer.cast(writer.node("Shape", places), np.dtype(np.float32))
    return _Detections(boxes=values[0], classes=values[1], scores=values[2], count=found)


def _by_class(
    operation: TfliteOperation, boxes: str, scores: str, per_class: int, most: int, limits: tuple[str, str]
) -> _Detections:
    """The best boxes of each class, and of those the best of all."""
    writer, base = operation.writer, operation.tensor(operation.operator.outputs[0]).name
    turned = writer.node("Transpose", scores, perm=(0, 2, 1))
    chosen = writer.node("NonMaxSuppression", boxes, turned, writer.int64([per_class]), *limits)
    found = writer.node("GatherND", turned, chosen)
    filled = writer.node("Concat", found, writer.constant("lowest", np.full(most, LOWEST, np.float32)), axis=0)
    _, order = writer.nodes_outputs("TopK", (filled, writer.int64([most])), 2, base, axis=0)
    total = writer.node("Shape", found)
    count = writer.node("Min", total, writer.int64([most]))
    order = writer.node("Slice", order, writer.int64([0]), count, writer.int64([0]))
    chosen = writer.node("Gather", chosen, order, axis=0)
    flat = writer.node("Squeeze", boxes, writer.int64([0]))
    return _Detections(
        writer.node("Gather", flat, _column(operation, chosen, 2), axis=0),
        writer.cast(_column(operation, chosen, 1), np.dtype(np.float32)),
        writer.node("Gather", found, order, axis=0),
        writer.cast(count, np.dtype(np.float32)),
    )


def _column(operation: TfliteOperation, chosen: str, which: int) -> str:
    writer = operation.writer
    return writer.node("Gather", chosen, writer.constant("column", np.array(which, np.int64)), axis=1)


def _filled(operation: TfliteOperation, found: str, size: int) -> str:
    """So many numbers: what was found, and zeros behind it."""
    writer = operation.writer
    zeros = writer.constant("zeros", np.zeros(size, np.float32))
    joined = writer.node("Concat", writer.reshape(found, (-1,), "found"), zeros, axis=0)
    return writer.node("Slice", joined, writer.int64([0]), writer.int64([size]), writer.int64([0]))


DETECTIONS = {
    "custom TFLite_Detection_PostProcess": OperatorRow(detection_postprocess, inputs=(3, 3), changes_type=True)
}
