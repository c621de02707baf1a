"""Builds a tile program: fresh buffers, constants in the order of their loads, operations from loop nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from tilewright.compiler.select.cover import Step
from tilewright.compiler.select.transfer import Transfers
from tilewright.compiler.tile.program import BufferAddress, TileBuffer, TileOperation, too_long
from tilewright.compiler.tiling.layout import DramLayout, InDram, Layout, PixelRuns
from tilewright.compiler.tiling.pack_loops import LoopPacker, Packed, WordLoop, affine_runs
from tilewright.isa.machine.encoding import ACCUMULATE, InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.machine.products import adds_product
from tilewright.isa.timing import BURST_BEATS

WEIGHTS = "weights"

MOST_OF_A_LAYER = 1 << 16
"""So many instructions of an engine are made for a layer in any case: emission says whether waits can count them."""


@dataclass
class TileBuilder:
    """The parts of a tile program while nests are lowered. Operations go to `sink`; the caller may exchange it."""

    machine: Machine
    transfers: Transfers
    buffers: dict[str, TileBuffer] = field(default_factory=dict)
    weights: bytearray = field(default_factory=bytearray)
    sink: list[TileOperation] = field(default_factory=list)
    made: list[tuple[str, str]] = field(default_factory=list)  # the name that was asked for, and that of the buffer
    layer: int = 0
    layer_name: str = ""
    packer: LoopPacker = field(init=False)
    _offsets: dict[bytes, int] = field(default_factory=dict)  # of a constant, by the hash of its content
    _copies: dict[str, int] = field(default_factory=dict)  # how often a buffer's name was taken
    _counts: Counter[Engine] = field(default_factory=Counter)  # instructions of the layer, by engine
    _fields: dict[Hashable, Mapping[str, int]] = field(default_factory=dict)  # of instructions so far

    def __post_init__(self) -> None:
        self.packer = LoopPacker(self.machine)

    def buffer(
        self, name: str, place: str, size: int, alignment: int = 1, offset: int | None = None, is_in_bank: bool = False
    ) -> str:
        """A new buffer called `name`, with a number behind it if the name is taken."""
        fresh = name
        while fresh in self.buffers:
            self._copies[name] = self._copies.get(name, 0) + 1
            fresh = f"{name}.{self._copies[name]}"
        self.buffers[fresh] = TileBuffer(fresh, place, size, alignment, offset, is_in_bank)
        self.made.append((name, fresh))
        return fresh

    def constant(self, name: str, content: bytes) -> str:
        """A buffer in the weights region that holds `content`, behind all others unless the same is there already.

        Steps of a recurrent network have the same weights, and curves of many layers the same table.
        """
        offset = self._offsets.get(content_hash := sha256(content).digest())
        if offset is None:
            burst = BURST_BEATS * self.machine.dram.bus_bytes
            self.weights += bytes(-len(self.weights) % burst)
            offset = self._offsets[content_hash] = len(self.weights)
            self.weights += content
        return self.buffer(name, WEIGHTS, len(content), offset=offset)

    def begin(self, layer: int, name: str) -> None:
        """What follows is of this layer."""
        self.layer, self.layer_name, self._counts = layer, name, Counter()

    # -- operations ----------------------------------------------------------------------------------------------------

    def operation(
        self,
        format: InstructionFormat,
        bases: Mapping[str, BufferAddress],
        loops: Sequence[WordLoop],
        immediates: Mapping[str, int] | None = None,
        accumulates: bool = False,
    ) -> None:
        """Append the instructions that run a nest; `accumulates`: it adds to results that are there already.

        Raises TooLong for a layer of far too many instructions, before all of them are made.
        """
        for packed in self.packer.pack(format, loops):
            moved = {}
            for operand, by in zip(format.operands, packed.offsets, strict=True):
                base = bases[operand.name]
                moved[operand.name] = BufferAddress(base.buffer, base.offset + by) if by else base
            adds = accumulates or packed.accumulates
            fields = self._fields_of(format, packed, immediates or {}, adds)
            mnemonic = format.mnemonic
            if adds and not format.has_accumulate:
                mnemonic, moved = self._continuing(format, moved)
            self.sink.append(TileOperation(mnemonic, fields, moved, self.layer))
            self._count(format.engine)

    def _continuing(
        self, format: InstructionFormat, bases: Mapping[str, BufferAddress]
    ) -> tuple[str, dict[str, BufferAddress]]:
        """The instruction that adds to the sums of one that cannot, and where its operands begin."""
        more = self.machine.continuing.get(format.mnemonic)
        assert more is not None, f"{format.mnemonic} would replace the sums that it should add to"
        added = adds_product(more)
        assert added is not None
        return more.mnemonic, {**bases, added.name: bases[format.destination.name]}

    def _fields_of(
        self, format: InstructionFormat, packed: Packed, immediates: Mapping[str, int], adds: bool
    ) -> Mapping[str, int]:
        """The fields of an instruction; of those that are alike it is one object, which takes less time and memory."""
        key = id(packed), adds, *immediates.items()  # the packer keeps what it packed, so its identity stays its own
        known = self._fields.get(key)
        if known is None:
            flag = {ACCUMULATE: int(adds)} if format.has_accumulate else self._strides_of_added(format, packed, adds)
            known = self._fields[key] = {**packed.fields, **immediates, **flag}
        return known

    def _strides_of_added(self, format: InstructionFormat, packed: Packed, adds: bool) -> dict[str, int]:
        """The fields of what an instruction adds that continues another one: it moves as the sums do."""
        if not adds:
            return {}
        added = adds_product(self.machine.continuing[format.mnemonic])
        assert added is not None
        moves = {loop: packed.fields.get(f"{format.destination.name}.{loop}") for loop in added.loops}
        return {f"{added.name}.{loop}": stride for loop, stride in moves.items() if stride is not None}

    def _count(self, engine: Engine) -> None:
        self._counts[engine] += 1
        if self._counts[engine] > max(MOST_OF_A_LAYER, self.machine.max_instructions_per_engine):
            raise too_long(self.machine, self.layer_name, engine, ())

    def load_constant(self, memory: str, source: str, name: str, words: int, alignment: int = 1) -> str:
        """A new buffer in `memory` with the words of a constant buffer."""
        target = self.buffer(name, memory, words, alignment)
        self.load_words(source, 0, target, 0, [(words, self.machine.memories[memory].word_bytes, 1)])
        return target

    def load_words(
        self, dram: str, byte: int, chip: str, word: int, loops: Sequence[tuple[int, int, int]]
    ) -> None:  # fmt: skip
        """Load from a byte of DRAM into a word on chip, over loops of (trip, byte stride, word stride)."""
        load = self.transfers.load(self.buffers[chip].place)
        nest = [WordLoop(trip, _dma_strides(load, at_dram, at_chip)) for trip, at_dram, at_chip in loops]
        self.operation(load, _dma_bases(load, dram, byte, chip, word), nest)

    def move(
        self,
        format: InstructionFormat,
        dram: str,
        chip: str,
        blocks: Sequence[tuple[int, int]],
        loops: Sequence[tuple[int, int, int]],
    ) -> None:
        """A load or store: for each lane block from (DRAM byte, word) on, loops of (trip, byte stride, word stride)."""
        inner = [WordLoop(trip, _dma_strides(format, at_dram, at_chip)) for trip, at_dram, at_chip in loops]
        place = self.buffers[chip].place
        for (first_byte, first_word), over_blocks in affine_runs(blocks):
            outer = [WordLoop(over.trip, _dma_strides(format, *over.strides)) for over in over_blocks]
            # batch, then blocks, rows, columns: the order in DRAM; of windows the blocks follow each other
            is_run = len(blocks) > 1 and blocks[1][0] - blocks[0][0] == self.machine.memories[place].word_bytes
            nest = [*inner, *outer] if is_run else [*inner[:1], *outer, *inner[1:]]
            self.operation(format, _dma_bases(format, dram, first_byte, chip, first_word), nest)

    def load_box(
        self, source: InDram, chip: str, target: Layout, batch: range, blocks: range, rows: range, columns: range
    ) -> None:
        """Read a box of a tensor into a layout that holds it."""
        for piece, box in source.pieces((batch, blocks, rows, columns)):
            self._load_piece(piece.buffer, piece.layout, chip, target, *box)

    def _load_piece(
        self, dram: str, source: DramLayout, chip: str, target: Layout, batch: range, blocks: range, rows: range,
        columns: range,
    ) -> None:  # fmt: skip
        load = self.transfers.load(self.buffers[chip].place)
        first = (batch.start, rows.start, columns.start)
        starts = [
            (source.address(first[0], b, first[1], first[2]), target.address(first[0], b, first[1], first[2]))
            for b in blocks
        ]
        loops = [
            (len(batch), source.batch_stride, target.batch_stride),
            (len(rows), source.row_stride, target.row_stride),
            (len(columns), source.column_stride, target.column_stride),
        ]
        self.move(load, dram, chip, starts, loops)

    def fill_runs(self, fill: Fill, chip: str, layout: Layout, runs: Sequence[PixelRuns]) -> None:
        """Write a value to pixels of every plane of a layout."""
        for run in runs:
            loops = [
                (layout.batches, layout.batch_stride),
                (layout.groups, layout.group_stride),
                (run.count, run.step * layout.group),
                (run.length * layout.group, 1),
            ]
            self.fill_words(fill, chip, run.first * layout.group, loops)

    def fill_missing_blocks(self, fill: Fill, chip: str, layout: Layout, rows: range, columns: range) -> None:
        """Write a value to the words of the last group that no lane block of the tensor uses."""
        missing = layout.groups * layout.group - layout.blocks
        if not missing or not rows or not columns:
            return
        at = layout.address(layout.first_batch, layout.first_block, rows.start, columns.start)
        first = at + (layout.groups - 1) * layout.group_stride + layout.group - missing
        loops = [
            (layout.batches, layout.batch_stride),
            (len(rows), layout.row_stride),
            (len(columns), layout.column_stride),
            (missing, 1),
        ]
        self.fill_words(fill, chip, first, loops)

    def fill_words(self, fill: Fill, chip: str, first: int, loops: Sequence[tuple[int, int]]) -> None:
        """Write a value to words of a buffer: with an instruction that computes it, or with loads of a constant."""
        base = BufferAddress(chip, first)
        if fill.step is not None:
            format = fill.step.format
            nest = [WordLoop(trip, (stride,)) for trip, stride in loops]
            self.operation(format, {format.destination.name: base}, nest, fill.step.immediates)
            return
        load = self.transfers.load(self.buffers[chip].place)
        nest = [WordLoop(trip, _dma_strides(load, 0, stride)) for trip, stride in loops]
        self.operation(load, _dma_bases(load, fill.constant, 0, chip, first), nest)


@dataclass(frozen=True)
class Fill:
    """How one value gets into words: by an instruction without sources, or from a constant word in DRAM."""

    step: Step | None
    constant: str = ""


def _dma_strides(format: InstructionFormat, at_dram: int, at_chip: int) -> tuple[int, ...]:
    return tuple(at_dram if operand.memory == DRAM else at_chip for operand in format.operands)


def _dma_bases(format: InstructionFormat, dram: str, byte: int, chip: str, word: int) -> dict[str, BufferAddress]:
    return {
        operand.name: BufferAddress(dram, byte) if operand.memory == DRAM else BufferAddress(chip, word)
        for operand in format.operands
    }
