"""Blocks of pixels as channels: which channel of `depth_to_space` goes where in a block.

Example, 2 channels, blocks of 2×2, order DCR: pixel (i, j) of result channel c comes from channel (2·i + j)·2 + c;
order CRD: from channel 4·c + 2·i + j. `space_to_depth` is DCR backwards.
"""

from __future__ import annotations

from collections.abc import Iterator


def block_channels(channels: int, block: int, order: str) -> Iterator[tuple[int, int, range]]:
    """For each row and column in a block, the operand's channels of the result's channels there, in order."""
    for i in range(block):
        for j in range(block):
            place = i * block + j
            if order == "DCR":
                yield i, j, range(place * channels, (place + 1) * channels)
            else:
                yield i, j, range(place, channels * block**2, block**2)
