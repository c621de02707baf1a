"""Layers that keep different engines busy run beside each other, and nothing passes what it depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.compiler.tile_programs import WORDS, TileBuilder, random_tiles
from tilewright.compiler.emission import overlap
from tilewright.compiler.emission import schedule as scheduling
from tilewright.compiler.emission.ahead import NOTHING_AHEAD, Ahead, Mix
from tilewright.compiler.emission.dependences import dependences, durations, starts_in_order
from tilewright.compiler.emission.merge import MERGES, front_first, one_by_one
from tilewright.compiler.emission.overlap import Overlap, overlapped
from tilewright.compiler.emission.room import BuffersOnChip
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.stepping import LayerSpan
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import finished
from tilewright.compiler.search.finisher import exact_cycles
from tilewright.compiler.tile.program import TileProgram
from tilewright.isa.files.loader import load_machine

TILES = 8
VECTORS = 100
"""Of a product: more cycles than the vector engine takes for the requantisation after it."""

LENGTH = 60
"""Trips of what the vector engine does to a tile."""


def builder(*overrides: str) -> TileBuilder:
    return TileBuilder(load_machine("base16", overrides), np.random.default_rng(0))


def product(build: TileBuilder, source: str = "") -> str:
    """A tile that keeps the array busy."""
    return requantize(build, multiply(build, source))


def multiply(build: TileBuilder, source: str = "", vectors: int = VECTORS) -> str:
    sums = build.buffer("acc", WORDS)
    a, w = source or build.load("act", build.machine.array.rows), build.load("wgt", build.machine.array.rows)
    build.run("mma", {"trip.y": vectors, "trip.x": WORDS, "c.x": 1}, a=a, w=w, c=sums)
    return sums


def requantize(build: TileBuilder, sums: str) -> str:
    to = build.buffer("act", WORDS)
    fields = {"trip.k": WORDS, "a.k": 1, "y.k": 1, "low": -128, "high": 127}
    build.run("requantize", fields, a=sums, p=build.load("par", 1), y=to)
    return to


def rescale(build: TileBuilder, source: str, size: int = WORDS) -> str:
    """A tile that keeps the vector engine busy."""
    to = build.buffer("act", size)
    build.run("rescale", {"trip.j": LENGTH, "trip.k": WORDS, "a.k": 1, "y.k": 1}, a=source, y=to)
    return to


def in_layers(build: TileBuilder, *layers: Callable[[str], str], tiles: int = TILES) -> TileProgram:
    """Layers of as many tiles, each of which reads one of the layer before; those of the last layer are stored."""
    filled = [""] * tiles
    for build.layer, layer in enumerate(layers):
        for tile, source in enumerate(filled):
            filled[tile] = layer(source)
            if layer is layers[-1]:
                build.store(filled[tile])
    return build.program()


def products_and_rescales(build: TileBuilder) -> TileProgram:
    return in_layers(build, lambda _: product(build), partial(rescale, build))


def products_and_short_products(build: TileBuilder) -> TileProgram:
    """Layers that both want the array: the first all the time, the second little beside its work on vectors."""

    def short(source: str) -> str:
        return rescale(build, requantize(build, multiply(build, source, VECTORS // 5)))

    return in_layers(build, lambda _: product(build), short)


def order_of(program: TileProgram, mix: Mix = Mix.FRONT_FIRST) -> list[int] | None:
    engines = [program.machine.format(operation.mnemonic).engine for operation in program.operations]
    layers = [operation.layer for operation in program.operations]
    times, before = durations(program), dependences(program)
    in_order = starts_in_order(engines, times, before)
    found = overlapped(layers, engines, times, before, BuffersOnChip(program), in_order, mix=mix)
    return None if found is None else found.order


def section_of(program: TileProgram, *fronts: bool) -> LayerSpan:
    """All layers of a program; others may be begun beside each of them, unless `fronts` says so."""
    engines = [program.machine.format(operation.mnemonic).engine for operation in program.operations]
    layers = [operation.layer for operation in program.operations]
    times, before = durations(program), dependences(program)
    in_order = starts_in_order(engines, times, before)
    beside = fronts or (True,) * len(set(layers))
    return LayerSpan(layers, engines, times, before, BuffersOnChip(program), in_order, range(len(layers)), beside)


def layers_of(program: TileProgram, engine: str) -> list[int]:
    """The layers whose operations an engine executes, in its order."""
    of = program.machine.format
    return [operation.layer for operation in program.operations if of(operation.mnemonic).engine.name == engine]


def test_the_vector_engine_takes_tiles_of_the_next_layer_between_those_of_the_first() -> None:
    program = products_and_rescales(builder())
    assert layers_of(program, "vec") == [*[0] * TILES, *[1] * TILES]
    scheduled = schedule(program)
    assert layers_of(scheduled, "vec") == [0, 1] * TILES
    # The array goes on meanwhile, so that all but the last rescale are hidden behind products.
    by_layers, beside = (cycles(program, each.operations) for each in (program, scheduled))
    assert beside < by_layers - (TILES - 2) * LENGTH * WORDS


def test_layers_that_want_the_same_engine_go_on_row_by_row() -> None:
    """One layer after the other, the vector engine stands still during the first. The array never waits here."""
    program = products_and_short_products(builder())
    front, rows = (schedule(program, Ahead(mix=mix)) for mix in (Mix.FRONT_FIRST, Mix.ROW_BY_ROW))
    assert layers_of(front, "mma") == [*[0] * TILES, *[1] * TILES]
    assert layers_of(rows, "mma")[:6] == [0, 0, 1, 1, 0, 0]
    saved = cycles(program, front.operations) - cycles(program, rows.operations)
    assert saved > (TILES - 3) * (LENGTH - VECTORS // 5) * WORDS


def test_an_engine_that_would_stand_still_gets_work_first() -> None:
    """The array has work for itself all the time; what it does for the second layer keeps the vector engine busy."""
    program = products_and_short_products(builder())
    front, balanced = (schedule(program, Ahead(mix=mix)) for mix in (Mix.FRONT_FIRST, Mix.BALANCED))
    assert layers_of(balanced, "mma")[:4] == [0, 0, 1, 1]
    saved = cycles(program, front.operations) - cycles(program, balanced.operations)
    assert saved > (TILES - 3) * (LENGTH - VECTORS // 5) * WORDS


def test_pieces_of_one_layer_are_mixed_so_that_no_engine_stands_still() -> None:
    """Layers of one name are pieces of it. If the user says how to mix them, that is done."""
    program = products_and_short_products(builder())
    first, second = program.layers
    pieces = replace(program, layers=(first, replace(second, name=first.name)))
    front, balanced = (schedule(program, Ahead(mix=mix)).operations for mix in (Mix.FRONT_FIRST, Mix.BALANCED))
    assert front != balanced
    assert schedule(program).operations == front
    assert schedule(pieces).operations == balanced
    assert schedule(pieces, Ahead(mix=Mix.FRONT_FIRST)).operations == front


def test_nothing_is_begun_beside_a_layer_that_is_no_front() -> None:
    program = products_and_short_products(builder())
    for merge in MERGES.values():
        mixed, apart = (merge(section_of(program, is_front, False)).order for is_front in (True, False))
        layers = [[program.operations[index].layer for index in order] for order in (mixed, apart)]
        assert sorted(layers[0]) == layers[1] != layers[0]


def test_a_mixed_order_is_compared_with_one_that_waits_for_words_as_well() -> None:
    """Two tiles of the second layer do not fit beside each other."""
    build = builder("memories.act.kib=4")
    program = in_layers(build, lambda _: product(build), partial(rescale, build, size=140))
    section = section_of(program)
    starts = one_by_one(section).starts
    assert starts.keys() == set(section.span)
    assert max(starts.values()) > max(section.in_order)
    stretches = overlap._stretches(section, front_first)
    assert sum(stretch.one_by_one for stretch in stretches) == max(starts.values())


def test_layers_are_mixed_that_save_much_of_their_own_cycles_but_little_of_the_program() -> None:
    build = builder()
    in_layers(build, lambda _: product(build), partial(rescale, build))
    build.layer = 2
    last = product(build, build.operations[-1].bases["y"].buffer)
    build.layer = 3
    for _ in range(60):
        multiply(build, last, 10 * VECTORS)
    program = build.program()
    scheduled = schedule(program)
    assert layers_of(scheduled, "vec") == [*[0, 1] * TILES, 2]
    by_layers, beside = (cycles(program, each.operations) for each in (program, scheduled))
    assert 0.99 * by_layers < beside < by_layers - (TILES - 2) * LENGTH * WORDS


def test_what_saves_too_little_by_itself_stays_where_all_together_saves_too_little() -> None:
    """Operations 0 and 1 save 50 of 100 cycles, the next two 40 of 1000, and all of them less than 1 % of 10 000."""
    in_order = [0, 100, 1000, 10_000]
    stretches = [overlap._Stretch(0, [1, 0], 100, 50), overlap._Stretch(2, [3, 2], 1000, 960)]
    assert overlap._worth_it(stretches, in_order) == Overlap([1, 0, 2, 3], 5)
    assert overlap._worth_it(stretches[1:], in_order) is None
    assert overlap._worth_it(stretches, [0, 100, 1000, 8999]) == Overlap([1, 0, 3, 2], 89)


def test_what_saves_next_to_nothing_of_the_program_is_not_tried() -> None:
    """Operations 0 and 1 save half of their 100 cycles: one in two thousand of 100 000."""
    stretch = overlap._Stretch(0, [1, 0], 100, 50)
    assert overlap._worth_it([stretch], [0, 100_000]) == Overlap([1, 0], 5)
    assert overlap._worth_it([stretch], [0, 100_001]) is None


def cycles(program: TileProgram, operations: tuple[object, ...]) -> int:
    """The exact cycles of operations in this order."""
    ordered = replace(program, operations=operations)  # type: ignore[arg-type]
    return exact_cycles(finished(ordered, Options(ahead=NOTHING_AHEAD), program.machine))


@pytest.mark.parametrize("seed", range(6))
def test_keeps_what_must_come_before_what(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "WORTH", -9)  # even if it takes longer
    program = random_tiles(load_machine("base16"), seed, 60)
    order = order_of(program) or list(range(len(program.operations)))
    place = {index: at for at, index in enumerate(order)}
    assert sorted(order) == list(range(len(program.operations)))
    before = dependences(program)
    for index, earlier in enumerate(zip(before.completed, before.started, strict=True)):
        assert all(place[each] < place[index] for found in earlier for each in found)


def test_the_order_of_layers_stays_where_another_does_not_end_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    program = products_and_rescales(builder())
    first, second = (index for index, one in enumerate(program.operations[:10]) if one.mnemonic == "requantize")
    order = [*range(first + 1, second + 1), *range(first + 1), *range(second + 1, len(program.operations))]
    monkeypatch.setattr(scheduling, "overlapped", lambda *_: Overlap(order, 0))  # two tiles have changed places
    products = [one for one in schedule(program).operations if one.mnemonic == "mma"]
    assert products == [one for one in program.operations if one.mnemonic == "mma"]


def test_layers_of_one_engine_stay_as_they_are() -> None:
    build = builder()
    assert order_of(in_layers(build, lambda _: product(build), lambda _: product(build))) is None
    build = builder()
    x = build.load_input()
    assert order_of(in_layers(build, lambda _: rescale(build, x), partial(rescale, build))) is None


def test_a_layer_that_needs_all_of_the_one_before_waits_for_it() -> None:
    build = builder()
    tiles = [product(build) for _ in range(TILES)]
    build.layer = 1
    for tile in tiles[1:]:
        build.add(tiles[0], tile, to=tiles[0])
    for _ in tiles:
        build.store(rescale(build, tiles[0]))
    assert order_of(build.program()) is None


@pytest.mark.parametrize("mix", Mix)
def test_takes_no_words_that_the_layer_in_front_needs(mix: Mix) -> None:
    """What all products read fills half of the memory, and so does each rescale."""
    build = builder("memories.act.kib=4")
    whole = build.load("act", 128)
    program = in_layers(build, lambda _: product(build, whole), partial(rescale, build, size=140))
    section = section_of(program)
    merged = MERGES[mix](section)
    assert [program.operations[index].layer for index in merged.order] == [one.layer for one in program.operations]
    assert layers_of(schedule(program, Ahead(mix=mix)), "vec") == [*[0] * TILES, *[1] * TILES]
    finished(program, Options(), program.machine)  # raises DoesNotFit if they do not fit


def test_keeps_an_engine_free_for_the_layer_in_front() -> None:
    """Requantisations that stand behind other products are due when their own is done."""
    build = builder()
    x = build.load_input()
    sums = [multiply(build) for _ in range(3)]
    for each in sums:
        build.store(requantize(build, each))
    build.layer = 1
    for _ in range(TILES):
        build.store(rescale(build, x))
    program = build.program()
    order = order_of(program)
    assert order is not None
    names = [program.operations[index].mnemonic for index in order]
    products = [at for at, name in enumerate(names) if name == "mma"]
    assert "rescale" in names[: products[1]]
    assert "rescale" not in names[products[1] : names.index("requantize")]


def test_an_order_that_is_not_by_layers_stays() -> None:
    program = products_and_rescales(builder())
    turned = tuple(operation._replace(layer=1 - operation.layer) for operation in program.operations)
    assert order_of(program) is not None
    assert order_of(replace(program, operations=turned)) is None
