"""Cuts a chain into stripes of rows, and runs of its nests into groups of channels: nests to nests, the same values.

Each stripe passes through all nests before the next one begins; or its last nests are computed between the first ones
of the next stripe. Where a window reaches over its edge, the rows there
are computed for both stripes. Example, 4 rows of a 3×3 convolution of stride 1 need 6 rows of the layer before it, of
which the next stripe needs 2 again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as joined
from typing import Any, TypeVar

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, ROW
from tilewright.compiler.nest.nest import Access, Buffer, Nest, NestProgram
from tilewright.compiler.stripes.chain import Chain, channel_loop, row_loop, trip_of
from tilewright.isa.language.numeric import IntegerType

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Stripes:
    """How to cut a chain: `rows` of its result in a stripe, and `channels` of a run in a group; None: all of them.

    `is_interleaved`: the nests behind the longest run stand between those of the next stripe up to there.
    """

    rows: int
    channels: int | None = None
    is_interleaved: bool = False

    def __str__(self) -> str:
        channels = "" if self.channels is None else f" and {self.channels} channels"
        together = " beside the next" if self.is_interleaved else ""
        return f"{self.rows} row{'s' * (self.rows != 1)}{channels} at a time{together}"


def in_stripes(chain: Chain, stripes: Stripes) -> NestProgram:
    """The chain's program with the chain cut."""
    cutter = _Cutter(chain, stripes)
    pieces, names = cutter.pieces(), {nest.name for nest in chain.nests}
    nests: list[Nest] = []
    for nest in chain.program.nests:
        if nest is chain.nests[-1]:
            nests += pieces
        elif nest.name not in names:
            nests.append(nest)
    return replace(
        chain.program,
        nests=tuple(nests),
        buffers=cutter.buffers,
        constants=cutter.constants,
        constant_types=cutter.types,
    )


