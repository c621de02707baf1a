"""Which tensors stay on chip between the layers, and with how much padding around them.

A tensor on chip lies whole in its memory from its first producer to its last consumer, inside the padding that its
consumers want, so that nobody moves it. What does not fit goes through DRAM, the largest first.

Most lie in one memory, that of activations. Sums that the array leaves for another nest may lie in the array's memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.compiler.graph.graph import COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Nest, NestProgram, index_range
from tilewright.compiler.tiling.layout import Border, Layout, bordered_layout
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
