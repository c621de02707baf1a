"""Softmax over channels on the machine, against ONNX Runtime; its reciprocals against division."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

import numpy as np
import onnx
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from tests.compiler.machines import without
from tests.compiler.masks import causal, mask_of, masked_model, model_with_mask_input
from tests.compiler.models import ModelBuilder, run_onnx
from tests.compiler.nests import from_region, select_and_tile
from tests.compiler.pipelines import base16, compiled_distances, lowered, simplified, simulated, steps_apart
from tests.compiler.tile.test_interpreter import run_binary
from tests.rings import long_beyond
from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.errors import CompileError
from tilewright.compiler.evaluate import evaluate
from tilewright.compiler.lower.lower import lower
from tilewright.compiler.lower.softmax import TOLERANCE, reciprocal_of
from tilewright.compiler.lower.softmax_format import softmax_format
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.interpreter import run_nests
from tilewright.compiler.nest.text import parse_nests, print_nests
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model, resume
from tilewright.compiler.select.select import select
from tilewright.compiler.tile.interpreter import interpret_tiles
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.language.numeric import Interval, Rounding
from tilewright.isa.machine.machine import Machine

EXACT_SHARE = 0.999
"""Of results that are those of ONNX Runtime; no other is more than one step away."""

TWO_BLOCKS = ("array.rows=16", "lanes=8")
"""Two words of a pixel lie together on chip."""


VECTOR16 = load_machine("vector16")
WIDTHS = softmax_format(VECTOR16, arithmetic_of(VECTOR16))


def softmax_model(
    shape: Sequence[int],
    axis: int = 1,
    scale: float = 0.1,
    result: tuple[float, int] = (1 / 256, -128),
    activation: type = np.int8,
    zero: int = 3,
) -> onnx.ModelProto:
    builder = ModelBuilder(np.random.default_rng(0), activation=activation)
    x = builder.quantize(builder.input("x", shape), scale, zero, name="x.q")
    y = builder.node("Softmax", [x], name="softmax", axis=axis)
    builder.output(builder.quantize(y, *result, name="y.q"))
    return builder.build("softmax")


def on_the_machine(model: onnx.ModelProto, machine: Machine, x: NDArray[np.float32]) -> NDArray[np.int64]:
    """Steps from ONNX Runtime's results; the nests' results must be the machine's."""
    inputs = {"x": x}
    program = compile_model(model, machine)
    nests = lower(simplified(model), machine)
    computed = simulated(program, inputs)["result"]
    np.testing.assert_array_equal(run_nests(nests, inputs)["result"], computed)
    return steps_apart(computed, run_onnx(model, inputs)["result"], program.outputs[0])


def scores(shape: Sequence[int], spread: float, rng: Generator) -> NDArray[np.float32]:
    return rng.normal(0, spread, tuple(shape)).astype(np.float32)


@pytest.mark.parametrize("overrides", [(), TWO_BLOCKS], ids=["", "two blocks"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 2), -1), ((3, 10), 1), ((1, 16, 3, 5), 1), ((2, 37, 4, 3), 1), ((1, 1000), 1), ((1, 24, 33), 2)],
    ids=str,
)
def test_shapes(shape: Sequence[int], axis: int, overrides: Sequence[str]) -> None:
    machine = load_machine("vector16", list(overrides))
    rng = np.random.default_rng(sum(shape))
    apart = np.concatenate(
        [on_the_machine(softmax_model(shape, axis), machine, scores(shape, s, rng)).ravel() for s in (1, 5)]
    )
    assert apart.max() <= 1
    assert (apart > 0).sum() <= max(1, (1 - EXACT_SHARE) * apart.size)


