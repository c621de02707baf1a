"""How coarse masks are: DMA moves whole words, so a mask of their bytes need not be gone through byte by byte."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray


class MaskSteps:
    """The steps of masks, each found once; equal masks are mostly one object (`affine_mask`)."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[int, NDArray[np.bool_]]] = {}  # with the mask, so that its identity stays its own

    def of(self, mask: NDArray[np.bool_]) -> int:
        """The largest number of bits that always go together: 0011 1100 → 2."""
        found = self._found.get(id(mask))
        if found is None:
            changes = np.flatnonzero(mask[1:] != mask[:-1]) + 1
            found = gcd(len(mask), int(np.gcd.reduce(changes))), mask
            self._found[id(mask)] = found
        return found[0]
