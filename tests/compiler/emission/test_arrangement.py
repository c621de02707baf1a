"""What was made of one tile program holds for others of its form: the same as if it were worked out for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.compiler.tile_programs import random_tiles
from tilewright.compiler.emission.ahead import EVERYTHING_AHEAD, Ahead
from tilewright.compiler.emission.allocate import allocate
from tilewright.compiler.emission.arrangement import Arrangement
from tilewright.compiler.emission.placed import OrderedTiles
from tilewright.compiler.emission.schedule import schedule
from tilewright.compiler.emission.waits import waits
from tilewright.compiler.tile.canonical_tiles import canonical_tiles
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, TileProgram
from tilewright.isa.files.loader import load_machine

MACHINES = ("base16", "tiny8", "rect")


def tiles_for(machine: str, seed: int) -> TileProgram:
    return random_tiles(load_machine(machine), seed, 30)


def ordered(tiles: TileProgram, ahead: Ahead = EVERYTHING_AHEAD) -> OrderedTiles:
    placed = allocate(schedule(tiles, ahead))
    return waits(placed)


def renamed(tiles: TileProgram, new: Callable[[str], str] = "other {}".format) -> TileProgram:
    """The same with other names, other weights and other immediates."""
    return replace(
        tiles,
        name="other",
        buffers={new(name): replace(buffer, name=new(name)) for name, buffer in tiles.buffers.items()},
        operations=tuple(
            operation._replace(
                fields={
                    name: -1 - value if name in tiles.machine.format(operation.mnemonic).immediates else value
                    for name, value in operation.fields.items()
                },
                bases={operand: BufferAddress(new(name), at) for operand, (name, at) in operation.bases.items()},
            )
            for operation in tiles.operations
        ),
        weights=bytes(255 - byte for byte in tiles.weights),
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(3))
def test_is_what_would_be_made_of_the_other(machine: str, seed: int) -> None:
    tiles = tiles_for(machine, seed)
    other = renamed(tiles)
    assert other.operations != tiles.operations
    arrangement = Arrangement.of(tiles, None, EVERYTHING_AHEAD, ordered(tiles_for(machine, seed)))  # of equal tiles
    assert arrangement is not None
    found, expected = arrangement.of_alike(other, None, EVERYTHING_AHEAD), ordered(other)
    assert found == expected
    assert found is not None and found.tiles.operations != other.operations, "the order is another one"


def test_operations_that_are_equal_keep_their_order() -> None:
    """In another program they need not be equal."""
    tiles = tiles_for("tiny8", 0)
    at = next(at for at, operation in enumerate(tiles.operations) if operation.mnemonic == "add")
    tiles = replace(tiles, operations=(*tiles.operations[: at + 1], *tiles.operations[at:]))
    arrangement = Arrangement.of(tiles, None, EVERYTHING_AHEAD, ordered(tiles))
    first, second = tiles.operations[at : at + 2]
    operations = list(tiles.operations)
    operations[at + 1] = second._replace(fields={**second.fields, "shift": first.fields["shift"] + 1})
    other = replace(tiles, operations=tuple(operations))
    assert arrangement is not None and arrangement.of_alike(other, None, EVERYTHING_AHEAD) == ordered(other)


def test_is_for_operations_that_move_as_far_ahead() -> None:
    tiles = tiles_for("tiny8", 0)
    arrangement = Arrangement.of(tiles, None, EVERYTHING_AHEAD, ordered(tiles))
    assert arrangement is not None and arrangement.of_alike(tiles, None, Ahead(2)) is None


def test_there_is_none_where_a_remark_names_layers() -> None:
    tiles = tiles_for("tiny8", 0)
    made = ordered(tiles)
    remarked = replace(made, tiles=made.tiles.with_remarks({"room in act": "3 buffers made room for others, in conv1"}))
    assert Arrangement.of(tiles, None, EVERYTHING_AHEAD, remarked) is None


def in_buffer(**changes: object) -> Callable[[TileProgram], TileProgram]:
    """A change of the first buffer on chip."""

    def change(tiles: TileProgram) -> TileProgram:
        name = next(name for name, buffer in tiles.buffers.items() if buffer.place == "act")
        changed: TileBuffer = replace(tiles.buffers[name], **changes)  # type: ignore[arg-type]
        return replace(tiles, buffers={**tiles.buffers, name: changed})

    return change


def in_operation(change: Callable[[TileOperation], TileOperation]) -> Callable[[TileProgram], TileProgram]:
    """A change of the first operation that computes."""

    def changed(tiles: TileProgram) -> TileProgram:
        at = next(at for at, operation in enumerate(tiles.operations) if operation.mnemonic == "add")
        before, after = tiles.operations[:at], tiles.operations[at + 1 :]
        return replace(tiles, operations=(*before, change(tiles.operations[at]), *after))

    return changed


def with_field(name: str) -> Callable[[TileOperation], TileOperation]:
    return lambda operation: operation._replace(fields={**operation.fields, name: operation.fields.get(name, 0) + 1})


def with_base(change: Callable[[BufferAddress], BufferAddress]) -> Callable[[TileOperation], TileOperation]:
    return lambda operation: operation._replace(bases={**operation.bases, "a": change(operation.bases["a"])})


OTHERS = {
    "a longer buffer": in_buffer(size=7),
    "another memory": in_buffer(place="acc"),
    "another alignment": in_buffer(alignment=2),
    "a place that is fixed": in_buffer(offset=0),
    "a buffer in one bank": in_buffer(is_in_bank=True),
    "a buffer more": lambda tiles: replace(tiles, buffers={**tiles.buffers, "more": TileBuffer("more", "act", 1)}),
    "buffers in another order": lambda tiles: replace(tiles, buffers=dict(reversed(tiles.buffers.items()))),
    "another instruction": in_operation(lambda operation: operation._replace(mnemonic="max_pool")),
    "another layer": in_operation(lambda operation: operation._replace(layer=operation.layer + 1)),
    "another trip count": in_operation(with_field("trip.k")),
    "another stride": in_operation(with_field("a.j")),
    "another offset": in_operation(with_base(lambda base: base._replace(offset=base.offset + 1))),
    "another buffer": in_operation(with_base(lambda base: base._replace(buffer="inputs"))),
    "an operation less": lambda tiles: replace(tiles, operations=tiles.operations[:-1]),
    "a layer more": lambda tiles: replace(tiles, layers=(*tiles.layers, tiles.layers[-1])),
    "another machine": lambda tiles: replace(tiles, machine=load_machine("tiny8", ["memories.act.kib=4"])),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_program_has_another_form(case: str) -> None:
    tiles = tiles_for("tiny8", 0)
    assert canonical_tiles(tiles) == canonical_tiles(renamed(tiles))
    other = OTHERS[case](tiles)
    assert canonical_tiles(tiles) != canonical_tiles(other)
    assert canonical_tiles(other) != canonical_tiles(tiles)


def test_all_fields_of_an_only_operation_are_seen() -> None:
    tiles = tiles_for("tiny8", 0)
    at = next(at for at, operation in enumerate(tiles.operations) if operation.mnemonic == "add")
    only = replace(tiles, operations=tiles.operations[at : at + 1])
    assert canonical_tiles(only) == canonical_tiles(renamed(only))
    assert canonical_tiles(only) != canonical_tiles(in_operation(with_field("trip.k"))(only))


def test_instructions_with_equal_fields_differ() -> None:
    tiles = tiles_for("tiny8", 0)
    larger, smaller = (
        in_operation(lambda operation, to=to: operation._replace(mnemonic=to, fields={"trip.k": 2}))(tiles)  # type: ignore[misc]
        for to in ("maximum", "minimum")
    )
    assert canonical_tiles(larger) != canonical_tiles(smaller)


@pytest.mark.parametrize("seed", range(3))
def test_names_in_another_order_are_the_same_form(seed: int) -> None:
    tiles = tiles_for("tiny8", seed)
    other = renamed(tiles, lambda name: f"{1000 - list(tiles.buffers).index(name)}")
    assert canonical_tiles(tiles) == canonical_tiles(other)
    arrangement = Arrangement.of(tiles, None, EVERYTHING_AHEAD, ordered(tiles_for("tiny8", seed)))
    assert arrangement is not None and arrangement.of_alike(other, None, EVERYTHING_AHEAD) == ordered(other)
