"""Reshapes between height and width: copies between operators, nothing at the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv
from tests.compiler.pipelines import compiled_distances, simplified
from tests.compiler.simplify.graphs import kinds


def reshaped(builder: ModelBuilder, x: str, *shape: int) -> str:
    return builder.node("Reshape", [x, builder.constant(f"shape{builder.count}", np.array(shape, np.int64))])


def heads(*sizes: Sequence[int]) -> onnx.ModelProto:
    """Maps of several sizes, each flattened, concatenated: as a detector does."""
    builder = ModelBuilder(np.random.default_rng(1))
    maps = []
    for i, size in enumerate(sizes):
        x = builder.quantize(builder.input(f"x{i}", (2, 20, *size)), 0.1, 3, name=f"x{i}.q")
        x = builder.quantize(builder.node("MaxPool", [x], kernel_shape=[1, 1]), 0.1, 3, name=f"m{i}.q")
        maps.append(reshaped(builder, builder.node("Relu", [x]), 2, 20, -1))
    builder.output(builder.quantize(builder.node("Concat", maps, axis=2), 0.1, 3, name="y.q"))
    return builder.build("heads")


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("sizes", [[(6, 5), (3, 4)], [(6, 1), (1, 5)]])
def test_flattened_maps_are_concatenated(sizes: Sequence[Sequence[int]], machine: str) -> None:
    model = heads(*sizes)
    assert "refold" in kinds(simplified(model))
    assert compiled_distances(model, machine).max() == 0


def test_a_row_is_cut_into_rows() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (1, 20, 30)), 0.1, name="x.q")
    y = add_conv(builder, reshaped(builder, x, 1, 20, 1, 30), 20, 12, 1, name="first")
    builder.output(add_conv(builder, reshaped(builder, y, 1, 12, 5, 6), 12, 8, 3, pads=[1] * 4, name="second"))
    model = builder.build()
    assert kinds(simplified(model)).count("refold") == 1
    assert compiled_distances(model, "base16").max() <= 1


def test_at_the_host_a_reshape_costs_nothing() -> None:
    builder = ModelBuilder(np.random.default_rng(1))
    x = builder.quantize(builder.input("x", (1, 20, 30)), 0.1, name="x.q")
    y = add_conv(builder, reshaped(builder, x, 1, 20, 5, 6), 20, 12, 1, name="conv")
    builder.output(reshaped(builder, y, 1, 12, 30))
    model = builder.build()
    assert "refold" not in kinds(simplified(model))
    assert compiled_distances(model, "base16").max() <= 1
