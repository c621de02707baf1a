"""Remembers the last tile of everything that a nest loads, so that no tile is loaded twice in a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod

from tilewright.compiler.graph.graph import BATCH, COLUMN, ROW
from tilewright.compiler.tile.program import TileOperation
from tilewright.compiler.tiling.builder import TileBuilder
from tilewright.compiler.tiling.job import Constants, Content, NestJob, Ranges, WholeTensor, common, span
from tilewright.compiler.tiling.layout import Layout, box_layout, outside_runs


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
