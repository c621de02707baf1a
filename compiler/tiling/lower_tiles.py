"""Nests to tiles: cover every nest with instructions, decide where its tensors live and how it is cut, emit operations.

The order of operations may be executed one after the other, and is such that engines with queues overlap: what a tile
needs is asked for before the tile before it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.nest.products import choosing_loops, summed_loop
from tilewright.compiler.nest.space import NO_LOOP, describe
from tilewright.compiler.select.column_sums import sum_columns
from tilewright.compiler.select.cover import Cover, Selector, Table, TensorRead, TensorTiles, WeightTiles
from tilewright.compiler.select.plain_sums import sum_without_weights
from tilewright.compiler.select.separate import separate_windows
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.builder import Fill, TileBuilder
from tilewright.compiler.tiling.job import InDram, NestJob, Whole
from tilewright.compiler.tiling.layout import DramLayout, WindowLayout, outside_runs
from tilewright.compiler.tiling.nest_stages import NestLowering
from tilewright.compiler.tiling.residency import Residency, everything_on_chip, evict_largest, lives, wanted_border
from tilewright.compiler.tiling.stage import Stage, one_by_one, pipelined
from tilewright.compiler.tiling.tiling import NestShape, Room, TileChoice, TilingOptions, choose_tile, longest_buffer
from tilewright.compiler.tiling.weight_tiles import WeightTiles as CutWeights
from tilewright.compiler.tiling.weight_tiles import computed_tiles, cut_weights, pack_tensor
from tilewright.compiler.vectors import vector_blocks
from tilewright.isa.engines.templates import systolic_activations, systolic_weights
from tilewright.isa.language.expressions import const
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Element
from tilewright.isa.program.program import Layer, Tensor
from tilewright.isa.program.windows import Windows
from tilewright.isa.timing import BURST_BEATS

WORKSPACE, INPUTS, OUTPUTS = "workspace", "inputs", "outputs"


@dataclass(frozen=True)
class Selection:
    """The covers of a program's nests, before tiling; prints as text."""

    machine: Machine
    program: NestProgram
    covers: tuple[Cover, ...]

    def __str__(self) -> str:
        return "\n".join(line for cover in self.covers for line in _cover_lines(cover)) + "\n"


def select(nests: NestProgram, machine: Machine) -> Selection:
    """Cover every nest; raises CompileError for the first that no instructions cover."""
    nests = sum_without_weights(nests, Selector(machine, nests).cover)
    nests = sum_columns(nests, machine)
    nests = separate_windows(nests, Selector(machine, nests).cover)
    selector = Selector(machine, nests)
    return Selection(machine, nests, tuple(selector.cover(nest) for nest in nests.nests))


def select_and_tile(nests: NestProgram, machine: Machine, options: TilingOptions | None = None) -> TileProgram:
    """The whole step from nests to tiles.

    Raises CompileError naming the nodes when no instruction computes them or no tile of theirs fits.
    """
    return tile(select(nests, machine), options)


def tile(selection: Selection, options: TilingOptions | None = None) -> TileProgram:
    """Cut covered nests to tiles that fit the machine."""
    return _Lowering(selection, options or TilingOptions()).program()


