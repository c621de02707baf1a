"""How an image with few channels lies in DRAM, so that each word on chip is filled from one run of bytes.

Example, a 7×7 convolution with stride 2 of [1, 3, 224, 224]: a word that holds one pixel would use 3 of 16 lanes, 49
times a window. DMA reads words from any byte on, so the image is stored as [rows, columns, 2 image rows, 3 channels]:
7 columns of two image rows are 42 consecutive bytes, three words, and four such rows hold the window: 12 words, not 49.
The stored rows may also share image rows: if each holds seven, and begins two further down, a window is 147 consecutive
bytes: 10 words.
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

    It is stored as bytes [N, rows, columns, fold, channels] and then one word: `fold` image rows lie together, those of
    the next stored row begin `down` image rows further on; with `top` and `left` pixels of padding before the image and
    as many after it as it takes. Channel e of the stored tensor [N, E, rows, X] is byte e of a window, and column x is
    the window that begins at pixel column `step · x`. Windows that are `apart` do not overlap: the host stores the
    tensor [N, E, rows, X] itself as any other, in blocks of channels, so that DMA reads it in long runs.
    """

    image: tuple[int, int, int]
    top: int
    left: int
    fold: int
    columns: int
    step: int
    down: int
    apart: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of it as numbers, for texts, in the order of `from_numbers`; the last ones where they say something."""
        shared: tuple[int, ...] = () if self.down == self.fold and not self.apart else (self.down,)
        shared += (1,) if self.apart else ()
        return (*self.image, self.top, self.left, self.fold, self.columns, self.step, *shared)

    @staticmethod
    def from_numbers(numbers: Sequence[int]) -> Windows:
        """The windows whose `numbers` these are; raises IsaError for any others."""
        is_right = 8 <= len(numbers) <= 10 and min(numbers) >= 0 and all((*numbers[:3], *numbers[5:]))
        if not is_right or any(number != 1 for number in numbers[9:]):
            raise IsaError(
                f"windows({', '.join(map(str, numbers))}): expected 8 to 10 numbers: channels, height, width, top, "
                "left, fold, columns, step, down, 1 for windows apart; only top and left may be 0"
            )
        channels, height, width, top, left, fold, columns, step, *shared = numbers
        down = shared[0] if shared else fold
        return Windows((channels, height, width), top, left, fold, columns, step, down, len(shared) > 1)

    @property
    def column_bytes(self) -> int:
        return self.fold * self.image[0]

    @property
    def row_bytes(self) -> int:
        return self.columns * self.column_bytes

    def bytes(self, stored: tuple[int, int, int, int], lanes: int) -> int:
        """All bytes of overlapping windows; the last window's last word may reach beyond the image."""
        return stored[0] * stored[2] * self.row_bytes + lanes

    def require_inside(self, stored: tuple[int, int, int, int]) -> None:
        """Raise IsaError unless the windows of a stored tensor [N, E, rows, X] are inside their rows."""
        end = (stored[3] - 1) * self.step * self.column_bytes + stored[1]
        if end > self.row_bytes:
            raise IsaError(f"windows reach to byte {end} of a row of {self.row_bytes}")

    def pack(self, array: NDArray[np.int8], padding: int, rows: int, lanes: int) -> NDArray[np.int8]:
        """The bytes of images [N, channels, height, width], overlapping; what is not of the image holds `padding`."""
        batch, channels, height, width = array.shape
        taken = np.arange(rows)[:, None] * self.down + np.arange(self.fold)  # for each stored row its image rows
        tall = (rows - 1) * self.down + self.fold
        padded = np.full((batch, channels, tall, self.columns), padding, np.int8)
        inside = array[:, :, : tall - self.top, : self.columns - self.left]
        padded[:, :, self.top : self.top + inside.shape[2], self.left : self.left + inside.shape[3]] = inside
        folded = padded[:, :, taken].transpose(0, 2, 4, 3, 1)
        return np.concatenate([folded.ravel(), np.full(lanes, padding, np.int8)])

    def gather(self, content: NDArray[Any], stored: tuple[int, int, int, int]) -> NDArray[Any]:
        """The stored tensor [N, E, rows, X] out of the bytes that `pack` gives."""
        batch, elements, rows, windows = stored
        n, e, y, x = np.ogrid[:batch, :elements, :rows, :windows]
        return content[(n * rows + y) * self.row_bytes + x * self.step * self.column_bytes + e]
