"""Sound tile programs: what the compiler makes passes, and each fault of a program from elsewhere is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.models import gemm_model
from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.options import Options
from tilewright.compiler.pipeline import compile_model
from tilewright.compiler.rules import BrokenRule, require
from tilewright.compiler.tile.accesses import operand_bounds, operand_mask
from tilewright.compiler.tile.program import BufferAddress, TileProgram
from tilewright.compiler.tile.rules import RULES
from tilewright.isa.files.loader import load_machine


@pytest.mark.parametrize("machine", ["base16", "tiny8", "rect"])
def test_bounds_are_those_of_the_mask(machine: str) -> None:
    tiles = random_tiles(load_machine(machine), 2)
    for operation in tiles.operations:
        format = tiles.machine.format(operation.mnemonic)
        for operand in format.operands:
            first, mask, _ = operand_mask(tiles.machine, format, operand, operation)
            assert operand_bounds(tiles.machine, format, operand, operation) == (first, first + len(mask))


def with_buffer(name: str, **changes: object) -> TileProgram:
    """A program with one buffer changed."""
    tiles = random_tiles(load_machine("base16"), 0)
    return replace(tiles, buffers={**tiles.buffers, name: replace(tiles.buffers[name], **changes)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "act2",
            {"place": "akt"},
            "buffer act2: rule places: no place 'akt'; expected one of act, wgt, acc, par, lut, workspace, weights, ",
        ),
        ("act2", {"size": 0}, "buffer act2: rule places: size 0, alignment 1; expected at least 1 of each"),
        ("act2", {"alignment": 0}, "buffer act2: rule places: size 6, alignment 0; expected at least 1 of each"),
        ("act2", {"offset": 5}, "buffer act2: rule places: offset 5 in act; expected none: an address is chosen"),
        (
            "act2",
            {"size": 1 << 40},
            "buffer act2: rule places: size 1099511627776, alignment 1; expected at most 4294967296",
        ),
        (
            "weights",
            {"offset": None},
            "buffer weights: rule places: 4096 bytes at offset None of weights; expected bytes of the 4096",
        ),
        (
            "weights",
            {"offset": 1},
            "buffer weights: rule places: 4096 bytes at offset 1 of weights; expected bytes of the 4096",
        ),
    ],
)
def test_a_buffer_in_no_place_is_named(name: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(BrokenRule) as refused:
        require(RULES, with_buffer(name, **changes))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer": 3}, "rule operations: layer 3; there are 3"),
        ({"fields": {"trip.q": 2}}, "rule operations: load_act has no field 'trip.q'; it has: "),
        ({"fields": {"trip.k": 1 << 30}}, "rule operations: load_act: trip.k = 1073741824 does not fit its "),
        ({"fields": {"trip.k": 7, "y.k": 1}}, "rule operands: y touches words 0 to 6 of act2, which has 6"),
        ({"fields": {"trip.k": 2, "y.k": -1}}, "rule operands: y touches words -1 to 0 of act2, which has 6"),
        (
            {"bases": {"d": BufferAddress("nothing", 0), "y": BufferAddress("act2", 0)}},
            "rule operands: d names no buffer: 'nothing'",
        ),
    ],
)
def test_an_operation_beyond_its_buffer_is_named(changes: dict[str, object], message: str) -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    first = tiles.operations[0]._replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(BrokenRule) as refused:
        require(RULES, replace(tiles, operations=(first, *tiles.operations[1:])))
    assert str(refused.value).startswith(f"operation 0 (load_act): {message}")


def test_a_word_is_written_before_it_is_read() -> None:
    tiles = random_tiles(load_machine("base16"), 0)
    require(RULES, tiles)
    writer = next(operation for operation in tiles.operations if operation.mnemonic == "load_act")
    others = tuple(operation for operation in tiles.operations if operation is not writer)
    with pytest.raises(BrokenRule) as refused:
        require(RULES, replace(tiles, operations=others))
    assert refused.value.rule == "order"


def test_an_operand_is_in_the_memory_that_its_instruction_says() -> None:
    with pytest.raises(BrokenRule) as refused:
        require(RULES, with_buffer("act2", place="wgt"))
    assert "rule operands: y is in wgt; expected act" in str(refused.value)


def test_an_output_lies_inside_its_region() -> None:
    tiles = compiled()
    (output,) = tiles.outputs
    require(RULES, tiles)
    with pytest.raises(BrokenRule) as refused:
        require(RULES, replace(tiles, outputs=(replace(output, offset=tiles.output_bytes),)))
    assert refused.value.rule == "hosts"


def compiled() -> TileProgram:
    """The tiles of a small network."""
    kept: dict[str, TileProgram] = {}
    model = gemm_model(np.random.default_rng(0), 3, 20, 17)
    compile_model(model, load_machine("tiny8"), Options(effort=0), keep=kept.__setitem__)
    return kept["tile"]
