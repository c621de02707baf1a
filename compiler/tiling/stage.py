"""The operations of tiles in stages, and the order in which the stages of a nest follow each other.

Where several arrays share the tiles of a nest, they read words in different banks: each array gets tiles that follow
each other. Example: of eight tiles on two arrays, the order is 0 4 1 5 2 6 3 7. So arrays read other blocks of
channels, or other rows, which lie further apart; and what neighbours share is loaded for one array alone. And each
begins with another of its partial sums: of four, one takes 0 1 2 3, the other 2 3 0 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from tilewright.compiler.tile.program import TileBuffer, TileOperation
from tilewright.compiler.tile.sums import can_be_exchanged, exchanged, sums_of
from tilewright.isa.machine.machine import Machine


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


SHARE = 8
"""Tiles keep their order if their buffers in memories that arrays share take more than one part of so many of them."""


def interleaved(
    stages: Sequence[Stage], machine: Machine, buffers: Mapping[str, TileBuffer], most: int | None = None
) -> Sequence[Stage]:
    """The stages of a nest, those of each tile one after the other; as they are if they must keep their order.

    `most`: so many arrays share them at the most.
    """
    twins = machine.first_twins(most)
    own = {name for twin in twins for name in twin.memories}
    if not own or _takes_much(stages, machine, own, buffers):
        return stages
    arrays, tiles = 1 + len(twins), _tiles(stages, machine)
    each = -(-len(tiles) // arrays)
    order = [tiles[at] for first in range(each) for at in range(first, len(tiles), each)]
    for moved in (_all_rotated(order, arrays, machine), order, _all_rotated(tiles, arrays, machine)):
        found = list(chain.from_iterable(moved))
        if _keeps_loads(stages, found):
            return found
    return stages


def _all_rotated(tiles: Sequence[Sequence[Stage]], arrays: int, machine: Machine) -> list[Sequence[Stage]]:
    """Each tile as it is best for the array whose turn it is."""
    return [_rotated(tile, number % arrays, arrays, machine) for number, tile in enumerate(tiles)]


def _tiles(stages: Sequence[Stage], machine: Machine) -> list[list[Stage]]:
    """The stages of each tile: those that follow each other with sums in the same buffer."""
    tiles: list[list[Stage]] = []
    last: set[str] = set()
    for stage in stages:
        sums = {sums_of(machine, product).buffer for product in stage.products}
        if tiles and last & sums:
            tiles[-1].append(stage)
        else:
            tiles.append([stage])
        last = sums
    return tiles


def _takes_much(stages: Sequence[Stage], machine: Machine, own: set[str], buffers: Mapping[str, TileBuffer]) -> bool:
    """Whether tiles bring much to memories that arrays share: those of several arrays are there at a time."""
    words: Counter[str] = Counter()
    for load in chain.from_iterable((*stage.early, *stage.late) for stage in stages[1:]):
        buffer = buffers[load.bases[machine.format(load.mnemonic).destination.name].buffer]
        if buffer.place not in own:
            words[buffer.place] += buffer.size
    return any(taken * SHARE > machine.memories[place].depth for place, taken in words.items())


def _rotated(tile: Sequence[Stage], array: int, arrays: int, machine: Machine) -> Sequence[Stage]:
    """The partial sums of a tile from another one on; as they are if more than products follows some of them."""
    first = len(tile) * array // arrays
    products = [product for stage in tile for product in stage.products]
    if not first or any(stage.late or stage.rest for stage in tile[:-1]) or not can_be_exchanged(machine, products):
        return tile
    moved = [*tile[first:], *tile[:first]]
    order = iter(exchanged(machine, products, [product for stage in moved for product in stage.products]))
    found = [Stage(stage.early, list(islice(order, len(stage.products)))) for stage in moved]
    found[-1].late, found[-1].rest = tile[-1].late, tile[-1].rest
    return found


def _keeps_loads(stages: Sequence[Stage], moved: Sequence[Stage]) -> bool:
    """Whether of each buffer that is filled, the first operation that names it is the same in both orders."""
    filled = {base.buffer for stage in stages for load in (*stage.early, *stage.late) for base in load.bases.values()}
    return _firsts(stages, filled) == _firsts(moved, filled)


def _firsts(stages: Sequence[Stage], filled: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for stage in stages:
        for operation in (*stage.early, *stage.late, *stage.products, *stage.rest):
            for base in operation.bases.values():
                if base.buffer in filled:
                    found.setdefault(base.buffer, id(operation))
    return found