@pytest.mark.parametrize("activation", [np.int8, np.uint8])
@pytest.mark.parametrize("zero", [-128, 0, 100])
@pytest.mark.parametrize("result_scale", [1 / 255, 0.0017, 0.05])
def test_types_and_scales(result_scale: float, zero: int, activation: type) -> None:
    offset = 128 if activation is np.uint8 else 0
    model = softmax_model((1, 20, 5, 5), 1, 0.05, (result_scale, zero + offset), activation, 3 + offset)
    apart = on_the_machine(model, load_machine("vector16"), scores((1, 20, 5, 5), 2, np.random.default_rng(1)))
    assert apart.max() <= 1
    assert (apart > 0).sum() <= 1


@pytest.mark.parametrize("channels", [2, 3, 4, 6])
@pytest.mark.parametrize("scale", long_beyond(1, [0.1, 0.02, 0.5]))
def test_shares_in_the_middle_between_two_results(scale: float, channels: int) -> None:
    """Of equal values, such as 1 / 2 with the scale 1 / 255."""
    model = softmax_model((1, channels, 64, 64), 1, scale, (1 / 255, -128))
    spread = np.random.default_rng(2).integers(-40, 2, (1, channels, 64, 64))
    apart = on_the_machine(model, load_machine("vector16"), (np.maximum(spread, -20) * scale).astype(np.float32))
    assert apart.max() <= 1
    assert (apart == 0).mean() >= EXACT_SHARE


@pytest.mark.parametrize("rounding", ["up", "away"])
def test_other_ways_to_round(rounding: str) -> None:
    machine = load_machine("vector16", [f"rounding={rounding}"])
    apart = on_the_machine(softmax_model((1, 20, 5, 5)), machine, scores((1, 20, 5, 5), 2, np.random.default_rng(1)))
    assert apart.max() <= 1
    assert (apart > 0).sum() <= 1


@pytest.mark.parametrize("scale", [1e-5, 0.004, 0.046, 0.2, 3.0])
def test_all_distances_count(scale: float) -> None:
    """From the least value of int8 to the greatest, however little or much that is."""
    x = np.linspace(-131, 124, 256, dtype=np.float32).reshape(1, 256, 1, 1) * np.float32(scale)
    apart = on_the_machine(softmax_model((1, 256, 1, 1), 1, scale), load_machine("vector16"), x)
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99


@pytest.mark.parametrize("channels", [3, 21])
def test_lanes_beyond_the_channels_count_as_nothing(channels: int) -> None:
    """The convolution's zero point, which is what its lanes beyond the channels hold, is above all of its results."""
    rng = np.random.default_rng(5)
    builder = ModelBuilder(rng)
    x = builder.quantize(builder.input("x", (1, 4, 6, 6)), 0.1, 0, name="x.q")
    weight, largest = builder.weights("conv", [channels, 4, 1, 1])
    bias = builder.constant("bias", np.full(channels, -12, np.float32))
    scaled = builder.quantize(builder.node("Conv", [x, weight, bias], name="conv", kernel_shape=[1, 1]), 0.1, 120)
    y = builder.node("Softmax", [scaled], name="softmax", axis=1)
    builder.output(builder.quantize(y, 1 / 256, -128, name="y.q"))
    apart = compiled_distances(builder.build("conv"), "vector16")
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.99  # a result of the convolution may be a step away


def test_tiles_mean_what_binaries_do_whatever_is_beyond_the_channels() -> None:
    machine, shape = load_machine("vector16"), (1, 21, 3, 5)
    tiles = select_and_tile(lower(simplified(softmax_model(shape)), machine), machine)
    rng = np.random.default_rng(0)
    regions = [np.frombuffer(rng.bytes(tiles.input_bytes), np.int8).copy() for _ in range(2)]
    lanes = [region[tiles.inputs[0].offset :][: 2 * 15 * 16].reshape(2, 15, 16) for region in regions]
    lanes[1][0], lanes[1][1, :, :5] = lanes[0][0], lanes[0][1, :, :5]
    assert not np.array_equal(lanes[0], lanes[1])
    outputs = [interpret_tiles(tiles, region.tobytes()) for region in regions]
    first, second = (from_region(tiles.outputs[0], output) for output in outputs)
    assert np.array_equal(first, second)
    assert outputs[0] == run_binary(tiles, regions[0].tobytes())


