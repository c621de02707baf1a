"""Resize, compiled and simulated, against unoptimised ONNX Runtime: nearest exactly, linear to one step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import OPSET, ModelBuilder
from tests.compiler.pipelines import compiled_distances, simplified
from tilewright.compiler.errors import CompileError

SCALE_OUT = 0.0841
"""Such that none of the few sums that a blend can have is just between two steps."""


def resized(
    scales: Sequence[float] = (), sizes: Sequence[int] = (), shape: Sequence[int] = (2, 20, 7, 6), out: float = 0.1,
    **attributes: Any,
) -> onnx.ModelProto:  # fmt: skip
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", shape), 0.1, 3, name="x.q")
    operands = [x, "", builder.constant("scales", np.array(scales, np.float32)) if scales else ""]
    operands += [builder.constant("sizes", np.array(sizes, np.int64))] if sizes else []
    y = builder.node("Resize", operands, name="resize", **attributes)
    builder.output(builder.quantize(y, out, 3, name="y.q"))
    return builder.build("resize", opset=19 if "axes" in attributes else OPSET)


MODES = [
    ("asymmetric", "floor"),
    ("half_pixel", "round_prefer_floor"),
    ("pytorch_half_pixel", "round_prefer_ceil"),
    ("align_corners", "ceil"),
    ("tf_half_pixel_for_nn", "floor"),
    ("asymmetric", "round_prefer_ceil"),
    ("asymmetric", "round_prefer_floor"),
]


@pytest.mark.parametrize(("coordinates", "rounding"), MODES)
@pytest.mark.parametrize("sizes", [(2, 20, 14, 18), (2, 20, 10, 9), (2, 20, 3, 13)])
def test_nearest(sizes: Sequence[int], coordinates: str, rounding: str) -> None:
    model = resized(sizes=sizes, coordinate_transformation_mode=coordinates, nearest_mode=rounding)
    assert compiled_distances(model, "base16").max() == 0


@pytest.mark.parametrize("coordinates", ["align_corners", "pytorch_half_pixel", "half_pixel"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_to_one_pixel(mode: str, coordinates: str) -> None:
    model = resized(sizes=(2, 20, 1, 1), shape=(2, 20, 7, 5), mode=mode, coordinate_transformation_mode=coordinates)
    assert compiled_distances(model, "base16").max() == 0


@pytest.mark.parametrize("scales", [(1.3, 1.3), (0.7, 1.9)])
def test_symmetric_half_pixels_of_some_axes(scales: Sequence[float]) -> None:
    model = resized(scales, coordinate_transformation_mode="half_pixel_symmetric", axes=[3, 2])
    assert compiled_distances(model, "base16").max() == 0


@pytest.mark.parametrize("machine", ["tiny8", "rect"])
@pytest.mark.parametrize("scales", [(1, 1, 2, 2), (1, 1, 3, 1), (1, 1, 1.5, 0.5)])
def test_nearest_by_scales(scales: Sequence[float], machine: str) -> None:
    assert compiled_distances(resized(scales), machine).max() == 0


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize(
    "given",
    [
        {"scales": (1, 1, 2, 2)},
        {"scales": (1, 1, 4, 3)},
        {"scales": (1, 1, 0.5, 1)},
        {"scales": (1, 1, 2, 2), "coordinate_transformation_mode": "asymmetric"},
        {"sizes": (2, 20, 13, 11), "coordinate_transformation_mode": "align_corners"},
        {"sizes": (2, 20, 14, 12), "coordinate_transformation_mode": "pytorch_half_pixel"},
        {"scales": (1, 1, 2), "shape": (2, 20, 9)},
    ],
)
def test_linear(given: dict[str, Any], machine: str) -> None:
    apart = compiled_distances(resized(**given, mode="linear", out=SCALE_OUT), machine)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


@pytest.mark.slow
def test_linear_with_weights_beyond_int8() -> None:
    apart = compiled_distances(resized((1, 1, 8, 8), shape=(1, 5, 3, 3), mode="linear", out=SCALE_OUT), "base16")
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"scales": (1, 1, 2, 2), "mode": "cubic"},
            "node 'resize' (Resize): mode = 'cubic' has no lowering; expected 'nearest' or 'linear'",
        ),
        (
            {"scales": (1, 2, 1, 1)},
            "node 'resize' (Resize): resizes batches or channels; expected height and width",
        ),
        (
            {"sizes": (2, 20, 311, 6), "mode": "linear"},
            "node 'resize' (Resize): a weight of 0.00643086 is no fraction of small whole numbers; expected a resize "
            "by whole factors",
        ),
    ],
)
def test_other_resizes_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as refused:
        simplified(resized(**given))
    assert str(refused.value) == message
