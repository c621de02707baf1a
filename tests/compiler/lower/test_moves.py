"""Operators that move elements, compiled and simulated, against unoptimised ONNX Runtime: not one bit differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.compiler.models import ModelBuilder
from tests.compiler.pipelines import compiled_distances, simplified
from tests.compiler.simplify.graphs import kinds
from tilewright.compiler.errors import CompileError
from tilewright.compiler.lower.moves import IndexRun, runs

SHAPE = (2, 20, 7, 6)
Build = Callable[[ModelBuilder, str], list[str]]


def numbers(builder: ModelBuilder, name: str, *values: int) -> str:
    return builder.constant(name, np.array(values, np.int64))


def sliced(starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]) -> Build:
    def build(b: ModelBuilder, x: str) -> list[str]:
        named = zip(("starts", "ends", "axes", "steps"), (starts, ends, axes, steps), strict=True)
        return [b.node("Slice", [x, *(numbers(b, name, *values) for name, values in named)], name="slice")]

    return build


def split(axis: int, *sizes: int) -> Build:
    def build(b: ModelBuilder, x: str) -> list[str]:
        results = [f"split.{i}" for i in range(len(sizes))]
        b.nodes.append(helper.make_node("Split", [x, numbers(b, "sizes", *sizes)], results, name="split", axis=axis))
        return results

    return build


def gathered(axis: int, indices: Any) -> Build:
    return lambda b, x: [b.node("Gather", [x, b.constant("indices", np.array(indices, np.int64))], axis=axis)]


def tiled(*repeats: int) -> Build:
    return lambda b, x: [b.node("Tile", [x, numbers(b, "repeats", *repeats)])]


def expanded(b: ModelBuilder, x: str) -> list[str]:
    return [b.node("Expand", [b.node("GlobalMaxPool", [x]), numbers(b, "shape", 2, 20, 3, 5)])]


def padded(*pads: int, **attributes: Any) -> Build:
    value = [0.5] if not attributes else []
    return lambda b, x: [
        b.node("Pad", [x, numbers(b, "pads", *pads), *(b.constant("value", np.float32(v)) for v in value)],
               **attributes)
    ]  # fmt: skip


MOVES: dict[str, Build] = {
    "rows": sliced([1], [-1], [2], [1]),
    "every other row": sliced([0], [100], [2], [2]),
    "backwards": sliced([-1], [-1000], [3], [-1]),
    "rows and columns": sliced([1, 1], [6, 6], [2, 3], [2, 3]),
    "channels within words": sliced([3], [12], [1], [1]),
    "channels from a word": sliced([16], [20], [-3], [1]),
    "channels backwards": sliced([-1], [-99], [1], [-2]),
    "batches": sliced([1], [2], [0], [1]),
    "split channels": split(1, 4, 16),
    "split words": split(1, 16, 4),
    "split rows": split(2, 3, 4),
    "gathered channels": gathered(1, [3, 1, 1, -1]),
    "gathered columns": gathered(3, [3, 1, 1, -1, 0]),
    "one row": gathered(2, 2),
    "tiled channels": tiled(1, 2, 2, 1),
    "tiled batches": tiled(2, 1, 1, 3),
    "expanded": expanded,
    "padded": padded(0, 0, 1, 2, 0, 0, 3, 0),
    "padded and cut": padded(0, 0, 1, -2, 0, 0, -3, 1),
    "padded channels": padded(0, 4, 0, 1, 0, 1, 0, 0),
    "padded batches": padded(1, 0, 0, 0, 1, 0, 0, 2),
    "padded with the edge": padded(0, 0, 1, 2, 0, 3, 2, 0, mode="edge"),
    "padded with reflections": padded(0, 0, 3, 0, 0, 0, 2, 5, mode="reflect"),
    "padded beyond other reflections": padded(0, 0, -1, 3, 0, 0, 2, -2, mode="reflect"),
}


def moved(build: Build, activation: type = np.int8, scale: float = 0.1) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(1), activation=activation)
    zero = 3 if activation == np.int8 else 131
    x = builder.quantize(builder.input("x", SHAPE), 0.1, zero, name="x.q")
    for position, y in enumerate(build(builder, x)):
        builder.output(builder.quantize(y, scale, zero, name=f"y{position}.q"), f"result{position}")
    return builder.build("moved")


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("name", MOVES)
def test_moved_elements_are_the_same(name: str, machine: str) -> None:
    assert compiled_distances(moved(MOVES[name]), machine).max() == 0


@pytest.mark.parametrize("name", ["every other row", "split channels", "padded"])
def test_moved_to_another_scale(name: str) -> None:
    assert compiled_distances(moved(MOVES[name], np.uint8, 0.13), "rect").max() == 0


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize(
    ("channels", "axis", "scales"),
    [
        ((16, 32), 1, (0.1, 0.1)),
        ((16, 20, 7), 1, (0.1, 0.1, 0.1)),
        ((5, 40), 1, (0.1, 0.1)),
        ((5, 20, 7), 1, (0.1, 0.12, 0.08)),
        ((5, 5), 0, (0.1, 0.1)),
        ((5, 5), 2, (0.1, 0.12)),
        ((5, 5, 5), -1, (0.1, 0.1, 0.1)),
    ],
)
def test_concatenated(channels: Sequence[int], axis: int, scales: Sequence[float], machine: str) -> None:
    builder = ModelBuilder(np.random.default_rng(2), activation=np.uint8)
    parts = [
        builder.quantize(builder.input(f"x{i}", (2, size, 7, 5)), scale, 131, name=f"x{i}.q")
        for i, (size, scale) in enumerate(zip(channels, scales, strict=True))
    ]
    y = builder.node("Concat", parts, name="concat", axis=axis)
    builder.output(builder.quantize(y, 0.1, 131, name="y.q"))
    assert compiled_distances(builder.build("concat"), machine).max() == 0


def test_concatenated_with_a_constant() -> None:
    builder = ModelBuilder(np.random.default_rng(2), activation=np.uint8)
    x = builder.quantize(builder.input("x", (1, 16, 4, 5)), 0.1, 131, name="x.q")
    constant = builder.constant("c", np.random.default_rng(3).uniform(-9, 9, (1, 6, 4, 5)).astype(np.float32))
    y = builder.node("Concat", [x, builder.quantize(constant, 0.1, 131, name="c.q")], axis=1)
    builder.output(builder.quantize(y, 0.1, 131, name="y.q"))
    assert compiled_distances(builder.build("concat"), "base16").max() == 0


def test_moves_of_integers_without_quantisers_between() -> None:
    builder = ModelBuilder(np.random.default_rng(2), activation=np.uint8)
    scale = [builder.constant("scale", np.float32(0.1)), builder.constant("zero", np.uint8(131))]
    x = builder.node("QuantizeLinear", [builder.input("x", [1, 16, 6, 6]), *scale])
    up = builder.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    up = builder.node("Resize", [up, "", builder.constant("factors", np.array([1, 1, 2, 2], np.float32))])
    y = builder.node("Concat", [up, x], axis=1)
    y = sliced([1], [4], [2], [1])(builder, y)[0]
    y = builder.node("Pad", [y, numbers(builder, "pads", 0, 0, 1, 1, 0, 0, 0, 0), builder.constant("v", np.uint8(7))])
    builder.output(builder.node("DequantizeLinear", [y, *scale]))
    assert compiled_distances(builder.build(), "base16").max() == 0


def test_takes_of_takes_are_one() -> None:
    def twice(b: ModelBuilder, x: str) -> list[str]:
        first = b.node("Gather", [x, numbers(b, "some", 5, 3, 0, 2)], axis=2)
        return gathered(2, [2, 2, -1])(b, b.node("Gather", [first, numbers(b, "others", 1, 4)], axis=3))

    model = moved(twice)
    assert kinds(simplified(model)).count("take") == 1
    assert compiled_distances(model, "base16").max() == 0


@pytest.mark.parametrize(("name", "order"), [("rows", "take rescale"), ("tiled channels", "rescale take")])
def test_the_smaller_tensor_is_rescaled(name: str, order: str) -> None:
    between = kinds(simplified(moved(MOVES[name], scale=0.13)))[1:-1]
    assert " ".join(between) == order


@pytest.mark.parametrize(
    ("indices", "count"),
    [
        ([0, 0, 1, 1, 2, 2], 2),  # even places, odd places
        ([0, 1, 2, 3], 1),
        ([3, 2, 1, 0], 1),
        ([2, 1, 0, 1, 2, 3], 2),  # down and up
        ([0, 0, 0, 1, 1, 1, 2, 2, 2], 3),
        ([4], 1),
        ([1, 1, 1], 1),
    ],
)
def test_indices_fall_into_few_runs(indices: list[int], count: int) -> None:
    found = runs(indices)
    rebuilt = [-1] * len(indices)
    for run in found:
        for position in range(run.count):
            rebuilt[run.to + position * run.to_step] = run.source + position * run.source_step
    assert (rebuilt, len(found)) == (indices, count)


def test_once_few_runs_are_found_other_steps_are_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A width of 70,000 by repetition is two runs: only the first two steps make more than a few others."""
    made: list[int] = []

    def counted(*values: int) -> IndexRun:
        made.append(1)
        return IndexRun(*values)

    monkeypatch.setattr("tilewright.compiler.lower.moves.IndexRun", counted)
    assert len(runs([index // 2 for index in range(70_000)])) == 2
    assert len(made) < 35_000 + 300


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (sliced([3], [3], [2], [1]), "node 'slice' (Slice): nothing is left of axis 2; expected at least one element"),
        (gathered(1, [25]), "node 'gather4' (Gather): indices 25 to 25; expected -20 to 19"),
        (
            padded(0, 0, -4, 0, 0, 0, -3, 0),
            "node 'pad4' (Pad): pads = [0, 0, -4, 0, 0, 0, -3, 0] do not fit [2, 20, 7, 6]; expected something left, "
            "and repetitions no longer than it",
        ),
        (
            lambda b, x: [b.node("DepthToSpace", [x], blocksize=3)],
            "node 'depthtospace4' (DepthToSpace): blocks of 3 from [2, 20, 7, 6]; expected [N, C, H, W], C a multiple "
            "of 9",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build: Build, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        simplified(moved(build))
    assert str(refused.value) == message
