"""Level 3 as text: print and parse are each other's inverse, and faults are named."""

from __future__ import annotations

import pytest

from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.errors import CompileError
from tilewright.compiler.levels import TILES
from tilewright.compiler.tile.text import parse_tiles, print_tiles
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
@pytest.mark.parametrize("seed", range(3))
def test_parse_undoes_print(machine: str, seed: int) -> None:
    tiles = random_tiles(load_machine(machine), seed)
    assert parse_tiles(print_tiles(tiles), tiles.machine) == tiles


def test_print_undoes_parse() -> None:
    tiles = random_tiles(load_machine("base16"), 5)
    text = print_tiles(tiles)
    assert print_tiles(parse_tiles(text, tiles.machine)) == text


def test_an_operation_reads_as_one_line() -> None:
    lines = print_tiles(random_tiles(load_machine("base16"), 0)).splitlines()
    assert lines[1] == (
        '  %weights = "tile.buffer"() {place = "weights", size = 4096, alignment = 1, offset = 0} '
        ": () -> memref<4096xi8>"
    )
    assert (
        '  "tile.load_act"(%inputs, %act2) {operands = ["d", "y"], offsets = [0, 0], '
        "fields = {trip.k = 6, d.k = 16, y.k = 1}, layer = 0} : (memref<96xi8>, memref<6x16xi8>) -> ()"
    ) in lines


def test_refuses_another_machine() -> None:
    text = print_tiles(random_tiles(load_machine("base16"), 0))
    with pytest.raises(CompileError) as refused:
        parse_tiles(text, load_machine("tiny8"))
    assert str(refused.value) == "the text is for machine base16, whose description differs from tiny8's"


def test_names_a_missing_attribute() -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    text = print_tiles(tiles).replace('place = "weights", ', "", 1)
    with pytest.raises(CompileError) as refused:
        parse_tiles(text, tiles.machine)
    assert str(refused.value) == "line 2: tile.buffer: attribute place is missing"


def test_names_a_field_that_is_no_integer() -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    text = print_tiles(tiles).replace("trip.k = 6", "trip.k = 6.5", 1)
    with pytest.raises(CompileError) as refused:
        parse_tiles(text, tiles.machine)
    assert str(refused.value) == "line 61: tile.load_act: attribute trip.k is 6.5; expected int"


def test_what_is_read_is_sound() -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    text = print_tiles(tiles).replace("trip.k = 6", "trip.k = 7", 1)
    with pytest.raises(CompileError) as refused:
        TILES.read(text, tiles.machine)
    assert str(refused.value) == (
        "line 61: operation 0 (load_act): rule operands: d touches words 0 to 111 of inputs, which has 96"
    )
