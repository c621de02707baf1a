"""Where things are in the kernel's arguments: columns of instructions and counters, and what its records hold.

The rows of one format's instructions are filled in by the facet of its template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.vector import ROWS, VectorWalk, vector_walk
from tilewright.simulator.regions import Region

RowsOfRecord = tuple[np.dtype[Any], int]
"""What each of some rows holds, and how many there are."""

# -- the columns of an engine's counters -------------------------------------------------------------------------------

BUSY, STALL_PORT, STALL_DRAM, STALL_WEIGHTS, IDLE, WAIT = range(6)
"""WAIT is the first of those for each engine that it waits for."""

# -- the columns of `code` ---------------------------------------------------------------------------------------------

ENGINE = 0
ITERATIONS = 1  # of an array, the vectors of a tile
GROUP = 2  # of a vector engine, iterations a result; of an array, tiles
FIRST_INNER = 3  # of an array, the first vector loop; of DMA, one beyond the loops that the address side walks
SOURCES = 4
TO_WRITE = 5  # of a vector engine, the cycles from issue to write
REFUSABLE = 6  # of a vector engine, whether the write of a result can be refused
RESULT_LIMIT = 7  # of a vector engine, an iteration issues while fewer such results are outstanding
ACCUMULATES = 8
RUN_BYTES = 9
WORD_BYTES = 10
INSTRUCTION_BYTES = 11
FIXED = 12
"""From here on, at places in `m`: `waits_column` (a column an engine), `trips_column` and `is_reduce_column` (one a
loop), `bases_column` (a column an operand), `steps_column` (operand by loop: what its address grows by when that loop
moves on and all inside it return).
"""

MMA_A, MMA_W, MMA_C = range(3)
DMA_WORD, DMA_BYTE = range(2)
"""Operands, in the order of an instruction's bases and steps; DMA has the on-chip word, then the DRAM byte.

Those of a vector engine are its sources, then, behind as many as any instruction has, its destination.
"""
MOST_FIXED_OPERANDS = 3

# -- who asks, and how a run ends --------------------------------------------------------------------------------------

FETCH_OWNER = -1
"""Who asked for a read of DRAM: fetch, or the row of a load engine."""

DONE, WAIT_FAULT, STUCK = range(3)

ENGINES = "engines"
"""The rows of all engines, in the order of their numbers."""

PORTS = "ports"
"""The rows of AXI ports and what memory does behind each."""

KINDS = ("loads", "stores", "arrays", "vectors")
"""Engines that have a record and steps of their own; so are their rows called."""

LOAD, STORE, SYSTOLIC, VECTOR = range(len(KINDS))

# -- records -----------------------------------------------------------------------------------------------------------


def record(*names: str, places: Sequence[str] = (), rows: Mapping[str, RowsOfRecord] | None = None) -> np.dtype[Any]:
    """Numbers by name, then places, then rows of other records.

    Places have no sign, so the compiled code does not ask whether they are negative.
    """
    numbers = [*((name, np.int64) for name in names), *((name, np.uint32) for name in places)]
    return np.dtype([*numbers, *((name, of, (count,)) for name, (of, count) in (rows or {}).items())], align=True)


RINGS = (
    *("port_of_word", "read_turn", "given_to", "written_at", "one_port", "asked_at", "ask", "grant", "asker"),
    *("dispatched_at", "started_at", "retired_at"),
)
"""What `q` holds for the machine as a whole, each as a stretch of its own.

