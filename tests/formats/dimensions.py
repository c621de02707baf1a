"""Networks with tensors of five dimensions: shuffles, anchors and heads as exporters write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.compiler.models import ModelBuilder, add_conv, rescaled

FIVE = [1, 2, 8, 6, 6]
"""The sixteen channels of the first convolution in two groups."""


def reshaped(builder: ModelBuilder, x: str, shape: Sequence[int]) -> str:
    return builder.node("Reshape", [x, builder.constant(f"shape{builder.count}", np.array(shape))])


def listed(builder: ModelBuilder, *numbers: int) -> str:
    return builder.constant(f"list{builder.count}.{len(builder.initializers)}", np.array(numbers))


def split(builder: ModelBuilder, x: str, axis: int, sizes: Sequence[int]) -> list[str]:
    names = [f"piece{builder.count}.{i}" for i in range(len(sizes))]
    builder.nodes.append(
        helper.make_node("Split", [x, listed(builder, *sizes)], names, name=f"split{builder.count}", axis=axis)
    )
    return names


def joined(builder: ModelBuilder, tensors: Sequence[str], axis: int) -> str:
    return builder.quantize(builder.node("Concat", list(tensors), axis=axis), 0.05, 0)


def shuffle(builder: ModelBuilder, x: str) -> str:
    x = builder.node("Transpose", [reshaped(builder, x, FIVE)], perm=[0, 2, 1, 3, 4])
    return reshaped(builder, x, [1, 16, 6, 6])


def quantised_shuffle(builder: ModelBuilder, x: str) -> str:
    x = builder.quantize(reshaped(builder, x, FIVE), 0.05, 3)
    x = builder.quantize(builder.node("Transpose", [x], perm=[0, 2, 1, 3, 4]), 0.05, 3)
    return builder.quantize(reshaped(builder, x, [1, 16, 6, 6]), 0.05, 3)


def shuffle_of_halves(builder: ModelBuilder, x: str) -> str:
    """ShuffleNetV2's unit: the halves of a shuffled concatenation."""
    y = add_conv(builder, x, 16, 16, 1, name="branch")
    z = reshaped(builder, joined(builder, [x, y], 1), [1, 2, 16, 6, 6])
    z = reshaped(builder, builder.node("Transpose", [z], perm=[0, 2, 1, 3, 4]), [1, 32, 6, 6])
    first, second = split(builder, z, 1, [16, 16])
    return joined(builder, [add_conv(builder, first, 16, 16, 1, name="half"), second], 1)


def gathered_groups(builder: ModelBuilder, x: str) -> str:
    x = builder.node("Transpose", [reshaped(builder, x, [1, 8, 2, 6, 6])], perm=[2, 0, 1, 3, 4])
    pieces = [builder.node("Gather", [x, builder.constant(f"index{i}", np.array(i))], axis=0) for i in range(2)]
    return joined(builder, [add_conv(builder, pieces[1], 8, 8, 1, name="piece"), pieces[0]], 1)


def sliced_group(builder: ModelBuilder, x: str) -> str:
    x = reshaped(builder, x, FIVE)
    x = builder.node("Slice", [x, listed(builder, 1), listed(builder, 2), listed(builder, 1)])
    return reshaped(builder, x, [1, 8, 6, 6])


def split_groups(builder: ModelBuilder, x: str) -> str:
    pieces = split(builder, reshaped(builder, x, FIVE), 1, [1, 1])
    return joined(builder, [reshaped(builder, piece, [1, 8, 6, 6]) for piece in reversed(pieces)], 1)


def gathered_by_a_matrix(builder: ModelBuilder, x: str) -> str:
    x = builder.node("Gather", [x, builder.constant("matrix", np.array([[0, 9], [2, 3]]))], axis=1)
    return reshaped(builder, x, [1, 4, 6, 6])


def concatenated(builder: ModelBuilder, x: str) -> str:
    y = add_conv(builder, x, 16, 16, 1, name="branch")
    z = joined(builder, [reshaped(builder, tensor, FIVE) for tensor in (x, y)], 2)
    return reshaped(builder, z, [1, 32, 6, 6])


def padded(builder: ModelBuilder, x: str) -> str:
    x = builder.node("Pad", [reshaped(builder, x, FIVE), listed(builder, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1)])
    return reshaped(builder, x, [1, 16, 8, 8])


def anchors(builder: ModelBuilder, x: str) -> str:
    """A detector's head: sigmoid of each anchor's numbers, then the first two of them times 2."""
    x = builder.node("Transpose", [reshaped(builder, x, FIVE)], perm=[0, 1, 3, 4, 2])
    x = builder.quantize(builder.node("Sigmoid", [x]), 1 / 256, -128)
    x = builder.node("Slice", [x, listed(builder, 0), listed(builder, 2), listed(builder, 4)])
    return builder.quantize(builder.node("Mul", [x, builder.constant("two", np.float32(2))]), 1 / 128, -128)


def between_convolutions(build: Callable[[ModelBuilder, str], str], channels: int) -> onnx.ModelProto:
    """An input, a convolution, what `build` makes of it, and a convolution of so many channels; none for 0."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", [1, 8, 6, 6]), 0.05)
    x = build(builder, add_conv(builder, x, 8, 16, 1, name="first"))
    builder.output(add_conv(builder, x, channels, 8, 1, name="last") if channels else x)
    return rescaled(builder.build())


def heads() -> onnx.ModelProto:
    """An attention whose queries, keys and values are one tensor, [1, T, 3 · heads · size]."""
    builder = ModelBuilder(np.random.default_rng(1))
    x = reshaped(builder, builder.quantize(builder.input("x", [1, 16, 96]), 0.05), [1, 16, 3, 4, 8])
    x = builder.node("Transpose", [x], perm=[2, 0, 3, 1, 4])
    q, k, v = (
        builder.node("Gather", [x, builder.constant(f"index{i}", np.array(i))], axis=0, name=f"part{i}")
        for i in range(3)
    )
    scores = builder.quantize(builder.node("MatMul", [q, builder.node("Transpose", [k], perm=[0, 1, 3, 2])]), 0.5, 0)
    y = builder.node("Transpose", [builder.quantize(builder.node("MatMul", [scores, v]), 0.5, 0)], perm=[0, 2, 1, 3])
    builder.output(builder.quantize(reshaped(builder, y, [1, 16, 32]), 0.5, 0))
    return rescaled(builder.build())


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "shuffle": lambda: between_convolutions(shuffle, 16),
    "quantised shuffle": lambda: between_convolutions(quantised_shuffle, 16),
    "shuffle of halves": lambda: between_convolutions(shuffle_of_halves, 32),
    "gathered groups": lambda: between_convolutions(gathered_groups, 16),
    "sliced group": lambda: between_convolutions(sliced_group, 8),
    "split groups": lambda: between_convolutions(split_groups, 16),
    "gathered by a matrix": lambda: between_convolutions(gathered_by_a_matrix, 4),
    "concatenated": lambda: between_convolutions(concatenated, 32),
    "padded": lambda: between_convolutions(padded, 16),
    "anchors": lambda: between_convolutions(anchors, 0),
    "heads": heads,
}
