"""Bounds: no network takes fewer cycles, and the sums are those of a calculation by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.schedules.bounds import Bound, LayerBound, bound_of, layers_of, markdown, missed
from tests.schedules.cycles import ENTRIES, read_table
from tilewright.isa.files.loader import load_machine

PAGE = Path(__file__).parents[2] / "docs" / "schedules.md"

FILL = 64 + 6 + 16 + 16 + 2
"""On base16: a round trip to DRAM, and the way through an array of 16 by 16."""


def layer(array: int = 0, vector: int = 0, tapped: int | None = None, reads: int = 0, *after: int) -> LayerBound:
    return LayerBound("layer", array, vector, tapped, reads, frozenset(after))


@pytest.mark.parametrize(("name", "isa"), [key for key in ENTRIES if key[0] != "digits"])
def test_no_network_takes_fewer_cycles(name: str, isa: str) -> None:
    machine = load_machine(isa)
    assert bound_of(layers_of(name, machine), machine).cycles <= read_table()[name, isa].fewest


def test_the_busiest_resource_decides() -> None:
    machine = load_machine("base16")
    assert bound_of([layer(500, 100), layer(400, 900)], machine) == Bound(1000 + FILL, "vector engine")
    assert bound_of([layer(500, 100, reads=16_000), layer(400, 300)], machine) == Bound(1000 + FILL, "DRAM")


def test_twins_divide_what_an_array_does() -> None:
    assert bound_of([layer(500, 100), layer(400)], load_machine("two16")) == Bound(450 + FILL, "array")


def test_without_an_array_the_vector_engine_takes_a_cycle_for_each_row_of_a_tile() -> None:
    """vector-only has 8 lanes; nothing but the round trip to DRAM comes before."""
    found = bound_of([layer(500, 100), layer(400, 20)], load_machine("vector-only"))
    assert found == Bound(8 * 900 + 120 + FILL - 16 - 16 - 2, "vector engine")


def test_a_layer_that_both_engines_can_compute_is_divided_between_them() -> None:
    """600 cycles of the array elsewhere. Of 900 on the vector engine, a sixth goes to the array, where it takes 150."""
    machine = load_machine("base16")
    assert bound_of([layer(600), layer(900, 0, 900)], machine) == Bound(750 + FILL, "array")


def test_weights_beyond_their_memory_are_read_after_the_layers_before() -> None:
    """The memory holds 128 KiB. The last layer has 160 KiB, so 2048 beats are read after the first layer's cycles."""
    machine = load_machine("base16")
    first, last = layer(20_000), layer(100, 0, None, 160 * 1024, 0)
    assert bound_of([first, last], machine) == Bound(20_000 + 2048 + FILL, "prefetch")
    beside = layer(100, 0, None, 160 * 1024)  # it does not follow from the first
    assert bound_of([first, beside], machine) == Bound(20_100 + FILL, "array")


def test_what_results_are_requantised_with_is_read_once() -> None:
    """The autoencoder has 105 lane blocks of results; a word of `par` on base16 has 16 records of 8 bytes."""
    machine = load_machine("base16")
    layers = layers_of("autoencoder", machine)
    assert sum(layer.parameters for layer in layers) == 105 * 128
    weights = sum(layer.reads for layer in layers)
    assert bound_of(layers, machine) == Bound((weights + 105 * 128) // 16 + FILL, "DRAM")


def test_layers_of_a_network_take_what_their_shapes_say() -> None:
    """DS-CNN: 10x4 window over one channel of 49x10 with stride 2, 64 channels; then depthwise 3x3 on 25x5 pixels."""
    first, depthwise, pointwise = layers_of("ds-cnn", load_machine("base16"))[:3]
    assert (first.array, first.vector, first.reads) == (3 * 4 * 125, 4 * 125, 40 * 64)
    assert (depthwise.array, depthwise.tapped, depthwise.after) == (4 * 9 * 125, None, {0})
    assert (pointwise.array, pointwise.after) == (4 * 4 * 125, {0, 1})
    assert layers_of("ds-cnn", load_machine("dw16"))[1].tapped == 4 * 3 * 125


def test_the_page_has_the_table() -> None:
    assert markdown(missed()) in PAGE.read_text()