@pytest.mark.parametrize("channels", [2, 5])
def test_reciprocals_are_those_of_division(channels: int) -> None:
    """Of every sum that so many channels can have; a little below, but for rounding."""
    found = reciprocal_of(channels, 1 / 256, WIDTHS, Rounding.EVEN, "softmax")
    sums = np.arange(WIDTHS.unit, channels * WIDTHS.unit + 1)
    exact = 2.0**found.shift * 256 / sums
    assert (found.values(sums) < exact + 0.5).all()
    assert (256 * WIDTHS.unit / sums * (1 - found.values(sums) / exact)).max() <= TOLERANCE


def test_reciprocals_are_the_expression_s() -> None:
    found = reciprocal_of(197, 1 / 255, WIDTHS, Rounding.EVEN, "softmax")
    sums = np.random.default_rng(0).integers(WIDTHS.unit, 197 * WIDTHS.unit, 1000)
    interval = Interval(WIDTHS.unit, 197 * WIDTHS.unit)
    expr = found.expression(source("s", interval), WIDTHS.guesses.element.interval)
    leaves = {("s", ""): sums[:, None], ("guess", ""): found.guesses[None, :, None]}
    assert evaluate(expr, leaves, [1000], []).ravel().tolist() == found.values(sums).tolist()


def test_what_all_channels_share_is_computed_once() -> None:
    machine = load_machine("vector16")
    (cover,) = select(lower(simplified(softmax_model((1, 10, 4, 4))), machine), machine).covers
    once = ["max_lanes", "sum_exponentials", "reciprocal"]
    newton = ["error", "correct"]  # of the reciprocal, twice, each time from the result before
    assert [step.format.mnemonic for step in cover.steps] == [*once, *newton, *newton, "normalize"]
    corrected = [step.inputs for step in cover.steps if step.format.mnemonic in newton]
    assert all(one != other for one, other in combinations(corrected, 2))
    assert [step.is_uniform for step in cover.steps] == [True] * (len(cover.steps) - 1) + [False]
    assert all(step.words == 16 for step in cover.steps)
    masks = [step.inputs["p"] for step in cover.steps if "p" in step.inputs]
    assert len(masks) == 2 and masks[0] == masks[1]


@pytest.mark.parametrize("overrides", [(), ("memories.act.kib=8",)], ids=["", "many tiles"])
def test_each_pixel_has_one_reciprocal(overrides: Sequence[str]) -> None:
    """Without a search for other tiles, which are as right; however many tiles there are."""
    machine = load_machine("vector16", list(overrides))
    program = compile_model(softmax_model((1, 260, 4, 20)), machine, Options(effort=0))
    found = [i for i in program.instructions if i.format.mnemonic == "reciprocal"]
    assert sum(prod(i.trips.values()) for i in found) == 4 * 20
    assert len(found) > 3 if overrides else len(found) <= 3


def test_a_tile_is_loaded_once() -> None:
    """Though a reduction and what follows it read it in loops of their own."""
    options = Options(TilingOptions(residency="none"))
    program = compile_model(softmax_model((1, 64, 4, 4)), load_machine("vector16"), options)
    mnemonics = [i.format.mnemonic for i in program.instructions]
    assert mnemonics.count("load_act") == mnemonics.count("max_lanes")


def test_the_nest_can_be_read_back() -> None:
    machine = load_machine("vector16")
    nests = lower(simplified(softmax_model((1, 10, 2, 2))), machine)
    text = print_nests(nests)
    assert 'values = {v1 = "lanes_max(max_over(min(a, limit)))", v2 = "lanes_sum(sum(' in text
    assert print_nests(parse_nests(text)) == text
    program = resume("lower", text, machine)
    assert to_bytes(program) == to_bytes(compile_model(softmax_model((1, 10, 2, 2)), machine))


