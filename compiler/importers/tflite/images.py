"""Operators that rearrange or resize an image: height and width from channels and back, other sizes."""

from __future__ import annotations

from tilewright.compiler.importers.tflite.layout import Layout
from tilewright.compiler.importers.tflite.operation import Operation, Row


def space_to_depth(operation: Operation) -> None:
    _blocks(operation, "SpaceToDepth")


def depth_to_space(operation: Operation) -> None:
    """Channels are [block row, block column, channel], as in ONNX's mode DCR."""
    _blocks(operation, "DepthToSpace")


def _blocks(operation: Operation, op_type: str) -> None:
    operation.require_rank(operation.input(0), 4)
    size = operation.positive("block_size")
    image = operation.writer.real(operation.input(0), Layout.FIRST)
    operation.write(operation.writer.node(op_type, image, blocksize=size), Layout.FIRST)


def resize_nearest_neighbor(operation: Operation) -> None:
    """Source index: floor(i · scale), with corners aligned round(i · scale), of pixel centres floor((i + ½) · scale).

    ONNX's coordinate of a centre is (i + ½) · scale - ½, which rounded with ties up is the last of these.
    """
    nearest = {"asymmetric": "floor", "align_corners": "round_prefer_ceil", "half_pixel": "round_prefer_ceil"}
    mode = _coordinates(operation)
    _resize(operation, "nearest", mode, nearest_mode=nearest[mode])


def resize_bilinear(operation: Operation) -> None:
    _resize(operation, "linear", _coordinates(operation))


def _coordinates(operation: Operation) -> str:
    """ONNX's name of how results' coordinates map to the image's."""
    is_aligned, has_centres = operation.flag("align_corners"), operation.flag("half_pixel_centers")
    if is_aligned and has_centres:
        raise operation.error("align_corners and half_pixel_centers are both set", expected="one of them")
    return "align_corners" if is_aligned else "half_pixel" if has_centres else "asymmetric"


def _resize(operation: Operation, mode: str, coordinates: str, **attributes: str) -> None:
    """Inputs: image, the result's height and width."""
    writer, image = operation.writer, operation.input(0)
    batch, _, _, channels = operation.require_rank(image, 4)
    size = writer.integers(operation.input(1), "the size")
    if len(size) != 2 or min(size) < 1:
        raise operation.error(f"its size is {list(size)}", expected="height and width")
    operation.require_result((batch, *size, channels))
    value = writer.node(
        "Resize",
        writer.real(image, Layout.FIRST),
        "",
        "",
        writer.int64([batch, channels, *size]),
        mode=mode,
        coordinate_transformation_mode=coordinates,
        **attributes,
    )
    operation.write(value, Layout.FIRST)


IMAGES = {
    "SPACE_TO_DEPTH": Row(space_to_depth, "SpaceToDepthOptions", keeps_scale=True),
    "DEPTH_TO_SPACE": Row(depth_to_space, "DepthToSpaceOptions", keeps_scale=True),
    "RESIZE_NEAREST_NEIGHBOR": Row(resize_nearest_neighbor, "ResizeNearestNeighborOptions", (2, 2), keeps_scale=True),
    "RESIZE_BILINEAR": Row(resize_bilinear, "ResizeBilinearOptions", (2, 2), keeps_scale=True),
}
