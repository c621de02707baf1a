"""Cuts a chain into stripes of rows, and runs of its nests into groups of channels: nests to nests, the same values.

Each stripe passes through all nests before the next one begins; or its last nests are computed between the first ones
of the next stripe. Where a window reaches over its edge, the rows there are computed for both stripes, or copied from
one to the next. Example, 4 rows of a 3×3 convolution of stride 1 need 6 rows of the layer before it, of which the next
stripe needs 2 again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as joined
from typing import Any, TypeVar

from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL, ROW
from tilewright.compiler.nest.expressions import source
from tilewright.compiler.nest.nest import Access, Affine, Buffer, Nest, NestLoop, NestProgram
from tilewright.compiler.stripes.chain import Chain, channel_loop, row_loop, trip_of
from tilewright.isa.language.numeric import IntegerType

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Stripes:
    """How to cut a chain: `rows` of its result in a stripe, and `channels` of a run in a group; None: all of them.

    `is_interleaved`: the nests behind the longest run stand between those of the next stripe up to there.
    `copies_edges`: rows that the stripe before has computed are copied from it, not computed again.
    """

    rows: int
    channels: int | None = None
    is_interleaved: bool = False
    copies_edges: bool = False

    def __str__(self) -> str:
        channels = "" if self.channels is None else f" and {self.channels} channels"
        together = " beside the next" if self.is_interleaved else ""
        copied = " with copied edges" if self.copies_edges else ""
        return f"{self.rows} row{'s' * (self.rows != 1)}{channels} at a time{together}{copied}"


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


_PIECE = re.compile(r"\.(rows|channels)\d+(?=\.|$)")
"""What names of pieces have more than those of what they are pieces of."""


def name_uncut(name: str) -> str:
    """The name of the nest, tensor or constant of which something is a piece. Example: `w` of `w.rows1.channels2`."""
    return _PIECE.sub("", name)


def cut_evenly(count: int, size: int) -> list[range]:
    """A number of things in pieces of at most a size, all as large as can be alike."""
    pieces = -(-count // size)
    edges = [count * piece // pieces for piece in range(pieces + 1)]
    return [range(first, last) for first, last in zip(edges, edges[1:], strict=False)]


@dataclass(frozen=True, slots=True)
class StripeRows:
    """What a stripe needs of a nest's result: first the rows that the stripe before has, then those to compute."""

    edge: range
    own: range

    @property
    def all(self) -> range:
        return range(self.edge.start, self.own.stop)


@dataclass(frozen=True, slots=True)
class StripeShare:
    """What is computed at once: the rows of a nest for a stripe, by its number, and the channels of one of `groups`."""

    nest: Nest
    stripe: int
    rows: StripeRows
    group: int
    groups: int
    channels: range  # empty where a group has all of them
    is_last: bool  # of its run: others read all channels of its result

    @property
    def part(self) -> float:
        """Which part of the nest is computed."""
        return len(self.rows.own) * self._part_of_row

    @property
    def part_copied(self) -> float:
        """Which part of its result is copied."""
        return len(self.rows.edge) * self._part_of_row

    @property
    def _part_of_row(self) -> float:
        row = 1 / trip_of(self.nest, row_loop(self.nest))
        return row * len(self.channels) / trip_of(self.nest, channel_loop(self.nest)) if self.channels else row


