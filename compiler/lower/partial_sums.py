"""Sums that are in the memory of sums in several pieces, one beside the other, until an instruction adds them up.

The pieces of one result are in rows of their own: piece b of row y is in row `y + b · rows`. A result whose pieces take
more than a share of that memory is computed part by part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.compiler.lower.network import LoweringNetwork, affine
from tilewright.compiler.lower.sum_formats import SumsMemory
from tilewright.compiler.nest.nest import Access, Buffer

SHARE = 4
"""Pieces of sums take at most one part of so many of their memory: those of the next part are computed beside."""


@dataclass(frozen=True, slots=True)
class SummedPart:
    """A part of the result whose sums are in memory together."""

    name: str
    channels: range
    rows: range
    columns: range

    @property
    def own(self) -> slice:
        """Its channels among those of all."""
        return slice(self.channels.start, self.channels.stop)


def parts_of(
    name: str, shape: tuple[int, ...], pieces: int, memory: SumsMemory, network: LoweringNetwork
) -> Iterator[SummedPart]:
    """As large as the memory has room for; pixels are divided where those of one weight tile have none."""
    batches, channels, rows, columns = shape
    room = max(1, memory.words // SHARE // (pieces * batches * memory.tile_words))  # tiles of a pixel
    width = min(columns, room)
    height = min(rows, room // width)
    step = room // (width * height) * memory.tile_words * network.lanes
    corners = [
        (o, y, x) for y in range(0, rows, height) for x in range(0, columns, width) for o in range(0, channels, step)
    ]
    for number, (o, y, x) in enumerate(corners):
        yield SummedPart(
            name if len(corners) == 1 else f"{name}.part{number}",
            range(o, min(o + step, channels)),
            range(y, min(y + height, rows)),
            range(x, min(x + width, columns)),
        )


def sums_of(part: SummedPart, batches: int, pieces: int, network: LoweringNetwork) -> str:
    """A new buffer for the pieces of a part."""
    shape = (batches, len(part.channels), pieces * len(part.rows), len(part.columns))
    name = network.add_buffer(f"{part.name}.sums", shape)
    network.buffers[name] = Buffer(name, shape, network.arithmetic.sum)
    return name


def piece(sums: str, part: SummedPart, number: int) -> Access:
    """Where a piece of each sum goes."""
    rows = affine(("y", 1), constant=number * len(part.rows))
    return Access(sums, (affine(("n", 1)), affine(("o", 1)), rows, affine(("x", 1))))


def all_pieces(sums: str, part: SummedPart) -> Access:
    """A read of all pieces of a sum, in a loop b."""
    rows = affine(("y", 1), ("b", len(part.rows)))
    return Access(sums, (affine(("n", 1)), affine(("o", 1)), rows, affine(("x", 1))))


def place_of(part: SummedPart, result: str) -> Access:
    """Where a part's results go."""
    corner = (0, part.channels.start, part.rows.start, part.columns.start)
    return Access(
        result, tuple(affine((loop, 1), constant=at) for loop, at in zip(("n", "o", "y", "x"), corner, strict=True))
    )


def of_part(access: Access, part: SummedPart) -> Access:
    """An access of the whole result's loops, from a part's first channel, row and column on."""
    return access.begun({"o": part.channels.start, "y": part.rows.start, "x": part.columns.start})
