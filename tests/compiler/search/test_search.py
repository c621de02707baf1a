"""The search: never slower than what it begins with, the same every time, and no bit of a result is its doing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compiler.machines import machine
from tests.compiler.nests import network_for
from tests.compiler.pipelines import simulated
from tests.digits import MODEL, images
from tests.twins import arrays
from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, NOTHING_AHEAD, Ahead, Mix
from tilewright.compiler.options import Options
from tilewright.compiler.partition.compile import compile_partitioned
from tilewright.compiler.pipeline import compile_model, finished, finisher_for
from tilewright.compiler.running import DECIDED
from tilewright.compiler.search import order, search
from tilewright.compiler.search.changes import (
    FINER,
    HALVINGS,
    Cut,
    Limit,
    OffChip,
    cuts_for_one_array,
    finer_cuts,
    finer_cuts_apart,
    inputs_off_chip,
    other_cuts,
    others_off_chip,
    smaller_memories,
    surroundings,
)
from tilewright.compiler.search.effort import EFFORTS, Budget, order_budget, tiles_budget
from tilewright.compiler.search.finisher import Finisher
from tilewright.compiler.search.search import search_tiling
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.select import select
from tilewright.compiler.stripes.chain import Chain
from tilewright.compiler.stripes.cut import Stripes, in_stripes
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.likeness import likeness
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.tile import tile, tile_part
from tilewright.isa.binary.elf_writer import to_bytes
from tilewright.isa.files.loader import load_machine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program, place_regions
from tilewright.simulator.cycles import simulate_cycles


def cycles(program: Program) -> int:
    return simulate_cycles(program, place_regions(program.limits)).cycles


def digits(of: str, effort: int) -> Program:
    return compile_model(onnx.load(MODEL), machine(of), Options(effort=effort))


def two_convolutions() -> Selection:
    """Two convolutions that are alike, and one with another window, on tensors of 16 channels."""
    of = machine("base16")
    network = network_for(of, 0)
    first = network.conv(network.input(1, 16, 12, 12), 16, (3, 3), pad=1)
    second = network.conv(first, 16, (3, 3), pad=1)
    return select(network.program(network.conv(second, 16, (1, 1))), of)


# -- the whole compiler ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["tiny8", "base16", "rect", "small memories"])
def test_more_effort_is_never_slower(of: str) -> None:
    assert cycles(digits(of, 1)) <= cycles(digits(of, 0))


def test_finds_a_faster_program_where_there_is_one() -> None:
    assert cycles(digits("base16", 1)) < cycles(digits("base16", 0))


def test_finds_the_same_every_time() -> None:
    assert to_bytes(digits("tiny8", 1)) == to_bytes(digits("tiny8", 1))


@pytest.mark.parametrize("effort", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_bits_do_not_change_with_the_effort(effort: int) -> None:
    inputs = {"image": images()[:1]}
    plain, searched = digits("base16", 0), digits("base16", effort)
    assert to_bytes(plain) != to_bytes(searched)
    np.testing.assert_equal(simulated(searched, inputs), simulated(plain, inputs))


def test_loads_move_ahead_as_the_caller_says() -> None:
    none = Options(ahead=NOTHING_AHEAD)
    assert to_bytes(compile_model(onnx.load(MODEL), machine("tiny8"), none)) != to_bytes(digits("tiny8", 1))


def test_of_all_orders_that_are_tried_the_fastest_is_taken() -> None:
    of = load_machine("base16", ["memories.act.kib=2", "engines.load.contexts=6"])
    model, kept = onnx.load(MODEL), dict[str, Any]()
    compile_partitioned(model, of, keep=kept.__setitem__)
    decided: Options = kept[DECIDED]
    orders = {
        way: cycles(compile_model(model, of, Options(tiling=decided.tiling, ahead=way, effort=0)))
        for way in (replace(ahead, mix=mix) for ahead in order.AHEAD for mix in Mix)
    }
    assert orders[decided.ahead] == min(orders.values()) < orders[replace(EVERYTHING_AHEAD, mix=Mix.FRONT_FIRST)]


def test_rows_are_taken_where_the_program_is_faster_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = tile(two_convolutions(), TilingOptions())
    finisher = finisher_for(tiles.machine)
    for is_slower in (True, False):

        def measured(_: object, options: Options, *__: object, is_slower: bool = is_slower) -> int:
            return 100 + (options.ahead.mix is Mix.ROW_BY_ROW) * (1 if is_slower else -1)

        monkeypatch.setattr(order, "cycles_of", measured)
        best = Mix.FRONT_FIRST if is_slower else Mix.ROW_BY_ROW
        assert order.search_ahead(tiles, Options(effort=1), finisher) == Ahead(mix=best)


def test_more_effort_searches_in_the_order_that_is_best_for_what_less_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, Ahead]] = []

    class Search(search._PlanSearch):
        def __init__(self, selection: Selection, options: Options, finisher: Finisher) -> None:
            seen.append((options.effort, options.ahead))
            super().__init__(selection, options, finisher)

    nothing = replace(EFFORTS[2], tiles=0, order=0, least=0, finer=0, large=0)
    monkeypatch.setattr(search, "EFFORTS", (nothing, nothing, nothing))
    monkeypatch.setattr(search, "search_ahead", lambda *_: Ahead(3))
    monkeypatch.setattr(search, "_PlanSearch", Search)
    selection = two_convolutions()
    search_tiling(selection, Options(effort=2), finisher_for(selection.machine))
    assert seen == [(1, EVERYTHING_AHEAD), (2, Ahead(3))]


# -- the work ----------------------------------------------------------------------------------------------------------


def test_more_effort_allows_more_work() -> None:
    assert [tiles_budget(effort, 100_000.0).left for effort in EFFORTS] == [0, 3_500, 77_583]
    assert [order_budget(effort, 100_000.0).left for effort in EFFORTS] == [0, 3_500, 77_583]


def test_work_is_allowed_while_there_is_some_left() -> None:
    work = Budget(1_000)
    assert (work.allows(170_000), work.allows(175_000)) == (True, False)  # 850 + 141.7 units, 875 + 145.8
    work.spend(400, 120_000)
    assert work.left == 500


# -- changes -----------------------------------------------------------------------------------------------------------


def test_an_input_is_streamed_and_the_others_stay() -> None:
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    (change,) = inputs_off_chip(selection.program, plan)
    others = others_off_chip(selection.program, plan)
    tiling = change.apply(TilingOptions())
    assert plan.residency.layouts.keys() - Planner(selection, tiling).plan().residency.layouts.keys() == {change.tensor}
    assert {change.tensor, *(other.tensor for other in others)} == plan.residency.layouts.keys()


def test_of_tensors_of_one_size_the_first_is_streamed_first() -> None:
    """Not the one whose name comes first."""
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    layout, *_ = plan.residency.layouts.values()
    layouts = dict.fromkeys(("z", "a", "m"), layout) | {"larger": replace(layout, batches=2 * layout.batches)}
    changed = replace(plan, residency=replace(plan.residency, layouts=layouts))
    assert [change.tensor for change in others_off_chip(selection.program, changed)] == ["larger", "z", "a", "m"]


def test_all_layers_without_products_are_cut_finer_at_once() -> None:
    selection = pools_and_products()
    planner = Planner(selection, TilingOptions())
    before = planner.plan()
    pools = [position for position, cover in enumerate(selection.covers) if cover.dot is None]
    names = [selection.covers[position].nest.name for position in pools]
    (cut,) = finer_cuts(planner, before)
    finer = cut.apply(TilingOptions())
    choices = planner.under(finer).plan().choices
    assert [choices[position].as_wanted for position in pools] == [cut.tiles[name] for name in names]
    few, many = (tile(selection, tiling) for tiling in (TilingOptions(), finer))
    for position in pools:
        assert count(many, position) >= FINER * count(few, position)


def pools_and_products() -> Selection:
    """A convolution, two poolings of different sizes, and a convolution of one pixel."""
    of = machine("base16")
    network = network_for(of, 0)
    first = network.conv(network.input(1, 16, 24, 24), 32, (3, 3), pad=1)
    pooled = network.max_pool(network.max_pool(first, 2, 1), 2, 1)
    return select(network.program(network.conv(pooled, 16, (1, 1))), of)


def test_each_kind_of_layer_without_products_can_be_cut_finer_by_itself() -> None:
    selection = pools_and_products()
    planner = Planner(selection, TilingOptions())
    plan = planner.plan()
    apart = finer_cuts_apart(planner, plan)
    (together,) = finer_cuts(planner, plan)
    pools = [position for position, cover in enumerate(selection.covers) if cover.dot is None]
    assert sorted(position for position, _ in apart) == pools  # of 23 and of 22 pixels: two kinds
    assert [len(cut.tiles) for _, cut in apart] == [1, 1]
    assert {name: tiles for _, cut in apart for name, tiles in cut.tiles.items()} == together.tiles


def test_layers_before_and_after_are_measured_too() -> None:
    plan = Planner(pools_and_products(), TilingOptions()).plan()
    assert surroundings(plan, range(1, 2)) == range(3)
    assert surroundings(plan, range(3)) == range(4)
    assert surroundings(plan, range(3, 4)) == range(2, 4)


def test_a_network_too_large_to_measure_whole_gets_finer_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = pools_and_products()
    finish = partial(finished, machine=selection.machine)
    found: list[TilingOptions] = []
    for finer in (0, 10_000):
        effort = replace(EFFORTS[1], tiles=0, least=0, large=0, finer=finer)
        monkeypatch.setattr(search, "EFFORTS", (EFFORTS[0], effort))
        found.append(search_tiling(selection, Options(effort=1), finisher_for(selection.machine)))
    without, with_finer = found
    assert without == TilingOptions()
    pools = {cover.nest.name for cover in selection.covers if cover.dot is None}
    assert with_finer.tiles and with_finer.tiles.keys() <= pools
    assert cycles(finish(tile(selection, with_finer), Options())) < cycles(finish(tile(selection), Options()))


def test_layers_that_take_little_of_a_large_network_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = pools_and_products()
    found = search._PlanSearch(selection, Options(effort=1), finisher_for(selection.machine))
    choices = Planner(selection, TilingOptions()).plan().choices
    total = sum(choice.cycles for choice in choices)
    cut = finer_cuts_apart(Planner(selection, TilingOptions()), found._plan)[0][1]
    two = Cut(dict.fromkeys(("one", "another"), next(iter(cut.tiles.values()))))
    assert found._share(cut, range(1, 2)) == choices[1].cycles / total
    assert found._share(two, range(1, 2)) == 2 * choices[1].cycles / total  # the other one takes as long
    finer = replace(EFFORTS[1], tiles=0, least=0, large=0, finer=10_000)
    monkeypatch.setattr(search, "EFFORTS", (EFFORTS[0], finer))
    monkeypatch.setattr(search, "LARGE", max(choice.cycles for choice in choices[1:3]) / total + 1e-9)
    assert search_tiling(selection, Options(effort=1), finisher_for(selection.machine)) == TilingOptions()


def count(program: TileProgram, layer: int) -> int:
    """The operations of a layer that are not loads or stores."""
    engines = [program.machine.format(one.mnemonic).engine.name for one in program.operations if one.layer == layer]
    return sum(engine not in ("load", "store") for engine in engines)


def test_more_effort_goes_on_from_what_less_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = pools_and_products()
    nothing = replace(EFFORTS[2], tiles=0, order=0, least=0, finer=0, large=0)
    monkeypatch.setattr(search, "EFFORTS", (*EFFORTS[:2], nothing))
    finisher = finisher_for(selection.machine)
    less, more = (search_tiling(selection, Options(effort=effort), finisher) for effort in (1, 2))
    assert less == more != TilingOptions()


def test_a_memory_of_which_half_costs_much_is_not_halved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = two_convolutions()
    monkeypatch.setattr(search, "EFFORTS", (EFFORTS[0], replace(EFFORTS[2], kinds=0, rounds=1)))
    tried: list[Limit] = []

    def result(self: search._PlanSearch, change: object, *_: object) -> search._Tried | None:
        if not isinstance(change, Limit):
            return None
        tried.append(change)
        slower = {"wgt": 1.011, "acc": 1.009}.get(change.memory, 1)
        return search._Tried(self._tiling, self._plan, int(slower * best))

    finish = partial(finished, machine=selection.machine)
    best = cycles(finish(tile(selection), Options()))
    monkeypatch.setattr(search._PlanSearch, "_try", result)
    search_tiling(selection, Options(effort=1), finisher_for(selection.machine))
    halved = [change.memory for change in tried]
    assert (halved.count("wgt"), halved.count("acc")) == (1, HALVINGS)


def test_the_array_has_nothing_in_flight_while_a_pooling_runs_alone() -> None:
    selection = pools_and_products()
    program = finished(tile(selection), Options(ahead=NOTHING_AHEAD), selection.machine)
    counters = simulate_cycles(program, place_regions(program.limits))
    first, *poolings, last = search._without_array(program, counters).values()
    assert sum(poolings) > 0.8 * sum((first, *poolings, last))
    assert sum((first, *poolings, last)) < counters.cycles


def test_tiles_of_the_layers_that_lose_most_are_changed_first() -> None:
    planner = Planner(two_convolutions(), TilingOptions())
    plan = planner.plan()
    positions = [position for position, _ in other_cuts(planner, plan, 1, [1, 1, 3])]
    assert positions == [2, 0]  # the first two are alike


def test_pieces_of_a_layer_lose_together_what_the_layer_does() -> None:
    """The finished program has one layer of them, with the cycles of all."""
    selection = in_two_stripes()
    finisher = finisher_for(selection.machine)
    found = search._PlanSearch(selection, Options(effort=1), finisher)
    found._first_that_fits()
    program = finisher.finish(found.tiles(), Options()).program
    convolution, pooling = search._without_array(
        program, simulate_cycles(program, place_regions(program.limits))
    ).values()
    assert [nest.layer for nest in selection.program.nests] == [layer.name for layer in program.layers] * 2
    assert found._lost == [convolution // 2, pooling // 2] * 2


def in_two_stripes() -> Selection:
    """A convolution and a pooling, each in two pieces."""
    of = machine("base16")
    network = network_for(of, 0)
    whole = network.program(network.max_pool(network.conv(network.input(1, 16, 13, 12), 32, (3, 3), pad=1), 2, 1))
    return select(in_stripes(Chain(whole.nests, whole), Stripes(6)), of)


def test_memories_are_halved_in_powers_of_two() -> None:
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    of_wgt = [change for change in smaller_memories(machine("base16"), plan) if change.memory == "wgt"]
    assert of_wgt == [Limit("wgt", 4096), Limit("wgt", 2048), Limit("wgt", 1024), Limit("wgt", 512)]


def test_a_plan_for_less_memory_needs_less() -> None:
    selection = two_convolutions()
    tiling = Limit("wgt", 64).apply(TilingOptions())
    choices = Planner(selection, tiling).plan().choices
    assert max(choice.words["wgt"] for choice in choices) <= 64
    assert max(choice.words["wgt"] for choice in Planner(selection, TilingOptions()).plan().choices) > 64


def test_nests_that_are_alike_are_asked_once() -> None:
    selection = two_convolutions()
    planner = Planner(selection, OffChip("no tensor").apply(TilingOptions()))
    first, second, other = planner.plan().shapes
    program = selection.program
    assert likeness(second, program) != likeness(other, program)
    streamed = TilingOptions(residency="none")
    first, second, other = Planner(selection, streamed).plan().shapes
    assert likeness(first, program) == likeness(second, program) != likeness(other, program)


def test_a_nest_gets_the_tiles_that_are_wanted() -> None:
    selection = two_convolutions()
    planner = Planner(selection, TilingOptions())
    plan = planner.plan()
    for position, cut in other_cuts(planner, plan, 4, [1] * len(plan.choices)):
        choices = planner.under(cut.apply(TilingOptions())).plan().choices
        name = selection.covers[position].nest.name
        assert choices[position].as_wanted == cut.tiles[name] != plan.choices[position].as_wanted


def test_the_tiles_of_a_machine_with_one_array_are_tried_where_there_are_two() -> None:
    def convolution(machine: Machine) -> Selection:
        network = network_for(machine, 0)
        return select(network.program(network.conv(network.input(1, 32, 8, 8), 16, (3, 3), pad=1)), machine)

    planner = Planner(convolution(arrays(2)), TilingOptions())
    ((position, cut),) = cuts_for_one_array(planner, planner.plan())
    alone = Planner(convolution(arrays(1)), TilingOptions()).plan()

    assert [*cut.tiles.values()] == [alone.choices[position].as_wanted]
    assert planner.plan().choices[position].as_wanted != alone.choices[position].as_wanted


def test_one_array_has_no_other_tiles_for_one_array() -> None:
    selection = two_convolutions()
    planner = Planner(selection, TilingOptions())
    assert not cuts_for_one_array(planner, planner.plan())


def test_tiles_that_do_not_fit_are_forgotten() -> None:
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    nest = selection.program.nests[0].name
    wrong = Cut({nest: TileSizes({"x": 7}, False)}).apply(TilingOptions())
    assert Planner(selection, wrong).plan().choices == plan.choices


# -- parts of a program ------------------------------------------------------------------------------------------------


def test_all_nests_are_the_program() -> None:
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    assert tile_part(selection, plan, range(3)) == tile(selection)


def test_a_part_has_only_the_operations_of_its_nests() -> None:
    selection = two_convolutions()
    plan = Planner(selection, TilingOptions()).plan()
    part = tile_part(selection, plan, range(1, 2))
    whole = tile(selection)
    assert {operation.layer for operation in part.operations} == {1}
    products = [[o.mnemonic for o in p.operations if o.layer == 1].count("mma") for p in (part, whole)]
    assert products[0] == products[1] > 0
