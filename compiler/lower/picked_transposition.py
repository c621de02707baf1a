"""The exchange of a tensor's channels with its pixels on a machine that reads no computed tensor transposed.

For each channel of a word there is a convolution that picks: it takes as many pixels at a time as a word has lanes, and
its result is this channel of each of them. Copies of whole words bring the words of the source's channels beside each
other before, and those of the result's channels behind each other afterwards.

Example, 16 lanes, 48 pixels of 32 channels. Two copies make two images of 16 channels. In each, convolution c of 16
convolutions, with 16 taps and stride 16, makes 3 words: lane t of word q is channel c of pixel 16 · q + t. Three copies
make them 48 channels of 32 pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewright.compiler.graph.graph import BATCH, CHANNEL, Operator
from tilewright.compiler.lower.moves import picking
from tilewright.compiler.lower.network import LoweringNetwork, affine, identity_index, result_loops
from tilewright.compiler.lower.products import product_nest
from tilewright.compiler.nest.nest import Access, Affine, Nest


def picked_transposition(
    name: str, operator: Operator, trips: Sequence[int], read: Access, write: Access, network: LoweringNetwork
) -> Iterator[Nest]:
    """Nests that write what they read, where the loop x walks over channels of the source and o along its pixels.

    `trips` are those of n, o, y and x; the source's channels are x plus a multiple of the lanes.
    """
    _, pixels, rows, channels = trips
    lanes = network.lanes
    if pixels > lanes and rows > 1:  # y then walks along the words of the result's channels
        for row in range(rows):
            one = (trips[0], pixels, 1, channels)
            at = {"y": row}
            yield from picked_transposition(f"{name}.row{row}", operator, one, read.fixed(at), write.fixed(at), network)
        return
    whole = channels // lanes * lanes
    for first, count in ((0, whole), (whole, channels - whole)):
        if count:
            part = name if count == channels else f"{name}.part{first}"
            to = write.begun({"x": first})
            channel = replace(read.index[CHANNEL], constant=read.index[CHANNEL].constant + first)
            source = replace(read, index=(read.index[BATCH], channel, *read.index[2:]))
            exchange = _Exchange(part, operator, (trips[0], pixels, rows, count), source, to, network)
            yield from exchange.nests()


@dataclass(frozen=True)
class _Exchange:
    """One of whole words of channels, or of the channels of one word; one row if there are more pixels than lanes."""

    name: str
    operator: Operator
    trips: tuple[int, int, int, int]  # of n, o, y and x
    read: Access
    write: Access
    network: LoweringNetwork

    @property
    def words(self) -> int:
        """Of the source's channels."""
        return -(-self.trips[3] // self.network.lanes)

    @property
    def groups(self) -> int:
        """Words of the result's channels."""
        return -(-self.trips[1] // self.network.lanes)

    def nests(self) -> Iterator[Nest]:
        batch, pixels, rows, channels = self.trips
        lanes = self.network.lanes
        vector = self.read
        if self.words > 1:
            images = self.network.add_buffer(f"{self.name}.images", (batch * self.words, lanes, rows, pixels))
            image = affine(*_along("n", batch, self.words), ("x", 1))
            vector = Access(images, (image, affine(), affine(*_along("y", rows)), affine(("o", 1))))
            yield from self._parted(images)
        result = self.write
        if self.groups > 1:
            turned = self.network.add_buffer(f"{self.name}.turned", (batch, lanes, self.groups, channels))
            result = Access(turned, identity_index())
        for channel in range(min(lanes, channels)):
            yield self._pick(channel, vector, result)
        if self.groups > 1:
            yield from self._joined(result.tensor)

    def _parted(self, images: str) -> Iterator[Nest]:
        """Copies that make each word of channels an image."""
        batch, pixels, rows, _ = self.trips
        lanes = self.network.lanes
        for word in range(self.words):
            channel = affine(("o", 1), constant=self.read.index[CHANNEL].constant + word * lanes)
            index = [_renamed(index, "o", (("x", 1),)) for index in self.read.index]
            index[CHANNEL] = channel
            to = (affine(*_along("n", batch, self.words), constant=word), *identity_index()[1:])
            yield self._copy(
                f"part{word}", (batch, lanes, rows, pixels), replace(self.read, index=tuple(index)), images, to
            )

    def _pick(self, channel: int, vector: Access, result: Access) -> Nest:
        """One channel of each word, of as many pixels at a time as a word has lanes."""
        batch, pixels, rows, channels = self.trips
        lanes = self.network.lanes
        taps, inputs = min(lanes, pixels), min(lanes, channels)
        windows = (("y", lanes), ("s", 1)) if self.groups > 1 else (("s", 1),)
        index = [_renamed(each, "o", windows) for each in vector.index]
        index[CHANNEL] = affine(("i", 1), constant=vector.index[CHANNEL].constant)
        reads = Access(vector.tensor, tuple(index), 0 if self.groups > 1 and pixels % lanes else None)
        to = tuple(_renamed(each, "x", (("x", lanes),)) for each in result.begun({"x": channel}).index)
        trips = (batch, taps, self.groups if self.groups > 1 else rows, self.words)
        made = picking(self._matrix(channel, inputs, taps), reads, trips, replace(result, index=to), 0, self.network)
        made = replace(made, target=self.network.unlimited(0))
        return product_nest(f"{self.name}.pick{channel}", self.operator, made, 0, self.network)

    def _joined(self, turned: str) -> Iterator[Nest]:
        """Copies that make the words of pixels channels."""
        batch, pixels, _, channels = self.trips
        lanes = self.network.lanes
        for group in range(self.groups):
            count = min(lanes, pixels - group * lanes)
            source = Access(
                turned, (affine(*_along("n", batch)), affine(("o", 1)), affine(constant=group), affine(("x", 1)))
            )
            to = self.write.begun({"o": group * lanes}).index
            yield self._copy(f"join{group}", (batch, count, 1, channels), source, self.write.tensor, to)

    def _copy(self, suffix: str, trips: tuple[int, ...], source: Access, target: str, to: tuple[Affine, ...]) -> Nest:
        copied = self.network.activation("a")
        name = f"{self.name}.{suffix}"
        return Nest(name, self.operator.nodes, result_loops(trips), {"a": source}, Access(target, to), copied, 0)

    def _matrix(self, channel: int, inputs: int, taps: int) -> str:
        """A constant [taps, inputs, 1, taps]: output t is this channel of tap t. One for all exchanges."""
        matrix = np.zeros((taps, inputs, 1, taps), np.int64)
        matrix[range(taps), channel, 0, range(taps)] = 1
        name = f"transposition.{channel}.{inputs}x{taps}"
        constants = self.network.constants
        if name in constants and np.array_equal(constants[name], matrix):
            return name
        return self.network.add_constant(name, matrix, self.network.arithmetic.weight)


def _along(loop: str, trips: int, step: int = 1) -> list[tuple[str, int]]:
    """The term of an index that moves with a loop; none if the loop has one iteration, and the result may lack it."""
    return [(loop, step)] if trips > 1 else []


def _renamed(index: Affine, loop: str, by: tuple[tuple[str, int], ...]) -> Affine:
    """An index with other loops in the place of one, each with its step in units of that one's."""
    terms = [
        term
        for name, step in index.terms
        for term in (((n, step * s) for n, s in by) if name == loop else ((name, step),))
    ]
    return replace(index, terms=tuple(terms))