def cut_evenly(count: int, size: int) -> list[range]:
    """A number of things in pieces of at most a size, all as large as can be alike."""
    pieces = -(-count // size)
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    return [range(first, last) for first, last in zip(edges, edges[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class Share:
    """What is computed at once: the rows of a nest for a stripe, by its number, and the channels of one of `groups`."""

    nest: Nest
    stripe: int
    rows: range
    group: int
    groups: int
    channels: range  # empty where a group has all of them
    is_last: bool  # of its run: others read all channels of its result

    @property
    def part(self) -> float:
        """Which part of the nest it is."""
        rows = len(self.rows) / trip_of(self.nest, row_loop(self.nest))
        return rows * len(self.channels) / trip_of(self.nest, channel_loop(self.nest)) if self.channels else rows


def shares(chain: Chain, stripes: Stripes) -> list[Share]:
    """Everything that is computed of a chain in stripes, in its order."""
    runs = [(run, _groups(run, stripes.channels)) for run in chain.runs]
    lengths = [len(run) for run in chain.runs]
    first = 1 + lengths.index(max(lengths)) if stripes.is_interleaved else len(runs)
    made: list[Share] = []
    waiting: list[Share] = []
    for number, stripe in enumerate(cut_evenly(chain.rows, stripes.rows)):
        rows = rows_of(chain, stripe)
        of_runs = [
            [
                Share(nest, number, rows[nest.name], group, len(groups), channels, nest is run[-1])
                for group, channels in enumerate(groups)
                for nest in run
            ]
            for run, groups in runs
        ]
        made += interleaved(list(joined.from_iterable(of_runs[:first])), waiting)
        waiting = list(joined.from_iterable(of_runs[first:]))
    return made + waiting


def interleaved(many: Sequence[Item], few: Sequence[Item]) -> list[Item]:
    """Both in their orders, those of the second at even distances between those of the first."""
    places = [(len(many) * at // (len(few) + 1), item) for at, item in enumerate(few, 1)]
    made: list[Item] = []
    for at, item in enumerate(many):
        made += [other for place, other in places if place == at]
        made.append(item)
    return made


def rows_of(chain: Chain, rows: range) -> Mapping[str, range]:
    """For the nests of a chain, by name, the rows that each computes for some rows of the chain's result."""
    wanted: dict[str, range] = {chain.nests[-1].result.tensor: rows}
    found: dict[str, range] = {}
    for nest in reversed(chain.nests):
        own = found[nest.name] = wanted[nest.result.tensor]
        for access in nest.reads.values():
            if access.tensor in chain.inner:
                read = _rows_read(nest, access, own, chain.program.buffers[access.tensor])
                known = wanted.get(access.tensor, read)
                wanted[access.tensor] = range(min(known.start, read.start), max(known.stop, read.stop))
    return found


def _rows_read(nest: Nest, access: Access, rows: range, buffer: Buffer) -> range:
    """The rows of a tensor that some rows of a nest's result need: those within its bounds, and one at least."""
    trips = {loop.name: range(loop.trip) for loop in nest.loops} | {row_loop(nest): rows}
    ends = [(by * trips[loop][0], by * trips[loop][-1]) for loop, by in access.index[ROW].terms]
    low, high = (access.index[ROW].constant + sum(map(end, ends)) for end in (min, max))
    height = buffer.shape[ROW]
    first = min(max(0, low), height - 1)
    return range(first, max(first, min(high, height - 1)) + 1)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where a nest finds a tensor, or a part of it: under a name, from a row and a channel on."""

    tensor: str
    row: int = 0
    channel: int = 0


class _Cutter:
    """Makes the pieces of a chain's nests, and the buffers and constants that they use."""

    def __init__(self, chain: Chain, stripes: Stripes) -> None:
        self._chain = chain
        self._stripes = stripes
        self._count = len(cut_evenly(chain.rows, stripes.rows))
        program = chain.program
        self.buffers = {name: buffer for name, buffer in program.buffers.items() if name not in chain.inner}
        self.constants: dict[str, NDArray[Any]] = dict(program.constants)
        self.types: dict[str, IntegerType] = dict(program.constant_types)
        self._places: dict[tuple[int, str], _Piece] = {}  # by stripe, the tensors between nests, in the last group

    def pieces(self) -> list[Nest]:
        """The pieces of all nests, in order."""
        made = []
        for share in shares(self._chain, self._stripes):
            group = f".channels{share.group}" if share.groups > 1 else ""
            if share.is_last:
                self._place(share, f".rows{share.stripe}", range(0))
            else:
                self._place(share, f".rows{share.stripe}{group}", share.channels)
            made.append(replace(self._piece(share), name=f"{share.nest.name}.rows{share.stripe}{group}"))
        return made

    def _place(self, share: Share, suffix: str, channels: range) -> None:
        """A buffer for what is computed; one without channels has them all."""
        whole = self._chain.program.buffers[share.nest.result.tensor]
        if whole.name not in self._chain.inner:
            return
        name, (batches, all_channels, _, columns) = whole.name + suffix, whole.shape
        self._places[share.stripe, whole.name] = _Piece(name, share.rows.start, channels.start)
        self.buffers[name] = replace(
            whole, name=name, shape=(batches, len(channels) or all_channels, len(share.rows), columns)
        )

    def _piece(self, share: Share) -> Nest:
        """Some rows and channels of a nest; its products are divided evenly."""
        nest = share.nest
        trips, group = {row_loop(nest): share.rows}, ""
        if share.channels:
            group = channel_loop(nest)
            trips[group] = share.channels
        loops = tuple([replace(own, trip=len(trips[own.name])) if own.name in trips else own for own in nest.loops])
        at, of = share.stripe * share.groups + share.group, self._count * share.groups
        return replace(
            nest,
            loops=loops,
            reads={name: self._moved(access, share.stripe, trips, group) for name, access in nest.reads.items()},
            result=self._moved(nest.result, share.stripe, trips, group),
            macs=nest.macs * (at + 1) // of - nest.macs * at // of,
            layer=nest.layer or nest.name,
        )

    def _moved(self, access: Access, stripe: int, trips: Mapping[str, range], group: str) -> Access:
        """An access of some iterations, to where they find its tensor; `group` is the loop over a group's channels."""
        first = {loop: own.start for loop, own in trips.items()}
        if access.tensor in self._chain.program.constants:
            place = _Piece(self._constant(access, trips, group))
            first.pop(group, None)  # it has only the group's
        else:
            place = self._places.get((stripe, access.tensor), _Piece(access.tensor))
        begins = {ROW: place.row, CHANNEL: place.channel} if place.tensor != access.tensor else {}
        index = []
        for dimension, own in enumerate(access.index):
            moved = sum(by * first.get(loop, 0) for loop, by in own.terms)
            index.append(replace(own, constant=own.constant + moved - begins.get(dimension, 0)))
        return replace(access, tensor=place.tensor, index=tuple(index))

    def _constant(self, access: Access, trips: Mapping[str, range], group: str) -> str:
        """The name of a constant's part that belongs to a group's channels; of one that is for all, its own."""
        if not any(group in dict(index.terms) for index in access.index):
            return access.tensor
        channels = trips[group]
        name = f"{access.tensor}.channels{channels.start}"
        if name not in self.constants:
            cut = [
                slice(channels.start, channels.stop) if group in dict(index.terms) else slice(None)
                for index in access.index
            ]
            self.constants[name] = self._chain.program.constants[access.tensor][tuple(cut)]
            self.types[name] = self._chain.program.constant_types[access.tensor]
        return name


def _groups(run: Sequence[Nest], channels: int | None) -> list[range]:
    """The groups of a run of several nests; of a single one, all channels, which an empty range stands for."""
    if channels is None or len(run) == 1:
        return [range(0)]
    count = trip_of(run[-1], channel_loop(run[-1]))
    return [range(first, min(first + channels, count)) for first in range(0, count, channels)]
