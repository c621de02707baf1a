"""Fusion: fewer nests, the same bits; and what must not be fused."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, pool_model, random_inputs, residual_model, small_cnn
from tests.compiler.pipelines import DIGITS, lowered
from tilewright.compiler.nest.fuse import MOST_LEVELS, fuse
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.nest import NestProgram
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import REDUCTIONS


def names(program: NestProgram) -> list[tuple[str, ...]]:
    return [nest.nodes for nest in program.nests]


def assert_same_bits(
    model: onnx.ModelProto, before: NestProgram, after: NestProgram, seeds: Sequence[int] = range(4)
) -> None:
    for seed in seeds:
        inputs = random_inputs(model, np.random.default_rng(seed))
        expected, computed = run_nests(before, inputs), run_nests(after, inputs)
        assert all(np.array_equal(expected[name], computed[name]) for name in expected)


def two_branches(builder: ModelBuilder) -> tuple[str, str]:
    """Two convolutions of one input, quantised."""
    x = builder.quantize(builder.input("x", [1, 4, 6, 6]), 0.1, name="x.q")
    left = add_conv(builder, x, 4, 4, 3, pads=[1, 1, 1, 1], name="left")
    return left, add_conv(builder, x, 4, 4, 1, name="right")


def test_convolution_residual_add_and_relu_are_one_nest() -> None:
    model = residual_model(np.random.default_rng(1))
    before = lowered(model)
    after = fuse(before)
    assert names(before) == [("conv",), ("add", "relu")]
    assert names(after) == [("conv", "add", "relu")]
    (nest,) = after.nests
    assert list(nest.reads) == ["x", "w", "bias", "scale", "shift", "b"]
    assert "conv.q.quantize.out" not in after.buffers
    assert_same_bits(model, before, after)


def test_only_the_later_of_two_convolutions_takes_the_add() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    left, right = two_branches(builder)
    builder.output(builder.quantize(builder.node("Add", [left, right], name="add"), 30.0))
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert names(after) == [("left",), ("right", "add")]
    assert_same_bits(model, before, after)


def test_a_long_chain_is_fused_in_pieces() -> None:
    """300 requantisations: in one nest, they were too deep for what reads expressions."""
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", [1, 4, 1, 1]), 0.1)
    for step in range(300):
        x = builder.quantize(builder.node("Relu", [x]), (0.11, 0.1)[step % 2])
    builder.output(x)
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert 1 < len(after.nests) < 30
    assert max(levels(nest.expr) for nest in after.nests) <= MOST_LEVELS
    assert_same_bits(model, before, after, range(1))


def levels(expr: Expr) -> int:
    return 1 + max((levels(arg) for arg in expr.args), default=0)


def test_a_chain_is_fused_as_far_as_it_goes() -> None:
    """An add to an add to a convolution: three nests become one, and names of reads stay apart."""
    builder = ModelBuilder(np.random.default_rng(2))
    left, right = two_branches(builder)
    total = builder.quantize(builder.node("Add", [right, left], name="add"), 30.0, name="sum")
    builder.output(builder.quantize(builder.node("Add", [total, left], name="again"), 50.0, name="end"))
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert names(after) == [("left",), ("right", "add", "again")]
    assert list(after.nests[1].reads)[-2:] == ["b", "b2"]
    assert_same_bits(model, before, after)


def test_what_two_read_stays() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    left, right = two_branches(builder)
    a = builder.quantize(builder.node("Add", [left, right], name="add"), 30.0, name="a")
    b = builder.quantize(builder.node("Relu", [right], name="relu"), 9.0, name="b")
    builder.output(a, "first")
    builder.output(b, "second")
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert ("right",) in names(after)
    assert_same_bits(model, before, after)


def test_an_output_stays() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    left, _ = two_branches(builder)
    relu = builder.quantize(builder.node("Relu", [left], name="relu"), 9.0)
    builder.output(left, "middle")
    builder.output(relu, "end")
    program = lowered(builder.build())
    assert names(fuse(program)) == names(program)


def test_a_rescale_after_a_max_pool_is_fused() -> None:
    model = pool_model(np.random.default_rng(2), same_scale=False)
    before = lowered(model)
    after = fuse(before)
    assert (len(before.nests), len(after.nests)) == (2, 1)
    assert_same_bits(model, before, after)


def test_a_rescale_after_parts_of_a_buffer_goes_into_each() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", [1, 2, 5, 5]), 0.1, name="x.q")
    y = builder.node("AveragePool", [x], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    builder.output(builder.quantize(builder.quantize(y, 0.1, name="y.q"), 0.2, name="z.q"))
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert len(after.nests) == len(before.nests) - 1 == 9
    assert_same_bits(model, before, after)


def test_an_add_after_strided_parts_goes_into_each() -> None:
    """An upsampled tensor and a lateral one: each quarter of the sum reads its quarter of the other."""
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", [2, 20, 3, 4]), 0.1, name="x.q")
    other = builder.quantize(builder.input("other", [2, 20, 6, 8]), 0.2, name="other.q")
    scales = builder.constant("scales", np.array([1, 1, 2, 2], np.float32))
    up = builder.quantize(builder.node("Resize", [x, "", scales], name="up"), 0.12, name="up.q")
    builder.output(builder.quantize(builder.node("Add", [other, up], name="add"), 0.15, name="sum"))
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert len([nest for nest in after.nests if nest.nodes[-1:] == ("add",)]) == 4
    assert_same_bits(model, before, after)


def test_who_reads_only_a_part_is_not_fused() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    left, _ = two_branches(builder)
    bounds = [builder.constant(name, np.array([n], np.int64)) for name, n in (("from", 0), ("to", 3), ("of", 2))]
    builder.output(builder.node("Slice", [left, *bounds], name="slice"))
    model = builder.build()
    before = lowered(model)
    after = fuse(before)
    assert names(after) == [("left",), ("slice",)]
    assert_same_bits(model, before, after)


def test_what_is_broadcast_is_not_fused() -> None:
    builder = ModelBuilder(np.random.default_rng(2))
    x = builder.quantize(builder.input("x", [1, 3, 4, 4]), 0.1, name="x.q")
    mean = builder.quantize(builder.node("GlobalAveragePool", [x], name="mean"), 0.05, name="m.q")
    builder.output(builder.quantize(builder.node("Add", [x, mean], name="add"), 0.2, name="y.q"))
    program = lowered(builder.build())
    assert names(fuse(program)) == [("mean",), ("add",)]


def test_digits() -> None:
    model = onnx.load(DIGITS / "digits_int8.onnx")
    before = lowered(model)
    after = fuse(before)
    assert ("block.conv2", "block.add") in names(after)
    assert len(after.nests) == len(before.nests) - 1
    assert_same_bits(model, before, after)


@pytest.mark.parametrize("seed", range(3))
def test_small_networks_keep_their_bits(seed: int) -> None:
    model = small_cnn(np.random.default_rng(seed))
    before = lowered(model)
    after = fuse(before)
    assert all(sum(node.op in REDUCTIONS for node in walk(nest.expr)) <= 1 for nest in after.nests)
    assert sum(nest.macs for nest in after.nests) == sum(nest.macs for nest in before.nests)
    assert_same_bits(model, before, after)
    assert fuse(after) == replace(after)
