"""Placed and ordered tiles as text: print and parse are each other's inverse, and faults are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.packing import buffer_lifetimes
from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles
from tilewright.compiler.emission.rules import PLACED_RULES
from tilewright.compiler.emission.text import parse_ordered, parse_placed, print_ordered, print_placed
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import ORDERED_TILES
from tilewright.compiler.rules import BrokenRule, require
from tilewright.compiler.tile.text import parse_tiles
from tilewright.isa.files.loader import load_machine


def placed(machine: str = "base16", seed: int = 0) -> PlacedTiles:
    tiles = random_tiles(load_machine(machine), seed)
    return allocate(tiles)


def ordered(machine: str = "base16", seed: int = 0) -> OrderedTiles:
    before = placed(machine, seed)
    return waits(before)


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("seed", range(3))
def test_parse_undoes_print(machine: str, seed: int) -> None:
    before, after = placed(machine, seed), ordered(machine, seed)
    assert parse_placed(print_placed(before), before.tiles.machine) == before
    assert parse_ordered(print_ordered(after), after.tiles.machine) == after


def test_print_undoes_parse() -> None:
    before, after = placed(), ordered()
    machine = before.tiles.machine
    assert print_placed(parse_placed(print_placed(before), machine)) == print_placed(before)
    assert print_ordered(parse_ordered(print_ordered(after), machine)) == print_ordered(after)


def test_a_buffer_shows_its_address_and_an_operation_its_waits() -> None:
    lines = print_ordered(ordered()).splitlines()
    assert lines[3] == (
        '  %act2 = "tile.buffer"() {place = "act", size = 6, alignment = 1, address = 0} : () -> memref<6x16xi8>'
    )
    assert any(line.endswith("-> ()") and "layer = 0, wait = {load = 1}}" in line for line in lines)


def test_buffers_that_are_alive_at_the_same_time_share_no_word() -> None:
    before = placed()
    lives = buffer_lifetimes(before.tiles)
    first, second = next(
        (a, b)
        for a in lives
        for b in lives
        if a is not b and a.meets(b) and a.buffer.place == b.buffer.place and a.buffer.offset is b.buffer.offset is None
    )
    addresses = {**before.placement.addresses, second.buffer.name: before.placement.addresses[first.buffer.name]}
    changed = replace(before, placement=replace(before.placement, addresses=addresses))
    require(PLACED_RULES, before)
    with pytest.raises(BrokenRule) as refused:
        require(PLACED_RULES, changed)
    assert refused.value.rule == "overlaps"


def test_an_address_is_a_multiple_of_the_alignment() -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    buffers = {**tiles.buffers, "act2": replace(tiles.buffers["act2"], alignment=4)}
    aligned = allocate(replace(tiles, buffers=buffers))
    require(PLACED_RULES, aligned)
    addresses = {**aligned.placement.addresses, "act2": aligned.placement.addresses["act2"] + 1}
    with pytest.raises(BrokenRule) as refused:
        require(PLACED_RULES, replace(aligned, placement=replace(aligned.placement, addresses=addresses)))
    assert refused.value.rule == "banks"


def test_the_text_of_one_level_is_not_that_of_another() -> None:
    before, after = placed(), ordered()
    machine = before.tiles.machine
    for parse, text, message in (
        (parse_tiles, print_placed(before), "expected a 'tile.program' with a region, got 'tile.placed_program'"),
        (parse_ordered, print_placed(before), "expected a 'tile.ordered_program' with a region, got 'tile.placed_p"),
        (parse_placed, print_ordered(after), "expected a 'tile.placed_program' with a region, got 'tile.ordered_pr"),
    ):
        with pytest.raises(CompileError) as refused:
            parse(text, machine)
        assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (", address = 0}", "}", "buffer weights: rule addresses: attribute address is missing"),
        ("wait = {load = 1}", "wait = {lord = 1}", "rule waits: it waits for 'lord'; expected one of load, mma, "),
        (
            "wait = {load = 1}",
            "wait = {load = 9}",
            "rule waits: it waits for 9 operations of load, of which 1 c",
        ),
        ("wait = {load = 1}", 'wait = {load = "1"}', "tile.store_act: attribute load is '1'; expected int"),
        ("address = 0}", "address = 1}", "buffer weights: rule addresses: address 1 differs from its offset 0"),
        ("alignment = 1, address = 0", "alignment = 1, address = -1", "rule addresses: 6 words at address -1 of act"),
        ("alignment = 1, address = 0", "alignment = 1, address = 99999", "rule addresses: 6 words at address 99999 of"),
        ("workspace_bytes = ", "workspace_bytes = 99999999999", "workspace_bytes = 99999999999"),
        ("workspace_bytes = ", "work = ", "tile.ordered_program: unknown attribute work; expected one of"),
    ],
)
def test_names_what_is_wrong(old: str, new: str, message: str) -> None:
    after = ordered()
    text = print_ordered(after)
    assert old in text
    with pytest.raises(CompileError) as refused:
        ORDERED_TILES.read(text.replace(old, new, 1), after.tiles.machine)
    assert message in str(refused.value)
    assert str(refused.value).startswith("line ")
