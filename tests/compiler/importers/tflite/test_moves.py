"""Operators that move elements against numpy's, channels last, behind an image that is stored channels first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.errors import CompileError

IMAGE = (1, 4, 6, 8)


class Moved:
    """A file of one operator that reads an image stored channels first, or a tensor of another rank."""

    def __init__(self, shape: tuple[int, ...] = IMAGE) -> None:
        self.rng = np.random.default_rng(1)
        self.file = TfliteFile()
        self.x = x = self.file.input("x", shape, 0.05, 3)
        if len(shape) == 4:
            self.x = self.file.tensor("pooled", shape, 0.05, 3)
            self.file.operator(
                "MAX_POOL_2D", [x], self.x, "Pool2DOptions", StrideH=1, StrideW=1, FilterHeight=1, FilterWidth=1
            )
        self.inputs = random_inputs(self.file, self.rng)
        (self.real,) = reals(self.file, self.inputs)

    def integers(self, name: str, values: Any) -> Tensor:
        return self.file.constant(name, np.array(values, np.int32))

    def result(self, shape: tuple[int, ...], name: str = "y", **kwargs: Any) -> Tensor:
        return self.file.tensor(name, shape, 0.05, 3, **kwargs)

    def require(self, y: Tensor, expected: NDArray[Any]) -> None:
        require_close(y, run(translate(self.file, y), self.inputs)[y.name], expected)

    def refused(self, y: Tensor) -> str:
        with pytest.raises(CompileError) as error:
            translate(self.file, y)
        return str(error.value)


@pytest.mark.parametrize("as_input", [False, True])
@pytest.mark.parametrize(
    ("shape", "result"),
    [
        (IMAGE, (1, 192)),
        (IMAGE, (1, 24, 8)),
        (IMAGE, (1, 6, 4, 8)),
        (IMAGE, (4, 6, 8)),
        (IMAGE, (1, 4, 48)),
        (IMAGE, (1, 2, 2, 6, 8)),
        ((1, 192), IMAGE),
        ((1, 24, 8), (1, 4, 6, 8)),
    ],
)
def test_reshape(shape: Any, result: Any, as_input: bool) -> None:
    moved = Moved(shape)
    y = moved.result(result)
    wanted = [-1, *result[1:]]
    inputs = [moved.x, moved.integers("shape", wanted)] if as_input else [moved.x]
    moved.file.operator("RESHAPE", inputs, y, "ReshapeOptions", NewShape=[7] if as_input else wanted)
    moved.require(y, moved.real.reshape(result))


@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 1, 6, 8), [1]), ((1, 1, 1, 8), [1, 2]), ((1, 1, 6, 8), []), ((3, 1), [-1])]
)
def test_squeeze(shape: Any, axes: list[int]) -> None:
    moved = Moved(shape)
    expected = np.squeeze(moved.real, tuple(axes) or None)
    y = moved.result(expected.shape)
    moved.file.operator("SQUEEZE", [moved.x], y, "SqueezeOptions", **({"SqueezeDims": axes} if axes else {}))
    moved.require(y, expected)


@pytest.mark.parametrize(("shape", "axis"), [((3, 4), 0), ((3, 4), -1), (IMAGE, 1), (IMAGE, 4)])
def test_expand_dims(shape: Any, axis: int) -> None:
    moved = Moved(shape)
    expected = np.expand_dims(moved.real, axis)
    y = moved.result(expected.shape)
    moved.file.operator("EXPAND_DIMS", [moved.x, moved.integers("axis", axis)], y, "ExpandDimsOptions")
    moved.require(y, expected)


@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 2, 3), (0, 2, 3, 1), (2, 1, 0)])
def test_transpose(axes: tuple[int, ...]) -> None:
    moved = Moved(IMAGE if len(axes) == 4 else (3, 4, 5))
    expected = moved.real.transpose(axes)
    y = moved.result(expected.shape)
    moved.file.operator("TRANSPOSE", [moved.x, moved.integers("axes", axes)], y, "TransposeOptions")
    moved.require(y, expected)


def test_a_transpose_to_channels_first_moves_nothing() -> None:
    moved = Moved()
    y = moved.result((1, 8, 4, 6))
    moved.file.operator("TRANSPOSE", [moved.x, moved.integers("axes", [0, 3, 1, 2])], y, "TransposeOptions")
    nodes = [node.op_type for node in translate(moved.file, y).graph.node]
    assert nodes.count("Transpose") == 1  # of the input


@pytest.mark.parametrize(
    ("first", "sizes"), [((0, 1, 2, 3), (1, 2, 3, 4)), ((0, 0, 0, 0), (1, -1, 6, 2)), ((0, 3, 5, 7), (-1, -1, -1, -1))]
)
def test_slice(first: Any, sizes: Any) -> None:
    moved = Moved()
    cut = [slice(b, None if n == -1 else b + n) for b, n in zip(first, sizes, strict=True)]
    expected = moved.real[tuple(cut)]
    y = moved.result(expected.shape)
    moved.file.operator(
        "SLICE", [moved.x, moved.integers("first", first), moved.integers("sizes", sizes)], y, "SliceOptions"
    )
    moved.require(y, expected)


@pytest.mark.parametrize(
    ("first", "last", "steps", "masks", "index"),
    [
        ([0, 1, 0, 2], [1, 4, 6, 8], [1, 2, 1, 3], {}, np.s_[:, 1:4:2, 0:6, 2:8:3]),
        ([0, 9, 0, -3], [9, 1, -1, -1], [1, -1, 1, 1], {}, np.s_[0:9, 9:1:-1, 0:-1, -3:-1]),
        ([5, 2, 1, 0], [0, 0, 0, 4], [1, 1, 2, 1], {"BeginMask": 1, "EndMask": 7}, np.s_[:, 2:, 1::2, 0:4]),
        ([0, 3, 0, 0], [0, 0, 0, 0], [1, -1, -1, 1], {"BeginMask": 13, "EndMask": 15}, np.s_[:, 3::-1, ::-1, :]),
        ([0, 2, 1, 0], [1, 3, 5, 8], [1, 1, 1, 1], {"ShrinkAxisMask": 2}, np.s_[0:1, 2, 1:5, 0:8]),
        ([0, 0, 0, -1], [1, 4, 6, 0], [1, 1, 1, 1], {"ShrinkAxisMask": 9}, np.s_[0, 0:4, 0:6, -1]),
        ([0, 1], [1, 3], [1, 1], {}, np.s_[0:1, 1:3]),
    ],
)
def test_strided_slice(first: Any, last: Any, steps: Any, masks: Any, index: Any) -> None:
    moved = Moved()
    expected = moved.real[index]
    y = moved.result(expected.shape)
    inputs = [moved.x, *(moved.integers(f"i{i}", of) for i, of in enumerate((first, last, steps)))]
    moved.file.operator("STRIDED_SLICE", inputs, y, "StridedSliceOptions", **masks)
    moved.require(y, expected)


@pytest.mark.parametrize(("axis", "count"), [(3, 2), (-1, 4), (1, 2), (2, 3)])
def test_split(axis: int, count: int) -> None:
    moved = Moved()
    parts = np.split(moved.real, count, axis)
    outputs = [moved.result(part.shape, f"y{i}") for i, part in enumerate(parts)]
    moved.file.operator("SPLIT", [moved.integers("axis", axis), moved.x], outputs, "SplitOptions", NumSplits=count)
    came = run(translate(moved.file, *outputs), moved.inputs)
    for output, part in zip(outputs, parts, strict=True):
        require_close(output, came[output.name], part)


@pytest.mark.parametrize("sizes", [[3, 1, 4], [3, -1, 4]])
def test_split_v(sizes: list[int]) -> None:
    moved = Moved()
    parts = np.split(moved.real, [3, 4], 3)
    outputs = [moved.result(part.shape, f"y{i}") for i, part in enumerate(parts)]
    inputs = [moved.x, moved.integers("sizes", sizes), moved.integers("axis", 3)]
    moved.file.operator("SPLIT_V", inputs, outputs, "SplitVOptions", NumSplits=3)
    came = run(translate(moved.file, *outputs), moved.inputs)
    for output, part in zip(outputs, parts, strict=True):
        require_close(output, came[output.name], part)


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
def test_concatenation(axis: int) -> None:
    moved = Moved()
    other = moved.file.constant("other", moved.rng.integers(-128, 128, IMAGE).astype(np.int8), [0.02], [-5])
    expected = np.concatenate([moved.real, other.reals, moved.real], axis)
    y = moved.result(expected.shape)
    moved.file.operator("CONCATENATION", [moved.x, other, moved.x], y, "ConcatenationOptions", Axis=axis)
    moved.require(y, expected)


@pytest.mark.parametrize("value", [None, 40])
def test_pad(value: int | None) -> None:
    moved = Moved()
    pads = [(0, 0), (1, 2), (3, 0), (0, 4)]
    fill = 0.0 if value is None else (value - 3) * float(np.float32(0.05))
    expected = np.pad(moved.real, pads, constant_values=fill)
    y = moved.result(expected.shape)
    inputs = [moved.x, moved.integers("pads", pads)]
    if value is not None:
        inputs.append(moved.file.constant("value", np.array([value], np.int8), [0.05], [3]))
    kind, table = ("PAD", "PadOptions") if value is None else ("PADV2", "PadV2Options")
    moved.file.operator(kind, inputs, y, table)
    moved.require(y, expected)


@pytest.mark.parametrize("block", [2])
def test_space_to_depth(block: int) -> None:
    """Result channel (row · block + column) · C + c is channel c of that place in the block."""
    moved = Moved()
    n, h, w, c = IMAGE
    cut = moved.real.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
    expected = cut.reshape(n, h // block, w // block, block * block * c)
    y = moved.result(expected.shape)
    moved.file.operator("SPACE_TO_DEPTH", [moved.x], y, "SpaceToDepthOptions", BlockSize=block)
    moved.require(y, expected)


def test_depth_to_space() -> None:
    moved = Moved()
    n, h, w, c = IMAGE
    cut = moved.real.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
    expected = cut.reshape(n, h * 2, w * 2, c // 4)
    y = moved.result(expected.shape)
    moved.file.operator("DEPTH_TO_SPACE", [moved.x], y, "DepthToSpaceOptions", BlockSize=2)
    moved.require(y, expected)


COORDINATES = [{}, {"AlignCorners": True}, {"HalfPixelCenters": True}]
SIZES = [(8, 12), (7, 5), (2, 3), (1, 11)]


def scale_of(size: int, result: int, aligned: bool) -> float:
    return (size - 1) / (result - 1) if aligned and result > 1 else size / result


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", COORDINATES)
def test_resize_nearest_neighbor(size: Any, options: dict[str, bool]) -> None:
    moved = Moved()
    picked = []
    aligned, centred = "AlignCorners" in options, "HalfPixelCenters" in options
    for of, result in zip(IMAGE[1:3], size, strict=True):
        places = (np.arange(result) + 0.5 * centred) * scale_of(of, result, aligned)
        picked.append(np.minimum(np.floor(places + 0.5 * aligned).astype(int), of - 1))
    expected = moved.real[:, picked[0]][:, :, picked[1]]
    y = moved.result(expected.shape)
    inputs = [moved.x, moved.integers("size", size)]
    moved.file.operator("RESIZE_NEAREST_NEIGHBOR", inputs, y, "ResizeNearestNeighborOptions", **options)
    moved.require(y, expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", COORDINATES)
def test_resize_bilinear(size: Any, options: dict[str, bool]) -> None:
    moved = Moved()
    expected = moved.real
    aligned, centred = "AlignCorners" in options, "HalfPixelCenters" in options
    for axis, (of, result) in enumerate(zip(IMAGE[1:3], size, strict=True), 1):
        places = (np.arange(result) + 0.5 * centred) * scale_of(of, result, aligned) - 0.5 * centred
        lower = np.floor(places).astype(int)
        part = (places - lower).reshape([-1 if d == axis else 1 for d in range(4)])
        before, after = (np.take(expected, np.clip(lower + i, 0, of - 1), axis) for i in (0, 1))
        expected = before * (1 - part) + after * part
    y = moved.result(expected.shape)
    moved.file.operator(
        "RESIZE_BILINEAR", [moved.x, moved.integers("size", size)], y, "ResizeBilinearOptions", **options
    )
    moved.require(y, expected)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_refuses_a_reshape_to_another_shape_than_its_result() -> None:
    moved = Moved((2, 6))
    y = moved.result((3, 4))
    moved.file.operator("RESHAPE", [moved.x], y, "ReshapeOptions", NewShape=[4, 3])
    assert moved.refused(y) == "net: operator 0 (RESHAPE): wants the shape [4, 3]; its result is [3, 4]"


@pytest.mark.parametrize("wanted", [[], [-1, -1]])
def test_refuses_a_reshape_to_no_shape_and_to_several_free_sizes(wanted: list[int]) -> None:
    moved = Moved((2, 6))
    y = moved.result((3, 4))
    moved.file.operator("RESHAPE", [moved.x], y, "ReshapeOptions", NewShape=wanted)
    refusal = f"net: operator 0 (RESHAPE): wants the shape {wanted}; its result is [3, 4]"
    assert moved.refused(y) == refusal


@pytest.mark.parametrize(
    ("count", "sizes", "message"),
    [
        (3, (3, 3, 2), "operator 1 (SPLIT): num_splits = 3 of 8 elements; expected a number that divides them"),
        (2, (3, 5), "operator 1 (SPLIT): tensor 2 'y0': is [1, 4, 6, 3]; expected [1, 4, 6, 4], the piece"),
    ],
)
def test_refuses_a_split_in_pieces_that_differ(count: int, sizes: tuple[int, ...], message: str) -> None:
    moved = Moved()
    outputs = [moved.result((1, 4, 6, size), f"y{i}") for i, size in enumerate(sizes)]
    moved.file.operator("SPLIT", [moved.integers("axis", 3), moved.x], outputs, "SplitOptions", NumSplits=count)
    with pytest.raises(CompileError) as error:
        translate(moved.file, *outputs)
    assert str(error.value) == f"net: {message}"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([5, 3], "tensor 2 'y0': is [1, 4, 6, 3]; expected [1, 4, 6, 5], the piece"),
        ([3, 6], "splits 8 elements into [3, 6]"),
        ([-1, -1], "splits 8 elements into [-1, -1]"),
        ([-1, 9], "splits 8 elements into [-1, 9]"),
    ],
)
def test_refuses_a_split_of_other_sizes_than_the_file_says(sizes: list[int], message: str) -> None:
    moved = Moved()
    outputs = [moved.result((1, 4, 6, 3), "y0"), moved.result((1, 4, 6, 5), "y1")]
    inputs = [moved.x, moved.integers("sizes", sizes), moved.integers("axis", 3)]
    moved.file.operator("SPLIT_V", inputs, outputs, "SplitVOptions", NumSplits=2)
    with pytest.raises(CompileError) as error:
        translate(moved.file, *outputs)
    assert str(error.value) == f"net: operator 1 (SPLIT_V): {message}"


def test_refuses_a_shape_computed_at_run_time() -> None:
    moved = Moved((2, 6))
    y, shape = moved.result((3, 4)), moved.file.input("shape", (2,), None, dtype=np.int32)
    moved.file.operator("RESHAPE", [moved.x, shape], y, "ReshapeOptions")
    assert moved.refused(y) == (
        "net: operator 0 (RESHAPE): tensor 2 'shape': a shape computed at run time has no lowering; expected a constant"
    )


@pytest.mark.parametrize(("mask", "name"), [("EllipsisMask", "ellipsis_mask"), ("NewAxisMask", "new_axis_mask")])
def test_refuses_masks_of_strided_slices(mask: str, name: str) -> None:
    moved = Moved((2, 6))
    y = moved.result((2, 6))
    inputs = [moved.x, *(moved.integers(f"i{i}", of) for i, of in enumerate(([0, 0], [2, 6], [1, 1])))]
    moved.file.operator("STRIDED_SLICE", inputs, y, "StridedSliceOptions", **{mask: 1})
    assert moved.refused(y) == f"net: operator 0 (STRIDED_SLICE): {name} = 1 has no lowering; expected 0"


def test_refuses_a_slice_beyond_the_end() -> None:
    moved = Moved((2, 6))
    y = moved.result((2, 3))
    moved.file.operator(
        "SLICE", [moved.x, moved.integers("first", [0, 5]), moved.integers("sizes", [2, 3])], y, "SliceOptions"
    )
    assert moved.refused(y) == "net: operator 0 (SLICE): takes 5 … 8 of a dimension of 6"


def test_refuses_negative_padding() -> None:
    moved = Moved((2, 6))
    y = moved.result((2, 5))
    moved.file.operator("PAD", [moved.x, moved.integers("pads", [[0, 0], [0, -1]])], y, "PadOptions")
    assert moved.refused(y) == (
        "net: operator 0 (PAD): its padding is [[0, 0], [0, -1]]; expected two numbers of 0 or more for each dimension"
    )


def test_refuses_corners_aligned_and_centres_at_once() -> None:
    moved = Moved()
    y = moved.result((1, 8, 12, 8))
    moved.file.operator(
        "RESIZE_BILINEAR", [moved.x, moved.integers("size", [8, 12])], y, "ResizeBilinearOptions",
        AlignCorners=True, HalfPixelCenters=True,
    )  # fmt: skip
    assert moved.refused(y) == (
        "net: operator 1 (RESIZE_BILINEAR): align_corners and half_pixel_centers are both set; expected one of them"
    )
