"""What the cycle model asks of an engine template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.engine import Engine, Template
from tilewright.isa.machine.machine import Machine
from tilewright.simulator.losses import Loss
from tilewright.simulator.templates import dma, systolic, vector
from tilewright.simulator.templates.rows import Rows


class Facet(Protocol):
    """A file of this folder."""

    @property
    def RECORDS(self) -> Mapping[str, np.dtype[Any]]:  # noqa: N802
        """By kind, a row of the kernel's state for each engine: settings, `at_…` for each ring, registers.

        Registers are 0 after reset.
        """

    def kind(self, engine: Engine, /) -> str:
        """Which of these an engine has."""

    def settings(self, machine: Machine, engine: Engine, /) -> dict[str, int]:
        """Sizes and latencies, from the machine file and `isa.timing` alone."""

    def rings(self, machine: Machine, engine: Engine, /) -> dict[str, NDArray[np.int64]]:
        """Rings and loop indices as they are after reset, each as long as can be in use at once, or longer."""

    def requesters(self, machine: Machine, engine: Engine, /) -> int:
        """How many of its reads take turns with those of others."""

    def loss(self, engine: Engine, /) -> Loss:
        """What a cycle without a vector through an array is lost to when it belongs to an engine."""

    def fill(self, rows: Rows, /) -> None:
        """Fill the template's own columns of instructions."""


def facet_of(template: Template) -> Facet:
    match template:
        case Template.DMA:
            return dma
        case Template.SYSTOLIC:
            return systolic
        case Template.VECTOR:
            return vector
        case unknown:
            assert_never(unknown)
