"""Covers: the instructions that together compute a nest, and what each of their operands reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.nest.products import Correction
from tilewright.compiler.nest.space import NO_LOOP, NestSpace
from tilewright.compiler.select.bindings import Binding, ComputedMatrix, TensorRead
from tilewright.compiler.templates.facet import Role
from tilewright.compiler.templates.table import facet_of
from tilewright.isa.language.expressions import walk
from tilewright.isa.language.operations import ACROSS_LANES
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True)
class Step:
    """One instruction of a cover; it runs over all iterations of the nest."""

    format: InstructionFormat
    inputs: Mapping[str, Binding]  # by source operand
    immediates: Mapping[str, int]
    reduces: bool  # the nest's reduce loops run inside this step
    words: int  # iterations of the instruction over the whole nest
    is_uniform: bool = False  # one word of a pixel serves all its lane blocks: the result of a reduction across lanes
    corrections: tuple[Correction, ...] = ()  # of a dot product: more products that it adds
    word_loop: str = NO_LOOP  # the reduce loop whose iterations are the words of its blocks
    adding: InstructionFormat | None = None  # adds up the products with numbers, if they are summed apart
    continuing: InstructionFormat | None = None  # adds more products to its sums: itself, or another one

    @cached_property
    def is_dot(self) -> bool:
        """Whether it multiplies vectors of channels by a matrix; other steps compute one word from another."""
        return self.format.statement.dot is not None

    @property
    def computes_beside(self) -> bool:
        """Whether it multiplies in an engine that computes words from words as well."""
        return self.is_dot and facet_of(self.format.engine.template).role is Role.COMPUTES

    @property
    def product_latency(self) -> int:
        """Of a dot product, the cycles from the issue of a sum's last vector to the sum's write."""
        return facet_of(self.format.engine.template).product_latency(self.format)

    @cached_property
    def across(self) -> frozenset[str]:
        """The operands that walk over the blocks of channels that a reduction runs over."""
        return operands_across_lanes(self.format)


@dataclass(frozen=True)
class Cover:
    """The steps that compute a nest, each after those that it reads; the last one gives the result."""

    nest: Nest
    space: NestSpace
    steps: tuple[Step, ...]

    @property
    def dot(self) -> Step | None:
        """The step that multiplies by weights, if there is one."""
        return next((step for step in self.steps if step.is_dot), None)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of reads whose tensors are loaded as weight tiles."""
        return tuple(b.read for step in self.steps for b in step.inputs.values() if isinstance(b, ComputedMatrix))

    @cached_property
    def block_reads(self) -> frozenset[str]:
        """The names of reads that take blocks of words: no block may lie across two banks."""
        blocks = ((step, step.inputs[name]) for step in self.steps for name in step.format.statement.blocks)
        return frozenset(bound.read for _, bound in blocks if isinstance(bound, TensorRead))

    @property
    def cycles(self) -> int:
        """The words that the busiest engine streams: engines overlap, and each takes a word in a cycle."""
        return max(self.words.values())

    @property
    def words(self) -> Mapping[Engine, int]:
        """The words that each engine streams."""
        of_engines: Counter[Engine] = Counter()
        for step in self.steps:
            of_engines[step.format.engine] += step.words
        return dict(of_engines)

    @property
    def result_memory(self) -> str:
        """The memory that the result is computed into."""
        return self.steps[-1].format.destination.memory

    @property
    def fits_reduce_loops(self) -> bool:
        """Whether one instruction can hold all of the nest's reduce loops."""
        step = next(step for step in self.steps if step.reduces)
        reducing = step.format
        loops = [loop for loop in self.nest.loops if loop.is_reduce and loop.trip > 1]
        in_words = {each.word_loop for each in self.steps}
        trips = sorted((loop.trip for loop in loops if loop.name not in in_words), reverse=True)
        longest = sorted((1 << loop.bits for loop in reducing.loops if loop.is_reduce), reverse=True)
        return step.continuing is not None or (
            len(trips) <= len(longest) and all(trip <= most for trip, most in zip(trips, longest, strict=False))
        )


@dataclass(frozen=True)
class Selection:
    """A program's nests and the cover of each, in the same order."""

    machine: Machine
    program: NestProgram
    covers: tuple[Cover, ...]


def operands_across_lanes(format: InstructionFormat) -> frozenset[str]:
    """The operands that a reduction across lanes takes in."""
    reductions = [node for node in walk(format.statement.expr) if node.op in ACROSS_LANES]
    return frozenset(leaf.name for node in reductions for leaf in walk(node) if leaf.name)
