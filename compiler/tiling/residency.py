"""Which tensors stay on chip between the layers, and with how much padding around them.

A tensor on chip lies whole in its memory from its first producer to its last consumer, inside the padding that its
consumers want, so that nobody moves it. What does not fit goes through DRAM, the largest first.
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


@dataclass(frozen=True)
class Residency:
    """Tensors that stay on chip: `layouts` by name, and the words they take while each nest runs."""

    layouts: Mapping[str, Layout]
    words: tuple[int, ...]

    def without(self, tensor: str, lives: Mapping[str, range]) -> Residency:
        """The same with one tensor less."""
        layouts, words = dict(self.layouts), list(self.words)
        gone = layouts.pop(tensor).words
        for position in lives[tensor]:
            words[position] -= gone
        return Residency(layouts, tuple(words))


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
    program: NestProgram, machine: Machine, group: int, within: Mapping[int, int] = NOTHING_WITHIN
) -> Residency:
    """Every used buffer on chip, padded for all its readers."""
    borders: dict[str, Border] = {}
    for nest in program.nests:
        for access in nest.reads.values():
            if access.tensor in program.buffers:
                border = wanted_border(access, nest, program.buffers[access.tensor].shape)
                borders[access.tensor] = borders.get(access.tensor, Border()).union(border)
    live = lives(program, within)
    layouts = {
        name: bordered_layout(buffer.shape, machine.lanes, group, borders.get(name, Border()))
        for name, buffer in program.buffers.items()
        if live[name]
    }
    changes = [0] * (len(program.nests) + 1)
    for name, layout in layouts.items():
        changes[live[name].start] += layout.words
        changes[live[name].stop] -= layout.words
    return Residency(layouts, tuple(accumulate(changes[:-1])))


def evict_largest(residency: Residency, position: int, live: Mapping[str, range]) -> Residency | None:
    """The residency without the largest tensor that is on chip during a nest; None if there is none."""
    there = [name for name in residency.layouts if position in live[name]]
    if not there:
        return None
    return residency.without(max(there, key=lambda name: residency.layouts[name].words), live)
