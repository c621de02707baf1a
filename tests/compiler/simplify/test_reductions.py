"""Reductions and pools, compiled and simulated, against unoptimised ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, rescaled
from tests.compiler.pipelines import base16, compiled_distances, lowered, simplified
from tilewright.compiler.errors import CompileError
from tilewright.compiler.select.select import select


def reduced(op_type: str, axes: Sequence[int], as_operand: bool = False, **attributes: Any) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (2, 20, 7, 6)), 0.1, name="x.q")
    operands = [x, *([builder.constant("axes", np.array(axes, np.int64))] if as_operand else [])]
    attributes |= {} if as_operand else {"axes": list(axes)}
    y = builder.node(op_type, operands, name="reduce", **attributes)
    builder.output(builder.quantize(y, 1.0, name="y.q"))
    return rescaled(builder.build("reduced"))


def pooled(op_type: str, kernel: int, stride: int, pads: Sequence[int], **attributes: int) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(3))
    x = builder.quantize(builder.input("x", (2, 20, 7, 6)), 0.1, 3, name="x.q")
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": list(pads)}
    y = builder.node(op_type, [x], name="pool", **window, **attributes)
    builder.output(builder.quantize(y, 0.0841, 3, name="y.q"))
    return builder.build("pooled")


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize(
    ("op_type", "axes", "given"),
    [
        ("ReduceMean", (2, 3), {"keepdims": 0}),
        ("ReduceMean", (-1,), {}),
        ("ReduceMean", (1,), {}),
        ("ReduceMean", (1, 2, 3), {}),
        ("ReduceSum", (1,), {"as_operand": True}),
        ("ReduceSum", (2, 3), {"as_operand": True, "keepdims": 0}),
        ("ReduceSum", (1, 3), {"as_operand": True}),
        ("ReduceMax", (2, 3), {"keepdims": 0}),
        ("ReduceMax", (2,), {}),
    ],
)
def test_reductions(op_type: str, axes: Sequence[int], given: dict[str, Any], machine: str) -> None:
    apart = compiled_distances(reduced(op_type, axes, **given), machine)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.995


@pytest.mark.parametrize("axes", [(1,), (1, 2, 3), (-3, 2)])
def test_the_largest_of_channels(axes: Sequence[int]) -> None:
    apart = compiled_distances(reduced("ReduceMax", axes), "vector16")
    assert apart.max() == 0


def test_the_largest_of_channels_needs_an_instruction() -> None:
    with pytest.raises(CompileError) as refused:
        select(lowered(reduced("ReduceMax", (1,))), base16())
    assert str(refused.value) == (
        "reduce (ReduceMax): no instruction of base16 computes `lanes_max(max_over(min(a, limit)))`; add one to "
        "the machine's instructions"
    )


@pytest.mark.parametrize("given", [("ReduceMax", (0,)), ("ReduceMean", (0, 1))])
def test_other_reductions_are_refused(given: tuple[str, Sequence[int]]) -> None:
    with pytest.raises(CompileError) as refused:
        simplified(reduced(*given))
    assert str(refused.value) == (
        f"node 'reduce' ({given[0]}): reduces the dimensions {sorted(given[1])} of [2, 20, 7, 6]; expected channels, "
        "height and width"
    )


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"), [(3, 2, (0, 0, 0, 0)), (3, 2, (1, 1, 1, 1)), (2, 2, (0, 1, 1, 0)), (2, 2, (0,) * 4)]
)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "counting"])
def test_pools(kind: str, kernel: int, stride: int, pads: Sequence[int], ceil: int) -> None:
    counts = {"count_include_pad": 1} if kind == "counting" else {}
    op_type = "MaxPool" if kind == "MaxPool" else "AveragePool"
    apart = compiled_distances(pooled(op_type, kernel, stride, pads, ceil_mode=ceil, **counts), "base16")
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.995


@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [(2, 3, (0, 0, 0, 0)), (2, 2, (1, 1, 1, 1)), (3, 4, (1, 0, 2, 2)), (1, 3, (0, 0, 0, 0))],
)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "counting"])
def test_a_window_that_begins_behind_the_image_is_left_out(
    kind: str, kernel: int, stride: int, pads: Sequence[int]
) -> None:
    test_pools(kind, kernel, stride, pads, ceil=1)
