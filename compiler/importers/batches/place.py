"""Where images lie in a tensor.

Example: two images [2, 3, 8, 8] lie in dimension 0. Seen as [6, 64], dimension 0 holds images of three rows each: its
indices are image · 3 + row, with `inner` 3. Transposed to [3, 2, 8, 8] and then seen as [6, 64], its indices are
row · 2 + image, with `outer` 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ImageAxis:
    """Images lie in dimension `axis`, whose indices are (outer · images + image) · inner + rest."""

    axis: int
    outer: int = 1
    inner: int = 1

    def __str__(self) -> str:
        beside = f", {self.outer} times, {self.inner} of each" if self.outer * self.inner > 1 else ""
        return f"images are in dimension {self.axis}{beside}"

    def size(self, images: int) -> int:
        """The size of the dimension."""
        return self.outer * images * self.inner

    def at(self, axis: int) -> ImageAxis:
        """The same in another dimension."""
        return replace(self, axis=axis)


def reshaped(place: ImageAxis, shape: Sequence[int], to: Sequence[int], images: int) -> ImageAxis | None:
    """Where images lie once a tensor of a shape is seen as another; None where no single dimension holds them.

    Of several dimensions that would do, such as two of size 1, the first that holds nothing else.
    """
    outer = prod(shape[: place.axis]) * place.outer
    found = []
    for axis, size in enumerate(to):
        before = prod(to[:axis])
        if not before or outer % before:
            continue
        here = outer // before
        if size and size % (here * images) == 0:
            found.append(ImageAxis(axis, here, size // (here * images)))
    return min(found, key=lambda each: (each.outer * each.inner > 1, each.axis), default=None)


def repeated(values: NDArray[Any], place: ImageAxis, images: int, wanted: int) -> NDArray[Any] | None:
    """A constant that is the same for each of `images`, for `wanted` of them; None where it differs between images."""
    axis = place.axis
    if values.shape[axis] != place.size(images):
        return None
    before, behind = values.shape[:axis], values.shape[axis + 1 :]
    apart = values.reshape(*before, place.outer, images, place.inner, *behind)
    first = apart.take([0], axis + 1)
    if not np.array_equal(apart, np.broadcast_to(first, apart.shape)):
        return None
    return first.repeat(wanted, axis + 1).reshape(*before, place.size(wanted), *behind)
