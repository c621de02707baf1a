"""Pools and reductions against windows of real values, written out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.compiler.importers.tflite.files import TfliteFile
from tests.compiler.importers.tflite.runs import random_inputs, reals, require_close, run, translate
from tilewright.compiler.errors import CompileError

IMAGE = (1, 7, 6, 5)


def pooled(x: NDArray[Any], counts: Any, before: Any, stride: int, kernel: Any, of: Callable[..., Any]) -> NDArray[Any]:
    """`of` the elements of each window that lie inside the image."""
    y = np.zeros((x.shape[0], *counts, x.shape[3]))
    for i, j in product(*map(range, counts)):
        h, v = i * stride - before[0], j * stride - before[1]
        inside = x[:, max(h, 0) : h + kernel[0], max(v, 0) : v + kernel[1]]
        y[:, i, j] = of(inside, axis=(1, 2))
    return y


@pytest.mark.parametrize(("kind", "of"), [("AVERAGE_POOL_2D", np.mean), ("MAX_POOL_2D", np.max)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("padding", "kernel", "stride", "counts", "before"),
    [(0, (3, 3), 2, (4, 3), (1, 0)), (1, (2, 3), 2, (3, 2), (0, 0)), (0, (2, 2), 1, (7, 6), (0, 0))],
)
def test_pools(
    kind: str, of: Any, dtype: Any, padding: int, kernel: Any, stride: int, counts: Any, before: Any
) -> None:
    rng = np.random.default_rng(1)
    file = TfliteFile()
    zero = 7 if dtype == np.int8 else 131
    x = file.input("x", IMAGE, 0.05, zero, dtype)
    y = file.tensor("y", (1, *counts, 5), 0.05, zero, dtype)
    file.operator(
        kind, [x], y, "Pool2DOptions", Padding=padding, StrideH=stride, StrideW=stride, FilterHeight=kernel[0],
        FilterWidth=kernel[1], FusedActivationFunction=3,
    )  # fmt: skip
    inputs = random_inputs(file, rng)
    (image,) = reals(file, inputs)
    expected = np.clip(pooled(image, counts, before, stride, kernel, of), 0, 6)
    require_close(y, run(translate(file, y), inputs)["y"], expected)


@pytest.mark.parametrize(("kind", "of"), [("MEAN", np.mean), ("REDUCE_MAX", np.max)])
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (-1,), (1,), (0, 3)])
def test_reductions(kind: str, of: Any, keeps: bool, axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    file = TfliteFile()
    x = file.input("x", (2, 3, 4, 5), 0.05, 7)
    wanted = file.constant("axes", np.array(axes, np.int32))
    inputs = random_inputs(file, rng)
    expected = of(reals(file, inputs)[0], axis=axes, keepdims=keeps)
    y = file.tensor("y", expected.shape, *((0.04, 9) if kind == "MEAN" else (0.05, 7)))
    file.operator(kind, [x, wanted], y, "ReducerOptions", KeepDims=keeps)
    require_close(y, run(translate(file, y), inputs)["y"], expected)


def test_refuses_a_pool_that_changes_the_scale() -> None:
    file = TfliteFile()
    x, y = file.input("x", (1, 4, 4, 3), 0.05), file.tensor("y", (1, 2, 2, 3), 0.06)
    file.operator("MAX_POOL_2D", [x], y, "Pool2DOptions", StrideH=2, StrideW=2, FilterHeight=2, FilterWidth=2)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (MAX_POOL_2D): tensor 1 'y': has another scale or zero point than tensor 0 'x'"
    )


def test_refuses_a_pool_that_changes_the_type() -> None:
    file = TfliteFile()
    x = file.input("x", (1, 4, 4, 8), 0.1, 2)
    y = file.tensor("y", (1, 4, 4, 8), None, dtype=np.float32)
    file.operator("AVERAGE_POOL_2D", [x], y, "Pool2DOptions", StrideH=1, StrideW=1, FilterHeight=1, FilterWidth=1)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (AVERAGE_POOL_2D): tensor 1 'y': is float32; expected int8, as tensor 0 'x'"
    )


def test_refuses_windows_far_beyond_the_image() -> None:
    file = TfliteFile()
    x, y = file.input("x", (1, 4, 4, 3), 0.05), file.tensor("y", (1, 2, 2, 3), 0.05)
    file.operator("MAX_POOL_2D", [x], y, "Pool2DOptions", StrideH=2, StrideW=2, FilterHeight=9, FilterWidth=2)
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (MAX_POOL_2D): has windows of [9, 2], each larger than all of the image, [4, 4]"
    )


def test_refuses_axes_computed_at_run_time() -> None:
    file = TfliteFile()
    x, axes = file.input("x", (1, 4, 4, 3)), file.input("axes", (2,), None, dtype=np.int32)
    y = file.tensor("y", (1, 3))
    file.operator("MEAN", [x, axes], y, "ReducerOptions")
    with pytest.raises(CompileError) as error:
        translate(file, y)
    assert str(error.value) == (
        "net: operator 0 (MEAN): tensor 1 'axes': the axes computed at run time has no lowering; expected a constant"
    )
