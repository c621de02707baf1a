"""The frozen description of one accelerator, as every other part sees it. Built only by `isa.files.loader`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from html import escape
from typing import Any, TypeVar

from tilewright.isa.errors import IsaError
from tilewright.isa.language.numeric import Rounding
from tilewright.isa.machine.encoding import WORD_BYTES, InstructionFormat
from tilewright.isa.machine.engine import Direction, Engine, Systolic, Template
from tilewright.isa.machine.memory import Dram, Memory
from tilewright.isa.machine.pipeline import Pipeline
from tilewright.isa.machine.products import continues
from tilewright.isa.machine.shown import html_table
from tilewright.isa.machine.twins import Twin, find_twins

Fact = TypeVar("Fact")

USUAL_FETCH_BEATS = 64
"""Beats of program that fetch holds, where the machine's file says nothing else."""

FETCH_PORT = 0
"""The AXI port through which programs are fetched."""


class Counting(StrEnum):
    """What a machine counts of its runs."""

    NONE = "none"
    FEW = "few"  # cycles and bytes on the bus
    ALL = "all"  # and what each engine does in every cycle


class ClockGating(StrEnum):
    """Which registers keep what they hold while their engine has nothing in flight, so that their clock can stop."""

    NONE = "none"
    UNIT = "unit"  # those of an engine's pipeline, and of what waits in its queue


