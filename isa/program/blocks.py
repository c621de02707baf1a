"""How a tensor's channels lie in words: [N, C, H, W] as [N, ceil(C / lanes), H, W, lanes], and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def in_blocks(values: NDArray[Any], lanes: int, fill: int = 0) -> NDArray[Any]:
    """A tensor [N, C, H, W] as [N, ceil(C / lanes), H, W, lanes], contiguous; lanes beyond C hold `fill`."""
    batches, channels, height, width = values.shape
    blocks = -(-channels // lanes)
    padded = np.full((batches, blocks * lanes, height, width), fill, values.dtype)
    padded[:, :channels] = values
    return np.ascontiguousarray(padded.reshape(batches, blocks, lanes, height, width).transpose(0, 1, 3, 4, 2))


def from_blocks(blocks: NDArray[Any], channels: int) -> NDArray[Any]:
    """The tensor [N, C, H, W] that `in_blocks` stores as [N, ceil(C / lanes), H, W, lanes]."""
    batches, _, height, width, _ = blocks.shape
    return blocks.transpose(0, 1, 4, 2, 3).reshape(batches, -1, height, width)[:, :channels]
