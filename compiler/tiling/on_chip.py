"""What is on chip already is not loaded again: tiles and packed constants of a nest, and tables of the whole program.

A nest remembers the last tile of everything that it loads. Tables outlive it: heads of an attention look up the same
exponentials, and layers the same reciprocals. Each nest brings the tables that it needs. Of those with the same
content, this keeps the first one and its loads, where there is room for it until the last reader is done. Example, in
a memory of two tables: of `e g e g`, two heads with exponentials `e` and guesses `g`, `e g` is left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Nest, NestProgram, index_range
from tilewright.compiler.nest.space import NO_LOOP
from tilewright.compiler.select.bindings import Parameters
from tilewright.compiler.select.cover import Step
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation
from tilewright.compiler.tiling.builder import WEIGHTS, TileBuilder
from tilewright.compiler.tiling.constants import pack_parameters, pack_tables, pixel_words
from tilewright.compiler.tiling.job import (
    IN_GROUP,
    Constants,
    Content,
    NestJob,
    OperandView,
    Ranges,
    WholeTensor,
    common,
    span,
)
from tilewright.compiler.tiling.layout import Layout, box_layout, outside_runs
from tilewright.isa.machine.encoding import Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory


class OnChip:
    """Buffers by slot, that is by what they are for; new content of a slot replaces the buffer before.

    `loads` takes the operations that bring what is not there yet.
    """

    def __init__(self, job: NestJob, constants: Constants, builder: TileBuilder) -> None:
        self.contents: dict[str, Content] = {}  # of the constants so far, by buffer
        self._job = job
        self._values = constants
        self._name = job.cover.nest.name
        self._builder = builder
        self._words: dict[str, tuple[Hashable, str]] = {}  # by slot
        self._tensors: dict[str, tuple[Hashable, str, Layout]] = {}  # by read
        self._constants: dict[tuple[str, Hashable], str] = {}  # in DRAM, by slot and key

    def constant(
        self, slot: str, key: Hashable, memory: str, name: str, words: int, content: Content,
        loads: list[TileOperation], alignment: int = 1,
    ) -> str:  # fmt: skip
        """The buffer with the constant words of a key; loads them if they are not there yet."""

        def load() -> str:
            constant = (slot, key)
            if constant not in self._constants:
                self._constants[constant] = self._constant(f"{name}.data", content)
            return self._builder.load_constant(
                memory, self._constants[constant], f"{self._name}.{name}", words, alignment
            )

        return self.words(slot, key, load, loads)

    def words(self, slot: str, key: Hashable, load: Callable[[], str], loads: list[TileOperation]) -> str:
        """The buffer that holds the words of a key; `load` makes and fills it if there is none."""
        if slot not in self._words or self._words[slot][0] != key:
            self._builder.sink = loads
            self._words[slot] = (key, load())
        return self._words[slot][1]

    def zeros(self, target: str, word: int, loops: Sequence[tuple[int, int]]) -> None:
        """Load zeros into words of a buffer, over loops of (trip, stride)."""
        if not prod(trip for trip, _ in loops):
            return
        key = ("zeros", self._builder.buffers[target].place)
        if key not in self._constants:
            zero = bytes(self._builder.machine.memories[key[1]].word_bytes)
            self._constants[key] = self._constant("zeros", lambda job, constants: zero)
        over_words = [(trip, 0, stride) for trip, stride in loops]
        self._builder.load_words(self._constants[key], 0, target, word, over_words)

    def _constant(self, name: str, content: Content) -> str:
        buffer = self._builder.constant(f"{self._name}.{name}", content(self._job, self._values))
        self.contents[buffer] = content
        return buffer

    def tensor_tile(self, read: str, tile: Ranges, blocks: range, loads: list[TileOperation]) -> tuple[str, Layout]:
        """The place of a tensor's tile on chip. If it is not there yet, the operations that load it go to `loads`."""
        access = self._job.cover.nest.reads[read]
        home = self._job.homes[access.tensor]
        if isinstance(home, WholeTensor):
            return home.buffer, home.layout
        batch, rows, columns = (span(access.index[d], tile) for d in (BATCH, ROW, COLUMN))
        inner_rows = common(rows, range(home.layout.shape[ROW]))
        inner_columns = common(columns, range(home.layout.shape[COLUMN]))
        is_inside = (inner_rows, inner_columns) == (rows, columns)
        key = (access.tensor, batch, blocks, rows, columns, None if is_inside else access.outside)
        for held, buffer, layout in self._tensors.values():  # another read may have brought it as well
            if held == key:
                return buffer, layout
        self._builder.sink = loads
        there = common(blocks, range(home.layout.blocks))
        group = self._job.shape.group
        layout = box_layout(group, batch, there, rows, columns)
        is_in_bank = read in self._job.cover.block_reads
        name = f"{self._name}.{read}"
        buffer = self._builder.buffer(name, home.memory, layout.words, group, is_in_bank=is_in_bank)
        outside = outside_runs(layout, inner_rows, inner_columns)
        if outside:
            assert access.outside is not None, f"{self._name}: {read} leaves its bounds"
            self._builder.fill_runs(self._job.fills[access.outside], buffer, layout, outside)
        if layout.groups * group > layout.blocks:
            self._builder.fill_missing_blocks(
                next(iter(self._job.fills.values())), buffer, layout, inner_rows, inner_columns
            )
        if inner_rows and inner_columns:
            self._builder.load_box(home, buffer, layout, batch, there, inner_rows, inner_columns)
        self._tensors[read] = (key, buffer, layout)
        return buffer, layout


