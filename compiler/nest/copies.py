"""Removes copies: a buffer that is copied into a region of another buffer, or out of one, becomes that region.

Level 2 to level 2. Concatenation and slicing are copies at first. Example, two results of 32 channels that are
concatenated: the copies `z[n, o, y, x] = a[n, o, y, x]` and `z[n, o + 32, y, x] = b[n, o, y, x]` go, whoever wrote a
or b writes to z from channel 0 or 32 on, and whoever read them reads there.

What stays a copy: buffers of the host, channels that do not begin on a vector of the machine, and buffers with a reader
that looks beyond their edges, where it would see neighbours in place of padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.compiler.arithmetic import vector_blocks
from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestProgram, index_range
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True)
class _Region:
    """Where a buffer lies in another: each index of the outer one is `first` and a step for each index of the inner."""

    buffer: str
    outer: str
    steps: tuple[Mapping[int, int], ...]  # by dimension there: dimension here → step
    firsts: tuple[int, ...]

    def step(self, dimension: int) -> int:
        """The step along a dimension that is the same one in both buffers; 0 if it is not the same."""
        return self.steps[dimension].get(dimension, 0) if len(self.steps[dimension]) < 2 else 0

    @property
    def joins_rows(self) -> bool:
        """Whether the rows of the inner buffer follow each other in one row of the outer."""
        return ROW in self.steps[COLUMN]

    def moved(self, access: Access, order: Sequence[str]) -> Access:
        """An access to the inner buffer as an access to the outer; `order` lists the nest's loops, outermost first."""
        if access.tensor != self.buffer:
            return access
        index = []
        for steps, first in zip(self.steps, self.firsts, strict=True):
            terms: dict[str, int] = {}
            for dimension, step in steps.items():
                first += step * access.index[dimension].constant
                for loop, by in access.index[dimension].terms:
                    terms[loop] = terms.get(loop, 0) + by * step
            index.append(Affine(tuple(sorted(terms.items(), key=lambda term: order.index(term[0]))), first))
        return replace(access, tensor=self.outer, index=tuple(index))


def copies(program: NestProgram, machine: Machine) -> NestProgram:
    """The program without the copies that are only a matter of addresses; it computes the same."""
    merger = _Merger(program, machine)
    for number in range(len(program.nests)):
        region = merger.region(merger.nests[number])
        if region is not None:
            merger.merge(region, number)
    nests = tuple(merger.nests.values())
    live = {access.tensor for nest in nests for access in (*nest.reads.values(), nest.result)}
    live |= merger.hosted
    buffers = {name: buffer for name, buffer in program.buffers.items() if name in live}
    return replace(program, nests=nests, buffers=buffers)


