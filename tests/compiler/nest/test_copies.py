"""Copies that are only a matter of addresses go, the others stay, and the bits are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv
from tests.compiler.nests import INT8, activation
from tests.compiler.pipelines import base16, compiled_distances, copies_left, count_copies, lowered
from tilewright.compiler.lower.network import SPACE, affine, result_loops
from tilewright.compiler.nest.batches import batches
from tilewright.compiler.nest.copies import copies
from tilewright.compiler.nest.nest import Access, Buffer, Nest, NestProgram
from tilewright.isa.language.expressions import make
from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.language.operations import Op
from tilewright.isa.program.program import Tensor

LOW = -128


def merged(model: onnx.ModelProto) -> tuple[int, int]:
    before = lowered(model)
    return copies_left(before, copies(batches(before), base16()), model)


def concatenated(
    channels: Sequence[int],
    axis: int = 1,
    kernel: int = 1,
    keeps_first: bool = False,
    again: bool = False,
    last: int = 1,
) -> onnx.ModelProto:
    """Maxima of inputs, concatenated, and a convolution of the whole; `keeps_first` reads the first by itself."""
    builder = ModelBuilder(np.random.default_rng(2))
    parts = []
    for i, size in enumerate(channels):
        x = builder.quantize(builder.input(f"x{i}", (2, size, 6, 6)), 0.1, LOW, name=f"x{i}.q")
        x = builder.node("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        parts.append(builder.quantize(x, 0.1, LOW, name=f"p{i}.q"))
    y = builder.quantize(builder.node("Concat", parts, name="concat", axis=axis), 0.1, LOW, name="y.q")
    if keeps_first:
        pads = [kernel // 2] * 4
        builder.output(add_conv(builder, parts[0], channels[0], 8, kernel, pads=pads, name="first"), "first")
    if again:
        twice = builder.node("Concat", [parts[0], parts[0]], name="twice", axis=1)
        builder.output(builder.quantize(twice, 0.1, LOW, name="twice.q"), "twice")
    builder.output(add_conv(builder, y, sum(channels) if axis == 1 else channels[0], 8, last, name="conv"))
    return builder.build("concat")


def test_concatenated_channels_are_computed_in_place() -> None:
    assert merged(concatenated([16, 32, 8])) == (3, 0)


def test_a_part_is_also_read_by_itself_with_padding() -> None:
    assert merged(concatenated([16, 32], kernel=3, keeps_first=True)) == (2, 0)


def test_rows_that_a_window_looks_beyond_stay_copied() -> None:
    """The convolution of the first part pads its last row; in the whole, the second part's rows are there."""
    assert merged(concatenated([16, 16], axis=2, kernel=3, keeps_first=True)) == (2, 1)
    assert merged(concatenated([16, 16], axis=2, kernel=1, keeps_first=True)) == (2, 0)


def gathered(model: onnx.ModelProto) -> bool:
    """Whether a product closes the gaps between concatenated channels."""
    return any(nest.name == "concat" for nest in lowered(model).nests)


def test_a_convolution_reads_channels_within_words_with_room_between() -> None:
    """With 20 channels, the second operand would begin on lane 4; it begins on the next word instead."""
    model = concatenated([20, 16])
    assert merged(model) == (2, 0)
    assert not gathered(model)
    assert compiled_distances(model, "base16").max() <= 1


def test_many_narrow_operands_are_gathered() -> None:
    """Ten words of one channel each would cost a 3×3 convolution more than a product that makes one word of them."""
    model = concatenated([1] * 10, last=3)
    assert gathered(model)
    assert compiled_distances(model, "base16").max() <= 1


def test_channels_that_go_to_the_host_are_gathered() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    parts = [builder.quantize(builder.input(f"x{i}", (1, 5, 4, 4)), 0.1, LOW, name=f"x{i}.q") for i in range(2)]
    y = builder.quantize(builder.node("Concat", parts, name="concat", axis=1), 0.1, LOW, name="y.q")
    builder.output(add_conv(builder, y, 10, 8, 1, name="conv"))
    builder.output(y, "y")
    model = builder.build()
    assert gathered(model)
    assert compiled_distances(model, "base16").max() <= 1


def test_one_tensor_in_two_places_is_copied_once_less() -> None:
    before, after = merged(concatenated([16, 16], again=True))
    assert (before, after) == (4, 2)


