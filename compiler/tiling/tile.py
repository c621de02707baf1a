"""Covered nests to tiles: the operations that bring, compute and store every tile of every nest.

The order of operations may be executed one after the other, and is such that engines with queues overlap: what a tile
needs is asked for before the tile before it is computed. Before any operation is made, the plan says how each nest is
cut; a plan is made with what the one before it has found. Tensors have places in DRAM: in the host's regions, among
the constants, or in the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.compiler.errors import RAISING, CompileError
from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, BufferPart, NestProgram
from tilewright.compiler.select.bindings import TensorRead
from tilewright.compiler.select.cover import Selection
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.select.transfer import home_of
from tilewright.compiler.session import MemoStage, SameObject, Session
from tilewright.compiler.tile.program import TileProgram
from tilewright.compiler.tiling.builder import Fill, TileBuilder
from tilewright.compiler.tiling.choice import TileChoice
from tilewright.compiler.tiling.constants import pack_tensor
from tilewright.compiler.tiling.job import NestJob, WholeTensor
from tilewright.compiler.tiling.layout import DramLayout, InDram
from tilewright.compiler.tiling.lowered import lowered_stages
from tilewright.compiler.tiling.on_chip import without_second_loads
from tilewright.compiler.tiling.options import TilingOptions
from tilewright.compiler.tiling.plan import Plan, memory_read, read_in_blocks
from tilewright.compiler.tiling.planner import Planner
from tilewright.compiler.tiling.residency import Fills, Residents
from tilewright.compiler.tiling.shape import NestShape, Within
from tilewright.compiler.tiling.stage import Stage, interleaved, one_by_one, pipelined
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import BYTE_BITS, Element
from tilewright.isa.program.program import Tensor
from tilewright.isa.timing import BURST_BEATS


def tile(selection: Selection, options: TilingOptions | None = None, session: Session | None = None) -> TileProgram:
    """Cut covered nests into tiles that fit the machine; raises CompileError naming the nodes when none do.

    What plans found before is in `session`.
    """
    session = session or Session()
    plan = plan_tiles(selection, options or TilingOptions(), session)
    return _Lowering(selection, plan, session).program(range(len(selection.covers)))


def tile_part(selection: Selection, plan: Plan, positions: range, session: Session | None = None) -> TileProgram:
    """Some of the nests alone, cut as a plan says. It cannot run: what other nests leave on chip is taken as there."""
    return _Lowering(selection, plan, session or Session()).program(positions)


class _Lowering:
    """State of one program's lowering: where tensors are, and what has been built."""

    def __init__(self, selection: Selection, plan: Plan, session: Session) -> None:
        self._session = session
        self._machine = selection.machine
        self._nests = selection.program
        self._covers = selection.covers
        self._plan = plan
        selector = Selector(self._machine, self._nests, session)
        self._builder = TileBuilder(self._machine, selector.transfers)
        self._fills = Fills(selector, self._builder)
        self._dram = DramTensors(self._machine, self._nests, self._builder)
        self._residents = Residents(
            self._nests, plan.residency, plan.memory, plan.sum_memory, read_in_blocks(self._covers), self._fills,
            self._builder,
        )  # fmt: skip

    def program(self, positions: range) -> TileProgram:
        for tensor in self._plan.residency.layouts:
            if self._plan.live[tensor].start < positions.start < self._plan.live[tensor].stop:
                self._residents.assume(tensor)
        alone = [position for position in positions if position not in self._plan.within]
        stages = {position: self._nest_stages(position) for position in alone}
        operations = [
            operation
            for position, ordered in stages.items()
            for staged in [interleaved(ordered, self._machine, self._builder.buffers, self._plan.arrays)]
            for operation in (pipelined(staged) if self._plan.choices[position].is_double else one_by_one(staged))
        ]
        left, buffers = without_second_loads(operations, self._builder.buffers, self._machine)
        return TileProgram(
            self._nests.name, self._machine, buffers, tuple(left), bytes(self._builder.weights),
            self._dram.inputs, self._dram.outputs, self._dram.input_bytes, self._dram.output_bytes, self._plan.layers,
            self._nests.remarks,
        )  # fmt: skip

    def _nest_stages(self, position: int) -> list[Stage]:
        """The stages of a nest; the first one also brings the tensors that stay on chip."""
        nest = self._nests.nests[position]
        self._builder.begin(position, nest.name)
        with RAISING.on(nest.nodes):
            stages = self._stages_of(position)
        return stages

    def _stages_of(self, position: int) -> list[Stage]:
        first, following = Stage(), Stage()
        self._builder.sink = first.early
        job = self._job(position, following)
        stages = lowered_stages(job, self._plan.looks[position], self._nests, self._builder, self._session)
        stages[0].early[:] = [*first.early, *stages[0].early, *following.early]
        return stages

    def _job(self, position: int, following: Stage) -> NestJob:
        """A nest with all its tensors placed; `following` takes loads that the first tile need not wait for."""
        shape, choice = self._plan.shapes[position], self._plan.choices[position]
        within = tuple((each, self._job_within(each, position, following)) for each in shape.within)
        homes, fills = self._homes_and_fills(position, shape, choice, following)
        tensor = self._nests.nests[position].result.tensor
        result = self._home_for_writing(tensor, position)
        stored = self._dram.place(tensor) if shape.stores_result else None
        return NestJob(shape, choice, homes, result, stored, fills, within)

    def _job_within(self, within: Within, reader: int, following: Stage) -> NestJob:
        """A nest that is computed in the tiles of its reader; its result stays where the array leaves it."""
        sizes = {loop: np.asarray(size) for loop, size in self._plan.choices[reader].sizes.items()}
        own = {loop: int(size) for loop, size in within.sizes(self._plan.shapes[reader], sizes).items()}
        choice = replace(self._plan.choices[reader], sizes=own)
        homes, fills = self._homes_and_fills(within.position, within.shape, choice, following)
        return NestJob(within.shape, choice, homes, None, None, fills)

    def _homes_and_fills(
        self, position: int, shape: NestShape, choice: TileChoice, following: Stage
    ) -> tuple[dict[str, WholeTensor | InDram], dict[int, Fill]]:
        """Where everything is that a nest reads, and how words around it get their values."""
        nest, cover = self._nests.nests[position], self._covers[position]
        homes: dict[str, WholeTensor | InDram] = {}
        for read in cover.matrices:
            homes[nest.reads[read].tensor] = self._dram.place(nest.reads[read].tensor)
        for read in {b.read: None for step in cover.steps for b in step.inputs.values() if isinstance(b, TensorRead)}:
            if read in shape.reads_within:
                continue
            access = nest.reads[read]
            head = _rows_of_first_tile(access, choice)
            homes[access.tensor] = self._home_for_reading(access.tensor, head, following)
        homes |= self._constants_where_read(position, homes)
        self._residents.prepare_borders(nest, homes)
        memory = memory_read(shape, self._nests.constants, self._plan.memory)
        fills = {
            value: self._fills.fill(nest, value, memory)
            for value in sorted({a.outside for a in nest.reads.values() if a.outside is not None} or {0})
        }
        return homes, fills

    def _constants_where_read(self, position: int, homes: Mapping[str, WholeTensor | InDram]) -> dict[str, InDram]:
        """The places of a nest's constants, with the memory that each is read from: any that holds their elements."""
        nest, places = self._nests.nests[position], {}
        for step in self._covers[position].steps:
            for operand in step.format.sources:
                bound = step.inputs[operand.name]
                tensor = nest.reads[bound.read].tensor if isinstance(bound, TensorRead) else ""
                home = homes.get(tensor)
                if tensor in self._nests.constants and isinstance(home, InDram) and not step.is_dot:
                    places[tensor] = replace(home, memory=operand.memory)
        return places

    def _home_for_reading(self, tensor: str, head: int, following: Stage) -> WholeTensor | InDram:
        """Where a tensor is; an input that stays on chip is brought there before its first reader.

        The first `head` rows come at once; operations for the others go to `following`, so that the first tile need
        not wait for them.
        """
        if not self._residents.may_hold(tensor):
            return self._dram.place(tensor)
        if tensor not in self._residents.tensors:
            held = self._residents.add(tensor)
            shape = self._nests.buffers[tensor].shape
            source = self._dram.place(tensor)
            batch, blocks, columns = range(shape[BATCH]), range(source.layout.blocks), range(shape[COLUMN])
            sink = self._builder.sink
            for start in range(0, shape[ROW], head):
                self._builder.sink = following.early if start else sink
                rows = range(start, min(start + head, shape[ROW]))
                self._builder.load_box(source, held.buffer, held.layout, batch, blocks, rows, columns)
            self._builder.sink = sink
            self._residents.set_border(tensor, self._plan.live[tensor].start)
        return self._residents.tensors[tensor]

    def _home_for_writing(self, tensor: str, position: int) -> WholeTensor | None:
        """The place of a nest's result on chip, if it stays there; what no nest writes is brought there at once."""
        if self._residents.may_hold(tensor) and tensor not in self._residents.tensors:
            held = self._residents.add(tensor)
            for part in self._dram.parts(tensor):
                self._builder.load_box(part, held.buffer, held.layout, *part.layout.box)
            self._residents.set_border(tensor, position)
        return self._residents.tensors.get(tensor)


