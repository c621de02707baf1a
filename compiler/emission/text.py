"""Tile programs with addresses, and with waits, as text and back: the text of tiles with more attributes.

%act3 = "tile.buffer"() {place = "act", size = 64, alignment = 1, address = 2048} : () -> memref<64x16xi8>
"tile.mma"(%act3, %w, %t0) {operands = ["a", "w", "c"], …, layer = 0, wait = {load = 2}} : (…) -> ()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilewright.compiler.emission.placed import OrderedTiles, PlacedTiles, Placement
from tilewright.compiler.text.attributes import at_line, attribute, entry
from tilewright.compiler.text.mlir import Attribute, MlirBlock, MlirOperation
from tilewright.compiler.text.parser import parse_program
from tilewright.compiler.text.printer import print_operation
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tile.text import BUFFER, DIALECT, read_tiles, tiles_operation
from tilewright.isa.machine.machine import Machine

PLACED = DIALECT + "placed_program"
ORDERED = DIALECT + "ordered_program"

More = Callable[[MlirOperation], Mapping[str, Attribute]]
"""The attributes that an operation gets in addition to its own."""


def print_placed(placed: PlacedTiles) -> str:
    """The program as text; `parse_placed` gives an equal one back."""
    return print_operation(_placed_operation(placed.tiles, placed.placement, PLACED)) + "\n"


def parse_placed(text: str, machine: Machine) -> PlacedTiles:
    """The program of a text; raises CompileError or IsaError as `parse_tiles` does, and for a missing address."""
    whole = parse_program(text)
    return PlacedTiles(*_read_placed(whole, machine, PLACED))


def print_ordered(ordered: OrderedTiles) -> str:
    """The program as text; `parse_ordered` gives an equal one back."""
    whole = _placed_operation(ordered.tiles, ordered.placement, ORDERED)
    waits = iter(ordered.waits)

    def with_waits(operation: MlirOperation) -> Mapping[str, Attribute]:
        if operation.name == BUFFER:
            return {}
        wait = next(waits)
        return {"wait": wait} if wait else {}

    return print_operation(_with(whole, with_waits)) + "\n"


def parse_ordered(text: str, machine: Machine) -> OrderedTiles:
    """The program of a text; raises CompileError as `parse_placed` does, and for a wait that is no number."""
    whole = parse_program(text)
    tiles, placement = _read_placed(whole, machine, ORDERED)
    waits = tuple(_read_wait(operation) for operation in _inside(whole) if operation.name != BUFFER)
    return OrderedTiles(tiles, placement, waits)


# -- addresses ---------------------------------------------------------------------------------------------------------


def _placed_operation(tiles: TileProgram, placement: Placement, name: str) -> MlirOperation:
    def with_address(operation: MlirOperation) -> Mapping[str, Attribute]:
        if operation.name != BUFFER or operation.results[0] not in placement.addresses:
            return {}  # a buffer that no operation names lies nowhere
        return {"address": placement.addresses[operation.results[0]]}

    whole = _with(tiles_operation(tiles, name), with_address)
    return replace(whole, attributes={"workspace_bytes": placement.workspace_bytes, **whole.attributes})


def _read_placed(whole: MlirOperation, machine: Machine, name: str) -> tuple[TileProgram, Placement]:
    tiles = read_tiles(whole, machine, name)
    addresses: dict[str, int] = {}
    for operation in _inside(whole):
        if operation.name == BUFFER and "address" in operation.attributes:
            with at_line(operation):
                addresses[operation.results[0]] = attribute(operation, "address", int)
    with at_line(whole):
        return tiles, Placement(addresses, attribute(whole, "workspace_bytes", int))


# -- waits -------------------------------------------------------------------------------------------------------------


def _read_wait(operation: MlirOperation) -> Mapping[str, int]:
    """The `wait` of an operation: completed instructions by engine; none if there is no such attribute."""
    if "wait" not in operation.attributes:
        return {}
    with at_line(operation):
        wait = attribute(operation, "wait", dict)
        return {engine: entry(wait, engine, int, operation.name) for engine in wait}


# -- operations --------------------------------------------------------------------------------------------------------


def _with(whole: MlirOperation, more: More) -> MlirOperation:
    """The same operation, where each one inside has more attributes."""
    inside = tuple(replace(each, attributes={**each.attributes, **more(each)}) for each in _inside(whole))
    return replace(whole, region=MlirBlock((), inside))


def _inside(whole: MlirOperation) -> Sequence[MlirOperation]:
    assert whole.region is not None
    return whole.region.operations
