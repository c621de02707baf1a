"""What `simulator` asks about a template: the state of its engines in the cycle model, and how a program fills it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine
from tilewright.simulator.kernel.layout import Rows
from tilewright.simulator.losses import Loss


class Facet(ABC):
    """The facts of a template; its steps in the compiled kernel are in a file of the same name there."""

    @property
    @abstractmethod
    def records(self) -> Mapping[str, np.dtype[np.void]]:
        """By kind, a row of the kernel's state for each engine: settings, `at_…` for each ring, registers.

        Registers are 0 after reset.
        """

    @abstractmethod
    def kind(self, engine: Engine) -> str:
        """Which of these an engine has."""

    @abstractmethod
    def settings(self, machine: Machine, engine: Engine) -> Mapping[str, int]:
        """Sizes and latencies, from the machine file and `isa.timing` alone."""

    @abstractmethod
    def rings(self, machine: Machine, engine: Engine) -> Mapping[str, NDArray[np.int64]]:
        """Rings and loop indices as they are after reset, each as long as can be in use at once, or longer."""

    @abstractmethod
    def requesters(self, machine: Machine, engine: Engine) -> int:
        """How many of its reads take turns with those of others."""

    @abstractmethod
    def loss(self, engine: Engine) -> Loss:
        """What a cycle without a vector through an array is lost to when it belongs to an engine."""

    @abstractmethod
    def fill(self, rows: Rows) -> None:
        """Fill the template's own columns of instructions."""