def test_a_machine_without_the_instructions_says_which() -> None:
    with pytest.raises(CompileError) as refused:
        select(lowered(softmax_model((1, 10))), base16())
    assert str(refused.value) == (
        "softmax (Softmax): no instruction of base16 computes `lanes_max(max_over(min(a, limit)))`; add one to the "
        "machine's instructions"
    )


@pytest.mark.parametrize(
    ("missing", "statement"),
    [
        ("sum_exponentials", "lanes_sum(sum(min(lut(e, wrap(act - a, uint8)), weight)))"),
        ("correct", "wrap(round_shift(acc * wrap(acc >> 8, uint16), 16), int32)"),
    ],
)
def test_any_instruction_that_is_missing_is_named(missing: str, statement: str) -> None:
    machine = without(load_machine("vector16"), missing)
    with pytest.raises(CompileError) as refused:
        select(lower(simplified(softmax_model((1, 10))), machine), machine)
    assert str(refused.value) == (
        f"softmax (Softmax): no instruction of vector16 computes `{statement}`; add one to the machine's instructions"
    )


@pytest.mark.parametrize("result_scale", [1e-15, 1e9])
def test_refuses_scales_out_of_all_proportion(result_scale: float) -> None:
    with pytest.raises(CompileError) as refused:
        lowered(softmax_model((1, 10), result=(result_scale, 0)))
    assert str(refused.value) == (
        f"node 'softmax' (softmax): 10 channels, and a result's scale of {np.float32(result_scale):g}; expected 1 / 256"
    )


NARROW_ENTRIES = ("memories.exp.element=uint14",)
SMALL_MASKS = ("memories.par.element.scale=uint13",)
SHORT_STEPS = ("instructions.error.imm.twice=uint22",)
WIDE_INDEX = (
    "memories.exp.depth=1024",
    "instructions.sum_exponentials.from.t='512 * exp[]'",
    "instructions.normalize.from.t='512 * exp[]'",
    "instructions.sum_exponentials.do='y = wrap(lanes_sum(sum(min(lut(t, wrap(b - a, uint9)), p.scale))), int32)'",
    "instructions.normalize.do='y = clamp(round_shift(wrap(r, uint24) * lut(t, wrap(b - a, uint9)), shift) + zero, "
    "low, high)'",
)
NARROW_RECIPROCALS = (
    "instructions.reciprocal.do='y = lut(t, wrap(a >> shift, uint8)) << 6'",
    "instructions.error.do='y = wrap(twice - round_shift(a * wrap(b >> 6, uint14), shift), int32)'",
    "instructions.correct.do='y = wrap(round_shift(a * wrap(b >> 6, uint14), shift), int32)'",
    "instructions.normalize.do='y = clamp(round_shift(wrap(r, uint20) * lut(t, wrap(b - a, uint8)), shift) + zero, "
    "low, high)'",
)


