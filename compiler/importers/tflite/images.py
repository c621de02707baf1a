"""Operators that rearrange or resize an image: height and width from channels and back, other sizes."""

from __future__ import annotations

from tilewright.compiler.importers.tflite.layout import DimensionOrder
from tilewright.compiler.importers.tflite.operation import OperatorRow, TfliteOperation


def space_to_depth(operation: TfliteOperation) -> None:
    _blocks(operation, "SpaceToDepth")


def depth_to_space(operation: TfliteOperation) -> None:
    """Channels are [block row, block column, channel], as in ONNX's mode DCR."""
    _blocks(operation, "DepthToSpace")


def _blocks(operation: TfliteOperation, op_type: str) -> None:
    operation.require_rank(operation.input(0), 4)
    size = operation.positive("block_size")
    image = operation.writer.real(operation.input(0), DimensionOrder.FIRST)
    operation.write(operation.writer.node(op_type, image, blocksize=size), DimensionOrder.FIRST)


def space_to_batch(operation: TfliteOperation) -> None:
    """Inputs: image, block [height, width], padding of each. The places of a block become batches, outermost."""
    writer, image, block = operation.writer, operation.input(0), _block(operation)
    batch, height, width, channels = operation.require_rank(image, 4)
    pads = writer.value_of(operation.input(2), "padding")
    if pads.shape != (2, 2) or pads.min() < 0:
        raise operation.error(f"its padding is {pads.tolist()}", expected="two numbers of 0 or more for each dimension")
    (top, bottom), (left, right) = pads.tolist()
    rows, columns = height + top + bottom, width + left + right
    if rows % block[0] or columns % block[1]:
        raise operation.error(f"cuts {[rows, columns]} into blocks of {list(block)}", expected="multiples")
    value = writer.real(image, DimensionOrder.LAST)
    if pads.any():
        value = writer.node("Pad", value, writer.int64([0, top, left, 0, 0, bottom, right, 0]), writer.number(0.0))
    small = rows // block[0], columns // block[1]
    base = operation.tensor(image).name
    value = writer.reshape(value, (batch, small[0], block[0], small[1], block[1], channels), base)
    value = writer.node("Transpose", value, perm=(2, 4, 0, 1, 3, 5), base=base)
    operation.write(writer.reshape(value, (block[0] * block[1] * batch, *small, channels), base), DimensionOrder.LAST)


def batch_to_space(operation: TfliteOperation) -> None:
    """Inputs: image, block [height, width], what is cut from each end of height and width."""
    writer, image, block = operation.writer, operation.input(0), _block(operation)
    batches, height, width, channels = operation.require_rank(image, 4)
    crops = writer.value_of(operation.input(2), "the crops")
    places = block[0] * block[1]
    if crops.shape != (2, 2) or crops.min() < 0 or batches % places:
        raise operation.error(
            f"cuts {crops.tolist()} from {batches} batches of {list(block)}", expected="a multiple of the block"
        )
    batch, rows, columns = batches // places, height * block[0], width * block[1]
    base = operation.tensor(image).name
    value = writer.reshape(writer.real(image, DimensionOrder.LAST), (*block, batch, height, width, channels), base)
    value = writer.node("Transpose", value, perm=(2, 3, 0, 4, 1, 5), base=base)
    value = writer.reshape(value, (batch, rows, columns, channels), base)
    (top, bottom), (left, right) = crops.tolist()
    if crops.any():
        first, last = writer.int64([top, left]), writer.int64([rows - bottom, columns - right])
        value = writer.node("Slice", value, first, last, writer.int64([1, 2]))
    operation.write(value, DimensionOrder.LAST)


def _block(operation: TfliteOperation) -> tuple[int, ...]:
    block = operation.writer.integers(operation.input(1), "the block")
    if len(block) != 2 or min(block) < 1:
        raise operation.error(f"its block is {list(block)}", expected="height and width")
    return block


def resize_nearest_neighbor(operation: TfliteOperation) -> None:
    """Source index: floor(i · scale), with corners aligned round(i · scale), of pixel centres floor((i + ½) · scale).

    ONNX's coordinate of a centre is (i + ½) · scale - ½, which rounded with ties up is the last of these.
    """
    nearest = {"asymmetric": "floor", "align_corners": "round_prefer_ceil", "half_pixel": "round_prefer_ceil"}
    mode = _coordinates(operation)
    _resize(operation, "nearest", mode, nearest_mode=nearest[mode])


def resize_bilinear(operation: TfliteOperation) -> None:
    _resize(operation, "linear", _coordinates(operation))


def _coordinates(operation: TfliteOperation) -> str:
    """ONNX's name of how results' coordinates map to the image's."""
    is_aligned, has_centres = operation.flag("align_corners"), operation.flag("half_pixel_centers")
    if is_aligned and has_centres:
        raise operation.error("align_corners and half_pixel_centers are both set", expected="one of them")
    return "align_corners" if is_aligned else "half_pixel" if has_centres else "asymmetric"


def _resize(operation: TfliteOperation, mode: str, coordinates: str, **attributes: str) -> None:
    """Inputs: image, the result's height and width."""
    writer, image = operation.writer, operation.input(0)
    batch, _, _, channels = operation.require_rank(image, 4)
    size = writer.integers(operation.input(1), "the size")
    if len(size) != 2 or min(size) < 1:
        raise operation.error(f"its size is {list(size)}", expected="height and width")
    operation.require_result((batch, *size, channels))
    value = writer.node(
        "Resize",
        writer.real(image, DimensionOrder.FIRST),
        "",
        "",
        writer.int64([batch, channels, *size]),
        mode=mode,
        coordinate_transformation_mode=coordinates,
        **attributes,
    )
    operation.write(value, DimensionOrder.FIRST)


IMAGES = {
    "SPACE_TO_DEPTH": OperatorRow(space_to_depth, "SpaceToDepthOptions", keeps_scale=True),
    "DEPTH_TO_SPACE": OperatorRow(depth_to_space, "DepthToSpaceOptions", keeps_scale=True),
    "SPACE_TO_BATCH_ND": OperatorRow(space_to_batch, "SpaceToBatchNDOptions", (3, 3), keeps_scale=True),
    "BATCH_TO_SPACE_ND": OperatorRow(batch_to_space, "BatchToSpaceNDOptions", (3, 3), keeps_scale=True),
    "RESIZE_NEAREST_NEIGHBOR": OperatorRow(
        resize_nearest_neighbor, "ResizeNearestNeighborOptions", (2, 2), keeps_scale=True
    ),
    "RESIZE_BILINEAR": OperatorRow(resize_bilinear, "ResizeBilinearOptions", (2, 2), keeps_scale=True),
}