def _rows_of_first_tile(access: Access, choice: TileChoice) -> int:
    """How many rows from the top of a tensor a nest's first tile reaches; at least 1."""
    index = access.index[ROW]
    return max(1, index.constant + 1 + sum(max(0, by * (choice.sizes[loop] - 1)) for loop, by in index.terms))


# -- plans of selections -----------------------------------------------------------------------------------------------


_PLANNERS = MemoStage[Planner](1)
"""That of the selection that was planned last."""


def planner_of(selection: Selection, options: TilingOptions, session: Session) -> Planner:
    """A planner for a selection, that knows what the last one found if it was for the same selection."""
    planner = session.memo(_PLANNERS, SameObject(selection), lambda: Planner(selection, options, session=session))
    return planner.under(options)


def without_room(selection: Selection, session: Session | None = None) -> tuple[CompileError, ...]:
    """The error of each nest that no tile fits, whatever stays on chip between the others."""
    return tuple(planner_of(selection, TilingOptions(residency="none"), session or Session()).refusals())


def plan_tiles(selection: Selection, options: TilingOptions, session: Session | None = None) -> Plan:
    """Begin with everything on chip, and take off the largest tensors until every nest has a tile that fits.

    What was found before is in `session`. Raises CompileError when a nest finds none with nothing on chip.
    """
    return planner_of(selection, options, session or Session()).plan()


