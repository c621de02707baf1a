"""A softmax and the products around it in the same rows: how they are cut, and when it is done."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.models import ModelBuilder, add_conv, rescaled
from tilewright.compiler.emission.ahead import Mix
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import finished, finisher_for
from tilewright.compiler.search import in_rows
from tilewright.compiler.search.effort import EFFORTS
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.search.in_rows import PixelCuts, search_rows
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile
from tilewright.isa.files.loader import load_machine


def attended(has_softmax: bool = True) -> onnx.ModelProto:
    """A product of 96 channels to 96 in 144 pixels, the softmax over the channels of each, and a product again."""
    builder = ModelBuilder(np.random.default_rng(0))
    x = builder.quantize(builder.input("x", [1, 96, 12, 12]), 0.1, name="x.q")
    scores = add_conv(builder, x, 96, 96, 1, name="scores")
    if has_softmax:
        scores = builder.quantize(builder.node("Softmax", [scores], name="softmax", axis=1), 1 / 256, -128)
    builder.output(add_conv(builder, scores, 96, 96, 1, name="mixed"))
    return rescaled(builder.build("attended"))


def selected(model: onnx.ModelProto, *changes: str) -> Selection:
    kept: dict[str, Any] = {}
    compile_partitioned(model, load_machine("sequence16", changes), Options(effort=0), keep=kept.__setitem__)
    selection = kept["select"]
    assert isinstance(selection, Selection)
    return selection


def cycles(selection: Selection, options: Options) -> int:
    return exact_cycles(finished(tile(selection, options.tiling), options, selection.machine))


def searched(selection: Selection) -> Options:
    return search_rows(selection, Options(), finisher_for(selection.machine))


def test_products_go_pixel_by_pixel_in_as_many_pieces_as_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_rows, "WAYS", (PixelCuts(3, 6),))
    selection = selected(attended())
    planner = Planner(selection, TilingOptions())
    (cut,) = in_rows.in_rows(planner, planner.plan())
    pieces = []
    for cover in selection.covers:
        tiles, space = cut.tiles[cover.nest.name], cover.space
        trips = {loop.name: loop.trip for loop in cover.nest.loops}
        pieces.append(prod(-(-trips.get(loop, 1) // tiles.sizes[loop]) for loop in space.points))
        has_all_channels = tiles.sizes[space.lane] * selection.machine.lanes >= trips[space.lane]
        assert tiles.points_outer or has_all_channels
    assert pieces == [3, 6, 3]


def test_it_saves_cycles_where_sums_have_banks_enough() -> None:
    selection = selected(attended(), "memories.acc.banks=8")
    found = searched(selection)
    assert found.tiling.tiles
    assert cycles(selection, found) < cycles(selection, Options()) * (1 - in_rows.WORTH)


def test_the_order_of_layers_is_kept_with_the_tiles_that_need_it() -> None:
    selection = selected(attended(), "memories.acc.banks=8")
    found = searched(selection)
    both = [Options(tiling=found.tiling), Options(tiling=found.tiling, ahead=found.ahead)]
    front_first, kept = (cycles(selection, options) for options in both)
    assert kept <= front_first
    assert found.ahead.mix in (None, Mix.BALANCED)


def test_nothing_changes_without_a_nest_that_needs_all_channels() -> None:
    options = Options()
    selection = selected(attended(has_softmax=False))
    assert search_rows(selection, options, finisher_for(selection.machine)) is options


def test_nothing_changes_where_no_way_saves_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_rows, "WORTH", 0.9)
    assert searched(selected(attended(), "memories.acc.banks=8")) == Options()


def test_nothing_changes_without_effort() -> None:
    assert EFFORTS[0].rows == 0
    selection = selected(attended())
    options = Options(effort=0)
    assert search_rows(selection, options, finisher_for(selection.machine)) == options