# -- words of parameters and tables ------------------------------------------------------------------------------------


PARAMETER_SLOT, TABLE_SLOT = "parameters ", "table "
"""The keys under which the last words of each kind are remembered."""


class ConstantViews:
    """The words of the parameters and tables of one nest. `loads` takes the operations that bring them."""

    def __init__(self, job: NestJob, program: NestProgram, chip: OnChip, builder: TileBuilder) -> None:
        self._job = job
        self._chip = chip
        self._reads = job.cover.nest.reads
        self._space = job.cover.space
        self._constants = program.constants
        self._memories = builder.machine.memories

    def parameters(
        self, operand: Operand, step: Step, parameters: Parameters, tile: Ranges, loads: list[TileOperation]
    ) -> OperandView:
        """Words of a tile's lane blocks, or of all blocks that a reduction runs over; one word if all are the same.

        Where the parameters differ between pixels, words of the lane blocks for each pixel.
        """
        if parameters.points(self._reads):
            return self._of_pixels(operand, step, parameters, tile, loads)
        space, lanes, memory = self._space, self._job.shape.lanes, self._memories[operand.memory]
        blocks, channels, strides = self._job.blocks(tile), space.trips[space.lane], {}
        across = space.across if operand.name in step.across else NO_LOOP
        if across != NO_LOOP:
            blocks, channels = tile[across], space.trips[across]
            strides = {across: self._job.shape.group, IN_GROUP: 1}
        elif step.is_uniform:
            blocks, channels = blocks[:1], lanes
        offsets = (0,) if across != NO_LOOP else tuple(range(len(blocks)))
        if parameters.is_the_same_for_all(self._reads):
            blocks, channels, offsets, strides = range(1), lanes, (0,) * len(offsets), {}
        buffer = self._chip.constant(
            _slot(operand, parameters), (blocks, channels), memory.name, operand.name, len(blocks),
            lambda job, constants: _packed(job, constants, memory, parameters, blocks, channels), loads,
        )  # fmt: skip
        return OperandView(buffer, offsets, strides)

    def table(self, read: str, operand: Operand, tile: Ranges, loads: list[TileOperation]) -> OperandView:
        """The tables of a tile's lane blocks: one for all, or one for each."""
        access, memory = self._reads[read], self._memories[operand.memory]
        is_common = not any(index.terms for index in access.index)
        blocks = range(1) if is_common else self._job.blocks(tile)
        words = len(blocks) * operand.block
        buffer = self._chip.constant(
            f"{TABLE_SLOT}{read}", blocks, memory.name, read, words,
            lambda job, constants: _tables(job, constants, memory, read, None if is_common else blocks), loads,
        )  # fmt: skip
        return OperandView(buffer, tuple(range(0, words, operand.block)), {})

    def _of_pixels(
        self, operand: Operand, step: Step, parameters: Parameters, tile: Ranges, loads: list[TileOperation]
    ) -> OperandView:
        blocks = self._job.blocks(tile)[:1] if step.is_uniform else self._job.blocks(tile)
        points, memory = [tile[loop] for loop in self._space.points], self._memories[operand.memory]
        words = pixel_words(parameters, self._reads, self._constants, blocks, points, memory.width)
        buffer = self._chip.constant(
            _slot(operand, parameters), (blocks, *points), memory.name, operand.name, words.count,
            lambda job, constants: words.packed(memory), loads,
        )  # fmt: skip
        return OperandView(buffer, words.offsets, words.strides(self._space.points))


def _packed(
    job: NestJob, constants: Constants, memory: Memory, parameters: Parameters, blocks: range, channels: int
) -> bytes:
    values = {}
    for field, bound in parameters.fields.items():
        constant = np.asarray(bound, np.int64) if isinstance(bound, int) else _values(job, constants, bound)
        full = np.broadcast_to(constant, (channels,))
        values[field] = full[blocks.start * memory.width : blocks.stop * memory.width]
    return pack_parameters(memory.element, memory.width, len(blocks), values)


def _tables(job: NestJob, constants: Constants, memory: Memory, read: str, blocks: range | None) -> bytes:
    return pack_tables(memory, _values(job, constants, read), blocks)


