"""What `compiler` asks about a template: what its instructions are to a network, and how many are under way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine


class Role(Enum):
    """What the instructions of an engine are to a network."""

    MOVES = auto()  # words, between DRAM and the chip
    MULTIPLIES = auto()  # vectors of channels by weight tiles, and adds up the products
    COMPUTES = auto()  # words from words, lane by lane, as its statements say


class Facet(ABC):
    """The facts of a template; what is not abstract has the answer of engines that take what comes to them."""

    @property
    @abstractmethod
    def role(self) -> Role:
        """What its instructions are to a network: which statements are looked for among them."""

    def role_of(self, format: InstructionFormat) -> Role:
        """What one of its instructions is to a network."""
        return self.role

    def product_cycles(self, format: InstructionFormat, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cycles in which so many vectors are multiplied by one weight tile."""
        raise AssertionError(f"{format.mnemonic} does not multiply")

    def product_latency(self, format: InstructionFormat) -> int:
        """From the issue of a sum's last vector to the sum's write."""
        raise AssertionError(f"{format.mnemonic} does not multiply")

    def pace(self, engine: Engine) -> int:
        """Of engines with alike instructions, those of one pace take as long for each. A number that only compares."""
        return 1

    def most_under_way(self, engine: Engine) -> int:
        """Operations that an engine may have started and not completed; 0 for any number."""
        return 0
