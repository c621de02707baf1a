"""Changes of a plan that a search tries: what stays on chip, memories to plan with, the tiles of a nest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.tiling.cost_terms import tile_counts
from tilewright.compiler.tiling.options import TileSizes, TilingOptions
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.isa.machine.machine import Machine

HALVINGS = 4
"""How often the memory to plan with is halved."""

FINER = 4
"""So many times as many tiles are tried for all layers without products at once."""


@dataclass(frozen=True)
class OffChip:
    """A tensor goes through DRAM: its first tile is there before the others, and its words are free for tiles."""

    tensor: str

    def apply(self, options: TilingOptions) -> TilingOptions:
        return replace(options, off_chip=options.off_chip | {self.tensor})


@dataclass(frozen=True)
class Limit:
    """A plan as for a memory of so many words: a program for less memory is a program for more."""

    memory: str
    words: int

    def apply(self, options: TilingOptions) -> TilingOptions:
        return replace(options, limits={**options.limits, self.memory: self.words})


@dataclass(frozen=True)
class Cut:
    """Nests get other tiles: those that are alike, or all that have something else in common."""

    tiles: Mapping[str, TileSizes]

    def apply(self, options: TilingOptions) -> TilingOptions:
        return replace(options, tiles={**options.tiles, **self.tiles})


@dataclass(frozen=True)
class Anew:
    """Some tensors go through DRAM and nests get other tiles; nothing else that was found before stays."""

    off_chip: frozenset[str]
    tiles: Mapping[str, TileSizes]

    def apply(self, options: TilingOptions) -> TilingOptions:
        return replace(options, limits={}, off_chip=self.off_chip, tiles=self.tiles)


Change = OffChip | Limit | Cut | Anew


def inputs_off_chip(nests: NestProgram, plan: Plan) -> list[OffChip]:
    """The program's inputs that are brought on chip whole, each brought tile by tile instead."""
    return [OffChip(tensor.name) for tensor in nests.inputs if tensor.name in plan.residency.layouts]


def others_off_chip(nests: NestProgram, plan: Plan) -> list[OffChip]:
    """Every other tensor that stays on chip, the largest first."""
    inputs = {tensor.name for tensor in nests.inputs}
    layouts = plan.residency.layouts
    names = sorted((name for name in layouts if name not in inputs), key=lambda name: -layouts[name].words)
    return [OffChip(name) for name in names]


def smaller_memories(machine: Machine, plan: Plan) -> list[Limit]:
    """Each memory that tiles need, as if it had the next powers of two below its size.

    The sizes are powers of two on every machine, so that a larger one tries what a smaller one tries.
    """
    used = {name for choice in plan.choices for name, words in choice.words.items() if words}
    changes: list[Limit] = []
    for halving in range(1, HALVINGS + 1):
        for memory in machine.memories.values():
            words = (1 << (memory.depth - 1).bit_length()) >> halving
            if memory.name in used and words >= memory.banks:
                changes.append(Limit(memory.name, words))
    return changes


def finer_cuts(planner: Planner, plan: Plan) -> list[Cut]:
    """All nests without products in more tiles, so that the array works for others beside them; none if none can be.

    One alone in more tiles may gain nothing, as the next one, still in few, lets the array wait.
    """
    finer = [cut for _, cut in finer_cuts_apart(planner, plan)]
    return [Cut({name: tiles for cut in finer for name, tiles in cut.tiles.items()})] if finer else []


def finer_cuts_apart(planner: Planner, plan: Plan) -> list[tuple[int, Cut]]:
    """(position, change) for nests without products in more tiles, those that are alike together.

    What others wait for is one tile. So those come first whose tile takes long for what the nests around take, in which
    the change is to be measured.
    """
    found: list[tuple[float, int, Cut]] = []
    for positions in planner.alike(plan.residency):
        first = positions[0]
        if plan.shapes[first].cover.dot is not None or first in plan.within:
            continue
        choices = {position: planner.finer(position, plan.residency, FINER) for position in positions}
        tiles = {
            plan.shapes[position].cover.nest.name: choice.as_wanted
            for position, choice in choices.items()
            if choice.as_wanted != plan.choices[position].as_wanted
        }
        waits = sum(plan.choices[position].cycles / _tiles(plan, position) for position in positions)
        around = sum(plan.choices[position].cycles for position in surroundings(plan, range(first, first + 1)))
        if tiles:
            found.append((waits / around, first, Cut(tiles)))
    return [(position, cut) for _, position, cut in sorted(found, key=lambda each: (-each[0], each[1]))]


def cuts_for_one_array(planner: Planner, plan: Plan) -> list[tuple[int, Cut]]:
    """(position, change) for nests with the tiles that are best for one array alone, those that are alike together.

    Where the bus is what takes longest, more tiles for more arrays only cost.
    """
    if not planner.selection.machine.twins:
        return []
    alone, found = planner.on_one_array(), []
    for positions in planner.alike(plan.residency):
        tiles = {
            plan.shapes[position].cover.nest.name: alone.best(position, plan.residency).as_wanted
            for position in positions
            if plan.shapes[position].cover.dot is not None and position not in plan.within
        }
        others = {name: cut for name, cut in tiles.items() if cut != plan.choices[positions[0]].as_wanted}
        if others:
            found.append((positions[0], Cut(others)))
    return found


def surroundings(plan: Plan, positions: range) -> range:
    """Some nests, with the one before and the one after them."""
    return range(max(0, positions.start - 1), min(len(plan.choices), positions.stop + 1))


def _tiles(plan: Plan, position: int) -> int:
    """Into how many tiles a nest is cut."""
    sizes = {loop: np.array([size]) for loop, size in plan.choices[position].sizes.items()}
    return int(tile_counts(plan.shapes[position], sizes).all[0])


def other_cuts(planner: Planner, plan: Plan, kinds: int, cycles: Sequence[int]) -> Iterator[tuple[int, Cut]]:
    """(position, change) for the best tiles of each kind, those of nests with the most `cycles` first.

    Nests that are alike are changed together: the position is that of their first.
    """
    alike = planner.alike(plan.residency)
    for positions in sorted(alike, key=lambda found: (-sum(cycles[position] for position in found), found[0])):
        first = positions[0]
        names = tuple(plan.shapes[position].cover.nest.name for position in positions)
        for choice in planner.ranked(first, plan.residency, kinds + 1):
            if choice.as_wanted != plan.choices[first].as_wanted:
                yield first, Cut(dict.fromkeys(names, choice.as_wanted))
