"""A program as the tables of integers that the cycle kernel steps through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.engines.templates import systolic_activations, systolic_weights, tile_loops
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction, Operand
from tilewright.isa.machine.machine import ENGINES, Machine, Template
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.program.program import Program
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
    rows = _Rows(np.zeros((len(program.instructions), columns.pop("width")), np.int64), nest_depth(machine), **columns)
    first_words, first = {}, 0
    for memory in machine.memories.values():
        first_words[memory.name] = first
        first += memory.depth
    regions = regions_of(program, bases)
    for index, instruction in enumerate(program.instructions):
        _fill_nest(rows, index, instruction)
        match machine.engines[instruction.engine].template:
            case Template.DMA:
                _fill_move(rows, index, instruction, machine, first_words, regions)
            case Template.SYSTOLIC:
                _fill_products(rows, index, instruction, first_words)
            case Template.VECTOR:
                _fill_lanes(rows, index, instruction, machine, first_words)
            case unknown:
                assert_never(unknown)
    return rows.table


def bank_of_words(machine: Machine) -> NDArray[np.int64]:
    """The bank of every on-chip word, both counted through all memories."""
    ports, banks = [], 0
    for memory in machine.memories.values():
        ports.append(banks + np.arange(memory.depth, dtype=np.int64) // memory.bank_depth)
        banks += memory.banks
    return np.concatenate(ports)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The table being filled, and where its parts begin."""

    table: NDArray[np.int64]
    loops: int
    trips_column: int
    is_reduce_column: int
    bases_column: int
    steps_column: int


def _fill_nest(rows: _Rows, index: int, instruction: Instruction) -> None:
    rows.table[index, ENGINE] = ENGINES.index(instruction.engine)
    rows.table[index, WAITS : WAITS + len(ENGINES)] = tuple(instruction.waits.values())
    trips = tuple(instruction.trips.values())
    missing = rows.loops - len(trips)
    rows.table[index, rows.trips_column : rows.trips_column + missing] = 1
    rows.table[index, rows.trips_column + missing : rows.trips_column + rows.loops] = trips
    rows.table[index, rows.is_reduce_column + missing : rows.is_reduce_column + rows.loops] = [
        loop.is_reduce for loop in instruction.format.loops
    ]


def _fill_operand(
    rows: _Rows,
    index: int,
    column: int,
    instruction: Instruction,
    operand: Operand,
    first: int,
    loops: int | None = None,
) -> None:
    """An operand's first address and its steps over all loops, or over the outermost `loops` alone.

    When a loop moves on, all inside it return to their start: its step is its stride less what they have moved.
    """
    trips = tuple(instruction.trips.values())
    strides = tuple(instruction.strides(operand).values())
    rows.table[index, rows.bases_column + column] = first + instruction.base(operand.name)
    moved, missing = 0, rows.loops - len(trips)
    for loop in reversed(range(len(trips) if loops is None else loops)):
        rows.table[index, rows.steps_column + column * rows.loops + missing + loop] = strides[loop] - moved
        moved += strides[loop] * (trips[loop] - 1)


def _fill_lanes(
    rows: _Rows, index: int, instruction: Instruction, machine: Machine, first_words: Mapping[str, int]
) -> None:
    format = instruction.format
    for column, source in enumerate(format.streams):
        _fill_operand(rows, index, column, instruction, source, first_words[source.memory])
    destination = machine.vector_sources
    _fill_operand(rows, index, destination, instruction, format.destination, first_words[format.destination.memory])
    rows.table[index, SOURCES] = len(format.streams)
    rows.table[index, TO_WRITE] = vec_write(format)
    rows.table[index, REFUSABLE] = can_be_refused(machine, format)
    rows.table[index, RESULT_LIMIT] = vec_result_limit(machine, format)
    rows.table[index, ITERATIONS] = prod(instruction.trips.values())
    rows.table[index, GROUP] = prod(instruction.trips[name] for name in format.reduce_loops)


def _fill_products(rows: _Rows, index: int, instruction: Instruction, first_words: Mapping[str, int]) -> None:
    format = instruction.format
    outer, trips = tile_loops(format), tuple(instruction.trips.values())
    a, w, c = systolic_activations(format), systolic_weights(format), format.destination
    _fill_operand(rows, index, MMA_A, instruction, a, first_words[a.memory])
    _fill_operand(rows, index, MMA_W, instruction, w, first_words[w.memory], outer)
    _fill_operand(rows, index, MMA_C, instruction, c, first_words[c.memory])
    rows.table[index, ITERATIONS] = prod(trips[outer:])
    rows.table[index, GROUP] = prod(trips[:outer])
    rows.table[index, FIRST_INNER] = rows.loops - len(trips) + outer
    rows.table[index, ACCUMULATES] = format.has_accumulate and instruction[ACCUMULATE]


def _fill_move(
    rows: _Rows,
    index: int,
    instruction: Instruction,
    machine: Machine,
    first_words: Mapping[str, int],
    regions: tuple[Region, ...],
) -> None:
    format = instruction.format
    source, destination = format.sources[0], format.destination
    outer, on_chip = (source, destination) if source.memory == DRAM else (destination, source)
    word_bytes = machine.memories[on_chip.memory].word_bytes
    trips = tuple(instruction.trips.values())
    is_contiguous = tuple(instruction.strides(outer).values())[-1] == word_bytes
    walked = len(trips) - 1 if is_contiguous else len(trips)
    within = region(regions, instruction[f"{outer.name}.region"])
    _fill_operand(rows, index, DMA_WORD, instruction, on_chip, first_words[on_chip.memory])
    _fill_operand(rows, index, DMA_BYTE, instruction, outer, within.base, walked)
    rows.table[index, ITERATIONS] = prod(trips)
    rows.table[index, RUN_BYTES] = word_bytes * (trips[-1] if is_contiguous else 1)
    rows.table[index, RUNS] = prod(trips[:walked])
    rows.table[index, FIRST_INNER] = rows.loops - len(trips) + walked
    rows.table[index, WORD_BYTES] = word_bytes