def shares(chain: Chain, stripes: Stripes) -> list[StripeShare]:
    """Everything that is computed of a chain in stripes, in its order."""
    runs = [(run, _groups(run, stripes.channels)) for run in chain.runs]
    lengths = [len(run) for run in chain.runs]
    first = 1 + lengths.index(max(lengths)) if stripes.is_interleaved else len(runs)
    made: list[StripeShare] = []
    waiting: list[StripeShare] = []
    for number, rows in enumerate(rows_of_stripes(chain, stripes)):
        of_runs = [
            [
                StripeShare(nest, number, rows[nest.name], group, len(groups), channels, nest is run[-1])
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


def rows_of_stripes(chain: Chain, stripes: Stripes) -> Iterator[Mapping[str, StripeRows]]:
    """For each stripe, by nest, its rows; without copies of edges, all of them are computed."""
    before: Mapping[str, StripeRows] = {}
    for stripe in cut_evenly(chain.rows, stripes.rows):
        rows = rows_of(chain, stripe, before)
        yield rows
        before = rows if stripes.copies_edges else {}


def rows_of(chain: Chain, rows: range, before: Mapping[str, StripeRows]) -> Mapping[str, StripeRows]:
    """For the nests of a chain, by name, their rows for some rows of its result; `before`: those that are there."""
    wanted: dict[str, range] = {chain.nests[-1].result.tensor: rows}
    found: dict[str, StripeRows] = {}
    for nest in reversed(chain.nests):
        own = found[nest.name] = _divided(wanted[nest.result.tensor], before.get(nest.name))
        for access in nest.reads.values():
            if access.tensor in chain.inner:
                read = _rows_read(nest, access, own.own, chain.program.buffers[access.tensor])
                known = wanted.get(access.tensor, read)
                wanted[access.tensor] = range(min(known.start, read.start), max(known.stop, read.stop))
    return found


def _divided(wanted: range, before: StripeRows | None) -> StripeRows:
    """Rows that are wanted, of which some are there: at least the last is computed, even if it is."""
    own = wanted.start
    if before is not None and before.all.start <= wanted.start:
        own = max(own, min(before.all.stop, wanted.stop - 1))
    return StripeRows(range(wanted.start, own), range(own, wanted.stop))


def _rows_read(nest: Nest, access: Access, rows: range, buffer: Buffer) -> range:
    """The rows of a tensor that some rows of a nest's result need: those within its bounds, and one at least."""
    trips = {loop.name: range(loop.trip) for loop in nest.loops} | {row_loop(nest): rows}
    ends = [(by * trips[loop][0], by * trips[loop][-1]) for loop, by in access.index[ROW].terms]
    low, high = (access.index[ROW].constant + sum(map(end, ends)) for end in (min, max))
    height = buffer.shape[ROW]
    first = min(max(0, low), height - 1)
    return range(first, max(first, min(high, height - 1)) + 1)


@dataclass(frozen=True, slots=True)
class _TensorPiece:
    """Where a nest finds a tensor, or a part of it: under a name, from a row and a channel on."""

    tensor: str
    row: int = 0
    channel: int = 0


def copy_of_rows(nest: Nest, buffer: Buffer, rows: int, channels: int = 0) -> Nest:
    """A copy of the first rows of a nest's result to the first ones of another buffer; without `channels`, of all."""
    batches, all_channels, _, columns = buffer.shape
    trips = {"n": batches, "c": channels or all_channels, "y": rows, "x": columns}
    loops = tuple([NestLoop(name, trip) for name, trip in trips.items()])
    access = Access(buffer.name, tuple([Affine(((name, 1),)) for name in trips]))
    expr = source("x", buffer.type.values)
    return Nest(f"{nest.name}.edge", nest.nodes, loops, {"x": access}, access, expr, 0, nest.layer or nest.name)


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
        self._places: dict[
            tuple[int, str], _TensorPiece
        ] = {}  # by stripe, the tensors between nests, in the last group
        self._groups: dict[tuple[str, int], _TensorPiece] = {}  # by group, the same in the last stripe

    def pieces(self) -> list[Nest]:
        """The pieces of all nests, in order."""
        made = []
        for share in shares(self._chain, self._stripes):
            group = f".channels{share.group}" if share.groups > 1 else ""
            suffix, tensor = f".rows{share.stripe}{group}", share.nest.result.tensor
            if tensor in self._chain.inner:
                before = self._groups.get((tensor, share.group))
                if share.is_last:
                    here = self._place(share, f".rows{share.stripe}", range(0))
                else:
                    here = self._place(share, suffix, share.channels)
                if share.rows.edge and before is not None:
                    made.append(replace(self._copy(share, before, here), name=f"{share.nest.name}{suffix}.edge"))
            made.append(replace(self._piece(share), name=f"{share.nest.name}{suffix}"))
        return made

    def _place(self, share: StripeShare, suffix: str, channels: range) -> _TensorPiece:
        """A buffer for what a stripe needs; one without channels has them all."""
        whole = self._chain.program.buffers[share.nest.result.tensor]
        name, (batches, all_channels, _, columns) = whole.name + suffix, whole.shape
        shape = batches, len(channels) or all_channels, len(share.rows.all), columns
        self.buffers[name] = replace(whole, name=name, shape=shape)
        piece = _TensorPiece(name, share.rows.all.start, channels.start)
        self._places[share.stripe, whole.name] = self._groups[whole.name, share.group] = piece
        return piece

    def _copy(self, share: StripeShare, before: _TensorPiece, here: _TensorPiece) -> Nest:
        """Brings the rows at the edge from where the stripe before has them to where this one has them."""
        whole = self._chain.program.buffers[share.nest.result.tensor]
        copy = copy_of_rows(share.nest, whole, len(share.rows.edge), len(share.channels))

        def access(piece: _TensorPiece) -> Access:
            index = list(copy.result.index)
            begins = {ROW: share.rows.all.start - piece.row, CHANNEL: share.channels.start - piece.channel}
            for dimension, constant in begins.items() if share.channels else [(ROW, begins[ROW])]:
                index[dimension] = replace(index[dimension], constant=constant)
            return Access(piece.tensor, tuple(index))

        return replace(copy, reads={"x": access(before)}, result=access(here))

    def _piece(self, share: StripeShare) -> Nest:
        """Some rows and channels of a nest; its products are divided evenly."""
        nest = share.nest
        trips, group = {row_loop(nest): share.rows.own}, ""
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
            place = _TensorPiece(self._constant(access, trips, group))
            first.pop(group, None)  # it has only the group's
        else:
            place = self._places.get((stripe, access.tensor), _TensorPiece(access.tensor))
        begins = {ROW: place.row, CHANNEL: place.channel} if place.tensor != access.tensor else {}
        index = [
            replace(own, constant=own.constant - begins.get(dimension, 0))
            for dimension, own in enumerate(access.begun(first).index)
        ]
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
