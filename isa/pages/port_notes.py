"""What one port a bank may cost instructions: iterations that take more than a cycle, vectors that cannot follow."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Template
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.timing import adding_rate, mma_sum


def port_notes(machine: Machine) -> tuple[str, ...]:
    """A sentence for each memory with one port a bank where that lowers a rate, and one for each of arrays' sums."""
    one_port = [memory for memory in machine.memories.values() if memory.has_one_port]
    return tuple(note for memory in one_port for note in (*_vectors(machine, memory), *_iterations(machine, memory)))


def _vectors(machine: Machine, memory: Memory) -> Iterator[str]:
    """Of the arrays that add to sums in a memory: how many of their vectors issue, if their sums are consecutive."""
    for engine in machine.of(Template.SYSTOLIC):
        rate = adding_rate(memory, mma_sum(engine.array))
        if rate < 1 and any(format.destination.memory == memory.name for format in machine.formats_of(engine)):
            yield (
                f"memories.{memory.name}: a bank has one port, so that {engine} issues {rate.numerator} vectors in "
                f"{rate.denominator} cycles where it adds to sums; with 4 banks and interleave: words, one in each"
            )


def _iterations(machine: Machine, memory: Memory) -> Iterator[str]:
    """Of vector instructions that use a memory more than once: the cycles of an iteration if one bank serves them."""
    if memory.is_interleaved and memory.banks > 1:
        return
    slower: dict[int, list[str]] = {}
    for format in machine.formats_of(Template.VECTOR):
        cycles = _accesses(format, memory)
        if cycles > 1:
            slower.setdefault(cycles, []).append(format.mnemonic)
    for cycles, mnemonics in sorted(slower.items()):
        where = "" if memory.banks == 1 else f" where all of it lies in one of {memory.banks} banks"
        yield (
            f"memories.{memory.name}: a bank has one port, so that an iteration takes {cycles} cycles{where}: "
            f"{', '.join(mnemonics)}"
        )


def _accesses(format: InstructionFormat, memory: Memory) -> int:
    """Words or blocks that an iteration reads and writes in a memory."""
    return sum(operand.memory == memory.name for operand in (*format.streams, format.destination))
