"""Choices of the tiler: what a caller may change when a program does not fit, and what a search tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TileSizes:
    """How one nest is cut: iterations by loop, of the lane loop units, of the summed loop vectors.

    `points_outer`: pixels are the outer loops and units the inner ones.
    """

    sizes: Mapping[str, int]
    points_outer: bool

    @property
    def key(self) -> tuple[tuple[tuple[str, int], ...], bool]:
        """The same for equal ones."""
        return tuple(sorted(self.sizes.items())), self.points_outer


@dataclass(frozen=True)
class TilingOptions:
    """What a tile may take, and what stays on chip.

    `budget_fraction`: how much of each memory one tile may take; with 0.5 the next tile fits beside it.
    `residency`: `auto` keeps tensors on chip between layers where they fit, `none` never does. `limits`: by memory, the
    words to plan with, for a plan as for a smaller machine. `off_chip`: tensors that go through DRAM. `tiles`: by nest,
    the tiles to take where they fit. `arrays`: so many arrays at the most share the work, the first of those that can;
    None: all.
    """

    budget_fraction: float = 0.5
    residency: str = "auto"
    limits: Mapping[str, int] = field(default_factory=dict)
    off_chip: frozenset[str] = frozenset()
    tiles: Mapping[str, TileSizes] = field(default_factory=dict)
    arrays: int | None = None

    @property
    def told(self) -> tuple[object, ...]:
        """The same for equal ones, whatever the order in which they were made."""
        tiles = sorted((nest, *cut.key) for nest, cut in self.tiles.items())
        limits = sorted(self.limits.items())
        return self.budget_fraction, self.residency, limits, sorted(self.off_chip), tiles, self.arrays
