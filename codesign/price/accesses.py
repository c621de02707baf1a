"""What instructions ask of the memories: words read and written, elements looked up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.isa.language.expressions import walk
from tilewright.isa.language.facts import Circuit
from tilewright.isa.machine.encoding import Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.program.demands import iterations_of
from tilewright.isa.templates.table import facet_of, works_of


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """Counts by memory. A read is of a block of words at once, in every storage of a bank; a write is of one word."""

    reads: Counter[str]
    writes: Counter[str]
    lookups: Counter[str]  # of one element, by one lane


def accesses(machine: Machine, instructions: Iterable[Instruction]) -> AccessCounts:
    """What a run of the instructions does; it does not depend on data."""
    total = AccessCounts(Counter(), Counter(), Counter())
    own = list(instructions)
    for instruction, work in zip(own, works_of(machine, own), strict=True):
        for access in work.accesses:
            counts, words = (total.writes, access.operand.block) if access.is_write else (total.reads, 1)
            counts[access.operand.memory] += access.times * words
        total.lookups.update(_lookups(machine, instruction))
    return total


def _lookups(machine: Machine, instruction: Instruction) -> Counter[str]:
    """Every lane looks up for itself, in each iteration."""
    format, found = instruction.format, Counter[str]()
    for node in set(walk(format.statement.expr)) if format.tables else ():
        if node.op.facts.circuit is Circuit.TABLE:
            lanes = facet_of(instruction.engine.template).elements_computed(machine)
            found[format.operand(node.name).memory] += iterations_of(instruction) * lanes
    return found
