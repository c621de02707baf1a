"""A program as the tables of integers that the cycle kernel steps through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.encoding import ACCUMULATE, InstructionFormat, Operand
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.program import Program
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights, tile_loops
from tilewright.isa.timing import can_be_refused, vec_result_limit, vec_write
from tilewright.simulator.kernel.layout import (
    ACCUMULATES,
    DMA_BYTE,
    DMA_WORD,
    ENGINE,
    FIRST_INNER,
    FIXED,
    GROUP,
    ITERATIONS,
    MMA_A,
    MMA_C,
    MMA_W,
    MOST_FIXED_OPERANDS,
    REFUSABLE,
    RESULT_LIMIT,
    RUN_BYTES,
    RUNS,
    SOURCES,
    TO_WRITE,
    WAITS,
    WORD_BYTES,
)
from tilewright.simulator.regions import Region, region, regions_of


def nest_depth(machine: Machine) -> int:
    return max(len(format.loops) for format in machine.formats.values())


def instruction_columns(machine: Machine) -> dict[str, int]:
    """Where the parts of a row begin whose width follows from the machine, and the row's `width`."""
    loops, operands = nest_depth(machine), max(MOST_FIXED_OPERANDS, machine.vector_sources + 1)
    is_reduce = FIXED + loops
    bases = is_reduce + loops
    steps = bases + operands
    return {
        "trips_column": FIXED,
        "is_reduce_column": is_reduce,
        "bases_column": bases,
        "steps_column": steps,
        "width": steps + operands * loops,
    }


def instruction_table(program: Program, bases: Mapping[str, int]) -> NDArray[np.int64]:
    """A row for every instruction, laid out as `simulator.kernel.layout` says; regions are at `bases`."""
    machine = program.machine
    columns = instruction_columns(machine)
    table = np.zeros((len(program.instructions), columns.pop("width")), np.int64)
    first_words, first = {}, 0
    for memory in machine.memories.values():
        first_words[memory.name] = first
        first += memory.depth
    regions = regions_of(program, bases)
    of_mnemonic: dict[str, list[int]] = {}
    for index, instruction in enumerate(program.instructions):
        of_mnemonic.setdefault(instruction.mnemonic, []).append(index)
    for indices in of_mnemonic.values():
        format = program.instructions[indices[0]].format
        values = np.array([program.instructions[index].values for index in indices], object)
        rows = _Rows(format, values, np.zeros((len(indices), table.shape[1]), np.int64), nest_depth(machine), **columns)
        _fill_nest(rows)
        match format.engine.template:
            case Template.DMA:
                _fill_move(rows, machine, first_words, regions)
            case Template.SYSTOLIC:
                _fill_products(rows, first_words)
            case Template.VECTOR:
                _fill_lanes(rows, machine, first_words)
            case unknown:
                assert_never(unknown)
        table[indices] = rows.table
    return table