def sliced(starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], kernel: int = 1) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", (1, 48, 7, 6)), 0.1, name="x.q")
    named = zip(("starts", "ends", "axes"), (starts, ends, axes), strict=True)
    y = builder.node("Slice", [x, *(builder.constant(n, np.array(v, np.int64)) for n, v in named)], name="slice")
    channels = len(range(48)[starts[0] : ends[0]]) if axes[0] == 1 else 48
    builder.output(add_conv(builder, y, channels, 8, kernel, pads=[kernel // 2] * 4, name="conv"))
    return builder.build("slice")


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (sliced([16], [48], [1]), 0),
        (sliced([16], [42], [1]), 0),
        (sliced([0], [5], [1]), 0),
        (sliced([1, 2], [6, 5], [2, 3]), 0),
        (sliced([1, 2], [6, 5], [2, 3], kernel=3), 1),  # the convolution's padding would be the rows around
        (sliced([16], [32], [1], kernel=3), 0),
    ],
)
def test_slices_are_read_where_they_lie(model: onnx.ModelProto, left: int) -> None:
    assert merged(model) == (1, left)


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("overrides", [[], ["memories.act.kib=8"]])
def test_parts_on_chip_and_in_dram_hold_the_same(overrides: list[str], machine: str) -> None:
    model = concatenated([16, 32, 8], kernel=3, keeps_first=True)
    assert compiled_distances(model, machine, overrides=overrides).max() <= 1


def test_who_reads_pixels_of_a_part_must_not_load_those_between_too_early() -> None:
    """Four strided copies upsample a tensor; it cannot lie in the first one's place, from where the others read."""
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", (1, 16, 5, 5)), 0.1, name="x.q")
    x = add_conv(builder, x, 16, 16, 1, name="conv")
    scales = builder.constant("scales", np.array([1, 1, 2, 2], np.float32))
    builder.output(builder.node("Resize", [x, "", scales], name="up"))
    model = builder.build()
    assert merged(model) == (4, 4)
    assert compiled_distances(model, "base16", overrides=["memories.act.kib=2"]).max() <= 1


def test_a_chain_of_narrow_concatenations_gathers_nothing() -> None:
    """As in a DenseNet: each 1×1 convolution reads all before it, and adds 8 channels."""
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", (1, 20, 5, 5)), 0.1, LOW, name="x.q")
    channels = 20
    for layer in range(3):
        y = add_conv(builder, x, channels, 8, 1, name=f"conv{layer}")
        y = builder.quantize(y, 0.1, LOW, name=f"y{layer}")
        x = builder.quantize(builder.node("Concat", [x, y], name=f"concat{layer}", axis=1), 0.1, LOW, name=f"c{layer}")
        channels += 8
    builder.output(add_conv(builder, x, channels, 8, 1, name="last"))
    model = builder.build()
    before, after = merged(model)
    assert (before, after) == (6, 1)  # the network's input is copied to the lanes beside the first results
    assert not any(nest.name.startswith("concat") and nest.expr.op is not Op.SOURCE for nest in lowered(model).nests)
    apart = compiled_distances(model, "base16")
    assert apart.max() <= 1


def test_channels_taken_from_a_narrow_concatenation_are_gathered_once() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    parts = [builder.quantize(builder.input(f"x{i}", (1, 20, 4, 4)), 0.1, LOW, name=f"x{i}.q") for i in range(2)]
    y = builder.quantize(builder.node("Concat", parts, name="concat", axis=1), 0.1, LOW, name="y.q")
    y = builder.node("Gather", [y, builder.constant("indices", np.array([19, 20, 3, 39], np.int64))], axis=1)
    builder.output(builder.quantize(y, 0.1, LOW, name="z.q"))
    model = builder.build()
    assert not gathered(model)
    assert compiled_distances(model, "base16").max() == 0


def hand_written(*copies: tuple[str, int, int], joint: int = 64) -> NestProgram:
    """Buffers `(name, channels, first)` that products compute, copied to a joint buffer from a channel on."""
    loops = [affine((loop, 1)) for loop in SPACE]
    buffers = {"x": Buffer("x", (1, 16, 2, 2), INT8), "y": Buffer("y", (1, joint, 2, 2), INT8)}
    nests = []
    for name, channels, first in copies:
        shape = (1, channels, 2, 2)
        buffers[name] = Buffer(name, shape, INT8)
        doubled = make(Op.MAX, activation("a"), activation("a"))
        there = Access(name, tuple(loops))
        nests.append(Nest(name, (), result_loops(shape), {"a": Access("x", tuple(loops))}, there, doubled, 0))
        target = Access("y", (loops[0], affine(("o", 1), constant=first), *loops[2:]))
        nests.append(Nest(f"{name}.copy", (), result_loops(shape), {"a": there}, target, activation("a"), 0))
    hosts = [Tensor(name, (), (1, size, 2, 2), "int8", 1.0, 0, 0, 0) for name, size in (("x", 16), ("y", joint))]
    return NestProgram("hand", tuple(nests), buffers, {}, {}, (hosts[0],), (hosts[1],))


@pytest.mark.parametrize(
    ("buffers", "left"),
    [
        ((("a", 32, 0), ("b", 32, 32)), 0),
        ((("a", 8, 0), ("b", 16, 8)), 2),  # b begins on lane 8; a's last word would take its first lanes with it
        ((("a", 8, 0), ("b", 16, 16)), 0),  # lanes 8 to 15 are nobody's
        ((("a", 20, 0), ("b", 32, 32)), 0),
    ],
)
def test_words_hold_channels_of_one_buffer(buffers: Sequence[tuple[str, int, int]], left: int) -> None:
    assert count_copies(copies(hand_written(*buffers), base16())) == left


def test_buffers_of_another_type_stay() -> None:
    program = hand_written(("a", 32, 0))
    wide = replace(program.buffers["a"], type=IntegerType(16, True))
    assert count_copies(copies(replace(program, buffers={**program.buffers, "a": wide}), base16())) == 1


def flattened(kernel: int, is_hosted: bool = False) -> onnx.ModelProto:
    """Maxima whose pixels become one row, and convolutions of both; that of the rows pads."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (2, 20, 6, 5)), 0.1, LOW, name="x.q")
    y = builder.node("MaxPool", [x], kernel_shape=[2, 2], strides=[1, 1])
    y = builder.quantize(y, 0.1, LOW, name="y.q")
    row = builder.node("Reshape", [y, builder.constant("shape", np.array([2, 20, 1, 20]))], name="row")
    builder.output(add_conv(builder, row, 20, 8, 1, name="of_row"), "of_row")
    builder.output(add_conv(builder, y, 20, 8, kernel, pads=[kernel // 2] * 4, name="of_rows"), "of_rows")
    if is_hosted:
        builder.output(y, "y")
    return builder.build("flattened")


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (flattened(1), 0),
        (flattened(3), 1),  # in one row there is no padding between the rows
        (flattened(1, is_hosted=True), 1),
    ],
)
def test_rows_are_computed_as_one_row(model: onnx.ModelProto, left: int) -> None:
    assert merged(model) == (1, left)
    assert compiled_distances(model, "base16").max() <= 1


def test_a_column_is_computed_as_a_row() -> None:
    """Also where the tensor before it is not on chip, so that its tiles count what they load."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (8, 20, 30, 3)), 0.1, LOW, name="x.q")
    column = add_conv(builder, x, 20, 20, 1, stride=[1, 3], name="column")
    row = builder.node("Reshape", [column, builder.constant("shape", np.array([8, 20, 1, 30]))], name="row")
    builder.output(add_conv(builder, row, 20, 8, 1, name="of_row"), "of_row")
    model = builder.build("of_one_column")
    assert merged(model) == (1, 0)
    assert compiled_distances(model, "base16", overrides=["memories.act.kib=16"]).max() <= 1


def test_rows_that_become_channels_stay_rows() -> None:
    """One reader wants one row of all pixels, another makes 6 channels of the rows: its tile walks along a column."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 16, 7, 5)), 0.1, LOW, name="x.q")
    y = builder.node("MaxPool", [x], kernel_shape=[2, 2], strides=[1, 1])
    y = builder.quantize(y, 0.1, LOW, name="y.q")
    row = builder.node("Reshape", [y, builder.constant("of_row.shape", np.array([1, 16, 1, 24]))], name="row")
    builder.output(add_conv(builder, row, 16, 8, 1, name="of_row"), "of_row")
    images = builder.node("Reshape", [y, builder.constant("of_rows.shape", np.array([16, 6, 4, 1]))], name="images")
    builder.output(add_conv(builder, images, 6, 8, 1, name="of_rows"), "of_rows")
    model = builder.build("rows_and_channels")
    assert merged(model) == (1, 1)
    assert compiled_distances(model, "base16").max() <= 1


def test_columns_that_a_matrix_skips_are_gathered() -> None:
    """Products of every second pixel with every second pixel: those of a matrix follow each other."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (1, 16, 1, 28)), 0.1, LOW, name="x.q")
    y = builder.node("MaxPool", [x], kernel_shape=[1, 2], strides=[1, 1])
    y = builder.quantize(y, 0.1, LOW, name="y.q")
    bounds = [builder.constant(name, np.array([value])) for name, value in (("first", 0), ("end", 27), ("axis", 3))]
    taken = builder.node("Slice", [y, *bounds, builder.constant("step", np.array([2]))], name="taken")
    turned = builder.node("Transpose", [taken], perm=[0, 1, 3, 2], name="turned")
    pixels = builder.node("MatMul", [turned, taken], name="products")
    builder.output(builder.quantize(pixels, 15.0, LOW, name="products.q"))
    model = builder.build("every_second_pixel")
    assert merged(model)[1] > 0
    assert compiled_distances(model, "base16").max() <= 1
