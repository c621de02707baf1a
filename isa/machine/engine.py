"""Engines: the units of a machine that run instructions, each an instance of a template with a name and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import assert_never

from tilewright.isa.machine.pipeline import Pipeline

MOST_ENGINES = 32
"""Instructions have a wait count for each engine, and benches a bit."""


class Template(StrEnum):
    """What kind of hardware an engine is; `isa/templates/` has what follows."""

    DMA = "dma"
    SYSTOLIC = "systolic"
    VECTOR = "vector"


class Direction(Enum):
    """Which way a DMA engine moves words."""

    IN = "in"  # from DRAM to memories on chip
    OUT = "out"


@dataclass(frozen=True, slots=True)
class Dma:
    """A DMA engine: its direction, and what it may have under way at the same time."""

    direction: Direction
    contexts: int  # instructions started and not yet completed
    bursts: int  # in: addressed and not all packed; out: addressed and not all sent
    beats: int  # in: beats that came and are not packed; out: as much of words that are read and not yet sent
    port: int = 0  # the AXI port that it is on


@dataclass(frozen=True, slots=True)
class Systolic:
    """A weight-stationary array."""

    rows: int  # elements of an activation vector that enter it each cycle
    cols: int  # sums that leave it each cycle
    pipeline: Pipeline = Pipeline()  # that of its machine


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector engine, generated from the statements of its instructions."""

    lanes: int  # elements that it computes side by side
    results: int | None  # that may wait where an array writes too; None: enough for one each cycle
    parts: int = 1  # of a word of its memories, each as many elements as it has lanes: one after the other

    @property
    def word(self) -> int:
        """Elements of a word of its memories."""
        return self.lanes * self.parts


Settings = Dma | Systolic | Vector


@dataclass(frozen=True, slots=True)
class Engine:
    """One unit that runs its own queue of instructions in order.

    `number` is its place among the machine's engines: in wait counts, counters and reports.
    """

    name: str
    number: int
    queue_depth: int
    reads: tuple[str, ...]  # memories it has read ports to; `dram` for DMA in
    writes: tuple[str, ...]
    settings: Settings
    pipeline: Pipeline = Pipeline()  # that of its machine

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def template(self) -> Template:
        match self.settings:
            case Dma():
                return Template.DMA
            case Systolic():
                return Template.SYSTOLIC
            case Vector():
                return Template.VECTOR
            case _ as never:
                assert_never(never)

    @property
    def dma(self) -> Dma:
        """The settings of a DMA engine."""
        assert isinstance(self.settings, Dma), f"{self.name} is no DMA engine"
        return self.settings

    @property
    def array(self) -> Systolic:
        """The sizes of a systolic array."""
        assert isinstance(self.settings, Systolic), f"{self.name} is no systolic array"
        return self.settings

    @property
    def vector(self) -> Vector:
        """The settings of a vector engine."""
        assert isinstance(self.settings, Vector), f"{self.name} is no vector engine"
        return self.settings
