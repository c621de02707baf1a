"""Windows of an image: every element of the stored tensor, from the image's own indices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.isa.errors import IsaError
from tilewright.isa.program.program import Tensor, require_scales
from tilewright.isa.program.windows import Windows

CASES = {
    "whole 3x3 windows": (Windows((2, 4, 5), 1, 1, 3, 1, 1), (2, 18, 4, 5)),
    "two rows, every second column": (Windows((3, 6, 7), 2, 3, 2, 2, 2), (1, 24, 5, 4)),
    "rows and columns unread at the end": (Windows((1, 8, 9), 0, 0, 1, 3, 2), (1, 2, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_element_is_the_pixel_that_the_docstring_names(name: str) -> None:
    windows, stored = CASES[name]
    channels, height, width = windows.image
    images = np.random.default_rng(0).integers(-9, 9, (stored[0], channels, height, width))
    gathered = windows.gather(images, 77, stored)
    assert gathered.shape == stored
    for n, element, y, x in np.ndindex(stored):
        tap, c = divmod(element, channels)
        column, row = divmod(tap, windows.fold)
        at_y, at_x = y * windows.down + row - windows.top, x * windows.across + column - windows.left
        inside = 0 <= at_y < height and 0 <= at_x < width
        assert gathered[n, element, y, x] == (images[n, c, at_y, at_x] if inside else 77)


def test_numbers_are_read_back() -> None:
    windows, _ = CASES["two rows, every second column"]
    assert Windows.from_numbers(windows.numbers) == windows


def test_refuses_channels_that_are_no_windows() -> None:
    windows, stored = CASES["whole 3x3 windows"]
    tensor = Tensor("x", (2, 2, 4, 5), stored, "int8", 1.0, 0, 0, 16, windows=windows)
    require_scales(tensor)
    with pytest.raises(IsaError) as refused:
        require_scales(replace(tensor, stored=(2, 17, 4, 5)))
    assert str(refused.value) == ("x: 17 channels are not windows whose columns have 6 elements; expected a multiple")