@dataclass(frozen=True)
class Machine:
    """Everything the YAML says, complete and checked.

    `text` is the canonical YAML of the merged file (after `extends` and overrides); loading it gives an equal machine.
    """

    name: str
    about: str
    rounding: Rounding
    wait_bits: int  # width of one wait count; an engine runs at most 2**wait_bits - 1 instructions a program
    lanes: int  # elements of a word of tensors
    dram: Dram
    memories: Mapping[str, Memory]  # on chip, in file order
    engines: Mapping[str, Engine]  # by name, in file order
    fetch_beats: int  # beats of program that fetch holds or has asked for
    counting: Counting
    pipeline: Pipeline
    clock_gating: ClockGating
    formats: Mapping[str, InstructionFormat]  # by mnemonic, in file order
    text: str

    def __repr__(self) -> str:
        kib = sum(memory.bytes for memory in self.memories.values()) / 1024
        return (
            f"<Machine {self.name}: {self.arrays_text}, {self.lanes} lanes, "
            f"{kib:g} KiB on chip, {self.bus_text}; {len(self.formats)} instructions>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the machine in a line, its memories, and its instructions by engine."""
        memories = [(of.name, f"{of.bytes / 1024:g}", f"{of.depth:,}", of.banks) for of in self.memories.values()]
        engines = [(e.name, " ".join(of.mnemonic for of in self.formats_of(e))) for e in self.engines.values()]
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

    def of(self, template: Template) -> tuple[Engine, ...]:
        """The engines of a kind, in file order."""
        return tuple(engine for engine in self.engines.values() if engine.template is template)

    def fact(self, find: Callable[[Machine], Fact]) -> Fact:
        """What a function finds of the machine, found once: for what each run of a program asks."""
        if find not in self._facts:
            self._facts[find] = find(self)
        found: Fact = self._facts[find]
        return found

    @cached_property
    def _facts(self) -> dict[Callable[[Machine], Any], Any]:
        return {}

    def dma(self, direction: Direction) -> tuple[Engine, ...]:
        """The DMA engines of a direction, in file order."""
        return tuple(engine for engine in self.of(Template.DMA) if engine.dma.direction is direction)

    @cached_property
    def array(self) -> Systolic:
        """The sizes that estimates count with: those of its first array; without one, a word each way."""
        none = Systolic(self.lanes, self.lanes, self.pipeline)
        return next((engine.array for engine in self.of(Template.SYSTOLIC)), none)

    @property
    def has_gated_clocks(self) -> bool:
        return self.clock_gating is not ClockGating.NONE

    @property
    def arrays_text(self) -> str:
        """Its arrays in words: `16×16 array`, `4 arrays of 8×8`, `arrays of 16×16 and 8×8`, `no array`."""
        sizes = [f"{engine.array.rows}×{engine.array.cols}" for engine in self.of(Template.SYSTOLIC)]
        match len(sizes), len(set(sizes)):
            case 0, _:
                return "no array"
            case 1, _:
                return f"{sizes[0]} array"
            case count, 1:
                return f"{count} arrays of {sizes[0]}"
            case _:
                return f"arrays of {', '.join(sizes[:-1])} and {sizes[-1]}"

    @cached_property
    def products_a_cycle(self) -> int:
        """Elements of all its arrays, each of which multiplies once in a cycle."""
        return sum(engine.array.rows * engine.array.cols for engine in self.of(Template.SYSTOLIC))

    def with_lanes(self, lanes: int) -> Machine:
        """The machine with vector engines of other lanes, to look at the hardware of these: it runs nothing.

        Where an engine takes words in parts, it takes as many.
        """
        narrow = {e.name: replace(e, settings=replace(e.vector, lanes=lanes)) for e in self.of(Template.VECTOR)}
        return replace(self, lanes=lanes, engines={**self.engines, **narrow})

    def on_port(self, port: int, direction: Direction) -> tuple[Engine, ...]:
        """The DMA engines of a direction that are on an AXI port, in file order."""
        return tuple(engine for engine in self.dma(direction) if engine.dma.port == port)

    def ports(self, direction: Direction) -> tuple[int, ...]:
        """The AXI ports on which a DMA engine moves words this way."""
        return tuple(port for port in range(self.dram.ports) if self.on_port(port, direction))

    @cached_property
    def read_bytes(self) -> int:
        """Bytes that DMA engines can read in a cycle, through all AXI ports."""
        return self.dram.bus_bytes * len(self.ports(Direction.IN))

    @property
    def bus_text(self) -> str:
        """Its bus in words: `16 bytes a cycle`, `2 ports of 16 bytes a cycle`."""
        ports = f"{self.dram.ports} ports of " if self.dram.ports > 1 else ""
        return f"{ports}{self.dram.bus_bytes} bytes a cycle"

    def formats_of(self, of: Engine | Template) -> tuple[InstructionFormat, ...]:
        """The instructions of an engine, or of all engines of a kind."""
        if isinstance(of, Template):
            return self._formats_by_template[of]
        return self._formats_by_engine[of.name]

    @cached_property
    def _formats_by_engine(self) -> Mapping[str, tuple[InstructionFormat, ...]]:
        return {name: tuple(f for f in self.formats.values() if f.engine.name == name) for name in self.engines}

    @cached_property
    def _formats_by_template(self) -> Mapping[Template, tuple[InstructionFormat, ...]]:
        return {
            template: tuple(f for f in self.formats.values() if f.engine.template is template) for template in Template
        }

    @cached_property
    def alike(self) -> Mapping[str, tuple[InstructionFormat, ...]]:
        """For each mnemonic, the instructions that do the same, each on another engine; itself among them."""
        groups: dict[Hashable, list[InstructionFormat]] = {}
        on_engine: Counter[Hashable] = Counter()  # an engine may have two that do the same: these are not alike
        for format in self.formats.values():
            meaning = format.engine.template, format.meaning
            groups.setdefault((*meaning, on_engine[format.engine, meaning]), []).append(format)
            on_engine[format.engine, meaning] += 1
        return {format.mnemonic: tuple(group) for group in groups.values() for format in group}

    @cached_property
    def twins(self) -> tuple[Twin, ...]:
        """The arrays that do what the first does, in memories of their own."""
        return find_twins(self.engines.values(), self.memories, tuple(self.formats.values()))

    def first_twins(self, arrays: int | None) -> tuple[Twin, ...]:
        """The twins at work where so many arrays are at the most, the first array included; None: all."""
        return self.twins if arrays is None else self.twins[: arrays - 1]

    @cached_property
    def distinct_formats(self) -> tuple[InstructionFormat, ...]:
        """The instructions that do different things: of those that are alike, or twins, the first; in file order."""
        others = {mnemonic for twin in self.twins for mnemonic in twin.mnemonics.values()}
        firsts = [format for format in self.formats.values() if self.alike[format.mnemonic][0] is format]
        return tuple(format for format in firsts if format.mnemonic not in others)

    @cached_property
    def continuing(self) -> Mapping[str, InstructionFormat]:
        """For each instruction that multiplies, the one that adds more products to its sums, if there is one.

        With an accumulate flag, it is the instruction itself.
        """
        found: dict[str, InstructionFormat] = {}
        for format in self.formats.values():
            if format.has_accumulate:
                found[format.mnemonic] = format
            elif format.statement.dot is not None:
                more = next((other for other in self.formats.values() if continues(other, format)), None)
                found |= {} if more is None else {format.mnemonic: more}
        return found

    @cached_property
    def formats_by_opcode(self) -> Mapping[int, InstructionFormat]:
        return {format.opcode: format for format in self.formats.values()}

    @cached_property
    def longest_instruction_bytes(self) -> int:
        return max((format.bytes for format in self.formats.values()), default=WORD_BYTES)

    @cached_property
    def table_memories(self) -> tuple[str, ...]:
        """Memories that a `lut(…)` reads, in file order; in hardware each lane has one of its own."""
        looked_up = {table.memory for format in self.formats.values() for table in format.tables}
        return tuple(name for name in self.memories if name in looked_up)

    def looking_up(self, memory: str) -> Engine:
        """The engine that looks up in a memory of tables: there is one."""
        formats = self.formats.values()
        return next(of.engine for of in formats if memory in (table.memory for table in of.tables))

    def vector_sources(self, of: Engine | Template = Template.VECTOR) -> int:
        """Sources that a vector engine reads a word of in an iteration: as many as any instruction of its own has."""
        return max((len(format.streams) for format in self.formats_of(of)), default=0)

    @property
    def max_instructions_per_engine(self) -> int:
        return (1 << self.wait_bits) - 1
