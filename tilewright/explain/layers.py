"""What was decided for each layer: its instructions and tiles, what stays on chip, what is loaded again, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.arithmetic import vector_blocks
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.stripes.cut import name_uncut
from tilewright.compiler.tiling.choice import TileChoice
from tilewright.compiler.tiling.plan import Plan
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.residency import everything_on_chip
from tilewright.compiler.tiling.shape import NestShape, extents
from tilewright.isa.check.footprint import expand, footprint, merge_ranges
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.demands import moved_bytes
from tilewright.values.compiled import Compiled

PIXELS_OUTER = "pixels outside, channels inside"
CHANNELS_OUTER = "channels outside, pixels inside"

STAYS = "stays in "
"""How a text begins that says where on chip a tensor is."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a layer is cut. `sizes`: by loop, (of one tile, of the whole layer); loops that are not cut are left out."""

    count: int
    sizes: Mapping[str, tuple[int, int]]
    order: str  # empty where only pixels or only channels are cut
    overlaps: bool  # the next tile is loaded while one is computed
    within: str = ""  # the layer in whose tiles this one is computed
    pieces: int = 1  # nests that the layer is in, such as its stripes; `count` is of all, and `sizes` then empty

    def is_like(self, other: Tiles) -> bool:
        """Whether these are the same tiles in the same order."""
        return (self.sizes, self.order) == (other.sizes, other.order)

    @property
    def text(self) -> str:
        if self.within:
            return f"in the tiles of {self.within}"
        if self.pieces > 1:
            return f"{self.pieces} pieces, {self.count} tiles"
        if self.count == 1:
            return "1 tile"
        sizes = ", ".join(f"{loop} {size} of {whole}" for loop, (size, whole) in self.sizes.items())
        return f"{self.count} tiles: {sizes}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a layer loads of a buffer in DRAM; `times`: how often each byte comes, on average; `why`, if over 1."""

    buffer: str
    bytes: int
    times: float
    why: str


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """Of a layer, or of one of the nests that it is in; `tensors`: where each is and why not on chip."""

    name: str
    instructions: tuple[str, ...]
    tiles: Tiles
    tensors: Mapping[str, str]
    loaded: tuple[Loaded, ...]


def planner_of(compiled: Compiled) -> Planner:
    """The planner, with the options with which the program fits: it decides the same again."""
    return Planner(compiled.selection, compiled.options.tiling)


def layers_of(compiled: Compiled) -> dict[str, list[int]]:
    """By layer, in order, the positions of its nests: one, or as many as the compiler cut it into."""
    found: dict[str, list[int]] = {}
    for position, cover in enumerate(compiled.selection.covers):
        found.setdefault(cover.nest.layer or cover.nest.name, []).append(position)
    return found


def layer_facts(compiled: Compiled, plan: Plan) -> list[LayerFacts]:
    """The facts of every layer, in order."""
    return [facts_of(compiled, plan, layer, positions) for layer, positions in layers_of(compiled).items()]


def facts_of(compiled: Compiled, plan: Plan, name: str, positions: Sequence[int]) -> LayerFacts:
    """The facts of some nests together, under a name."""
    covers, buffers = [compiled.selection.covers[at] for at in positions], compiled.selection.program.buffers
    tiles = _together([_tiles_of_nest(compiled, plan, at) for at in positions])
    accesses = [access for cover in covers for access in (*cover.nest.reads.values(), cover.nest.result)]
    names = dict.fromkeys(access.tensor for access in accesses)
    tensors = {tensor: place_of(compiled, plan, tensor) for tensor in names if tensor in buffers}
    if len(positions) > 1:
        tensors = _of_whole(tensors, plan.memory)
    instructions = [step.format.mnemonic for step in covers[0].steps]
    others = dict.fromkeys(step.format.mnemonic for cover in covers[1:] for step in cover.steps)
    instructions += [mnemonic for mnemonic in others if mnemonic not in instructions]
    return LayerFacts(name, tuple(instructions), tiles, tensors, _loaded(compiled, frozenset(positions), tiles))


def _of_whole(places: Mapping[str, str], memory: str) -> dict[str, str]:
    """Where tensors are of which there are pieces, from where these are."""
    found: dict[str, list[str]] = {}
    for piece, place in places.items():
        found.setdefault(name_uncut(piece), []).append(place)
    return {tensor: _of_pieces(of_pieces, memory) for tensor, of_pieces in found.items()}


def _of_pieces(places: Sequence[str], memory: str) -> str:
    if len(places) > 1 and all(place.startswith(STAYS) for place in places):
        return f"{STAYS}{memory}, in {len(places)} pieces, never whole"
    return "; ".join(dict.fromkeys(places))


def _tiles_of_nest(compiled: Compiled, plan: Plan, position: int) -> Tiles:
    tiles = tiles_of(plan.shapes[position], plan.choices[position])
    if position in plan.within:
        return replace(tiles, within=compiled.selection.covers[plan.within[position]].nest.name)
    return tiles


