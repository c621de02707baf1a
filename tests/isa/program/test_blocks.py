"""Channels in words: which element lies in which lane, and back."""

import numpy as np

from tilewright.isa.program.blocks import from_blocks, in_blocks


def test_a_channel_lies_in_its_lane_of_its_block() -> None:
    values = np.arange(2 * 5 * 2 * 3, dtype=np.int8).reshape(2, 5, 2, 3)
    blocks = in_blocks(values, 4, fill=-9)
    assert blocks.shape == (2, 2, 2, 3, 4) and blocks.dtype == np.int8 and blocks.flags.c_contiguous
    for batch, channel, row, column in np.ndindex(values.shape):
        assert blocks[batch, channel // 4, row, column, channel % 4] == values[batch, channel, row, column]
    assert (blocks[:, 1, :, :, 1:] == -9).all()


def test_from_blocks_drops_the_lanes_beyond_the_channels() -> None:
    for channels in (1, 4, 5, 8):
        values = np.random.default_rng(channels).integers(-128, 128, (1, channels, 3, 2))
        assert np.array_equal(from_blocks(in_blocks(values, 4), channels), values)
