"""A program as the tables of integers that the cycle kernel steps through."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.program import Program
from tilewright.simulator.kernel.layout import ENGINE, FIXED, INSTRUCTION_BYTES, MOST_FIXED_OPERANDS
from tilewright.simulator.regions import regions_of
from tilewright.simulator.templates.rows import Rows, nest_depth
from tilewright.simulator.templates.table import facet_of


def instruction_columns(machine: Machine) -> dict[str, int]:
    """Where the parts of a row begin whose width follows from the machine, and the row's `width`."""
    return dict(machine.fact(_instruction_columns))


def _instruction_columns(machine: Machine) -> Mapping[str, int]:
    loops, operands = nest_depth(machine), max(MOST_FIXED_OPERANDS, machine.vector_sources() + 1)
    trips = FIXED + len(machine.engines)
    is_reduce = trips + loops
    bases = is_reduce + loops
    steps = bases + operands
    return {
        "waits_column": FIXED,
        "trips_column": trips,
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
        empty = np.zeros((len(indices), table.shape[1]), np.int64)
        rows = Rows(machine, format, values, empty, first_words, regions, nest_depth(machine), **columns)
        _fill_nest(rows)
        facet_of(format.engine.template).fill(rows)
        table[indices] = rows.table
    return table


def bank_of_words(machine: Machine) -> NDArray[np.int64]:
    """The bank of every on-chip word, both counted through all memories."""
    ports, banks = [], 0
    for memory in machine.memories.values():
        words = np.arange(memory.depth, dtype=np.int64)
        ports.append(banks + (words % memory.banks if memory.is_interleaved else words // memory.bank_depth))
        banks += memory.banks
    return np.concatenate(ports)


def one_port_of_banks(machine: Machine) -> NDArray[np.int64]:
    """Of every bank, counted through all memories, whether it has one port: 1 or 0."""
    memories = machine.memories.values()
    return np.repeat([int(memory.has_one_port) for memory in memories], [memory.banks for memory in memories])


def _fill_nest(rows: Rows) -> None:
    rows.table[:, ENGINE] = rows.format.engine.number
    rows.table[:, INSTRUCTION_BYTES] = rows.format.bytes
    for number, (_, place) in enumerate(rows.format.wait_places):
        rows.table[:, rows.waits_column + number] = rows.values[:, place]
    missing = rows.loops - len(rows.walk.loops)
    rows.table[:, rows.trips_column : rows.trips_column + missing] = 1
    for number, (loop, trips) in enumerate(zip(rows.walk.loops, rows.trips, strict=True), missing):
        rows.table[:, rows.trips_column + number] = trips
        rows.table[:, rows.is_reduce_column + number] = loop.is_reduce
