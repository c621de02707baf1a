"""Which tensors stay on chip between the layers: with how much padding, in which buffers, and what fills them.

A tensor on chip lies whole in its memory from its first producer to its last consumer, inside the padding that its
consumers want, so that nobody moves it. What does not fit goes through DRAM, the largest first.

Most lie in one memory, that of activations. Sums that the array leaves for another nest may lie in the array's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Nest, NestProgram, index_range
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.tiling.builder import Fill, TileBuilder
from tilewright.compiler.tiling.constants import pack_elements
from tilewright.compiler.tiling.job import WholeTensor
from tilewright.compiler.tiling.layout import Border, InDram, Layout, bordered_layout, outside_runs
from tilewright.isa.language.expressions import const
from tilewright.isa.machine.machine import Machine

NOTHING_WITHIN: Mapping[int, int] = {}
"""Every nest is computed by itself."""

NO_SUMS: Mapping[str, int] = {}
"""No sums of the array stay on chip from nest to nest."""


@dataclass(frozen=True)
class Residency:
    """Tensors that stay on chip: `layouts` by name, and the words they take while each nest runs.

    Those of `sums` lie in the memory of the array's sums and take `sum_words` there; `words` counts all others.
    """

    layouts: Mapping[str, Layout]
    words: tuple[int, ...]
    sums: frozenset[str] = frozenset()
    sum_words: tuple[int, ...] = ()

    def without(self, tensor: str, lives: Mapping[str, range]) -> Residency:
        """The same with one tensor less."""
        layouts, is_sum = dict(self.layouts), tensor in self.sums
        words = list(self.sum_words if is_sum else self.words)
        gone = layouts.pop(tensor).words
        for position in lives[tensor]:
            words[position] -= gone
        if is_sum:
            return Residency(layouts, self.words, self.sums - {tensor}, tuple(words))
        return Residency(layouts, tuple(words), self.sums, self.sum_words)

    def taken(self, position: int) -> tuple[int, int]:
        """The words of activations and of sums that tensors take while a nest runs."""
        return self.words[position], self.sum_words[position] if self.sum_words else 0


def lives(program: NestProgram, within: Mapping[int, int] = NOTHING_WITHIN) -> dict[str, range]:
    """For each buffer, the nests from its first to its last use; unused buffers have an empty range.

    A nest that is computed within another, by position, uses its buffers where the other does.
    """
    uses: dict[str, list[int]] = {name: [] for name in program.buffers}
    for position, nest in enumerate(program.nests):
        for access in (*nest.reads.values(), nest.result):
            if access.tensor in uses:
                uses[access.tensor].append(within.get(position, position))
    return {name: range(min(u), max(u) + 1) if u else range(0) for name, u in uses.items()}


def wanted_border(access: Access, nest: Nest, shape: Sequence[int]) -> Border:
    """How far outside a tensor's planes an access reaches."""
    rows, columns = (index_range(nest, access, d) for d in (ROW, COLUMN))
    return Border(
        max(0, -rows.start),
        max(0, rows.stop - shape[ROW]),
        max(0, -columns.start),
        max(0, columns.stop - shape[COLUMN]),
    )


def everything_on_chip(
    program: NestProgram, machine: Machine, group: int, within: Mapping[int, int] = NOTHING_WITHIN,
    sums: Mapping[str, int] = NO_SUMS,
) -> Residency:  # fmt: skip
    """Every used buffer on chip, padded for all its readers. `sums`: those of the array, with the words of a write."""
    borders: dict[str, Border] = {}
    for nest in program.nests:
        for access in nest.reads.values():
            if access.tensor in program.buffers:
                border = wanted_border(access, nest, program.buffers[access.tensor].shape)
                borders[access.tensor] = borders.get(access.tensor, Border()).union(border)
    live = lives(program, within)
    layouts = {
        name: bordered_layout(buffer.shape, machine.lanes, sums.get(name, group), borders.get(name, Border()))
        for name, buffer in program.buffers.items()
        if live[name]
    }
    count = len(program.nests)
    others = {name: layout.words for name, layout in layouts.items() if name not in sums}
    own = {name: layouts[name].words for name in sums if name in layouts}
    return Residency(layouts, _taken(others, live, count), frozenset(own), _taken(own, live, count))


def _taken(words: Mapping[str, int], live: Mapping[str, range], count: int) -> tuple[int, ...]:
    """The words that tensors take in all while each of so many nests runs."""
    changes = [0] * (count + 1)
    for name, size in words.items():
        changes[live[name].start] += size
        changes[live[name].stop] -= size
    return tuple(accumulate(changes[:-1]))


def evict_largest(residency: Residency, position: int, live: Mapping[str, range]) -> Residency | None:
    """The residency without the largest tensor that is on chip during a nest; None if there is none."""
    there = [name for name in residency.layouts if position in live[name]]
    if not there:
        return None
    return residency.without(max(there, key=lambda name: residency.layouts[name].words), live)


