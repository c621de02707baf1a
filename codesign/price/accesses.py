"""What instructions ask of the memories: words read and written, elements looked up, products, bytes of DRAM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from tilewright.isa.language.expressions import walk
from tilewright.isa.language.facts import Circuit
from tilewright.isa.machine.encoding import ACCUMULATE, Instruction
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights, tile_loops


@dataclass(frozen=True, slots=True)
class Accesses:
    """Counts by memory. A read is of a block of words at once, in every storage of a bank; a write is of one word."""

    reads: Counter[str]
    writes: Counter[str]
    lookups: Counter[str]  # of one element, by one lane

    @staticmethod
    def none() -> Accesses:
        return Accesses(Counter(), Counter(), Counter())

    def __add__(self, other: Accesses) -> Accesses:
        return Accesses(self.reads + other.reads, self.writes + other.writes, self.lookups + other.lookups)


def accesses(machine: Machine, instructions: Iterable[Instruction]) -> Accesses:
    """What a run of the instructions does; it does not depend on data."""
    total = Accesses.none()
    for instruction in instructions:
        total += _accesses(machine, instruction)
    return total


def _accesses(machine: Machine, instruction: Instruction) -> Accesses:
    match instruction.engine.template:
        case "systolic":
            return _products(machine, instruction)
        case "vector":
            return _lanes(machine, instruction)
        case _:
            return _moves(instruction)


def _moves(instruction: Instruction) -> Accesses:
    """A word an iteration, into an on-chip memory or out of it."""
    words = prod(instruction.trips.values())
    reads = Counter({of.memory: words for of in instruction.format.sources if of.memory != DRAM})
    target = instruction.format.destination.memory
    return Accesses(reads, Counter() if target == DRAM else Counter({target: words}), Counter())


def _products(machine: Machine, instruction: Instruction) -> Accesses:
    """A vector and its sums an iteration, and the rows of every weight tile; new sums do not read the old ones."""
    format, trips = instruction.format, instruction.trips
    activations, weights, sums = systolic_activations(format), systolic_weights(format), format.destination
    vectors = prod(trips.values())
    tiles = prod(list(trips.values())[: tile_loops(format)])
    adds_to_all = format.has_accumulate and instruction[ACCUMULATE] == 1
    reduced = prod(trips[name] for name in format.reduce_loops)
    reads: Counter[str] = Counter()
    reads[activations.memory] += vectors
    reads[weights.memory] += tiles * machine.array.rows
    reads[sums.memory] += vectors if adds_to_all else vectors - vectors // reduced
    return Accesses(reads, Counter({sums.memory: vectors * sums.block}), Counter())


def _lanes(machine: Machine, instruction: Instruction) -> Accesses:
    """A word of every source an iteration, a word of the result a group of reduced ones."""
    format, trips = instruction.format, instruction.trips
    iterations = prod(trips.values())
    reduced = prod(trips[name] for name in format.reduce_loops)
    reads: Counter[str] = Counter()
    for source in format.streams:
        reads[source.memory] += iterations
    lookups: Counter[str] = Counter()
    for node in set(walk(format.statement.expr)):
        if node.op.facts.circuit is Circuit.TABLE:
            lookups[format.operand(node.name).memory] += iterations * machine.vector.lanes
    return Accesses(reads, Counter({format.destination.memory: iterations // reduced}), lookups)
