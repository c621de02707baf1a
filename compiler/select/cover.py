"""Covers: the instructions that together compute a nest, and what each of their operands reads.

Some nests are computed inside the tiles of the nest that reads them, so that their results stay in accumulators. A
product whose result is the bare sums, and whose one reader takes each of them once, need not be finished before the
reader begins. For each tile of its reader, its own tile is computed beside it; no other memory ever holds the sums.

Example, a convolution of stride 1 and a reader with windows of 2×2, two pixels apart: for a tile of 4×8 results, 8×16
sums are computed; the next tile reads none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tilewright.compiler.graph.graph import BATCH, CHANNEL, COLUMN, ROW
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.compiler.nest.space import NO_LOOP, Correction, NestSpace
from tilewright.compiler.select.bindings import Binding, ComputedMatrix, ConstantMatrix, TensorRead
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


# -- nests inside the tiles of others ----------------------------------------------------------------------------------


def nests_within(selection: Selection) -> Mapping[int, int]:
    """For each nest that is computed in its reader's tiles, the position of that reader.

    Between the two are only other nests of the same reader.
    """
    outputs = {tensor.name for tensor in selection.program.outputs}
    uses: dict[str, list[int]] = {}
    for position, nest in enumerate(selection.program.nests):
        for access in (nest.result, *nest.reads.values()):
            uses.setdefault(access.tensor, []).append(position)
    found: dict[int, int] = {}
    for position in reversed(range(len(selection.covers))):
        cover = selection.covers[position]
        tensor = cover.nest.result.tensor
        if not is_bare_product(cover) or tensor in outputs or len(uses[tensor]) != 2:
            continue
        reader = uses[tensor][1]
        is_next = reader > position and all(found.get(other) == reader for other in range(position + 1, reader))
        if is_next and takes_each_once(selection.covers[reader], tensor, cover):
            found[position] = reader
    return found


def is_bare_product(cover: Cover) -> bool:
    """Whether a nest's result is what the array sums of constant weights, and nothing follows."""
    (step, *others) = cover.steps
    matrices = [bound for bound in step.inputs.values() if isinstance(bound, ConstantMatrix)]
    is_plain = step.is_dot and step.adding is None and step.continuing is not None
    return is_plain and not others and len(matrices) == 1 and is_whole_result(cover.nest)


def is_whole_result(nest: Nest) -> bool:
    """Whether a result is walked over one by one, from the first element on."""
    return all(not index.constant and [by for _, by in index.terms] in ([], [1]) for index in nest.result.index)


def takes_each_once(reader: Cover, tensor: str, sums: Cover) -> bool:
    """Whether a covered nest reads each sum of a tensor at most once, where the instruction of `sums` leaves it."""
    access = {name: read for name, read in reader.nest.reads.items() if read.tensor == tensor}
    if len(access) != 1 or reader.space.across != NO_LOOP:
        return False
    ((read, taken),) = access.items()
    product, memory = sums.steps[0].format, sums.result_memory
    memories = {
        operand.memory
        for step in reader.steps
        for operand in step.format.sources
        if step.inputs[operand.name] == TensorRead(read) and not step.is_dot
    }
    has_one_unit = reader.dot is None or reader.dot.format.destination.block == product.destination.block
    return memories == {memory} and has_one_unit and reads_each_once(taken, reader.space)


def reads_each_once(access: Access, space: NestSpace) -> bool:
    """Whether an access takes the lanes of the result, and windows of pixels that do not overlap."""
    lane = ((space.lane, 1),) if space.lane != NO_LOOP else ()
    if access.outside is not None or len(access.index) != COLUMN + 1:
        return False
    if access.index[CHANNEL] != Affine(lane):
        return False
    loops = zip((BATCH, ROW, COLUMN), space.points, strict=True)
    return all(_is_apart(access.index[dimension], loop, space) for dimension, loop in loops)


def _is_apart(index: Affine, point: str, space: NestSpace) -> bool:
    """Whether the windows along a dimension follow each other without a common element."""
    steps = dict(index.terms)
    step = steps.pop(point, 0)
    if index.constant or any(by < 1 or loop not in space.reduce for loop, by in steps.items()):
        return False
    window = 1 + sum(by * (space.trips[loop] - 1) for loop, by in steps.items())
    return step >= window or space.trips[point] == 1
