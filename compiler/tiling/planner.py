"""Decides what stays on chip between nests and how each nest is cut, before any operation is made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import copy
from dataclasses import replace

from tilewright.compiler.arithmetic import vector_blocks
from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.nest.space import NO_LOOP, choosing_loops, describe, summed_loop
from tilewright.compiler.select.bindings import ComputedMatrix, ConstantMatrix, TensorRead
from tilewright.compiler.select.cover import Cover, Selection, nests_within
from tilewright.compiler.select.transfer import find_transfers, home_of
from tilewright.compiler.session import SameObject, Session
from tilewright.compiler.tiling.choice import CUTS, Candidates, Cuts, TileChoice, candidates
from tilewright.compiler.tiling.constants import pixel_blocks
from tilewright.compiler.tiling.cost_terms import ALONE, IN_A_NETWORK, Surroundings
from tilewright.compiler.tiling.likeness import likeness
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan, memory_read, read_in_blocks, sums_for_others
from tilewright.compiler.tiling.residency import Residency, everything_on_chip, evict_largest, lives, wanted_border
from tilewright.compiler.tiling.room import Room, limited, longest_piece
from tilewright.compiler.tiling.shape import NestShape, Within
from tilewright.compiler.tiling.weight_tiles import WeightTiles, computed_tiles, cut_weights
from tilewright.isa.program.program import Layer
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights

WITHIN_ANOTHER = TileChoice({}, points_outer=False, is_double=True, words={}, cycles=0)
"""The choice of a nest that is computed in the tiles of another one: these say its sizes."""

SHARE_OF_WEIGHTS = 4
"""A partial sum of what is computed within another nest loads at most one part of so many of the weights' memory."""


