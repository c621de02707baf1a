"""Blocks of pixels and shuffles of channels, as operators and as the chains that exporters write: bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder
from tests.compiler.pipelines import compiled_distances, simplified
from tests.compiler.simplify.graphs import kinds


def blocks(op_type: str, shape: Sequence[int], scale: float = 0.1, **attributes: int | str) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    y = builder.node(op_type, [x], name="blocks", blocksize=2, **attributes)
    builder.output(builder.quantize(y, scale, 3, name="y.q"))
    return builder.build("blocks")


def chain(shape: Sequence[int], split: Sequence[int], axes: Sequence[int], after: Sequence[int]) -> onnx.ModelProto:
    """Reshape, Transpose, Reshape, behind a pool: at an input the host would order the elements."""
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    x = builder.node("MaxPool", [x], kernel_shape=[1, 1])
    x = builder.node("Reshape", [x, builder.constant("split", np.array(split, np.int64))])
    x = builder.node("Transpose", [x], perm=list(axes))
    x = builder.node("Reshape", [x, builder.constant("after", np.array(after, np.int64))])
    x = builder.node("MaxPool", [x], kernel_shape=[1, 1])
    builder.output(builder.quantize(x, 0.1, 3, name="y.q"))
    return builder.build("chain")


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("shape", [(2, 20, 7, 6), (1, 64, 4, 5)])
@pytest.mark.parametrize("order", ["DCR", "CRD"])
def test_depth_to_space(order: str, shape: Sequence[int], machine: str) -> None:
    assert compiled_distances(blocks("DepthToSpace", shape, mode=order), machine).max() == 0


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize("shape", [(2, 3, 6, 8), (1, 32, 4, 6)])
@pytest.mark.parametrize("scale", [0.1, 0.13])
def test_space_to_depth(scale: float, shape: Sequence[int], machine: str) -> None:
    assert compiled_distances(blocks("SpaceToDepth", shape, scale), machine).max() == 0


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (chain((2, 24, 5, 6), (2, 3, 8, 5, 6), (0, 2, 1, 3, 4), (2, 24, 5, 6)), "take"),
        (chain((2, 20, 7, 6), (2, 5, 2, 2, 7, 6), (0, 1, 4, 2, 5, 3), (2, 5, 14, 12)), "depth_to_space"),
        (chain((2, 20, 7, 6), (2, 2, 2, 5, 7, 6), (0, 3, 4, 1, 5, 2), (2, 5, 14, 12)), "depth_to_space"),
        (chain((2, 5, 6, 8), (2, 5, 3, 2, 4, 2), (0, 3, 5, 1, 2, 4), (2, 20, 3, 4)), "space_to_depth"),
        (chain((2, 5, 6, 8), (2, 5, 3, 2, 4, 2), (0, 1, 3, 5, 2, 4), (2, 20, 3, 4)), "space_to_depth"),
    ],
)
def test_a_chain_is_one_move(model: onnx.ModelProto, kind: str) -> None:
    found = kinds(simplified(model))
    assert kind in found
    assert not {"transpose", "reshape"} & set(found)
    assert compiled_distances(model, "base16").max() == 0


@pytest.mark.parametrize(
    "model",
    [
        chain((1, 2, 2, 48), (1, 2, 2, 4, 12), (0, 1, 3, 2, 4), (1, 4, 8, 6)),
        chain((1, 8, 8, 3), (1, 4, 2, 8, 3), (0, 2, 1, 3, 4), (1, 4, 4, 12)),
    ],
)
def test_a_chain_of_other_shapes_moves_elements(model: onnx.ModelProto) -> None:
    assert "permute" in kinds(simplified(model))
    assert compiled_distances(model, "base16").max() == 0
