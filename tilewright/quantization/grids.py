"""The values that weights of a type take, in units of their scale, and the scales with which they come nearest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.language.numeric import IntegerType
from tilewright.isa.program.small_floats import BY_SHORT_NAME, SmallFloat, shared_exponents
from tilewright.isa.program.stored_types import STORED_TYPES

LEAST, TRIED = 0.6, 41
"""The smallest scale that is tried, in parts of that with which the largest weight fits, and how many are tried."""

SPARE_BITS = 5
"""How many binary orders of E4M3 the largest weight of a channel leaves unused.

So sums of products have as many bits less, and a weight keeps all its bits down to 1/900 of the largest."""


class Grid(ABC):
    """Values of a type of weights."""

    @abstractmethod
    def nearest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values of the type that are nearest, saturated."""

    @abstractmethod
    def scales(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        """A scale for each column of [K, N]; of zeros it is 1."""

    def _best_of_some(self, values: NDArray[np.float64], largest: NDArray[np.float64]) -> NDArray[np.float32]:
        """Of some scales, from the largest downwards, the one with the least sum of squared differences."""
        best, least = np.where(largest > 0, largest, 1).astype(np.float32), np.full(largest.shape, np.inf)
        for part in np.linspace(1, LEAST, TRIED):
            scale = np.where(largest > 0, largest * part, 1).astype(np.float32)
            squares = ((self.nearest(values / scale) * scale - values) ** 2).sum(axis=0)
            best, least = np.where(squares < least, scale, best), np.minimum(squares, least)
        return best


@dataclass(frozen=True)
class IntegerGrid(Grid):
    """All integers of a type."""

    held: IntegerType

    def nearest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.clip(np.rint(values), self.held.interval.low, self.held.interval.high)

    def scales(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        low, high = self.held.interval.low, self.held.interval.high
        return self._best_of_some(
            values, np.maximum(values.max(axis=0, initial=0) / high, values.min(axis=0, initial=0) / low)
        )


@dataclass(frozen=True)
class FloatGrid(Grid):
    """Floats of few bits. The scales of blocks are powers of two, by the rule of the OCP MX formats; others are not."""

    element: SmallFloat
    is_shared: bool

    def nearest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.element.nearest(values) * self.element.least, np.float64)

    def scales(self, values: NDArray[np.float64]) -> NDArray[np.float32]:
        largest = np.abs(values).max(axis=0, initial=0)
        if self.is_shared:
            return np.ldexp(np.float32(1), shared_exponents(largest, self.element))
        if self.element.mantissa_bits > 1:
            return np.where(largest > 0, largest / self.element.largest * 2**SPARE_BITS, 1).astype(np.float32)
        return self._best_of_some(values, largest / self.element.largest)


def grid_of(weights: str, block: int = 0) -> Grid:
    """The grid of a type of weights, by the name of the option; with a scale for each block, or for each channel."""
    if weights in BY_SHORT_NAME:
        return FloatGrid(BY_SHORT_NAME[weights], bool(block))
    return IntegerGrid(STORED_TYPES[weights].values)