class Planner:
    """Makes the decisions for one program."""

    def __init__(
        self,
        selection: Selection,
        options: TilingOptions,
        around: Surroundings = IN_A_NETWORK,
        session: Session | None = None,
    ) -> None:
        """`session` has what was found of other programs, whose nests may be alike."""
        self.selection = selection
        self._around = replace(around, most_arrays=options.arrays)
        self._machine = selection.machine
        self._nests = selection.program
        self._covers = selection.covers
        self._options = options
        self._transfers = find_transfers(self._machine)
        self._group = vector_blocks(self._machine)
        self._weights = [self._cut_weights(cover) for cover in self._covers]
        self._pixel_blocks = [pixel_blocks(c, self._nests.constants, self._machine.lanes) for c in self._covers]
        self._within = nests_within(selection)
        self._with_others = frozenset(self._within.values())  # nests in whose tiles others are computed
        self._live = lives(self._nests, self._within)
        self._layers = _layers(self._nests, self._within)
        self._outputs = {tensor.name for tensor in self._nests.outputs}
        self._tensors = [self._tensors_of(position) for position in range(len(self._covers))]
        self._sums = sums_for_others(selection, self._within)
        self._everything = everything_on_chip(self._nests, self._machine, self._group, self._within, self._sums)
        self._memory = self._memory_on_chip()
        self._memories = limited(self._machine, options)
        self._shapes: dict[Hashable, NestShape] = {}  # by all that a shape follows from
        self._looks: dict[Hashable, CanonicalForm] = {}  # what it is like, by the same
        self._likenesses: dict[CanonicalForm, CanonicalForm] = {}  # one object of each
        self._chosen: dict[Hashable, TileChoice] = {}  # by all that a choice follows from
        self._session = session or Session()

    def under(self, options: TilingOptions) -> Planner:
        """The same planner with other options; what depends on the network alone is shared."""
        other = copy(self)
        other._options, other._memories = options, limited(self._machine, options)
        other._around = replace(self._around, most_arrays=options.arrays)
        return other

    def alone(self) -> Planner:
        """The same planner, which expects of each nest what it takes with nothing before, beside or after it."""
        other = copy(self)
        other._around, other._chosen = replace(ALONE, most_arrays=self._options.arrays), {}
        return other

    def on_one_array(self) -> Planner:
        """The same planner, for programs in which one array computes each nest alone."""
        return self.under(replace(self._options, arrays=1))

    def plan(self) -> Plan:
        residency = Residency({}, (0,) * len(self._covers))
        if self._options.residency != "none":
            residency = self._what_may_stay(self._everything)
        choices: list[TileChoice] = []
        while len(choices) < len(self._covers):
            position = len(choices)
            try:
                choices.append(self._choose(position, residency))
            except CompileError:
                smaller = evict_largest(residency, position, self._live)
                if smaller is None:
                    raise
                lost = (residency.layouts.keys() - smaller.layouts.keys()).pop()
                del choices[min(position, self._live[lost].start) :]
                residency = smaller
        positions = range(len(self._covers))
        shapes = tuple([self._shape(position, residency) for position in positions])
        looks = tuple([self._look(position, residency) for position in positions])
        sum_memory = next(map(self._home, sorted(self._sums)), self._memory)
        return Plan(
            self._memory, sum_memory, residency, shapes, tuple(choices), self._within, self._live, self._layers, looks,
            self._options.arrays,
        )  # fmt: skip

    def refusals(self) -> Iterator[CompileError]:
        """The error of each nest that no tile fits even where nothing stays on chip."""
        nothing = Residency({}, (0,) * len(self._covers))
        for position in range(len(self._covers)):
            try:
                self._choose(position, nothing)
            except CompileError as error:
                yield error

    def alike(self, residency: Residency) -> list[list[int]]:
        """The positions of nests that are alike, each with those that are like it."""
        alike: dict[CanonicalForm, list[int]] = {}
        for position in range(len(self._covers)):
            alike.setdefault(self._look(position, residency), []).append(position)
        return list(alike.values())

    def _look(self, position: int, residency: Residency) -> CanonicalForm:
        """The likeness of a nest, worked out once; of nests that are alike it is one object."""
        places = self._places(position, residency)
        if places not in self._looks:
            found = likeness(self._shape(position, residency), self._nests)
            self._looks[places] = self._likenesses.setdefault(found, found)
        return self._looks[places]

    def _size(self, tensor: str) -> tuple[int, ...]:
        constant = self._nests.constants.get(tensor)
        return tuple(self._nests.buffers[tensor].shape if constant is None else constant.shape)

    # -- what stays on chip --------------------------------------------------------------------------------------------

    def _memory_on_chip(self) -> str:
        """The memory of tensors that stay on chip: where those live that nests read. Others only leave for the host."""
        read = {access.tensor for nest in self._nests.nests for access in nest.reads.values()}
        names = [name for name in self._nests.buffers if name in read] or list(self._nests.buffers)
        return self._home(names[0]) if names else ""

    def _home(self, tensor: str) -> str:
        return home_of(self._transfers, self._nests, tensor)

    def _what_may_stay(self, residency: Residency) -> Residency:
        """The residency without tensors that are too long for any piece of their memory, or live in another one.

        A matrix that the array reads is loaded from DRAM as weight tiles.
        """
        matrices = {cover.nest.reads[read].tensor for cover in self._covers for read in cover.matrices}
        in_banks = read_in_blocks(self._covers)
        for tensor, layout in list(residency.layouts.items()):
            memory = self._memories[self._home(tensor)]
            is_at_home = memory.name == self._memory or tensor in self._sums
            is_elsewhere = not is_at_home or tensor in matrices or tensor in self._options.off_chip
            longest = longest_piece(memory, layout.group, tensor in in_banks)
            if is_elsewhere or layout.words > longest:
                residency = residency.without(tensor, self._live)
        return residency

    def _tensors_of(self, position: int) -> tuple[str, ...]:
        """The tensors of a nest, and of what is computed in its tiles."""
        nest = self._nests.nests[position]
        own = (*(access.tensor for access in nest.reads.values()), nest.result.tensor)
        return own + tuple(tensor for inner in self._nests_within(position) for tensor in self._tensors_of(inner))

    def _places(self, position: int, residency: Residency) -> Hashable:
        """What a nest's shape follows from: the nest, which of its tensors stay on chip, and, where others are computed
        in its tiles, the limits of memories.
        """
        layouts = residency.layouts
        stays = tuple([tensor in layouts for tensor in self._tensors[position]])
        limits = self._options.limits.items() if position in self._with_others else ()
        return position, stays, *limits

    # -- how a nest is cut ---------------------------------------------------------------------------------------------

    def _choose(self, position: int, residency: Residency) -> TileChoice:
        if position in self._within:
            return WITHIN_ANOTHER
        wanted, fraction = self._options.tiles.get(self._nests.nests[position].name), self._options.budget_fraction
        limits, taken = tuple(self._options.limits.items()), residency.taken(position)
        known = self._look(position, residency), limits, taken, fraction, wanted and wanted.key, self._options.arrays
        if known not in self._chosen:
            self._chosen[known] = self.candidates(position, residency).best(wanted)
        return self._chosen[known]

    def best(self, position: int, residency: Residency) -> TileChoice:
        """The best tiles of a nest, whatever is wanted; of one within another, none."""
        return WITHIN_ANOTHER if position in self._within else self.candidates(position, residency).best(None)

    def ranked(self, position: int, residency: Residency, most: int) -> list[TileChoice]:
        """The tiles of a nest that the model finds best, each of another kind, at most so many."""
        return [] if position in self._within else self.candidates(position, residency).ranked(most)

    def finer(self, position: int, residency: Residency, times: int) -> TileChoice:
        """The best tiles of a nest among those that are at least so many times as many; of one within another, none."""
        return WITHIN_ANOTHER if position in self._within else self.candidates(position, residency).finer(times)

    def candidates(self, position: int, residency: Residency) -> Candidates:
        """All tiles of a nest that are considered, and what the model expects of each."""
        shape, room = self._shape_and_room(position, residency)
        key = SameObject(self._machine), self._around, self._look(position, residency)

        def known(cut_from: int, make: Callable[[], Cuts]) -> Cuts:
            return self._session.memo(CUTS, (*key, cut_from), make)

        return candidates(shape, self._machine, room, self._options.budget_fraction, self._around, known)

    def _shape_and_room(self, position: int, residency: Residency) -> tuple[NestShape, dict[str, Room]]:
        nest, memory = self._nests.nests[position], self._memory
        shape = self._shape(position, residency)
        room = self._room(shape, *residency.taken(position))
        comes_in_tiles = shape.off_chip or any(each.shape.off_chip for each in shape.within)
        if residency.words[position] and (comes_in_tiles or not shape.result_on_chip):
            if room[memory].free < self._memories[memory].depth // 2:
                raise CompileError(describe(nest), f"tensors on chip leave less than half of {memory} to tiles")
        return shape, room

    def _room(self, shape: NestShape, taken: int, sums: int) -> dict[str, Room]:
        """What each memory has for tiles beside so many words of tensors on chip, and of sums."""
        of_sums = {self._home(tensor) for tensor in self._sums}
        alignments: dict[str, int] = {}
        in_banks: set[str] = set()
        for each in (shape, *(within.shape for within in shape.within)):
            cover = each.cover
            aligned = [(memory_read(each, self._nests.constants, self._memory), self._group)]
            if cover.dot is not None:
                aligned.append((cover.dot.format.destination.memory, cover.dot.format.destination.block))
            if each is shape:
                aligned.append((cover.result_memory, self._group))
            for name, alignment in aligned:
                alignments[name] = max(alignment, alignments.get(name, 1))
            in_banks |= {s.format.operand(name).memory for s in cover.steps for name in s.format.statement.blocks}
        room = {}
        for memory in self._memories.values():
            alignment = alignments.get(memory.name, 1)
            free = memory.depth - taken * (memory.name == self._memory) - sums * (memory.name in of_sums)
            is_in_bank = memory.name in in_banks
            longest = longest_piece(memory, alignment, is_in_bank)
            room[memory.name] = Room(free, longest, alignment, is_in_bank)
        return room

    def _shape(self, position: int, residency: Residency) -> NestShape:
        places = self._places(position, residency)
        if places not in self._shapes:
            self._shapes[places] = self._new_shape(position, residency)
        return self._shapes[places]

    def _new_shape(self, position: int, residency: Residency) -> NestShape:
        cover, nest = self._covers[position], self._nests.nests[position]
        dot, weights = cover.dot, self._weights[position]
        reads = [b.read for step in cover.steps for b in step.inputs.values() if isinstance(b, TensorRead)]
        result = nest.result.tensor
        is_on_chip = result in residency.layouts
        lanes = self._machine.lanes
        within = tuple(self._shape_within(other, position, residency) for other in self._nests_within(position))
        units = [each.shape.unit for each in within]
        own = {nest.reads[each.read].tensor for each in within}
        return NestShape(
            cover=cover,
            lanes=lanes,
            unit=dot.format.destination.block if dot is not None else max(units, default=1),
            summed=weights.summed if weights is not None else NO_LOOP,
            summed_step=self._group * lanes,
            taps=weights.taps if weights is not None else (),
            group=self._group,
            weights=weights,
            choosing=frozenset().union(*(choosing_loops(nest.reads[read], cover.space) for read in cover.matrices)),
            off_chip=frozenset(r for r in reads if nest.reads[r].tensor not in (residency.layouts.keys() | own)),
            stores_result=not is_on_chip or result in self._outputs,
            result_on_chip=is_on_chip,
            pixel_blocks=self._pixel_blocks[position],
            borders={r: wanted_border(nest.reads[r], nest, self._size(nest.reads[r].tensor)) for r in reads},
            within=within,
        )

    def _nests_within(self, position: int) -> list[int]:
        """The nests that are computed in the tiles of another one."""
        return [inner for inner, outer in sorted(self._within.items()) if outer == position]

    def _shape_within(self, position: int, reader: int, residency: Residency) -> Within:
        shape, reads = self._shape(position, residency), self._nests.nests[reader].reads
        dot = shape.cover.steps[0].format
        (read,) = (name for name, access in reads.items() if access.tensor == shape.cover.nest.result.tensor)
        weights = self._memories[systolic_weights(dot).memory].depth // SHARE_OF_WEIGHTS
        return Within(position, read, replace(shape, stores_result=False), weights)

    def _cut_weights(self, cover: Cover) -> WeightTiles | None:
        """The weight tiles of a nest's product, if it has one."""
        dot = cover.dot
        if dot is None:
            return None
        vector = dot.inputs[systolic_activations(dot.format).name]
        matrix = dot.inputs[systolic_weights(dot.format).name]
        assert isinstance(vector, TensorRead) and isinstance(matrix, ConstantMatrix | ComputedMatrix)
        summed = summed_loop(cover.nest.reads[vector.read])
        assert summed is not None
        rows = self._group * self._machine.lanes
        cols = dot.format.destination.block * self._machine.lanes
        trips, lane = cover.space.trips, cover.space.lane
        if isinstance(matrix, ComputedMatrix):
            return computed_tiles(trips, lane, summed, rows, cols)
        weights = cover.nest.reads[matrix.read]
        taps = tuple(loop for loop in cover.space.reduce if loop != summed)
        values, is_whole = self._nests.constants[weights.tensor], bool(dot.corrections)
        return cut_weights(values, weights, trips, lane, summed, taps, rows, cols, is_whole)


def _layers(nests: NestProgram, within: Mapping[int, int]) -> tuple[Layer, ...]:
    """The nests as layers, their nodes as plain names; the products of one within another are part of that one's."""
    macs = [nest.macs for nest in nests.nests]
    for inner, outer in within.items():
        macs[outer], macs[inner] = macs[outer] + macs[inner], 0
    return tuple(
        [Layer(n.layer or n.name, 0, tuple(map(str, n.nodes)), own) for n, own in zip(nests.nests, macs, strict=True)]
    )
