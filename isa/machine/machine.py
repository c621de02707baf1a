"""The frozen description of one accelerator, as every other part sees it. Built only by `isa.files.loader`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from html import escape

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.memory import Dram, Memory
from tilewright.isa.machine.shown import html_table

ENGINES = ("load", "mma", "vec", "store")
"""The engines of every machine, in the order of wait counts, counters and reports."""


class Template(StrEnum):
    """What kind of hardware an engine is; `isa/engines/templates.py` says which instructions each can run."""

    DMA = "dma"
    SYSTOLIC = "systolic"
    VECTOR = "vector"


TEMPLATES: Mapping[str, Template] = {
    "load": Template.DMA,
    "mma": Template.SYSTOLIC,
    "vec": Template.VECTOR,
    "store": Template.DMA,
}
"""The template that each engine is an instance of."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One unit that runs its own queue of instructions in order."""

    name: str
    queue_depth: int
    reads: tuple[str, ...]  # memories it has read ports to; `dram` for DMA in
    writes: tuple[str, ...]
    results: int | None = None  # of vec: that may wait where the array writes too; None: enough for one each cycle

    @property
    def template(self) -> Template:
        return TEMPLATES[self.name]


@dataclass(frozen=True, slots=True)
class Flight:
    """What a DMA engine may have under way at the same time."""

    contexts: int  # instructions started and not yet completed
    bursts: int  # of load, addressed and not all packed; of store, addressed and not all sent
    beats: int  # of load, beats that came and are not packed; of store, as much of words that are read and not yet sent


USUAL_FLIGHTS: Mapping[str, Flight] = {"load": Flight(4, 16, 2), "store": Flight(2, 2, 3)}
"""Of the DMA engines, where the machine's file says nothing else: more makes no network faster."""

USUAL_FETCH_BEATS = 64
"""Beats of program that fetch holds, where the machine's file says nothing else."""


class Counting(StrEnum):
    """What a machine counts of its runs."""

    NONE = "none"
    FEW = "few"  # cycles and bytes on the bus
    ALL = "all"  # and what each engine does in every cycle


@dataclass(frozen=True)
class Machine:
    """Everything the YAML says, complete and checked.

    `text` is the canonical YAML of the merged file (after `extends` and overrides); loading it gives an equal machine.
    """

    name: str
    about: str
    rows: int  # elements of an activation vector that enter the array each cycle
    cols: int  # sums that leave the array each cycle
    lanes: int  # elements of a word of the vector engine's memories
    rounding: Rounding
    wait_bits: int  # width of one wait count; an engine runs at most 2**wait_bits - 1 instructions a program
    dram: Dram
    memories: Mapping[str, Memory]  # on chip, in file order
    engines: Mapping[str, Engine]  # in the order of ENGINES
    flights: Mapping[str, Flight]  # of the DMA engines
    fetch_beats: int  # beats of program that fetch holds or has asked for
    counting: Counting
    formats: Mapping[str, InstructionFormat]  # by mnemonic, in file order
    instruction_bytes: int
    text: str

    def __repr__(self) -> str:
        kib = sum(memory.bytes for memory in self.memories.values()) / 1024
        return (
            f"<Machine {self.name}: {self.rows}×{self.cols} array, {self.lanes} lanes, {kib:g} KiB on chip, "
            f"{self.dram.bus_bytes} bytes a cycle; {len(self.formats)} instructions>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the machine in a line, its memories, and its instructions by engine."""
        memories = [(of.name, f"{of.bytes / 1024:g}", f"{of.depth:,}", of.banks) for of in self.memories.values()]
        engines = [(name, " ".join(of.mnemonic for of in self.formats_of(name))) for name in self.engines]
        return (
            f"<p>{escape(repr(self).strip('<>'))}</p>"
            + html_table("Memories", ("memory", "KiB", "words", "banks"), memories)
            + html_table("Instructions", ("engine", ""), engines)
        )

    @cached_property
    def hash(self) -> str:
        """Identifies the machine's meaning: SHA-256 of its canonical text, hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def format(self, mnemonic: str) -> InstructionFormat:
        """The format of an instruction; raises IsaError when the machine has none of that name."""
        if mnemonic not in self.formats:
            raise IsaError(f"{self.name} has no instruction {mnemonic!r}; it has: {', '.join(self.formats)}")
        return self.formats[mnemonic]

    def formats_of(self, engine: str) -> tuple[InstructionFormat, ...]:
        return tuple(f for f in self.formats.values() if f.engine == engine)

    @cached_property
    def formats_by_template(self) -> Mapping[Template, tuple[InstructionFormat, ...]]:
        """The instructions of all engines of a kind."""
        return {
            template: tuple(f for f in self.formats.values() if self.engines[f.engine].template is template)
            for template in Template
        }

    @cached_property
    def table_memories(self) -> tuple[str, ...]:
        """Memories that a `lut(…)` reads, in file order; in hardware each lane has one of its own."""
        looked_up = {table.memory for format in self.formats.values() for table in format.tables}
        return tuple(name for name in self.memories if name in looked_up)

    @cached_property
    def vector_sources(self) -> int:
        """Sources of the vector engine that read a word an iteration: as many as any of its instructions has."""
        return max((len(format.streams) for format in self.formats_of("vec")), default=0)

    @property
    def max_instructions_per_engine(self) -> int:
        return (1 << self.wait_bits) - 1
