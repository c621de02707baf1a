"""The operations of tiles in stages, and the order in which the stages of a nest follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.compiler.tile.program import TileOperation


@dataclass
class Stage:
    """Operations of one partial sum of a tile, by when they are wanted.

    `early` brings what the matrix product reads, `products` is the product itself; `late` brings what the other steps
    read, and `rest` is those steps and the stores.
    """

    early: list[TileOperation] = field(default_factory=list)
    products: list[TileOperation] = field(default_factory=list)
    late: list[TileOperation] = field(default_factory=list)
    rest: list[TileOperation] = field(default_factory=list)


def pipelined(stages: Sequence[Stage]) -> Iterator[TileOperation]:
    """Stages overlapped: while one product runs, the next one's data comes and the last one's other steps run.

    Each engine still sees its operations tile by tile. At any time at most two stages' buffers of a kind are alive.
    """
    for position in range(len(stages) + 1):
        here = stages[position] if position < len(stages) else Stage()
        if position == 0:
            yield from here.early
        yield from here.late
        if position + 1 < len(stages):
            yield from stages[position + 1].early
        yield from here.products
        if position:
            yield from stages[position - 1].rest


def one_by_one(stages: Sequence[Stage]) -> Iterator[TileOperation]:
    """One stage after the other, for memories where only one tile fits."""
    for stage in stages:
        yield from (*stage.early, *stage.products, *stage.late, *stage.rest)
