"""Tiles: they fit, and they are as large as they may be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.machines import machine
from tests.compiler.models import conv_model
from tests.compiler.nests import network_for, select_and_tile
from tilewright.compiler.emission.packing import buffer_lifetimes, live_lower_bound
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.select.select import select
from tilewright.compiler.tiling.choice import MOST_TILES
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize("depth", [96, 128, 200, 256, 400, 512, 800])
def test_never_overlaps_more_than_fits(depth: int) -> None:
    memories = dict(machine("base16").memories)
    memories["act"] = replace(memories["act"], depth=depth, banks=1)
    of = replace(machine("base16"), memories=memories)
    network = network_for(of, 0)
    output = network.rescale(network.input(1, 16, 13, 16))
    program = select_and_tile(network.program(output), of, TilingOptions(residency="none"))
    in_act = [life for life in buffer_lifetimes(program) if life.buffer.place == "act"]
    assert live_lower_bound(in_act) <= depth


def test_a_smaller_budget_makes_smaller_tiles() -> None:
    of = machine("tiny8")
    network = network_for(of, 0)
    output = network.conv(network.input(1, 64, 40, 40), 64, (3, 3), pad=1)

    def largest(fraction: float) -> int:
        program = select_and_tile(network.program(output), of, TilingOptions(fraction, "none"))
        return max(b.size for b in program.buffers.values() if b.place == "act")

    assert largest(0.02) <= of.memories["act"].depth * 0.04
    assert largest(0.02) < largest(0.5)


def test_what_reads_no_weights_goes_over_pixels_first() -> None:
    """As what it reads is computed; so the layer before need not be complete."""
    of = machine("tiny8")
    network = network_for(of, 0)
    output = network.max_pool(network.input(1, 32, 40, 40), 3, 2, 1)
    program = select_and_tile(network.program(output), of, TilingOptions(residency="none"))
    stores = [operation.bases["d"].offset for operation in program.operations if operation.mnemonic == "store_act"]
    blocks = [offset // (20 * 20 * of.lanes) for offset in stores]
    assert blocks[:4] == [0, 1, 2, 3] and len(blocks) > 4


def test_a_search_makes_no_more_tiles_than_a_nest_of_many_columns_needs() -> None:
    """Of 70,000 columns, a tile of 17,500 is considered, one of 5,000, and so on; one for each column is not tried."""
    of = machine("base16")
    network = network_for(of, 0)
    output = network.rescale(network.input(1, 16, 1, 70_000))
    selection = select(network.program(output), of)
    planner = Planner(selection, TilingOptions(residency="none"))
    residency = planner.plan().residency
    found = planner.candidates(0, residency)
    assert found.tiles[found.is_possible].max() == 70_000
    tried = [*planner.ranked(0, residency, 64), *(planner.finer(0, residency, times) for times in (2, 64, 100_000))]
    assert max(-(-70_000 // tile.sizes["x"]) for tile in tried) <= MOST_TILES


def test_of_tiles_that_are_the_same_in_either_loop_order_one_is_ranked() -> None:
    """A tile with all channels, or all pixels, comes once; with parts of both, the orders differ."""
    of = machine("base16")
    network = network_for(of, 0)
    selection = select(network.program(network.conv(network.input(1, 32, 12, 12), 64, (1, 1))), of)
    planner = Planner(selection, TilingOptions())
    ranked = planner.ranked(0, planner.plan().residency, 99)
    pieces = [(choice.sizes["o"] < 4, choice.sizes["x"] * choice.sizes["y"] < 144) for choice in ranked]
    orders = Counter((all(cut), choice.points_outer) for cut, choice in zip(pieces, ranked, strict=True))
    assert orders[True, False] > 0 and orders[True, True] > 0 and orders[False, False] > 0
    assert orders[False, True] == 0


def test_what_reads_no_weights_leaves_half_of_the_room_to_a_layer_beside_it() -> None:
    of = load_machine("base16", ["memories.act.kib=4"])
    network = network_for(of, 0)
    output = network.max_pool(network.input(1, 64, 40, 40), 3, 2, 1)
    program = select_and_tile(network.program(output), of, TilingOptions(residency="none"))
    sizes = sorted({buffer.size for buffer in program.buffers.values() if buffer.place == "act"})
    assert sum(sizes[-2:]) <= of.memories["act"].depth // 4  # what a tile reads, and its results


@pytest.mark.parametrize("kib", [2, 4, 8])
def test_a_window_is_cut_so_that_the_next_weights_come_while_these_are_used(kib: int) -> None:
    """With 4 KiB, all nine taps of one block of channels fit once; a part of them fits twice, as with 2 KiB."""
    of = load_machine("base16", [f"memories.wgt.kib={kib}"])
    network = network_for(of, 0)
    selection = select(network.program(network.conv(network.input(1, 128, 8, 8), 128, (3, 3), pad=1)), of)
    (choice,) = Planner(selection, TilingOptions()).plan().choices
    assert choice.is_double
    assert 2 * choice.words["wgt"] <= of.memories["wgt"].depth


def test_tables_of_all_channels_are_loaded_once_for_many_tiles() -> None:
    """They fill their memory, so there is no room for others; but the next tile looks up in the same ones."""
    of = load_machine("base16")
    channels, tables = 64, 64 // 16
    assert tables * 256 == of.memories["lut"].depth
    model = conv_model(np.random.default_rng(1), channels, channels, group=channels, kernel=1, size=32)
    used = Counter(each.mnemonic for each in compile_model(model, of, Options(effort=0)).instructions)
    assert used["load_lut"] == 1 and used["lookup"] >= 4 * tables


def test_what_stays_on_chip_is_computed_in_tiles_so_that_the_array_need_not_wait_for_all_of_it() -> None:
    of = load_machine("base16")
    network = network_for(of, 0)
    before = network.conv(network.input(1, 16, 32, 32), 32, (3, 3), pad=1)
    output = network.conv(network.rescale(before), 16, (3, 3), pad=1)
    program = select_and_tile(network.program(output), of, TilingOptions())
    assert Counter(operation.mnemonic for operation in program.operations)["rescale"] > 4
