"""Linear Resize whose results nearly all have weights of their own: two passes, exact between them, in few cycles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tests.compiler.lower.test_interpolate import SCALE_OUT, resized
from tests.compiler.pipelines import compiled_distances, lowered
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.isa.files.loader import load_machine
from tilewright.isa.program.program import place_regions
from tilewright.simulator.cycles import simulate_cycles

SCALE_IN = 0.1
"""Of what `resized` resizes."""


def linear(
    shape: Sequence[int], sizes: Sequence[int], out: float = SCALE_IN, coordinates: str = "align_corners"
) -> onnx.ModelProto:
    return resized(
        sizes=(*shape[:2], *sizes), shape=shape, out=out, mode="linear", coordinate_transformation_mode=coordinates
    )


def cycles(model: onnx.ModelProto, machine: str = "base16", effort: int = 0) -> int:
    program = compile_model(model, load_machine(machine), Options(effort=effort))
    return simulate_cycles(program, place_regions(program.limits)).cycles


def is_by_axis(model: onnx.ModelProto) -> bool:
    return any(buffer.endswith(".high") for buffer in lowered(model).buffers)


@pytest.mark.parametrize("by", [2, 3])
def test_aligned_corners_take_at_most_twice_the_cycles_of_half_pixels(by: int) -> None:
    aligned, half = (
        cycles(linear((1, 16, 12, 12), (12 * by, 12 * by), coordinates=name), effort=1)
        for name in ("align_corners", "half_pixel")
    )
    assert aligned <= 2 * half


@pytest.mark.parametrize("machine", ["base16", "tiny8"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 16, 6, 6), (12, 12)),
        ((2, 20, 5, 6), (15, 12)),
        ((1, 5, 2, 4), (6, 8)),  # a pair of rows with all results between them
        ((1, 16, 9, 10), (6, 6)),  # fewer results than elements
    ],
)
def test_in_one_scale_every_value_is_right(shape: Sequence[int], sizes: Sequence[int], machine: str) -> None:
    model = linear(shape, sizes)
    assert is_by_axis(model)
    assert compiled_distances(model, machine).max() == 0


@pytest.mark.parametrize("coordinates", ["align_corners", "half_pixel"])
@pytest.mark.parametrize(("shape", "sizes"), [((2, 20, 6, 7), (11, 15)), ((1, 16, 4, 9), (9, 14))])
def test_in_another_scale_values_are_rounded_once(shape: Sequence[int], sizes: Sequence[int], coordinates: str) -> None:
    apart = compiled_distances(linear(shape, sizes, SCALE_OUT, coordinates), "base16")
    assert apart.max() <= 1
    assert (apart == 0).mean() >= 0.999


@pytest.mark.parametrize("out", [SCALE_IN, SCALE_OUT])
def test_what_lies_side_by_side_goes_through_dram(out: float) -> None:
    model = linear((1, 16, 8, 8), (16, 16), out)
    assert is_by_axis(model)
    apart = compiled_distances(model, "base16", overrides=["memories.act.kib=8"])
    assert (apart == 0).mean() >= 0.999


def test_every_other_element_goes_through_dram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of every other column take those between, too, so that they have to be written before."""
    monkeypatch.setattr("tilewright.compiler.lower.interpolate._cycles", lambda *_: 1 << 40)
    model = linear((2, 40, 8, 8), (5, 4), SCALE_OUT, "half_pixel")
    assert is_by_axis(model)
    assert compiled_distances(model, "base16", 1, ["memories.act.kib=8"]).max() <= 1


@pytest.mark.parametrize(
    ("sizes", "coordinates"),
    [((24, 24), "half_pixel"), ((24, 24), "asymmetric"), ((23, 23), "align_corners"), ((24, 12), "align_corners")],
)
def test_few_weights_stay_in_one_pass(sizes: Sequence[int], coordinates: str) -> None:
    assert not is_by_axis(linear((1, 16, 12, 12), sizes, coordinates=coordinates))


@pytest.mark.slow
@pytest.mark.parametrize("out", [SCALE_IN, SCALE_OUT])
def test_two_passes_are_never_slower(out: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random sizes, where two passes are taken."""
    rng = np.random.default_rng(36)
    compared = 0
    while compared < 8:
        shape = (1, 16, *(int(size) for size in rng.integers(2, 9, 2)))
        sizes = tuple(int(size) for size in rng.integers(3, 13, 2))
        model = linear(shape, sizes, out, str(rng.choice(["align_corners", "half_pixel"])))
        if not is_by_axis(model):
            continue
        taken = cycles(model)
        with monkeypatch.context() as changed:
            changed.setattr("tilewright.compiler.lower.interpolate.two_axes", lambda *_: None)
            assert taken < cycles(model), (shape, sizes)
        compared += 1
