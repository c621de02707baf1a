"""Which buffers are used at the same time through the same kind of port, and for about how many cycles.

A bank has one read port and one write port. So two buffers that two engines read at the same time, or that one
operation reads, should be in different banks.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.compiler.emission.durations import durations
from tilewright.compiler.tile.program import TileOperation, TileProgram, engines
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.machine import Machine

Contention = Mapping[str, Mapping[str, int]]
"""By buffer, the others and the cycles; buffers of different memories never contend."""

Uses = list[tuple[str, str, bool]]
"""(buffer or operand, memory, whether it is written) of each operand."""


def contention(program: TileProgram) -> Contention:
    """The contention of all buffers on chip, for operations that start in program order."""
    found: dict[str, dict[str, int]] = {}
    running: dict[str, tuple[Uses, int]] = {}  # by engine, its last operation and when that ends
    ports = {name: _ports(format, program.machine) for name, format in program.machine.formats.items()}
    start = 0
    steps = zip(program.operations, program.of_each(engines), program.of_each(durations), strict=True)
    for operation, engine, duration in steps:
        start = max(start, running[engine][1] if engine in running else 0)
        uses, end = _uses(operation, ports[operation.mnemonic]), start + duration.busy
        _add(found, uses, uses, duration.busy)
        for other, (others, others_end) in running.items():
            if other != engine:
                _add(found, uses, others, min(end, others_end) - start)
        running[engine] = uses, end
    return found


def _ports(format: InstructionFormat, machine: Machine) -> Uses:
    """What an instruction uses on chip, by operand."""
    sources = [(operand.name, operand.memory, False) for operand in format.streams]
    destination = format.destination.name, format.destination.memory, True
    sums = [(*destination[:2], False)] if format.has_accumulate else []
    return [use for use in (*sources, destination, *sums) if use[1] in machine.memories]


def _uses(operation: TileOperation, ports: Uses) -> Uses:
    """The same by buffer, for one operation."""
    return [(operation.bases[operand].buffer, memory, is_write) for operand, memory, is_write in ports]


def _add(found: dict[str, dict[str, int]], uses: Uses, others: Uses, cycles: int) -> None:
    if cycles <= 0:
        return
    for buffer, memory, is_write in uses:
        for other, there, other_writes in others:
            if other != buffer and memory == there and is_write == other_writes:
                for one, two in ((buffer, other), (other, buffer)):
                    of_one = found.setdefault(one, {})
                    of_one[two] = of_one.get(two, 0) + cycles
