"""What an image with few channels is in DRAM: windows of it, so that each word on chip is full of what is summed.

Example, a 7×7 convolution with stride 2 of [1, 3, 224, 224]: a word that holds one pixel would use 3 of 16 lanes, 49
times a window. With whole windows, the host stores [1, 147, 112, 112]: the 7 · 7 · 3 elements that one pixel of the
result depends on are the channels of one stored pixel, 10 words. Windows of two image rows, [1, 42, 115, 112], overlap
less: four such pixels, one below the other, are a window of 12 words, and a third as many words are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.isa.errors import IsaError


@dataclass(frozen=True, slots=True)
class Windows:
    """An image [channels, height, width] as windows of `fold` of its rows.

    Window (y, x) begins `top` rows above and `left` columns left of the image's pixel (y · down, x · across). Channel
    (column · fold + row) · channels + c of the stored tensor is channel c of the window's pixel (row, column).
    """

    image: tuple[int, int, int]
    top: int
    left: int
    fold: int
    down: int
    across: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of it as numbers, for texts: channels, height, width, top, left, fold, down, across."""
        return (*self.image, self.top, self.left, self.fold, self.down, self.across)

    @staticmethod
    def from_numbers(numbers: Sequence[int]) -> Windows:
        """The windows whose `numbers` these are; raises IsaError for any others."""
        if len(numbers) != 8 or min(numbers) < 0 or not all((*numbers[:3], *numbers[5:])):
            raise IsaError(
                f"windows({', '.join(map(str, numbers))}): expected 8 numbers: channels, height, width, top, left, "
                "fold, down, across; only top and left may be 0"
            )
        channels, height, width, top, left, fold, down, across = numbers
        return Windows((channels, height, width), top, left, fold, down, across)

    @property
    def column_elements(self) -> int:
        """Elements of one column of a window: a tensor of windows has a multiple of them as channels."""
        return self.fold * self.image[0]

    def gather(self, images: NDArray[Any], padding: int, stored: tuple[int, int, int, int]) -> NDArray[Any]:
        """The stored tensor of images [N, channels, height, width]; what is not of the image is `padding`."""
        batch, elements, rows, columns = stored
        taps = elements // self.column_elements
        height, width = (rows - 1) * self.down + self.fold, (columns - 1) * self.across + taps
        padded = np.full((batch, self.image[0], height, width), padding, images.dtype)
        inside = images[:, :, : max(0, height - self.top), : max(0, width - self.left)]
        padded[:, :, self.top : self.top + inside.shape[2], self.left : self.left + inside.shape[3]] = inside
        windows = sliding_window_view(padded, (self.fold, taps), (2, 3))[:, :, :: self.down, :: self.across]
        return windows.transpose(0, 5, 4, 1, 2, 3).reshape(stored)
