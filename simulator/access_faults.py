"""Finds, before a run, the first access of an instruction that its machine would refuse: no access depends on data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.check.footprint import extent
from tilewright.isa.machine.encoding import Instruction, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM, Memory
from tilewright.isa.program.faults import Fault, FaultCode
from tilewright.isa.templates.dma import first_burst
from tilewright.isa.templates.table import facet_of
from tilewright.isa.timing import vec_rows
from tilewright.simulator.nest import AddressWalk, walk_of
from tilewright.simulator.regions import Region, region

Found = tuple[int, int, int, FaultCode, int]
"""Iteration, beat in it, operand's position, code and address: the smallest is the first."""


def wait_fault(instruction: Instruction, dispatched: Mapping[str, int], index: int) -> Fault | None:
    """The fault of a wait for more instructions of an engine than were dispatched before this one."""
    for engine, count in instruction.waits.items():
        if count > dispatched[engine]:
            return Fault(FaultCode.WAIT, index, count)
    return None


def access_fault(machine: Machine, instruction: Instruction, regions: tuple[Region, ...], index: int) -> Fault | None:
    """The first fault of an instruction's accesses in the order of its iterations and operands."""
    format = instruction.format
    found: list[Found] = []  # nearly always nothing, as the least and the greatest address say at once
    for position, operand in enumerate(format.operands):
        low, end = extent(instruction, operand, machine)
        if operand.memory == DRAM:
            if low >= 0 and end <= region(regions, instruction[f"{operand.name}.region"]).limit:
                continue
            hit = _outside_region(machine, instruction, operand, regions)
            code, beat = FaultCode.REGION, 0
        else:
            memory = machine.memories[operand.memory]
            if not _may_leave(memory, low, end, operand.block > 1):
                continue
            is_by_row = operand is facet_of(format.engine.template).row_by_row(format)
            hit = _outside_memory(memory, walk_of(instruction, operand), operand, is_by_row)
            code, beat = FaultCode.ADDRESS, 0
            if hit is not None and is_by_row and 0 <= hit[1] < memory.depth:
                row = memory.depth - hit[1]  # the first that is outside
                hit = hit[0], memory.depth
                beat = row if vec_rows(format) > 1 else 0  # an array reads a tile ahead of all else
        if hit is not None:
            found.append((hit[0], beat, position, code, hit[1]))
    if not found:
        return None
    *_, code, address = min(found)
    return Fault(code, index, address)


def _may_leave(memory: Memory, low: int, end: int, keeps_banks: bool) -> bool:
    """Whether blocks of words from `low` up to `end` may leave a memory, or a bank where that is refused, too."""
    if low < 0 or end > memory.depth:
        return True
    return keeps_banks and low // memory.stretch_words != (end - 1) // memory.stretch_words


def _outside_memory(memory: Memory, walk: AddressWalk, operand: Operand, is_by_row: bool) -> tuple[int, int] | None:
    block = operand.block

    def is_bad(first: NDArray[np.int64]) -> NDArray[np.bool_]:
        outside = (first < 0) | (first + block > memory.depth)
        if is_by_row:
            return outside
        return outside | (first // memory.stretch_words != (first + block - 1) // memory.stretch_words)

    return walk.first(is_bad, lambda low, high: _may_leave(memory, low, high + block, block > 1 and not is_by_row))


def _outside_region(
    machine: Machine, instruction: Instruction, outer: Operand, regions: tuple[Region, ...]
) -> tuple[int, int] | None:
    """Whole runs are compared with the region first; only the first one that leaves it is cut into bursts."""
    within = region(regions, instruction[f"{outer.name}.region"])
    walk = walk_of(instruction, outer)
    on_chip = next(o for o in instruction.format.operands if o is not outer)
    word_bytes = machine.memories[on_chip.memory].word_bytes
    words = walk.trips[-1] if walk.strides[-1] == word_bytes else 1
    runs = AddressWalk(walk.base, (*walk.trips[:-1], walk.trips[-1] // words), walk.strides)
    size = words * word_bytes
    hit = runs.first(
        lambda first: (first < 0) | (first + size > within.limit),
        lambda low, high: low < 0 or high + size > within.limit,
    )
    if hit is None:
        return None
    done = 0
    while True:
        burst = first_burst(within.base + hit[1] + done, size - done, machine.dram.bus_bytes)
        first = hit[1] + done
        if not 0 <= first < within.limit:
            return hit[0] * words + done // word_bytes, burst.address
        if first + burst.bytes > within.limit:
            return hit[0] * words + done // word_bytes, within.base + within.limit
        done += burst.bytes