class _Merger:
    """The nests so far, by their number in the program, and the rules for which copies can go."""

    def __init__(self, program: NestProgram, machine: Machine) -> None:
        self.nests = dict(enumerate(program.nests))
        self._numbers: dict[str, set[int]] = {}  # of the nests that read or write a buffer
        for number, nest in self.nests.items():
            for tensor in _tensors(nest):
                self._numbers.setdefault(tensor, set()).add(number)
        self.hosted = {tensor.name for tensor in (*program.inputs, *program.outputs)}
        self._buffers = program.buffers
        self._lanes = machine.lanes
        self._vector = machine.lanes * vector_blocks(machine)

    def merge(self, region: _Region, number: int) -> None:
        """Drop the copy of a number; accesses to the inner buffer become accesses to its region of the outer."""
        for tensor in _tensors(self.nests.pop(number)):
            self._numbers[tensor].discard(number)
        moving = self._numbers.pop(region.buffer)
        for each in moving:
            nest = self.nests[each]
            order = [loop.name for loop in nest.loops]
            reads = {name: region.moved(read, order) for name, read in nest.reads.items()}
            self.nests[each] = replace(nest, reads=reads, result=region.moved(nest.result, order))
        self._numbers[region.outer] |= moving

    def _nests_of(self, buffer: str) -> list[Nest]:
        """Those that read or write a buffer, in the order of the program."""
        return [self.nests[number] for number in sorted(self._numbers.get(buffer, ()))]

    def region(self, copy: Nest) -> _Region | None:
        """Where one of a copy's buffers lies in the other, if the nest is a copy that can go."""
        if copy.expr.op is not Op.SOURCE or any(loop.is_reduce for loop in copy.loops):
            return None
        source = copy.reads[copy.expr.name]
        if source.tensor not in self._buffers or source.outside is not None:
            return None
        for inner, outer in ((source, copy.result), (copy.result, source)):
            region = self._placed(inner, outer, copy)
            if region is not None and self._is_possible(region, is_written=inner is source):
                return region
        return None

    def _placed(self, inner: Access, outer: Access, copy: Nest) -> _Region | None:
        """The inner access's buffer as a region of the outer's; None unless the copy moves all of it."""
        trips = {loop.name: loop.trip for loop in copy.loops}
        shape = self._buffers[inner.tensor].shape
        dimension_of: dict[str, int] = {}
        for dimension, (size, index) in enumerate(zip(shape, inner.index, strict=True)):
            loops = [loop for loop, _ in index.terms]
            if index.constant or len(loops) > 1 or any(by != 1 for _, by in index.terms):
                return None
            if (trips[loops[0]] if loops else 1) != size:
                return None
            dimension_of |= {loop: dimension for loop in loops if size > 1}
        steps = [
            {dimension_of[loop]: by for loop, by in index.terms if loop in dimension_of}
            or ({} if dimension in dimension_of.values() else {dimension: 1})
            for dimension, index in enumerate(outer.index)
        ]
        moving = [loop for index in outer.index for loop, _ in index.terms if trips[loop] > 1]
        if sorted(moving) != sorted(dimension_of) or not self._is_same_walk(steps, shape):
            return None
        if ROW in steps[COLUMN]:
            steps[COLUMN] = {COLUMN: 1, **steps[COLUMN]}  # accesses keep their loop over columns, of a single one too
        return _Region(inner.tensor, outer.tensor, tuple(steps), tuple(index.constant for index in outer.index))

    def _is_same_walk(self, steps: Sequence[Mapping[int, int]], shape: Sequence[int]) -> bool:
        """Whether each dimension stays the same one, or rows follow each other without gaps in one row."""
        if steps[COLUMN] in ({ROW: shape[COLUMN], COLUMN: 1}, {ROW: shape[COLUMN]}):
            steps = [*steps[:ROW], {ROW: 1}, {COLUMN: 1}]
        return all(set(moves) == {dimension} for dimension, moves in enumerate(steps))

    def _is_possible(self, region: _Region, is_written: bool) -> bool:
        """Whether a buffer may become a region; `is_written` when the copy wrote the region and did not read it."""
        inner, outer = self._buffers[region.buffer], self._buffers[region.outer]
        if region.buffer in self.hosted or inner.type != outer.type:
            return False
        touching = self._nests_of(region.buffer)
        reads = [(nest, read) for nest in touching for read in nest.reads.values() if read.tensor == region.buffer]
        has_reader = len(reads) > is_written
        if region.joins_rows and inner.shape[ROW] * inner.shape[COLUMN] != outer.shape[COLUMN]:
            return False
        moved = [(nest, region.moved(read, [loop.name for loop in nest.loops])) for nest, read in reads]
        if any(_leaves_out_pixels(nest, read) for nest, read in moved):
            return False
        if is_written and has_reader and not region.joins_rows and (region.step(ROW), region.step(COLUMN)) != (1, 1):
            return False  # loads take what lies between as well, which may not be written yet
        return self._is_aligned(region, inner, outer, is_written, has_reader) and not any(
            self._sees_neighbours(region, nest, read) for nest, read in reads
        )

    def _is_aligned(self, region: _Region, inner: Buffer, outer: Buffer, is_written: bool, has_reader: bool) -> bool:
        """Whether channels are consecutive, begin on a vector (on a word, if nobody reads them) and share no word."""
        first, step = region.firsts[CHANNEL], region.step(CHANNEL)
        end = first + inner.shape[CHANNEL]
        unit = self._vector if has_reader else self._lanes
        if step != 1 or first % unit:
            return False
        words_end, vectors_end = (-(-end // size) * size for size in (self._lanes, unit))
        is_free = words_end == vectors_end and self._is_unwritten(region, range(end, words_end))
        return end == outer.shape[CHANNEL] or is_free or not is_written

    def _is_unwritten(self, region: _Region, channels: range) -> bool:
        """Whether no nest writes these channels of the outer buffer."""
        return not any(
            set(channels).intersection(index_range(nest, nest.result, CHANNEL))
            for nest in self._nests_of(region.outer)
            if nest.result.tensor == region.outer
        )

    def _sees_neighbours(self, region: _Region, nest: Nest, read: Access) -> bool:
        """Whether a read looks beyond the edge of the inner buffer, where the outer one holds other elements."""
        if read.outside is None:
            return False
        inner, outer = self._buffers[region.buffer].shape, self._buffers[region.outer].shape
        return any(
            not _is_within(index_range(nest, read, d), inner[d])
            and (region.step(d), region.firsts[d], inner[d]) != (1, 0, outer[d])
            for d in (BATCH, ROW, COLUMN)
        )


def _tensors(nest: Nest) -> set[str]:
    """What a nest reads and writes."""
    return {nest.result.tensor, *(read.tensor for read in nest.reads.values())}


def _leaves_out_pixels(nest: Nest, read: Access) -> bool:
    """Whether a read skips pixels along a loop that walks over channels elsewhere: rows of a matrix are consecutive."""
    accesses = [access for access in (*nest.reads.values(), nest.result) if len(access.index) == len(read.index)]
    channels = {loop for access in accesses for loop, _ in access.index[CHANNEL].terms}
    return any(loop in channels and by != 1 for d in (ROW, COLUMN) for loop, by in read.index[d].terms)


def _is_within(indices: Sequence[int], size: int) -> bool:
    return min(indices) >= 0 and max(indices) < size