`read_turn`: by port, who was granted last; `given_to`: who of those that were looked at so far is granted.
`written_at`: by port, the last cycle in which something was written. `one_port`: by port, whether it is the only one of
its bank; `asked_at`: of such a port, the last cycle in which a write asked for it. `ask`: the port that each requester
asks in this cycle, or -1; `asker`: its engine. Requesters take turns: vectors of arrays, sources of vector engines, DMA
engines that read.
"""

PORT_RINGS = ("read_owner", "read_first", "read_beats", "response_at", "response_last", "response_owner")
"""What `q` holds for each AXI port: reads that were asked for, and responses to writes that come."""

PORT = record(
    *("is_asked", "read_head", "read_count", "read_free", "response_head", "response_count"),
    *("beats_read", "bytes_written"),
    places=tuple(f"at_{name}" for name in PORT_RINGS),
)
"""An AXI port; `is_asked`: its read address register takes a request in this cycle."""


def machine_record(engines: int, ports: int, rows: Mapping[str, RowsOfRecord]) -> np.dtype[Any]:
    """The machine as a whole: its sizes, where things are in `code` and `q`, and its registers; then a row an engine.

    `rows` has the record of each kind, and how many engines there is room for. `…_count`: how many of the rows are in
    use. Room is part of the type. Where it is for MOST_ENGINES the compiled code is for any number of them; otherwise
    all rows are in use, and the code has no loops over them.

    Of a machine that could be (see `simulator.ideal`): with `is_apart`, the engines and fetch never wait for each
    other's use of ports and bus; `ideal_engines` has a bit for each engine whose instructions take one cycle. Both are
    0 for a machine that is.
    """
    return record(
        # sizes and latencies
        *("bus_bytes", "latency", "outstanding_beats", "burst_beats", "burst_boundary", "fetch_buffer", "dma_window"),
        *("assembly_bytes", "requesters", "loops", "words", "instructions", "read_slots", "response_slots"),
        "one_port_banks",
        *(f"{name}_count" for name in (ENGINES, PORTS, *KINDS)),
        *("is_apart", "ideal_engines"),
        # fetch and dispatch
        *("program_beats", "beats_asked", "fetch_reserved", "fetch_held", "assembled", "dispatched_all"),
        "completed_all",
        # results
        *("fault_instruction", "fault_count", "has_progress"),
        # for the kernel's own sake: whether an instruction was dispatched, started or completed since it looked
        "has_news",
        places=(
            *("waits_column", "trips_column", "is_reduce_column", "bases_column", "steps_column"),
            *(f"at_{name}" for name in RINGS),
        ),
        rows={ENGINES: (engine_record(engines), engines), PORTS: (PORT, ports), **rows},
    )


def engine_record(engines: int) -> np.dtype[Any]:
    """What every engine has.

    `kind` is a number as above, `row` its row in the records of that kind. `at_order`: where `q` has the indices of its
    instructions. `activity`: a column of the counters, or -1 for nothing in hand. `waited`: for which engine its next
    instruction waits, as it was at the last news.
    """
    return record(
        *("queue_depth", "dispatched", "started", "completed", "retiring", "can_take", "activity", "waited"),
        places=("kind", "row", "at_order"),
        rows={"counters": (np.dtype(np.int64), WAIT + engines)},
    )


Numbers = NDArray[np.object_]
"""Python's own integers, which never wrap around: what is too large for the table is an error."""


def nest_depth(machine: Machine) -> int:
    """The most loops that an instruction is walked over."""
    return machine.fact(_nest_depth)


def _nest_depth(machine: Machine) -> int:
    return max(len(vector_walk(format).loops) for format in machine.formats.values())


# -- the rows of one format's instructions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """The rows of one format's instructions being filled, the values of their fields, and where a row's parts begin."""

    machine: Machine
    format: InstructionFormat
    values: Numbers  # [instruction, field]
    table: NDArray[np.int64]
    first_words: Mapping[str, int]  # the place of each memory's first word among all
    regions: tuple[Region, ...]
    loops: int
    waits_column: int
    trips_column: int
    is_reduce_column: int
    bases_column: int
    steps_column: int

    def field(self, name: str) -> Numbers:
        return self.values[:, self.format.positions[name]]

    @cached_property
    def walk(self) -> VectorWalk:
        """The loops as they are walked: of a vector engine, with those over rows of a tile and parts of a word."""
        return vector_walk(self.format)

    @property
    def trips(self) -> list[Numbers]:
        """The trip counts of each loop that is walked, outermost first."""
        return [
            self.same(self.walk.counts[loop.name]) if loop.name in self.walk.counts else self.field(f"trip.{loop.name}")
            for loop in self.walk.loops
        ]

    def same(self, number: int) -> Numbers:
        """One number for all instructions."""
        return np.full(len(self.values), number, object)

    def strides(self, operand: Operand, loop: str) -> Numbers:
        """Those of an operand over a loop; 0 where it does not move."""
        if loop == ROWS:
            return self.same(int(loop in operand.loops))
        return self.field(f"{operand.name}.{loop}") if loop in operand.loops else np.zeros(len(self.values), object)

    def product(self, factors: Sequence[Numbers]) -> Numbers:
        return prod(factors, start=np.ones(len(self.values), object))

    def fill_operand(self, column: int, operand: Operand, first: int | Numbers, loops: int | None = None) -> None:
        """An operand's first address and its steps over all loops, or over the outermost `loops` alone.

        When a loop moves on, all inside it return to their start: its step is its stride less what they have moved.
        """
        names = [loop.name for loop in self.walk.loops]
        self.table[:, self.bases_column + column] = first + self.field(f"{operand.name}.base")
        moved = np.zeros(len(self.values), object)
        first_step = self.steps_column + column * self.loops + self.loops - len(names)
        for loop in reversed(range(len(names) if loops is None else loops)):
            strides = self.strides(operand, names[loop])
            self.table[:, first_step + loop] = strides - moved
            moved = moved + strides * (self.trips[loop] - 1)
