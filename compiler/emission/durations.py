"""How long each operation of a tile program takes, from the timing contract, when nothing else is in its way.

An estimate for ordering: ports are free, and DRAM is the reference memory of docs/microarchitecture.md. The cycle model
of the simulator says how long a program really takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm, prod
from typing import assert_never

import numpy as np

from tilewright.compiler.tile.footprint import dma_word_bytes
from tilewright.compiler.tile.program import TileOperation, TileProgram, forms
from tilewright.isa import timing
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.systolic import tile_loops


@dataclass(frozen=True, slots=True)
class Duration:
    """Cycles from an operation's start: until its engine can start the next, and until its results are there."""

    busy: int
    complete: int


def durations(program: TileProgram) -> list[Duration]:
    """The duration of every operation, in program order."""
    known: dict[tuple[int, int], Duration] = {}  # by form and place
    outsides = {mnemonic: _outside(format) for mnemonic, format in program.machine.formats.items()}
    period = lcm(program.machine.dram.bus_bytes, timing.BURST_BOUNDARY_BYTES)
    found = []
    for operation, form in zip(program.operations, program.of_each(forms), strict=True):
        outside = outsides[operation.mnemonic]
        place = 0 if outside is None else _place(program, operation, outside, period)
        duration = known.get((form, place))
        if duration is None:
            duration = known[form, place] = _duration(program.machine, operation, outside, place)
        found.append(duration)
    return found


def _outside(format: InstructionFormat) -> Operand | None:
    """The operand in DRAM, if there is one."""
    return next((operand for operand in format.operands if operand.memory == DRAM), None)


def _place(program: TileProgram, operation: TileOperation, outside: Operand, period: int) -> int:
    """Where an operation begins in DRAM, as far as beats and bursts can tell: to them, all is the same a period on."""
    base = operation.bases[outside.name]
    offset = base.offset + (program.buffers[base.buffer].offset or 0)
    return offset % period


def _duration(machine: Machine, operation: TileOperation, outside: Operand | None, place: int) -> Duration:
    format = machine.format(operation.mnemonic)
    trips = [operation.fields.get(f"trip.{loop.name}", 1) for loop in format.loops]
    if outside is None:
        return _computation(machine, format, trips)
    strides = [operation.fields.get(f"{outside.name}.{loop.name}", 0) for loop in format.loops]
    return _transfer(machine, format, place, tuple(zip(trips, strides, strict=True)))


def _computation(machine: Machine, format: InstructionFormat, trips: Sequence[int]) -> Duration:
    """It depends on nothing but the trip counts."""
    match format.engine.template:
        case Template.SYSTOLIC:
            return _product(machine, format, trips)
        case Template.VECTOR:
            return Duration(prod(trips), prod(trips) + timing.vec_write(format))
        case Template.DMA:
            raise AssertionError(f"{format.mnemonic} moves")
        case unknown:
            assert_never(unknown)


def _product(machine: Machine, format: InstructionFormat, trips: Sequence[int]) -> Duration:
    """Every tile streams its vectors, and takes at least as long as the rows of the next one."""
    outer = tile_loops(format)
    tiles, vectors = prod(trips[:outer]), prod(trips[outer:])
    last = timing.MMA_WEIGHT_LEAD + (tiles - 1) * max(vectors, machine.array.rows) + vectors
    return Duration(last, last + timing.mma_write(machine))


def _transfer(machine: Machine, format: InstructionFormat, place: int, loops: tuple[tuple[int, int], ...]) -> Duration:
    """DMA is limited by beats, by words, and by the bursts and beats that may be on their way at a time.

    `loops`: the trip count of each, and its stride in DRAM.
    """
    beats, bursts = _beats(machine.dram.bus_bytes, dma_word_bytes(machine, format), place, loops)
    there = timing.dma_round_trip(machine)
    transfer = max(beats, prod(trip for trip, _ in loops))
    if format.destination.memory == DRAM:
        return Duration(transfer, transfer + there)
    under_way = format.engine.dma.bursts
    busy = max(transfer, bursts * there // under_way, beats * there // machine.dram.outstanding_beats)
    return Duration(busy, max(busy, transfer + there))


@lru_cache(maxsize=4096)
def _beats(bus_bytes: int, word_bytes: int, offset: int, loops: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """(beats, bursts) of a transfer: contiguous words are one run, and each run has bursts of its own."""
    *outer, (trip, stride) = loops
    run_bytes = word_bytes * trip if stride == word_bytes else word_bytes
    if stride != word_bytes:
        outer.append((trip, stride))
    starts = np.array([offset], np.int64)
    for count, step in outer:
        starts = (starts[:, None] + np.arange(count) * step).ravel()
    beats = (starts % bus_bytes + run_bytes + bus_bytes - 1) // bus_bytes
    pages = (starts % timing.BURST_BOUNDARY_BYTES + run_bytes - 1) // timing.BURST_BOUNDARY_BYTES
    bursts = np.maximum(-(-beats // timing.BURST_BEATS), pages + 1)
    return int(beats.sum()), int(bursts.sum())
