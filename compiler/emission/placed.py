"""Tile programs (level 3) with addresses, and with addresses and waits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.compiler.emission.allocate import Placement, allocate
from tilewright.compiler.emission.waits import Waits
from tilewright.compiler.tile.accesses import Integers
from tilewright.compiler.tile.program import TileProgram


@dataclass(frozen=True, slots=True)
class PlacedTiles:
    """A tile program with the addresses of its buffers."""

    tiles: TileProgram
    placement: Placement


def place(tiles: TileProgram, starts: Integers | None = None) -> PlacedTiles:
    """The program with the addresses that `allocate` chooses, and with its remarks; raises DoesNotFit as it does.

    `starts`: the cycle in which each operation starts, if a run has shown it.
    """
    placement = allocate(tiles, starts)
    return PlacedTiles(tiles.with_remarks(placement.remarks), replace(placement, remarks={}))


@dataclass(frozen=True, slots=True)
class OrderedTiles:
    """A tile program with the addresses of its buffers and the waits of its operations."""

    tiles: TileProgram
    placement: Placement
    waits: Waits