# -- places in DRAM ----------------------------------------------------------------------------------------------------


WORKSPACE, INPUTS, OUTPUTS = "workspace", "inputs", "outputs"


class DramTensors:
    """Places in DRAM: the host's tensors have theirs from the start, others get one when they are first asked for."""

    def __init__(self, machine: Machine, nests: NestProgram, builder: TileBuilder) -> None:
        self._machine = machine
        self._nests = nests
        self._builder = builder
        self._places: dict[str, InDram] = {}
        self.inputs, self.input_bytes = self._in_region(nests.inputs)
        self.outputs, self.output_bytes = self._in_region(nests.outputs)
        self._hosted = {host.name: (OUTPUTS, host) for host in self.outputs}
        self._hosted |= {host.name: (INPUTS, host) for host in self.inputs}

    def place(self, tensor: str) -> InDram:
        """A tensor's place in DRAM."""
        if tensor not in self._places:
            self._places[tensor] = self._new_place(tensor)
        return self._places[tensor]

    def parts(self, tensor: str) -> tuple[InDram, ...]:
        """The places of the inputs that are parts of a buffer."""
        return tuple(map(self._part_place, self._nests.buffers[tensor].parts))

    def _part_place(self, part: BufferPart) -> InDram:
        place, (batch, channel, row, column) = self.place(part.tensor), part.first
        assert channel % self._machine.lanes == 0, f"{part.tensor} begins within a word, at channel {channel}"
        first = (batch, channel // self._machine.lanes, row, column)
        return replace(place, layout=replace(place.layout, first=first))

    def _new_place(self, tensor: str) -> InDram:
        values = self._nests.constants.get(tensor)
        shape = self._nests.buffers[tensor].shape if values is None else values.shape
        memory = home_of(self._builder.transfers, self._nests, tensor)
        layout = self._layout(shape, self._machine.memories[memory].element)
        if values is None:
            return InDram(self._buffer(tensor, layout), layout, memory, self.parts(tensor))
        return InDram(
            self._builder.constant(f"{tensor}.data", pack_tensor(values, self._nests.constant_types[tensor], layout)),
            layout,
            memory,
        )

    def _buffer(self, tensor: str, layout: DramLayout) -> str:
        region, host = self._hosted.get(tensor, (WORKSPACE, None))
        if host is None:
            return self._builder.buffer(f"{tensor}.{region}", region, layout.bytes, self._burst_bytes)
        return self._builder.buffer(f"{tensor}.{region}", region, layout.bytes, offset=host.offset)

    def _in_region(self, tensors: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], int]:
        """Offsets of the host's tensors in their region, each on a burst; and the region's size."""
        placed, end = [], 0
        for tensor in tensors:
            offset = -(-end // self._burst_bytes) * self._burst_bytes
            memory = self._machine.memories[home_of(self._builder.transfers, self._nests, tensor.name)]
            end = offset + self._layout(tensor.stored, memory.element).bytes
            placed.append(replace(tensor, offset=offset, lanes=self._machine.lanes))
        return tuple(placed), end

    def _layout(self, shape: Sequence[int], element: Element) -> DramLayout:
        lanes = self._machine.lanes
        return DramLayout(tuple(shape), lanes, lanes * element.bits // BYTE_BITS)

    @property
    def _burst_bytes(self) -> int:
        return BURST_BEATS * self._machine.dram.bus_bytes
