"""How an image with few channels lies in DRAM, so that each word on chip is filled from one run of bytes.

Example, a 7×7 convolution with stride 2 of [1, 3, 224, 224]: a word that holds one pixel would use 3 of 16 lanes, 49
times a window. DMA reads words from any byte on, so the image is stored as [rows, columns, 2 image rows, 3 channels]:
7 columns of two image rows are 42 consecutive bytes, three words, and four such rows hold the window: 12 words, not 49.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError


@dataclass(frozen=True, slots=True)
class Windows:
    """An image [channels, height, width] as overlapping windows of its rows.

    It is stored as bytes [N, rows, columns, fold, channels] and then one word: `fold` image rows lie together, with
    `top` and `left` pixels of padding before the image and as many after it as it takes. Channel e of the stored tensor
    [N, E, rows, X] is byte e of a window, and column x is the window that begins at pixel column `step · x`.
    """

    image: tuple[int, int, int]
    top: int
    left: int
    fold: int
    columns: int
    step: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of it as numbers, for texts: channels, height, width, top, left, fold, columns, step."""
        return (*self.image, self.top, self.left, self.fold, self.columns, self.step)

    @staticmethod
    def from_numbers(numbers: Sequence[int]) -> Windows:
        """The windows whose `numbers` these are; raises IsaError for any others."""
        if len(numbers) != 8 or min(numbers) < 0 or not all((*numbers[:3], *numbers[5:])):
            raise IsaError(
                f"windows({', '.join(map(str, numbers))}): expected 8 numbers: channels, height, width, top, left, "
                "fold, columns, step; only top and left may be 0"
            )
        channels, height, width, top, left, fold, columns, step = numbers
        return Windows((channels, height, width), top, left, fold, columns, step)

    @property
    def column_bytes(self) -> int:
        return self.fold * self.image[0]

    @property
    def row_bytes(self) -> int:
        return self.columns * self.column_bytes

    def bytes(self, stored: tuple[int, int, int, int], lanes: int) -> int:
        """All bytes of the tensor; the last window's last word may reach beyond the image."""
        return stored[0] * stored[2] * self.row_bytes + lanes

    def pack(self, array: NDArray[np.int8], padding: int, rows: int, lanes: int) -> NDArray[np.int8]:
        """The bytes of images [N, channels, height, width]; what is not of the image holds `padding`."""
        batch, channels, height, width = array.shape
        padded = np.full((batch, channels, rows * self.fold, self.columns), padding, np.int8)
        inside = array[:, :, : rows * self.fold - self.top, : self.columns - self.left]
        padded[:, :, self.top : self.top + inside.shape[2], self.left : self.left + inside.shape[3]] = inside
        folded = padded.reshape(batch, channels, rows, self.fold, self.columns).transpose(0, 2, 4, 3, 1)
        return np.concatenate([folded.ravel(), np.full(lanes, padding, np.int8)])

    def gather(self, content: NDArray[Any], stored: tuple[int, int, int, int]) -> NDArray[Any]:
        """The stored tensor [N, E, rows, X] out of the bytes that `pack` gives."""
        batch, elements, rows, windows = stored
        n, e, y, x = np.ogrid[:batch, :elements, :rows, :windows]
        return content[(n * rows + y) * self.row_bytes + x * self.step * self.column_bytes + e]