def _together(pieces: Sequence[Tiles]) -> Tiles:
    """The tiles of a layer from those of its pieces."""
    if len(pieces) == 1:
        return pieces[0]
    count, overlap = sum(piece.count for piece in pieces), all(piece.overlaps for piece in pieces)
    return Tiles(count, {}, "", overlap, pieces=len(pieces))


def tiles_of(shape: NestShape, choice: TileChoice) -> Tiles:
    """The tiles of a choice, in words of the layer's own loops."""
    extent = extents(shape)
    cut = {loop: (size, extent[loop]) for loop, size in choice.sizes.items() if loop != NO_LOOP and size < extent[loop]}
    count = int(np.prod([-(-whole // size) for size, whole in cut.values()], dtype=object))
    space = shape.cover.space
    is_ordered = space.lane in cut and any(loop in cut for loop in space.points)
    order = "" if not is_ordered else PIXELS_OUTER if choice.points_outer else CHANNELS_OUTER
    return Tiles(count, cut, order, choice.is_double)


# -- what stays on chip ------------------------------------------------------------------------------------------------


def place_of(compiled: Compiled, plan: Plan, tensor: str) -> str:
    """Where a tensor is between its layers and, if that is not on chip, why."""
    tiling, nests = compiled.options.tiling, compiled.selection.program
    machine = compiled.program.machine
    if tensor in plan.residency.layouts:
        return f"{STAYS}{plan.memory}, {plan.residency.layouts[tensor].words:,} words"
    if tensor in {host.name for host in nests.outputs} and not _is_read(compiled, tensor):
        return "goes to DRAM: it is an output"
    for each in (each for shape in plan.shapes for each in shape.within):
        if each.shape.cover.nest.result.tensor == tensor:
            return f"{STAYS}{each.shape.cover.result_memory}, tile by tile: its reader computes it"
    if tensor in tiling.off_chip:
        return "through DRAM: the search measured fewer cycles so"
    if tiling.residency == "none":
        return "through DRAM: the program fits with nothing on chip only"
    whole = everything_on_chip(nests, machine, vector_blocks(machine)).layouts
    words, room = whole[tensor].words, tiling.limits.get(plan.memory, machine.memories[plan.memory].depth)
    if words > room:
        limited = " that the search plans with" if plan.memory in tiling.limits else ""
        return f"through DRAM: its {words:,} words are more than the {room:,} of {plan.memory}{limited}"
    return f"through DRAM: with its {words:,} words in {plan.memory}, too little is left for tiles or other tensors"


def _is_read(compiled: Compiled, tensor: str) -> bool:
    nests = compiled.selection.program.nests
    return any(access.tensor == tensor for nest in nests for access in nest.reads.values())


# -- what is loaded ----------------------------------------------------------------------------------------------------


def _loaded(compiled: Compiled, nests: Collection[int], tiles: Tiles) -> tuple[Loaded, ...]:
    """What some nests load from DRAM, by the tensor or the constants that it comes from, most bytes first."""
    program, machine = compiled.program, compiled.program.machine
    moved: dict[str, int] = {}
    touched: dict[str, list[np.ndarray]] = {}
    for index, operation in enumerate(compiled.ordered.tiles.operations):
        instruction = program.instructions[index]
        source = instruction.format.sources[0] if instruction.format.sources else None
        if operation.layer not in nests or source is None or source.memory != DRAM:
            continue
        name = _origin(operation.bases[source.name].buffer)
        if len(nests) > 1:
            name = name_uncut(name)
        access = footprint(instruction, machine)[0]
        moved[name] = moved.get(name, 0) + moved_bytes(instruction, machine)
        touched.setdefault(name, []).append(access.ranges)
    found = []
    for name, size in moved.items():
        times = size / expand(merge_ranges(np.concatenate(touched[name]))).size
        found.append(Loaded(name, size, round(times, 2), _why_again(tiles, times)))
    return tuple(sorted(found, key=lambda one: -one.bytes))


def _origin(buffer: str) -> str:
    """The buffer's name without the number that tells constants of several tiles apart."""
    stem, _, number = buffer.rpartition(".")
    return stem if number.isdigit() else buffer


def _why_again(tiles: Tiles, times: float) -> str:
    """Why bytes come more than once; windows that overlap bring a few again, the loop order brings all."""
    if times < 1.005:
        return ""
    if times < 1.995:
        return "the windows of neighbouring tiles overlap" if tiles.count > 1 else "neighbouring windows overlap"
    if tiles.pieces > 1:
        return "its pieces need it, one after the other"
    return {
        PIXELS_OUTER: "each tile of pixels needs it again, since pixels are the outer loop",
        CHANNELS_OUTER: "each tile of channels needs it again, since channels are the outer loop",
    }.get(tiles.order, "each pixel is read in several windows")
