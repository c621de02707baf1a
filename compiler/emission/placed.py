"""Tile programs (level 3) with addresses, and with addresses and waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.compiler.tile.program import TileProgram

Waits = tuple[Mapping[str, int], ...]
"""For each operation: engine → how many of its instructions must be complete. Engines without a wait are absent."""


@dataclass(frozen=True, slots=True)
class Placement:
    """`addresses` by buffer name: words on chip, bytes in a region."""

    addresses: Mapping[str, int]
    workspace_bytes: int


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
