"""Places, repeats and stacks against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.compiler.importers.tflite.files import Tensor, TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, run, translate

SHAPE = (1, 4, 5, 6)


@pytest.mark.parametrize(("kind", "function"), [("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [3, -2])
def test_where_the_largest_is(kind: str, function: Callable[..., Any], dtype: type, axis: int) -> None:
    file = TfliteFile()
    x, y = file.input("x", SHAPE), file.tensor("y", np.delete(SHAPE, axis), None, dtype=dtype)
    table = f"{kind.title().replace('_', '')}Options"
    file.operator(kind, [x, file.constant("axis", np.int32(axis))], y, table, OutputType=2)
    inputs = random_inputs(file, np.random.default_rng(1))
    found = run(translate(file, y), inputs)["y"]
    np.testing.assert_array_equal(found, function(inputs["x"], axis=axis))
    assert found.dtype == dtype


@pytest.mark.parametrize("axis", [1, 3])
def test_elements_at_computed_places(axis: int) -> None:
    file = TfliteFile()
    x, at = file.input("x", SHAPE), file.input("at", (3,), None, dtype=np.int32)
    y = file.tensor("y", [3 if i == axis else size for i, size in enumerate(SHAPE)])
    file.operator("GATHER", [x, at], y, "GatherOptions", Axis=axis)
    inputs = {"x": random_inputs(file, np.random.default_rng(1))["x"], "at": np.int32([2, 0, 3])}
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], inputs["x"].take(inputs["at"], axis))


def test_elements_at_constant_pairs() -> None:
    file = TfliteFile()
    x, at = file.input("x", (3, 4, 5)), file.constant("at", np.int32([[2, 0], [0, 3]]))
    y = file.tensor("y", (2, 5))
    file.operator("GATHER_ND", [x, at], y, "GatherNdOptions")
    inputs = random_inputs(file, np.random.default_rng(1))
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], inputs["x"][[2, 0], [0, 3]])


MOVES: dict[str, tuple[str | None, Any, Callable[[Any], Any]]] = {
    "TILE": ("TileOptions", [1, 2, 1, 3], lambda x: np.tile(x, (1, 2, 1, 3))),
    "BROADCAST_TO": ("BroadcastToOptions", [7, 4, 5, 6], lambda x: np.broadcast_to(x, (7, 4, 5, 6))),
    "REVERSE_V2": ("ReverseV2Options", [1, 3], lambda x: x[:, ::-1, :, ::-1]),
}


@pytest.mark.parametrize("kind", MOVES)
def test_moves(kind: str) -> None:
    table, numbers, function = MOVES[kind]
    file = TfliteFile()
    x = file.input("x", SHAPE)
    y = file.tensor("y", function(np.empty(SHAPE)).shape)
    file.operator(kind, [x, file.constant("by", np.int32(numbers))], y, table)
    inputs = random_inputs(file, np.random.default_rng(1))
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], function(inputs["x"]))


def test_stacks_and_takes_apart() -> None:
    file = TfliteFile()
    a, b = file.input("a", (2, 3)), file.input("b", (2, 3))
    stacked = file.tensor("stacked", (2, 2, 3))
    parts = [file.tensor(f"part{i}", (2, 2)) for i in range(3)]
    file.operator("PACK", [a, b], stacked, "PackOptions", ValuesCount=2, Axis=1)
    file.operator("UNPACK", [stacked], parts, "UnpackOptions", Num=3, Axis=2)
    inputs = random_inputs(file, np.random.default_rng(1))
    found = run(translate(file, *parts), inputs)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(found[part.name], np.stack([inputs["a"], inputs["b"]], 1)[:, :, i])


def test_the_largest_and_their_places() -> None:
    file = TfliteFile()
    x = file.input("x", (2, 7))
    values, places = file.tensor("values", (2, 3)), file.tensor("places", (2, 3), None, dtype=np.int32)
    file.operator("TOPK_V2", [x, file.constant("k", np.int32(3))], [values, places], "TopKV2Options")
    inputs = {"x": np.random.default_rng(1).permuted(np.arange(14, dtype=np.int8).reshape(2, 7), axis=1)}
    found = run(translate(file, values, places), inputs)
    expected = np.argsort(-inputs["x"], axis=1)[:, :3]
    np.testing.assert_array_equal(found["places"], expected)
    np.testing.assert_array_equal(found["values"], np.take_along_axis(inputs["x"], expected, 1))


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (True, True)])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    file = TfliteFile()
    x, y = file.input("x", (2, 5), None, dtype=np.int32), file.tensor("y", (2, 5), None, dtype=np.int32)
    options = {"Exclusive": exclusive, "Reverse": reverse}
    file.operator("CUMSUM", [x, file.constant("axis", np.int32(1))], y, "CumsumOptions", **options)
    inputs = {"x": np.arange(10, dtype=np.int32).reshape(2, 5)}
    step = -1 if reverse else 1
    expected = np.cumsum(inputs["x"][:, ::step], 1)[:, ::step] - (inputs["x"] if exclusive else 0)
    np.testing.assert_array_equal(run(translate(file, y), inputs)["y"], expected)


def batches(file: TfliteFile, x: Tensor, shape: Any, **lists: Any) -> Tensor:
    """SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND with a block of 2 × 3."""
    y = file.tensor(f"{x.name}'", shape)
    (name, numbers), block = next(iter(lists.items())), file.constant(f"{x.name}.block", np.int32([2, 3]))
    kind = "SPACE_TO_BATCH_ND" if name == "pads" else "BATCH_TO_SPACE_ND"
    table = "SpaceToBatchNDOptions" if name == "pads" else "BatchToSpaceNDOptions"
    file.operator(kind, [x, block, file.constant(f"{x.name}.{name}", np.int32(numbers))], y, table)
    return y


def test_blocks_as_batches_and_back() -> None:
    file = TfliteFile()
    x = file.input("x", (2, 5, 7, 3))
    small = batches(file, x, (12, 3, 3, 3), pads=[[0, 1], [1, 1]])
    back = batches(file, small, (2, 5, 7, 3), crops=[[0, 1], [1, 1]])
    inputs = random_inputs(file, np.random.default_rng(1))
    found = run(translate(file, small, back), inputs)
    np.testing.assert_array_equal(found[back.name], inputs["x"])
    padded = np.pad(inputs["x"], [(0, 0), (0, 1), (1, 1), (0, 0)])
    np.testing.assert_array_equal(found[small.name][2 * 2 : 3 * 2], padded[:, 0::2, 2::3])  # place (0, 2) of a block