# -- their buffers, and what their padding holds as the program goes on ------------------------------------------------


class Fills:
    """How words get a value: by an instruction that computes it from nothing, or by loads of a constant word."""

    def __init__(self, selector: Selector, builder: TileBuilder) -> None:
        self._selector = selector
        self._builder = builder
        self._known: dict[tuple[str, int], Fill] = {}  # by memory and value

    def fill(self, nest: Nest, value: int, memory: str) -> Fill:
        """How words of a memory get a value; the instruction is sought as one for `nest`."""
        key = (memory, value)
        if key not in self._known:
            step = self._selector.cover_value(nest, const(value), memory)
            self._known[key] = Fill(step, self._constant(value, memory) if step is None else "")
        return self._known[key]

    def _constant(self, value: int, name: str) -> str:
        memory = self._builder.machine.memories[name]
        assert memory.element.type is not None
        word = pack_elements(np.full(memory.width, value), memory.element.type)
        return self._builder.constant(f"fill{value}", word)


class Residents:
    """The tensors on chip at this point of the program.

    All of them live in `memory`, but for sums, which live in `sum_memory`; those of `in_banks` each within one bank.
    """

    def __init__(
        self,
        nests: NestProgram,
        residency: Residency,
        memory: str,
        sum_memory: str,
        in_banks: Collection[str],
        fills: Fills,
        builder: TileBuilder,
    ) -> None:
        self.tensors: dict[str, WholeTensor] = {}
        self._nests = nests
        self._residency = residency
        self._memory = memory
        self._sum_memory = sum_memory
        self._in_banks = in_banks
        self._fills = fills
        self._builder = builder
        self._border_value: dict[str, int] = {}  # what a tensor's padding holds now
        self._assumed: set[str] = set()
        self._readers = nests.positions_of_readers

    def may_hold(self, tensor: str) -> bool:
        """Whether a tensor stays on chip."""
        return tensor in self._residency.layouts

    def add(self, tensor: str) -> WholeTensor:
        """A buffer for a tensor that is not there yet."""
        layout = self._residency.layouts[tensor]
        is_in_bank = tensor in self._in_banks
        memory = self._sum_memory if tensor in self._residency.sums else self._memory
        buffer = self._builder.buffer(tensor, memory, layout.words, layout.group, is_in_bank=is_in_bank)
        held = WholeTensor(buffer, layout)
        self.tensors[tensor] = held
        return held

    def assume(self, tensor: str) -> None:
        """A buffer for a tensor that nests which are not lowered have brought, with whatever padding is wanted."""
        self.add(tensor)
        self._assumed.add(tensor)

    def set_border(self, tensor: str, position: int) -> None:
        """Fill a tensor's padding with the value that its next reader at or after a nest expects there."""
        if tensor in self._residency.sums:
            return  # no reader reaches beyond them, and the array writes whole words
        readers = self._readers.get(tensor, [])
        for nest in (self._nests.nests[reader] for reader in readers if reader >= position):
            for access in nest.reads.values():
                if access.tensor == tensor and access.outside is not None and self._reaches_out(nest, tensor):
                    self._fill_border(nest, tensor, access.outside)
                    return
        self._fill_border(self._nests.nests[position], tensor, 0)

    def prepare_borders(self, nest: Nest, homes: Mapping[str, WholeTensor | InDram]) -> None:
        """Refill the padding of tensors where it still holds the value for another reader."""
        for access in nest.reads.values():
            if not isinstance(homes.get(access.tensor), WholeTensor) or access.outside is None:
                continue
            if access.tensor in self._assumed:
                continue
            if self._reaches_out(nest, access.tensor) and self._border_value[access.tensor] != access.outside:
                self._fill_border(nest, access.tensor, access.outside)

    def _reaches_out(self, nest: Nest, tensor: str) -> bool:
        shape = self._nests.buffers[tensor].shape
        borders = [wanted_border(a, nest, shape) for a in nest.reads.values() if a.tensor == tensor]
        return any(b.top or b.bottom or b.left or b.right for b in borders)

    def _fill_border(self, nest: Nest, tensor: str, value: int) -> None:
        held, shape = self.tensors[tensor], self._nests.buffers[tensor].shape
        rows, columns = range(shape[ROW]), range(shape[COLUMN])
        runs = outside_runs(held.layout, rows, columns)
        if runs:
            self._builder.fill_runs(self._fills.fill(nest, value, self._memory), held.buffer, held.layout, runs)
        if held.layout.groups * held.layout.group > held.layout.blocks and tensor not in self._border_value:
            fill = self._fills.fill(nest, value, self._memory)
            self._builder.fill_missing_blocks(fill, held.buffer, held.layout, rows, columns)
        self._border_value[tensor] = value