def _values(job: NestJob, constants: Constants, read: str) -> NDArray[Any]:
    """The values of a constant that a nest reads: of its channels, which may be a part of the constant's."""
    nest = job.cover.nest
    access = nest.reads[read]
    where = tuple(_place(nest, access, dimension) for dimension in range(len(access.index)))
    return np.asarray(constants[access.tensor][where])


def _place(nest: Nest, access: Access, dimension: int) -> slice | int:
    """Where a nest reads along a dimension of a constant; all along one that no loop names alone, as a table's."""
    index = access.index[dimension]
    if not index.terms:
        return index.constant
    places = index_range(nest, access, dimension)
    return slice(places.start, places.stop)


def _slot(operand: Operand, parameters: Parameters) -> str:
    """Under which an operand's last parameters are remembered."""
    return f"{PARAMETER_SLOT}{operand.name}.{sorted(parameters.fields.items(), key=str)}"


# -- tables that are still on chip -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Table:
    """A buffer in a memory of tables: the operations that name it, first and last, and those that fill it."""

    buffer: TileBuffer
    first: int
    last: int
    loads: list[int]
    is_constant: bool = True  # nothing but loads of constants writes it


def without_second_loads(
    operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], machine: Machine
) -> tuple[Sequence[TileOperation], Mapping[str, TileBuffer]]:
    """Operations and buffers without tables that are on chip already; the same objects if there are none."""
    instead: dict[str, str] = {}
    dropped: set[int] = set()
    if not machine.table_memories:
        return operations, buffers
    tables = _tables_of(operations, buffers, machine)
    for memory in machine.table_memories:
        own = [table for table in tables.values() if table.buffer.place == memory]
        for table, kept in _found_again(own, operations, buffers, machine.memories[memory].depth):
            instead[table.buffer.name] = kept.buffer.name
            dropped.update(table.loads)
    if not instead:
        return operations, buffers
    left = [_renamed(each, instead) for index, each in enumerate(operations) if index not in dropped]
    return left, {name: buffer for name, buffer in buffers.items() if name not in instead}


def _tables_of(
    operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], machine: Machine
) -> dict[str, _Table]:
    """What lies in the memories of tables, by name, in the order in which operations name it first."""
    memories, found = set(machine.table_memories), dict[str, _Table]()
    written = {name: format.destination for name, format in machine.formats.items()}
    named = {name: [o for o in format.operands if o.memory in memories] for name, format in machine.formats.items()}
    for index, operation in enumerate(operations):
        for operand in named[operation.mnemonic]:
            name = operation.bases[operand.name].buffer
            table = found.setdefault(name, _Table(buffers[name], index, index, []))
            table.last = index
            if operand is written[operation.mnemonic]:
                table.loads.append(index)
                others = [base.buffer for at, base in operation.bases.items() if at != operand.name]
                table.is_constant &= bool(others) and all(buffers[other].place == WEIGHTS for other in others)
    return found


def _found_again(
    tables: Sequence[_Table], operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer], depth: int
) -> Iterator[tuple[_Table, _Table]]:
    """Tables of one memory that need no loads of their own, each with the one that is kept for it."""
    known: dict[Hashable, _Table] = {}
    alive: list[_Table] = []
    for table in tables:
        content = _content(table, operations, buffers)
        kept = known.get(content) if table.is_constant else None
        is_there = kept is not None and max(kept.loads) < table.first
        if kept is not None and is_there and _has_room(kept, table.first, alive, depth):
            kept.last = max(kept.last, table.last)
            yield table, kept
        else:
            known[content] = table
            alive.append(table)


def _content(table: _Table, operations: Sequence[TileOperation], buffers: Mapping[str, TileBuffer]) -> Hashable:
    """Equal for tables of the same words: how they are filled, and from which bytes."""
    loads = []
    for mnemonic, fields, bases, _ in (operations[index] for index in table.loads):
        places = [(operand, (buffers[base.buffer].offset or 0) + base.offset) for operand, base in bases.items()]
        loads.append((mnemonic, tuple(fields.items()), tuple(places)))
    return table.buffer.size, table.buffer.alignment, tuple(loads)


def _has_room(kept: _Table, until: int, alive: Sequence[_Table], depth: int) -> bool:
    """Whether a table fits beside all that is alive up to an operation; all of one size, so that no gaps are lost."""
    start = kept.last + 1
    beside = [other for other in alive if other is not kept and other.first < until and start <= other.last]
    if any(other.buffer.size != kept.buffer.size for other in beside):
        return False
    begins = {max(start, other.first) for other in beside}
    most = max((sum(other.first <= begin <= other.last for other in beside) for begin in begins), default=0)
    return (most + 1) * kept.buffer.size <= depth


def _renamed(operation: TileOperation, instead: Mapping[str, str]) -> TileOperation:
    """The operation with other buffers in the place of some."""
    if not any(base.buffer in instead for base in operation.bases.values()):
        return operation
    bases = {
        operand: BufferAddress(instead.get(base.buffer, base.buffer), base.offset)
        for operand, base in operation.bases.items()
    }
    return operation._replace(bases=bases)
