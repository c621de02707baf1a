"""Tile programs (level 3) with addresses, and with addresses and waits."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.compiler.emission.allocate import Placement
from tilewright.compiler.emission.waits import Waits
from tilewright.compiler.tile.program import TileProgram


@dataclass(frozen=True, slots=True)
class PlacedTiles:
    """A tile program with the addresses of its buffers."""

    tiles: TileProgram
    placement: Placement


@dataclass(frozen=True, slots=True)
class OrderedTiles:
    """A tile program with the addresses of its buffers and the waits of its operations."""

    tiles: TileProgram
    placement: Placement
    waits: Waits