class _Lowering:
    """State of one program's lowering: where tensors are, and what has been built."""

    def __init__(self, selection: Selection, options: TilingOptions) -> None:
        self._machine = selection.machine
        self._nests = selection.program
        self._covers = selection.covers
        self._options = options
        self._selector = Selector(self._machine, self._nests)
        self._group = vector_blocks(self._machine)
        self._builder = TileBuilder(self._machine, self._selector.transfers)
        self._weights = [self._cut_weights(cover) for cover in self._covers]
        self._live = lives(self._nests)
        self._home = self._home_on_chip()
        self._fills: dict[tuple[str, int], Fill] = {}  # by memory and value
        self._whole: dict[str, Whole] = {}
        self._dram: dict[str, InDram] = {}
        self._border_value: dict[str, int] = {}  # of tensors on chip: what their padding holds now
        self._inputs, self._input_bytes = self._place(self._nests.inputs)
        self._outputs, self._output_bytes = self._place(self._nests.outputs)

    def program(self) -> TileProgram:
        residency, choices = self._decide()
        stages = [list(self._nest_stages(i, residency, choices[i])) for i in range(len(self._covers))]
        operations = [
            operation
            for staged, choice in zip(stages, choices, strict=True)
            for operation in (pipelined(staged) if choice.is_double else one_by_one(staged))
        ]
        layers = tuple(Layer(nest.name, 0, nest.nodes, nest.macs) for nest in self._nests.nests)
        return TileProgram(
            self._nests.name, self._machine, self._builder.buffers, tuple(operations), bytes(self._builder.weights),
            self._inputs, self._outputs, self._input_bytes, self._output_bytes, layers,
        )  # fmt: skip

    def _home_on_chip(self) -> str:
        """The memory of tensors that stay on chip: where those live that nests read. Others only leave for the host."""
        read = {access.tensor for nest in self._nests.nests for access in nest.reads.values()}
        names = [name for name in self._nests.buffers if name in read] or list(self._nests.buffers)
        return self._selector.home(names[0]) if names else ""

    # -- what stays on chip, and how each nest is cut ------------------------------------------------------------------

    def _decide(self) -> tuple[Residency, list[TileChoice]]:
        """Keep everything on chip, then give up the largest tensors until every nest finds a tile that fits."""
        residency = Residency({}, (0,) * len(self._covers))
        if self._options.residency != "none":
            residency = self._what_may_stay(everything_on_chip(self._nests, self._machine, self._group))
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
        return residency, choices

    def _what_may_stay(self, residency: Residency) -> Residency:
        """Without tensors that no stretch of their memory can hold in one piece, and those of other memories.

        A matrix that the array reads is loaded from DRAM as weight tiles.
        """
        matrices = {cover.nest.reads[read].tensor for cover in self._covers for read in cover.matrices}
        for tensor, layout in list(residency.layouts.items()):
            memory = self._machine.memories[self._selector.home(tensor)]
            is_elsewhere = memory.name != self._home or tensor in matrices
            if is_elsewhere or layout.words > longest_buffer(memory, layout.group):
                residency = residency.without(tensor, self._live)
        return residency

    def _choose(self, position: int, residency: Residency) -> TileChoice:
        nest = self._nests.nests[position]
        home = self._home
        shape = self._shape(position, residency)
        room = self._room(shape, residency.words[position])
        if residency.words[position] and (shape.off_chip or not shape.result_on_chip):
            if room[home].free < self._machine.memories[home].depth // 2:
                raise CompileError(describe(nest), f"tensors on chip leave less than half of {home} to tiles")
        return choose_tile(shape, self._machine, room, self._options)

    def _room(self, shape: NestShape, taken: int) -> dict[str, Room]:
        """What each memory has for tiles beside `taken` words of tensors on chip."""
        dot, home = shape.cover.dot, self._home
        alignments = {_read_memory(shape.cover, home): self._group, shape.cover.result_memory: self._group}
        if dot is not None:
            into = dot.format.destination
            alignments[into.memory] = max(into.block, alignments.get(into.memory, 1))
        return {
            memory.name: Room(
                memory.depth - taken * (memory.name == home), longest_buffer(memory, alignment), alignment
            )
            for memory in self._machine.memories.values()
            for alignment in [alignments.get(memory.name, 1)]
        }

    def _shape(self, position: int, residency: Residency) -> NestShape:
        cover, nest = self._covers[position], self._nests.nests[position]
        dot, weights = cover.dot, self._weights[position]
        reads = [b.read for step in cover.steps for b in step.inputs.values() if isinstance(b, TensorRead)]
        result = nest.result.tensor
        is_on_chip = result in residency.layouts
        lanes = self._machine.lanes
        return NestShape(
            cover=cover,
            lanes=lanes,
            unit=dot.format.destination.block if dot is not None else 1,
            summed=weights.summed if weights is not None else NO_LOOP,
            summed_step=self._group * lanes,
            taps=weights.taps if weights is not None else (),
            group=self._group,
            weights=weights,
            choosing=frozenset().union(*(choosing_loops(nest.reads[read], cover.space) for read in cover.matrices)),
            off_chip=frozenset(r for r in reads if nest.reads[r].tensor not in residency.layouts),
            stores_result=not is_on_chip or any(t.name == result for t in self._nests.outputs),
            result_on_chip=is_on_chip,
        )

    def _cut_weights(self, cover: Cover) -> CutWeights | None:
        dot = cover.dot
        if dot is None:
            return None
        vector = dot.inputs[systolic_activations(dot.format).name]
        tiles = dot.inputs[systolic_weights(dot.format).name]
        assert isinstance(vector, TensorRead) and isinstance(tiles, WeightTiles | TensorTiles)
        summed = summed_loop(cover.nest.reads[vector.read])
        assert summed is not None
        rows = self._group * self._machine.lanes
        cols = dot.format.destination.block * self._machine.lanes
        trips, lane = cover.space.trips, cover.space.lane
        if isinstance(tiles, TensorTiles):
            return computed_tiles(trips, lane, summed, rows, cols)
        weights = cover.nest.reads[tiles.read]
        taps = tuple(loop for loop in cover.space.reduce if loop != summed)
        return cut_weights(self._nests.constants[weights.tensor], weights, trips, lane, summed, taps, rows, cols)

    # -- emission ------------------------------------------------------------------------------------------------------

    def _nest_stages(self, position: int, residency: Residency, choice: TileChoice) -> Iterator[Stage]:
        nest, cover = self._nests.nests[position], self._covers[position]
        self._builder.layer = position
        shape = self._shape(position, residency)
        first, following = Stage(), Stage()
        self._builder.sink = first.early
        homes: dict[str, Whole | InDram] = {}
        for read in cover.matrices:
            homes[nest.reads[read].tensor] = self._in_dram(nest.reads[read].tensor)
        for read in {b.read: None for step in cover.steps for b in step.inputs.values() if isinstance(b, TensorRead)}:
            access = nest.reads[read]
            head = _rows_of_first_tile(access, choice)
            homes[access.tensor] = self._home_for_reading(access.tensor, residency, head, following)
        self._prepare_borders(nest, position, homes)
        result, stored = self._homes_for_writing(nest, position, residency, shape)
        home = _read_memory(cover, self._home)
        fills = {
            value: self._fill(nest, value, home)
            for value in sorted({a.outside for a in nest.reads.values() if a.outside is not None} or {0})
        }
        job = NestJob(shape, choice, homes, result, stored, fills, cover.result_memory)
        stages = NestLowering(job, self._nests, self._builder, self._weights[position]).stages()
        tiles = next(stages)
        tiles.early[:] = [*first.early, *tiles.early, *following.early]
        yield tiles
        yield from stages

    def _home_for_reading(self, tensor: str, residency: Residency, head: int, following: Stage) -> Whole | InDram:
        """Where a tensor is; an input that stays on chip is brought there before its first reader.

        The first `head` rows come at once; operations for the others go to `following`, so that the first tile need
        not wait for them.
        """
        if tensor not in residency.layouts:
            return self._in_dram(tensor)
        if tensor not in self._whole:
            whole = self._new_whole(tensor, residency)
            shape = self._nests.buffers[tensor].shape
            source = self._in_dram(tensor)
            batch, blocks, columns = range(shape[0]), range(source.layout.blocks), range(shape[3])
            sink = self._builder.sink
            for start in range(0, shape[2], head):
                self._builder.sink = following.early if start else sink
                rows = range(start, min(start + head, shape[2]))
                self._builder.load_box(
                    source.buffer, source.layout, whole.buffer, whole.layout, batch, blocks, rows, columns
                )
            self._builder.sink = sink
            self._set_border(tensor, self._live[tensor].start)
        return self._whole[tensor]

    def _homes_for_writing(
        self, nest: Nest, position: int, residency: Residency, shape: NestShape
    ) -> tuple[Whole | None, InDram | None]:
        tensor = nest.result.tensor
        if tensor in residency.layouts and tensor not in self._whole:
            self._new_whole(tensor, residency)
            self._set_border(tensor, position)
        return self._whole.get(tensor), self._in_dram(tensor) if shape.stores_result else None

    def _new_whole(self, tensor: str, residency: Residency) -> Whole:
        layout = residency.layouts[tensor]
        home = self._selector.home(tensor)
        self._whole[tensor] = Whole(self._builder.buffer(tensor, home, layout.words, layout.group), layout)
        return self._whole[tensor]

    def _set_border(self, tensor: str, position: int) -> None:
        """Fill the padding of a tensor on chip with what its next reader that looks there wants to see."""
        for nest in self._nests.nests[position:]:
            for access in nest.reads.values():
                if access.tensor == tensor and access.outside is not None and self._reaches_out(nest, tensor):
                    self._fill_border(nest, tensor, access.outside)
                    return
        self._fill_border(self._nests.nests[position], tensor, 0)

    def _reaches_out(self, nest: Nest, tensor: str) -> bool:
        shape = self._nests.buffers[tensor].shape
        borders = [wanted_border(a, nest, shape) for a in nest.reads.values() if a.tensor == tensor]
        return any(b.top or b.bottom or b.left or b.right for b in borders)

    def _prepare_borders(self, nest: Nest, position: int, homes: Mapping[str, Whole | InDram]) -> None:
        """Fill paddings anew that hold what another reader wanted."""
        for access in nest.reads.values():
            if not isinstance(homes.get(access.tensor), Whole) or access.outside is None:
                continue
            if self._reaches_out(nest, access.tensor) and self._border_value[access.tensor] != access.outside:
                self._fill_border(nest, access.tensor, access.outside)

    def _fill_border(self, nest: Nest, tensor: str, value: int) -> None:
        whole, shape = self._whole[tensor], self._nests.buffers[tensor].shape
        rows, columns = range(shape[2]), range(shape[3])
        runs = outside_runs(whole.layout, rows, columns)
        if runs:
            self._builder.fill_runs(self._fill(nest, value, self._home), whole.buffer, whole.layout, runs)
        if whole.layout.groups * whole.layout.group > whole.layout.blocks and tensor not in self._border_value:
            fill = self._fill(nest, value, self._home)
            self._builder.fill_missing_blocks(fill, whole.buffer, whole.layout, rows, columns)
        self._border_value[tensor] = value

    def _fill(self, nest: Nest, value: int, home: str) -> Fill:
        """How words get a value: an instruction that computes it from nothing, or loads of a constant word."""
        key = (home, value)
        if key not in self._fills:
            step = self._selector.cover_value(nest, const(value), home)
            constant = ""
            if step is None:
                memory = self._machine.memories[home]
                word = value.to_bytes(memory.element.bytes, "little", signed=value < 0) * memory.width
                constant = self._builder.constant(f"fill{value}", word)
            self._fills[key] = Fill(step, constant)
        return self._fills[key]

    # -- DRAM ----------------------------------------------------------------------------------------------------------

    def _dram_layout(self, shape: Sequence[int], element: Element, windows: Windows | None = None) -> DramLayout:
        lanes = self._machine.lanes
        if windows is not None:
            return WindowLayout(tuple(shape), lanes, lanes * element.bytes, windows)
        return DramLayout(tuple(shape), lanes, lanes * element.bytes)

    def _in_dram(self, tensor: str) -> InDram:
        """A tensor's place in DRAM: where the host has it, among the constants, or in the workspace."""
        if tensor not in self._dram:
            is_constant = tensor in self._nests.constants
            values = self._nests.constants[tensor] if is_constant else None
            shape = values.shape if values is not None else self._nests.buffers[tensor].shape
            memory = self._selector.transfers.home(
                self._nests.constant_types[tensor] if is_constant else self._nests.buffers[tensor].type
            )
            windows = next((t.windows for t in self._inputs if t.name == tensor), None)
            layout = self._dram_layout(shape, self._machine.memories[memory].element, windows)
            held = (
                self._builder.constant(f"{tensor}.data", pack_tensor(values, layout))
                if values is not None
                else self._dram_buffer(tensor, layout)
            )
            self._dram[tensor] = InDram(held, layout, memory)
        return self._dram[tensor]

    def _dram_buffer(self, tensor: str, layout: DramLayout) -> str:
        for region, hosted in ((INPUTS, self._inputs), (OUTPUTS, self._outputs)):
            for host in hosted:
                if host.name == tensor:
                    return self._builder.buffer(f"{tensor}.{region}", region, layout.bytes, offset=host.offset)
        return self._builder.buffer(f"{tensor}.{WORKSPACE}", WORKSPACE, layout.bytes, self._burst_bytes)

    @property
    def _burst_bytes(self) -> int:
        return BURST_BEATS * self._machine.dram.bus_bytes

    def _place(self, tensors: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], int]:
        """Offsets of the host's tensors in their region, each on a burst; and the region's size."""
        placed, end = [], 0
        for tensor in tensors:
            offset = -(-end // self._burst_bytes) * self._burst_bytes
            memory = self._machine.memories[self._selector.home(tensor.name)]
            end = offset + self._dram_layout(tensor.stored, memory.element, tensor.windows).bytes
            placed.append(replace(tensor, offset=offset, lanes=self._machine.lanes))
        return tuple(placed), end


def _read_memory(cover: Cover, otherwise: str) -> str:
    """The memory that a nest reads tensors from."""
    operands = ((operand, step) for step in cover.steps for operand in step.format.sources)
    return next((o.memory for o, step in operands if isinstance(step.inputs[o.name], TensorRead)), otherwise)


def _rows_of_first_tile(access: Access, choice: TileChoice) -> int:
    """How many rows of a tensor, from its first, a nest's first tile reads; at least 1."""
    index = access.index[2]
    return max(1, index.constant + 1 + sum(max(0, by * (choice.sizes[loop] - 1)) for loop, by in index.terms))


def _cover_lines(cover: Cover) -> Iterator[str]:
    nest = cover.nest
    loops = " ".join(f"{loop.name}={loop.trip}" for loop in nest.loops)
    yield f"{describe(nest)}: {loops}"
    for index, step in enumerate(cover.steps):
        is_last = index == len(cover.steps) - 1
        target = nest.result.tensor if is_last else f"t{index}"
        bound = [f"{operand} = {_bound_text(source)}" for operand, source in step.inputs.items()]
        bound += [f"{name} = {value}" for name, value in step.immediates.items()]
        yield f"  {target} in {step.format.destination.memory}: {step.format.mnemonic}, {step.words} words"
        yield f"    {step.format.statement.text}"
        if bound:
            yield f"    where {', '.join(bound)}"


def _bound_text(source: object) -> str:
    match source:
        case TensorRead(read) | WeightTiles(read) | TensorTiles(read) | Table(read):
            return read
        case _ if hasattr(source, "step"):
            return f"t{source.step}"
        case _ if hasattr(source, "fields"):
            return "{" + ", ".join(f"{name}: {value}" for name, value in source.fields.items()) + "}"
    return "any"
