"""DMA engines: they move words between DRAM and memories on chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import lcm

import numpy as np

from tilewright.isa.key_kinds import Key, WholeNumber
from tilewright.isa.language.operations import Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Direction, Dma, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.templates.facet import Facet
from tilewright.isa.templates.work import BlockAccess, Task, Work
from tilewright.isa.timing import BURST_BEATS, BURST_BOUNDARY_BYTES, dma_round_trip

USUAL = {Direction.IN: Dma(Direction.IN, 4, 16, 2), Direction.OUT: Dma(Direction.OUT, 2, 2, 3)}
"""What an engine has under way where the machine's file says nothing else: more makes no network faster."""

MOST_PORTS = 16
"""AXI ports of a machine, at the most."""


class DmaFacet(Facet):
    """Instructions that move one operand; an engine of each direction."""

    directions = (Direction.IN, Direction.OUT)
    only_moves = True

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        assert direction is not None
        usual = USUAL[direction]
        bursts, beats = {
            Direction.IN: ("cut into words", "Beats that have come and wait to be cut into words"),
            Direction.OUT: ("sent", "Parts of words, of a beat's size, that are read and not yet sent"),
        }[direction]
        about = {
            "contexts": (WholeNumber(2, 16), "Instructions that are started and not yet completed", usual.contexts),
            "bursts": (WholeNumber(1, 64), f"Bursts that are addressed and not all {bursts}", usual.bursts),
            "beats": (WholeNumber(1, 256), beats, usual.beats),
            "port": (WholeNumber(0, MOST_PORTS - 1), "The AXI port that it is on, one of dram.ports", usual.port),
        }
        return {
            key: Key(kind, f"{text}; {value} if left out.", is_needed=False)
            for key, (kind, text, value) in about.items()
        }

    def settings(self, direction: Direction | None, said: Mapping[str, int], array: Systolic | None, lanes: int) -> Dma:
        assert direction is not None
        return Dma(**{**asdict(USUAL[direction]), **said})

    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        source, destination = format.sources, format.destination
        if len(source) != 1 or (source[0].memory == DRAM) == (destination.memory == DRAM):
            yield "a dma engine moves one operand, with dram at one end and an on-chip memory at the other"
        is_plain = format.statement.expr.op is Op.SOURCE
        if not is_plain or format.immediates or format.reduce_loops or format.has_accumulate:
            yield "a dma engine only moves: expected `destination = source`, no reduce, no imm, no flags"
        for operand in format.operands:
            if operand.block != 1:
                yield f"operand {operand.name} is a block of {operand.block} words; a dma engine moves one word a step"

    def work(self, machine: Machine, task: Task) -> Work:
        """It is limited by beats, by words, and by the bursts and beats that may be on their way at a time."""
        format, dram, word_bytes = task.format, machine.dram, moved_word_bytes(task.format, machine)
        loops = tuple(zip(task.trips, task.strides, strict=True))
        beats, bursts = _beats(dram.bus_bytes, word_bytes, task.place, loops)
        words, there = task.iterations, dma_round_trip(machine)
        moving, port = max(beats, words), format.engine.dma.port
        if format.destination.memory == DRAM:
            reads = BlockAccess(format.sources[0], words, 0, moving)
            stored = words * word_bytes
            return Work(moving, moving + there, (reads,), write_beats=beats, bytes_written=stored, port=port)
        busy = max(moving, bursts * there // format.engine.dma.bursts, beats * there // dram.outstanding_beats)
        complete = max(busy, moving + there)
        writes = BlockAccess(format.destination, words, complete - busy, complete, is_write=True)
        return Work(busy, complete, (writes,), read_beats=beats, port=port)

    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        yield f"    {format.destination.name} ← {format.sources[0].name}, byte for byte"

    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        word = moved_word_bytes(format, machine)
        return (
            f"at most one word ({word} bytes) and one bus beat ({machine.dram.bus_bytes} bytes) in each cycle. If "
            f"the last loop moves by {word} bytes in DRAM, its iterations share bursts. Otherwise, each word has "
            f"bursts of its own. The first beat comes at least {machine.dram.latency_cycles} cycles after its "
            f"request. Up to {format.engine.dma.contexts} instructions are under way at the same time."
        )


def dram_operand(format: InstructionFormat) -> Operand:
    """The end of a DMA instruction that is in DRAM."""
    return next(operand for operand in format.operands if operand.memory == DRAM)


def chip_operand(format: InstructionFormat) -> Operand:
    """The on-chip end of a DMA instruction."""
    return next(operand for operand in format.operands if operand.memory != DRAM)


def moved_word_bytes(format: InstructionFormat, machine: Machine) -> int:
    """Bytes of the word that a DMA instruction moves in one iteration."""
    return machine.memories[chip_operand(format).memory].word_bytes


def dram_period(machine: Machine) -> int:
    """Bytes by which a transfer may be moved in DRAM without a change of its beats and bursts."""
    return lcm(machine.dram.bus_bytes, BURST_BOUNDARY_BYTES)


@lru_cache(maxsize=4096)
def _beats(bus_bytes: int, word_bytes: int, place: int, loops: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    """(beats, bursts) of a transfer whose loops have a trip count and a stride in DRAM.

    Contiguous words are one run, and each run has bursts of its own, which are cut at beats.
    """
    *outer, (trip, stride) = loops
    run_bytes = word_bytes * trip if stride == word_bytes else word_bytes
    if stride != word_bytes:
        outer.append((trip, stride))
    starts = np.array([place], np.int64)
    for count, step in outer:
        starts = (starts[:, None] + np.arange(count) * step).ravel()
    beats = (starts % bus_bytes + run_bytes + bus_bytes - 1) // bus_bytes
    pages = (starts % BURST_BOUNDARY_BYTES + run_bytes - 1) // BURST_BOUNDARY_BYTES
    bursts = np.maximum(-(-beats // BURST_BEATS), pages + 1)
    return int(beats.sum()), int(bursts.sum())


# -- bursts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Burst:
    """One AXI burst of a DMA engine: `bytes` from byte address `address`, carried by `beats` bus beats."""

    address: int
    bytes: int
    beats: int


def first_burst(address: int, remaining_bytes: int, bus_bytes: int) -> Burst:
    """The next burst of a contiguous run that has `remaining_bytes` left from byte `address` on.

    Example, 16-byte bus: 40 bytes from 0x1FF8 → 8 bytes in 1 beat (the boundary at 0x2000), then 32 bytes in 2.
    """
    to_boundary = BURST_BOUNDARY_BYTES - address % BURST_BOUNDARY_BYTES
    to_longest = BURST_BEATS * bus_bytes - address % bus_bytes
    size = min(remaining_bytes, to_boundary, to_longest)
    return Burst(address, size, -(-(address % bus_bytes + size) // bus_bytes))
