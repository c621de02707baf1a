"""Constants as bytes of the machine's words: parameters packed lane by lane, tables, tensors in DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
