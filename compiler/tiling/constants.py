"""Constants as bytes of the machine's words: parameters of channels or pixels, tables, tensors in DRAM.

Of parameters that differ from pixel to pixel, as the scales of rows that are normalised, a lane block has a word for
each pixel. Blocks that have the same words at all pixels share them: where a row is several channels of an image, one
after the other, a channel's blocks do.

Example: 2 channels of 40 positions in a row, 16 lanes: 5 blocks, of which the first two are equal and the last two;
the third holds the end of one channel and the beginning of the other. So 3 words for each pixel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.graph.graph import CHANNEL
from tilewright.compiler.nest.nest import Access
from tilewright.compiler.select.bindings import POINTS, Parameters
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.tiling.layout import DramLayout
from tilewright.isa.language.numeric import FloatType, IntegerType
from tilewright.isa.machine.memory import BYTE_BITS, Element, Memory, storage_bits
from tilewright.isa.program.blocks import in_blocks
from tilewright.isa.program.small_floats import small_float_of

WIDEST = 64
"""Bits of the widest integer of numpy."""


def pack_elements(values: NDArray[Any], element: IntegerType) -> bytes:
    """Numbers as elements of a type: integers, or of floats of few bits their codes."""
    return pack_integers(stored_elements(values, element), storage_bits(element.bits))


def stored_elements(values: NDArray[Any], element: IntegerType) -> NDArray[Any]:
    """What is stored of numbers: of floats of few bits their codes."""
    return small_float_of(element).codes(values) if isinstance(element, FloatType) else values


def pack_integers(values: NDArray[Any], bits: int) -> bytes:
    """Integers in the order of the array as elements of a power of two of bits, the first one lowest.

    Where they share bytes, the last axis fills whole ones.
    """
    if bits >= BYTE_BITS:
        return values.astype(f"<i{bits // BYTE_BITS}", copy=False).tobytes()
    together = BYTE_BITS // bits
    low_bits = (values & ((1 << bits) - 1)).astype(np.uint8).reshape(-1, together)
    return np.bitwise_or.reduce(low_bits << np.arange(0, BYTE_BITS, bits, dtype=np.uint8), axis=-1).tobytes()


def pack_parameters(element: Element, width: int, blocks: int, values: Mapping[str, NDArray[Any]]) -> bytes:
    """Words of a structured element, one for each lane block; `values` holds each field's value by channel.

    Lanes beyond the channels hold zeros.
    """
    count = blocks * width
    if element.bits > WIDEST:
        return _pack_wide(element, count, values)
    word = np.dtype(f"<u{element.bytes}")
    packed = np.zeros(count, word)
    for field in element.fields:
        own = values[field.name][:count].astype(word)
        packed[: len(own)] |= (own & word.type((1 << field.type.bits) - 1)) << word.type(field.low_bit)
    return packed.tobytes()


def _pack_wide(element: Element, count: int, values: Mapping[str, NDArray[Any]]) -> bytes:
    """The same for elements that no integer of numpy holds."""
    packed = [0] * count
    for field in element.fields:
        mask = (1 << field.type.bits) - 1
        for channel, value in enumerate(values[field.name].tolist()[:count]):
            packed[channel] |= (value & mask) << field.low_bit
    return b"".join(value.to_bytes(element.bytes, "little") for value in packed)


def pack_tables(memory: Memory, entries: NDArray[Any], blocks: range | None) -> bytes:
    """A word for each entry of the tables [C, entries] of some lane blocks; None: of one table that all lanes share.

    Lanes beyond the channels hold the last channel's table.
    """
    count = entries.shape[-1]
    if blocks is None:
        rows = np.broadcast_to(entries, (1, memory.width, count))
    else:
        channels = np.arange(blocks.start * memory.width, blocks.stop * memory.width)
        rows = entries[np.minimum(channels, len(entries) - 1)].reshape(len(blocks), memory.width, count)
    assert memory.element.type is not None
    return pack_elements(np.swapaxes(rows, 1, 2), memory.element.type)


def pack_tensor(values: NDArray[Any], element: IntegerType, layout: DramLayout) -> bytes:
    """A constant tensor [N, C, H, W] as words in DRAM; channels that do not exist are zero."""
    return pack_integers(
        in_blocks(stored_elements(values, element), layout.lanes), layout.word_bytes * BYTE_BITS // layout.lanes
    )


# -- parameters that differ from pixel to pixel, as the scales of rows that are normalised -----------------------------


@dataclass(frozen=True)
class PixelWords:
    """Parameters of some lane blocks of a box of pixels.

    `values` are those of the blocks that differ, [fields, blocks, batches, rows, columns, lanes]; a dimension along
    which all are the same has the size 1. `places` says for each lane block which of them it reads.
    """

    fields: Sequence[str]
    values: NDArray[np.int64]
    places: tuple[int, ...]

    @property
    def count(self) -> int:
        """Words."""
        return int(np.prod(self.values.shape[1:-1]))

    def strides(self, loops: Sequence[str]) -> dict[str, int]:
        """Words from pixel to pixel, for the loops over batches, rows and columns."""
        _, _, batches, rows, columns, _ = self.values.shape
        by = (rows * columns if batches > 1 else 0, columns if rows > 1 else 0, 1 if columns > 1 else 0)
        return {loop: stride for loop, stride in zip(loops, by, strict=True) if stride}

    @property
    def offsets(self) -> tuple[int, ...]:
        """The first word of each lane block."""
        return tuple(place * int(np.prod(self.values.shape[2:-1])) for place in self.places)

    def packed(self, memory: Memory) -> bytes:
        values = {name: each.ravel() for name, each in zip(self.fields, self.values, strict=True)}
        return pack_parameters(memory.element, memory.width, self.count, values)


def pixel_blocks(cover: Cover, constants: Mapping[str, NDArray[Any]], lanes: int) -> dict[tuple[int, str], int]:
    """How many lane blocks differ, of parameters that differ from pixel to pixel: by a cover's step and operand."""
    reads, space = cover.nest.reads, cover.space
    points = [range(space.trips[loop]) for loop in space.points]
    blocks = range(-(-space.trips[space.lane] // lanes))
    return {
        (index, name): len(set(pixel_words(bound, reads, constants, blocks, points, lanes).places))
        for index, step in enumerate(cover.steps)
        for name, bound in step.inputs.items()
        if isinstance(bound, Parameters) and bound.points(reads)
    }


def pixel_words(
    parameters: Parameters,
    reads: Mapping[str, Access],
    constants: Mapping[str, NDArray[Any]],
    blocks: range,
    points: Sequence[range],
    lanes: int,
) -> PixelWords:
    """The words of some lane blocks, for ranges of batches, rows and columns."""
    values = [_of_box(bound, reads, constants, blocks, points, lanes) for bound in parameters.fields.values()]
    full = np.stack(np.broadcast_arrays(*values))
    full = np.moveaxis(full.reshape(*full.shape[:2], len(blocks), lanes, *full.shape[3:]), [2, 3], [1, -1])
    seen: dict[bytes, int] = {}
    places = tuple(seen.setdefault(full[:, block].tobytes(), len(seen)) for block in range(len(blocks)))
    firsts = [places.index(place) for place in range(len(seen))]
    return PixelWords(tuple(parameters.fields), np.ascontiguousarray(full[:, firsts]), places)


def _of_box(
    bound: str | int,
    reads: Mapping[str, Access],
    constants: Mapping[str, NDArray[Any]],
    blocks: range,
    points: Sequence[range],
    lanes: int,
) -> NDArray[np.int64]:
    """One field as [batches, channels of whole blocks, rows, columns]; lanes beyond the channels are as the last."""
    if isinstance(bound, int):
        values = np.full((1, 1, 1, 1), bound, np.int64)
    else:
        values = constants[reads[bound].tensor].astype(np.int64)
        values = values if values.ndim == len((CHANNEL, *POINTS)) else values.reshape(1, -1, 1, 1)
    for dimension, wanted in zip(POINTS, points, strict=True):
        if values.shape[dimension] > 1:
            values = values.take(wanted, dimension)
    channels = np.arange(blocks.start * lanes, blocks.stop * lanes)
    return values.take(np.minimum(channels, values.shape[CHANNEL] - 1), CHANNEL)