def bank_of_words(machine: Machine) -> NDArray[np.int64]:
    """The bank of every on-chip word, both counted through all memories."""
    ports, banks = [], 0
    for memory in machine.memories.values():
        ports.append(banks + np.arange(memory.depth, dtype=np.int64) // memory.bank_depth)
        banks += memory.banks
    return np.concatenate(ports)


Numbers = NDArray[np.object_]
"""Python's own integers, which never wrap around: what is too large for the table is an error."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one format's instructions being filled, the values of their fields, and where a row's parts begin."""

    format: InstructionFormat
    values: Numbers  # [instruction, field]
    table: NDArray[np.int64]
    loops: int
    trips_column: int
    is_reduce_column: int
    bases_column: int
    steps_column: int

    def field(self, name: str) -> Numbers:
        return self.values[:, self.format.positions[name]]

    @property
    def trips(self) -> list[Numbers]:
        """The trip counts of each loop, outermost first."""
        return [self.field(f"trip.{loop.name}") for loop in self.format.loops]

    def strides(self, operand: Operand, loop: str) -> Numbers:
        """Those of an operand over a loop; 0 where it does not move."""
        return self.field(f"{operand.name}.{loop}") if loop in operand.loops else np.zeros(len(self.values), object)

    def product(self, factors: Sequence[Numbers]) -> Numbers:
        return prod(factors, start=np.ones(len(self.values), object))


def _fill_nest(rows: _Rows) -> None:
    rows.table[:, ENGINE] = rows.format.engine.number
    for number, (_, place) in enumerate(rows.format.wait_places):
        rows.table[:, WAITS + number] = rows.values[:, place]
    missing = rows.loops - len(rows.format.loops)
    rows.table[:, rows.trips_column : rows.trips_column + missing] = 1
    for number, (loop, trips) in enumerate(zip(rows.format.loops, rows.trips, strict=True), missing):
        rows.table[:, rows.trips_column + number] = trips
        rows.table[:, rows.is_reduce_column + number] = loop.is_reduce


def _fill_operand(rows: _Rows, column: int, operand: Operand, first: int | Numbers, loops: int | None = None) -> None:
    """An operand's first address and its steps over all loops, or over the outermost `loops` alone.

    When a loop moves on, all inside it return to their start: its step is its stride less what they have moved.
    """
    names = [loop.name for loop in rows.format.loops]
    rows.table[:, rows.bases_column + column] = first + rows.field(f"{operand.name}.base")
    moved = np.zeros(len(rows.values), object)
    first_step = rows.steps_column + column * rows.loops + rows.loops - len(names)
    for loop in reversed(range(len(names) if loops is None else loops)):
        strides = rows.strides(operand, names[loop])
        rows.table[:, first_step + loop] = strides - moved
        moved = moved + strides * (rows.trips[loop] - 1)


def _fill_lanes(rows: _Rows, machine: Machine, first_words: Mapping[str, int]) -> None:
    format = rows.format
    for column, source in enumerate(format.streams):
        _fill_operand(rows, column, source, first_words[source.memory])
    _fill_operand(rows, machine.vector_sources, format.destination, first_words[format.destination.memory])
    rows.table[:, SOURCES] = len(format.streams)
    rows.table[:, TO_WRITE] = vec_write(format)
    rows.table[:, REFUSABLE] = can_be_refused(machine, format)
    rows.table[:, RESULT_LIMIT] = vec_result_limit(machine, format)
    rows.table[:, ITERATIONS] = rows.product(rows.trips)
    rows.table[:, GROUP] = rows.product([rows.field(f"trip.{name}") for name in format.reduce_loops])


def _fill_products(rows: _Rows, first_words: Mapping[str, int]) -> None:
    format = rows.format
    outer = tile_loops(format)
    a, w, c = systolic_activations(format), systolic_weights(format), format.destination
    _fill_operand(rows, MMA_A, a, first_words[a.memory])
    _fill_operand(rows, MMA_W, w, first_words[w.memory], outer)
    _fill_operand(rows, MMA_C, c, first_words[c.memory])
    rows.table[:, ITERATIONS] = rows.product(rows.trips[outer:])
    rows.table[:, GROUP] = rows.product(rows.trips[:outer])
    rows.table[:, FIRST_INNER] = rows.loops - len(format.loops) + outer
    if format.has_accumulate:
        rows.table[:, ACCUMULATES] = rows.field(ACCUMULATE)


def _fill_move(rows: _Rows, machine: Machine, first_words: Mapping[str, int], regions: tuple[Region, ...]) -> None:
    """Runs of contiguous words are the innermost loop, so the address side has one loop less to walk."""
    source, destination = rows.format.sources[0], rows.format.destination
    outer, on_chip = (source, destination) if source.memory == DRAM else (destination, source)
    word_bytes = machine.memories[on_chip.memory].word_bytes
    strides = rows.strides(outer, rows.format.loops[-1].name)
    for is_contiguous in (False, True):
        chosen = np.flatnonzero((strides == word_bytes) == is_contiguous)
        some = replace(rows, values=rows.values[chosen], table=rows.table[chosen])
        walked = len(some.trips) - is_contiguous
        numbers = some.field(f"{outer.name}.region")
        starts = np.array([region(regions, number).base for number in numbers], object)
        _fill_operand(some, DMA_WORD, on_chip, first_words[on_chip.memory])
        _fill_operand(some, DMA_BYTE, outer, starts, walked)
        some.table[:, ITERATIONS] = some.product(some.trips)
        some.table[:, RUN_BYTES] = word_bytes * (some.trips[-1] if is_contiguous else 1)
        some.table[:, RUNS] = some.product(some.trips[:walked])
        some.table[:, FIRST_INNER] = some.loops - len(some.trips) + walked
        some.table[:, WORD_BYTES] = word_bytes
        rows.table[chosen] = some.table