@pytest.mark.parametrize(
    "overrides",
    [NARROW_ENTRIES, SMALL_MASKS, SHORT_STEPS, WIDE_INDEX, NARROW_RECIPROCALS, NARROW_ENTRIES + NARROW_RECIPROCALS],
    ids=["entries", "masks", "steps", "index", "reciprocals", "entries and reciprocals"],
)
def test_other_widths_than_vector16_s(overrides: Sequence[str]) -> None:
    shape = (1, 10, 6, 6)
    machine = load_machine("vector16", list(overrides))
    assert softmax_format(machine, arithmetic_of(machine)) != WIDTHS
    apart = on_the_machine(softmax_model(shape), machine, scores(shape, 2, np.random.default_rng(3)))
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.97


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (
            tuple(override.replace("512 * exp", "128 * exp").replace("uint9", "uint7") for override in WIDE_INDEX),
            "the machine looks exponentials up by uint7, and values may be 255 apart; expected a table for all of "
            "uint8",
        ),
        (
            tuple(override.replace("uint20", "uint10").replace("uint14", "uint4") for override in NARROW_RECIPROCALS),
            "with the machine's reciprocals of 10 bits, results for 3 channels would be off by up to 1.5 steps of "
            "0.00390625; expected at most 0.25: use a larger scale, or a machine with wider reciprocals",
        ),
    ],
    ids=["index", "reciprocals"],
)
def test_refuses_widths_that_cannot_hold_a_softmax(overrides: Sequence[str], reason: str) -> None:
    with pytest.raises(CompileError) as refused:
        lower(simplified(softmax_model((1, 3))), load_machine("vector16", list(overrides)))
    assert str(refused.value) == f"node 'softmax' (softmax): {reason}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_shapes_and_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channels = int(np.exp(rng.uniform(np.log(2), np.log(1000))))
    shape = (int(rng.integers(1, 3)), channels, *rng.integers(3, 9, 2).tolist())
    activation, offset = ((np.int8, 0), (np.uint8, 128))[seed % 2]
    scale = float(np.exp(rng.uniform(np.log(0.005), np.log(0.5))))
    result = float(rng.choice([1 / 256, 1 / 255, rng.uniform(0.0005, 0.02)])), int(rng.integers(-128, 128)) + offset
    model = softmax_model(shape, 1, scale, result, activation, int(rng.integers(-128, 128)) + offset)
    machine = load_machine("vector16", list(TWO_BLOCKS) if seed % 5 == 0 else [])
    apart = on_the_machine(model, machine, scores(shape, rng.uniform(0.2, 60) * scale, rng))
    assert apart.max() <= 1, f"seed {seed}"
    assert (apart > 0).sum() <= max(2, (1 - EXACT_SHARE) * apart.size), f"seed {seed}"


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((1, 20, 20), causal(20)),
        ((2, 2, 9, 32), np.arange(32) < 27),
        ((3, 7), np.array([[True] * 7, [True] + [False] * 6, [True, False] * 3 + [True]])),
    ],
    ids=["causal", "padding", "of each image"],
)
def test_masked_scores_count_for_nothing(shape: Sequence[int], kept: NDArray[np.bool_]) -> None:
    """Also where they are the largest by far."""
    model = masked_model(shape, kept)
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    nests = lower(simplified(model), load_machine("sequence16"))
    rng = np.random.default_rng(4)
    for x in (scores(shape, 3, rng), np.where(kept, scores(shape, 0.5, rng), 12.0).astype(np.float32)):
        computed = simulated(program, {"x": x})["result"]
        np.testing.assert_array_equal(run_nests(nests, {"x": x})["result"], computed)
        assert steps_apart(computed, run_onnx(model, {"x": x})["result"], program.outputs[0]).max() <= 1
        assert not computed[np.broadcast_to(~kept, shape)].any()


def test_a_computed_mask_is_read_beside_the_scores() -> None:
    """One image's scores of two heads; a row of which nothing is left has ONNX Runtime's values."""
    shape = (1, 2, 9, 21)
    model = model_with_mask_input(shape, (1, 1, 9, 21))
    program = compile_model(model, load_machine("sequence16"), Options(effort=0))
    kept = np.random.default_rng(6).random((1, 1, 9, 21)) < 0.5
    kept[..., 0] = True
    x = np.where(kept, scores(shape, 3, np.random.default_rng(5)), 12.0).astype(np.float32)
    computed = simulated(program, {"x": x, "mask": mask_of(kept)})["result"]
    expected = run_onnx(model, {"x": x, "mask": mask_of(kept)})["result"]
    assert steps_apart(computed, expected, program.outputs[0]).max() <= 1
    kept[..., 4, :] = False
    inputs = {"x": x, "mask": mask_of(kept)}
    computed, expected = simulated(program, inputs)["result"], run_onnx(model, inputs)["result"]
    assert steps_apart(computed, expected, program.outputs[0]).max() <= 1
