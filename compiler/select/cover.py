"""Cost-minimal covers: which instructions together compute a nest's expression.

The expression tree is cut where a value fits the words of a memory that one instruction writes and another reads.
Dynamic programming over (subexpression, memory) finds the cut whose instructions stream the fewest words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Access, Nest, NestProgram
from tilewright.compiler.nest.products import (
    Correction,
    is_matrix_of_a_tensor,
    is_matrix_of_constants,
    is_vector,
    products_of,
    summed_loop,
)
from tilewright.compiler.nest.space import NO_LOOP, NestSpace, describe, is_lane_walk, loops_of, nest_space
from tilewright.compiler.select.transfer import Transfers, find_transfers
from tilewright.compiler.select.unify import Match, Unifier
from tilewright.isa.engines.templates import is_transposing, systolic_activations, systolic_weights
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import ACROSS_LANES, REDUCTIONS, Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import DRAM

MATCHES_TRIED = 64
"""Matches of one instruction with one expression that are looked at; the plainest come first."""


@dataclass(frozen=True, slots=True)
class TensorRead:
    """An operand reads a tensor, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class Intermediate:
    """An operand reads what an earlier step of the same cover computed."""

    step: int


@dataclass(frozen=True, slots=True)
class WeightTiles:
    """An operand reads tiles of a constant matrix, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class TensorTiles:
    """An operand reads tiles of a matrix that is computed, through the nest's read of that name.

    A word of the tensor is a row of a tile, over the result's channels; or, for an instruction that transposes tiles,
    over the summed channels.
    """

    read: str


@dataclass(frozen=True)
class Parameters:
    """An operand reads packed constants of each channel: by field, the nest's read of that name or one number.

    What is in the fields that are `free` does not matter.
    """

    fields: Mapping[str, str | int]
    free: frozenset[str] = frozenset()

    def joined(self, other: Parameters) -> Parameters | None:
        """Constants that serve both; None where a field of theirs differs."""
        fields = {name: other.fields[name] if name in self.free else own for name, own in self.fields.items()}
        if any(own != fields[name] and name not in other.free for name, own in other.fields.items()):
            return None
        return Parameters(fields, self.free & other.free)


@dataclass(frozen=True, slots=True)
class Table:
    """An operand looks up in a constant of entries, through the nest's read of that name."""

    read: str


@dataclass(frozen=True, slots=True)
class Idle:
    """An operand whose value does not matter; it reads what the operand of that name reads."""

    like: str


Bound = TensorRead | Intermediate | WeightTiles | TensorTiles | Parameters | Table | Idle


@dataclass(frozen=True)
class Step:
    """One instruction of a cover: for every iteration of the nest it computes `expr`."""

    format: InstructionFormat
    expr: Expr
    inputs: Mapping[str, Bound]  # by source operand
    immediates: Mapping[str, int]
    reduces: bool  # the nest's reduce loops run inside this step
    is_dot: bool  # it consumes vectors of channels and yields vectors of channels, not one word for another
    words: int  # iterations of the instruction over the whole nest
    across: frozenset[str] = frozenset()  # operands that walk over the blocks of channels that a reduction runs over
    is_uniform: bool = False  # one word of a pixel serves all its lane blocks: the result of a reduction across lanes
    corrections: tuple[Correction, ...] = ()  # of a dot product: more products that it adds


@dataclass(frozen=True)
class Cover:
    """The steps that compute a nest, each after those it reads; the last one gives the result."""

    nest: Nest
    space: NestSpace
    steps: tuple[Step, ...]

    @property
    def dot(self) -> Step | None:
        """The step that multiplies by weights, if there is one."""
        return next((step for step in self.steps if step.is_dot), None)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The reads of computed tensors as weight tiles."""
        return tuple(b.read for step in self.steps for b in step.inputs.values() if isinstance(b, TensorTiles))

    @property
    def result_memory(self) -> str:
        """The memory that the result is computed into."""
        return self.steps[-1].format.destination.memory


@dataclass(frozen=True)
class _Best:
    """The cheapest known way to compute one expression into one memory."""

    cost: tuple[int, int, int]  # words streamed; then, to prefer the plainest, neutral values and size of statements
    pattern: _Pattern
    expr: Expr
    match: Match
    inputs: Mapping[str, Bound | _Best]
    words: int
    is_uniform: bool


@dataclass(frozen=True)
class _Pattern:
    """What is asked again and again of one instruction's statement."""

    format: InstructionFormat
    dot: Expr | None  # the dot product in it
    size: int  # nodes of the statement
    across: frozenset[str]  # operands that a reduction across lanes takes in

    @property
    def is_dot(self) -> bool:
        return self.dot is not None


def _patterns(machine: Machine) -> tuple[_Pattern, ...]:
    """The machine's computing instructions: those that neither read nor write DRAM."""
    found = []
    for of in machine.formats.values():
        if DRAM not in {operand.memory for operand in of.operands}:
            nodes = walk(of.statement.expr)
            dot = next((node for node in nodes if node.op is Op.DOT), None)
            inside = (leaf.name for node in nodes if node.op in ACROSS_LANES for leaf in walk(node) if leaf.name)
            found.append(_Pattern(of, dot, len(nodes), frozenset(inside)))
    return tuple(found)


class Selector:
    """Covers the nests of one program with the instructions of one machine."""

    def __init__(self, machine: Machine, program: NestProgram) -> None:
        self.machine = machine
        self.program = program
        self.transfers = find_transfers(machine)
        self._patterns = _patterns(machine)

    def cover(self, nest: Nest) -> Cover:
        """The cheapest cover; raises CompileError that names the nest's nodes and what no instruction computes."""
        search = _Search(self.machine, self.program, self.transfers, self._patterns, nest)
        best = search.best(nest.expr, self.home(nest.result.tensor))
        if best is None:
            raise search.failure()
        steps: list[Step] = []
        _flatten(best, steps, {})
        return Cover(nest, search.space, _with_shared_parameters(steps))

    def cover_value(self, like: Nest, value: Expr, memory: str) -> Step | None:
        """The cheapest single instruction that writes one constant to words of a memory, reading nothing."""
        search = _Search(self.machine, self.program, self.transfers, self._patterns, like)
        best = search.best(value, memory)
        if best is None or best.inputs:
            return None
        return _step(best, {})

    def home(self, tensor: str) -> str:
        return self.transfers.home(self.program.buffers[tensor].type)


class _Search:
    """The dynamic programme over one nest's expression."""

    def __init__(
        self, machine: Machine, program: NestProgram, transfers: Transfers, patterns: tuple[_Pattern, ...], nest: Nest
    ) -> None:
        self.machine = machine
        self.program = program
        self.transfers = transfers
        self.nest = nest
        self.space = nest_space(nest, machine.lanes)
        self._memo: dict[tuple[Expr, str], _Best | None] = {}
        self._unifiers = [
            (pattern, Unifier(pattern.format, self._constant_range, self._constant_value)) for pattern in patterns
        ]

    def best(self, expr: Expr, memory: str, visiting: frozenset[tuple[Expr, str]] = frozenset()) -> _Best | None:
        """The cheapest way to compute `expr` into `memory`, or None."""
        key = (expr, memory)
        if key in self._memo:
            return self._memo[key]
        found: _Best | None = None
        for candidate in self._candidates(expr, memory, visiting | {key}):
            if found is None or candidate.cost < found.cost:
                found = candidate
        if not visiting or found is not None:
            self._memo[key] = found
        return found

    def _candidates(self, expr: Expr, memory: str, visiting: frozenset[tuple[Expr, str]]) -> Iterator[_Best]:
        for pattern, unifier in self._unifiers:
            if pattern.format.destination.memory != memory:
                continue
            if expr.op is Op.CONST and pattern.format.sources:
                continue  # a constant is written from nothing
            for match in islice(unifier.matches(expr), MATCHES_TRIED):
                candidate = self._bind(pattern, expr, match, visiting)
                if candidate is not None:
                    yield candidate

    def _bind(self, pattern: _Pattern, expr: Expr, match: Match, visiting: frozenset[tuple[Expr, str]]) -> _Best | None:
        """A match with every operand bound to something that can be in its memory, and what it costs."""
        bound: dict[str, Bound | _Best] = {}
        if pattern.is_dot:
            product = self._bind_product(pattern, match)
            if product is None:
                return None
            bound |= product
        for operand in () if pattern.is_dot else pattern.format.sources:
            source = self._bind_operand(operand, pattern, match, visiting)
            if source is None:
                return None
            bound[operand.name] = source
        is_uniform = self._is_uniform(expr)
        words = self._words(pattern, bound, bool(match.reduced), is_uniform)
        total, neutral, size = words, match.neutral, pattern.size
        for source in bound.values():
            if isinstance(source, _Best):
                total, neutral, size = total + source.cost[0], neutral + source.cost[1], size + source.cost[2]
        return _Best((total, neutral, size), pattern, expr, match, bound, words, is_uniform)

    def _is_uniform(self, expr: Expr) -> bool:
        """Whether an expression has one value for all channels of a pixel, made of reductions across lanes."""
        if self.space.across == NO_LOOP or self.space.lane in loops_of(expr, self.nest):
            return False
        return any(node.op in ACROSS_LANES for node in walk(expr))

    def _bind_operand(
        self, operand: Operand, pattern: _Pattern, match: Match, visiting: frozenset[tuple[Expr, str]]
    ) -> Bound | _Best | None:
        is_across = operand.name in pattern.across
        walked = self.space.across if is_across else self.space.lane
        if operand.element.fields:
            return self._bind_parameters(operand, match, walked)
        if operand.name in match.idle or operand.name not in match.operands:
            return _idle_like(pattern.format, operand, match)
        expr = match.operands[operand.name]
        if operand in pattern.format.tables:
            of = self.nest.reads[expr.name]
            has_entries = self.program.constants[of.tensor].shape[-1] == operand.block
            is_common = self._is_of_channels(of, NO_LOOP if is_across else walked)
            return Table(expr.name) if has_entries and is_common else None
        access = self.nest.reads.get(expr.name) if expr.op is Op.SOURCE else None
        if access is not None and self._lives_in(access.tensor, operand.memory):
            return TensorRead(expr.name) if is_lane_walk(access, walked, self.machine.lanes) else None
        stays = frozenset(self.space.reduce if operand.name in match.reduced else ())
        stays |= {self.space.lane} if is_across else set()
        if (stays and stays & loops_of(expr, self.nest)) or (expr, operand.memory) in visiting:
            return None  # a computed value that a reduction takes in is the same in all its iterations
        return self.best(expr, operand.memory, visiting)

    def _bind_parameters(self, operand: Operand, match: Match, walked: str) -> Parameters | None:
        fields: dict[str, str | int] = {}
        free = set()
        for name, of in ((f.name, f.type) for f in operand.element.fields):
            expr = match.fields.get((operand.name, name))
            if expr is None:
                fields[name] = min(max(0, of.interval.low), of.interval.high)
                free.add(name)
            elif expr.op is Op.CONST:
                fields[name] = expr.value
            elif self._is_of_channels(self.nest.reads[expr.name], walked):
                fields[name] = expr.name
            else:
                return None
        return Parameters(fields, frozenset(free))

    def _is_of_channels(self, access: Access, loop: str) -> bool:
        """Whether a constant has one value for each channel that a loop walks over, or one for all."""
        moving = [index for index in access.index if index.terms]
        return not moving or (
            len(moving) == 1 and moving[0].terms == ((loop, 1),) and moving[0].constant == 0
        )

    def _bind_product(self, pattern: _Pattern, match: Match) -> dict[str, Bound] | None:
        """The operands of a dot product: vectors of channels, and a matrix that is constant or computed."""
        vector, weights = systolic_activations(pattern.format), systolic_weights(pattern.format)
        of_vector, of_weights = match.operands[vector.name], match.operands[weights.name]
        if of_vector.op is not Op.SOURCE or of_weights.op is not Op.SOURCE:
            return None
        access, matrix = self.nest.reads[of_vector.name], self.nest.reads[of_weights.name]
        lanes = self.machine.lanes
        if not self._lives_in(access.tensor, vector.memory) or not is_vector(access, self.space, vector.block * lanes):
            return None
        summed = summed_loop(access)
        assert summed is not None
        if matrix.tensor in self.program.constants:
            if is_transposing(pattern.format) or not is_matrix_of_constants(matrix, summed, self.space):
                return None
            return {vector.name: TensorRead(of_vector.name), weights.name: WeightTiles(of_weights.name)}
        is_transposed = is_transposing(pattern.format)
        if not self._are_rows_of_tiles(matrix.tensor, pattern.format, weights):
            return None
        if not is_matrix_of_a_tensor(matrix, summed, self.space, lanes, is_transposed):
            return None
        if is_transposed and self.space.trips[summed] % lanes and access.tensor not in self.program.constants:
            return None  # lanes beyond the channels hold anything, on both sides; a constant holds zeros there
        return {vector.name: TensorRead(of_vector.name), weights.name: TensorTiles(of_weights.name)}

    def _are_rows_of_tiles(self, tensor: str, of: InstructionFormat, weights: Operand) -> bool:
        """Whether the words of a tensor in DRAM are as long as rows of weight tiles, of the same elements."""
        rows = self.machine.memories[weights.memory]
        words = self.machine.memories[self._home_of(tensor)]
        return rows.element.type == words.element.type and rows.width == words.width == self.machine.lanes

    def _words(
        self, pattern: _Pattern, bound: Mapping[str, Bound | _Best], reduces: bool, is_uniform: bool
    ) -> int:
        trips, space, of = self.space.trips, self.space, pattern.format
        blocks = 1 if is_uniform else -(-trips[space.lane] // (of.destination.block * self.machine.lanes))
        words = space.pixels * blocks
        if not reduces:
            return words
        for loop in space.reduce:
            words *= trips[loop] // self.machine.lanes if loop == space.across else trips[loop]
        if pattern.dot is not None:
            vector = bound[pattern.dot.args[0].name]
            assert isinstance(vector, TensorRead)
            channels = self.nest.reads[vector.read].index[1].terms
            trip = trips[channels[0][0]] if channels else 1
            words = words // trip * -(-trip // (of.operand(pattern.dot.args[0].name).block * self.machine.lanes))
        return words

    # -- what is known of the nest's constants -------------------------------------------------------------------------

    def _home_of(self, tensor: str) -> str:
        buffer = self.program.buffers.get(tensor)
        return self.transfers.home(self.program.constant_types[tensor] if buffer is None else buffer.type)

    def _lives_in(self, tensor: str, memory: str) -> bool:
        """Whether a tensor may be a tensor of that memory; constants of channels are not, they are parameters."""
        if tensor in self.program.buffers:
            return self._home_of(tensor) == memory
        is_same = self.machine.memories[memory].element.type == self.program.constant_types[tensor]
        return is_same and self.program.constants[tensor].ndim == 4 and self._home_of(tensor) == memory

    def _constant_range(self, expr: Expr) -> Interval | None:
        if expr.op is Op.CONST:
            return Interval(expr.value, expr.value)
        access = self.nest.reads.get(expr.name) if expr.op is Op.SOURCE else None
        if access is None or access.tensor not in self.program.constants:
            return None
        values = self.program.constants[access.tensor]
        return Interval(int(values.min()), int(values.max()))

    def _constant_value(self, expr: Expr) -> int | None:
        known = self._constant_range(expr)
        return known.low if known is not None and known.low == known.high else None

    # -- errors --------------------------------------------------------------------------------------------------------

    def failure(self) -> CompileError:
        """Names the nest's nodes and the smallest expression that should have been covered and is not."""
        home = self._home_of(self.nest.result.tensor)
        missing = next(self._uncovered(home), self.nest.expr)
        place = describe(self.nest)
        fact = f"no instruction of {self.machine.name} computes `{self._with_covered_parts_named(missing)}`"
        if missing.op is not Op.SUM or not self._is_of_computed(missing):
            return CompileError(place, fact, remedy="add one to the machine's instructions")
        expected = (
            "`dot(a, w)`, or `dot(a, transpose(w))` where the second one's channels are summed, and weights in words "
            f"of lanes = {self.machine.lanes} elements, as the tensors'"
        )
        return CompileError(place, f"{fact} with both computed", expected=expected)

    def _is_of_computed(self, total: Expr) -> bool:
        """Whether a sum is of products of two tensors, neither of them weights."""
        products = products_of(total.args[0])
        reads = [] if products is None else [self.nest.reads[arg.name] for arg in products.main.args]
        return bool(reads) and all(read.tensor in self.program.buffers for read in reads)

    def _uncovered(self, home: str) -> Iterator[Expr]:
        element = self.machine.memories[home].element.type
        reductions = [node for node in walk(self.nest.expr) if node.op in REDUCTIONS]
        written = {of.format.destination.element.type for of, _ in self._unifiers}
        loops = set(self.space.reduce)
        inside = {
            inner for node in reductions for inner in walk(node) if inner != node and loops & loops_of(inner, self.nest)
        }
        inside |= {node.args[0] for node in walk(self.nest.expr) if node.op in ACROSS_LANES}
        for node in dict.fromkeys(walk(self.nest.expr)):
            if node in inside:
                continue  # what a reduction runs over is never a value in a memory
            is_stored = node.op in REDUCTIONS | ACROSS_LANES or (node.op is Op.WRAP and node.type in written)
            is_cut = is_stored or (element is not None and element.interval.contains(node.range))
            if node.args and is_cut and not self._is_covered(node):
                yield node

    def _is_covered(self, expr: Expr) -> bool:
        return any(self.best(expr, memory) is not None for memory in self.machine.memories)

    def _with_covered_parts_named(self, expr: Expr) -> str:
        """The expression with every part that instructions do compute replaced by the memory that it would be in."""

        def rename(node: Expr) -> Expr:
            is_value = node is not expr and node.args and not loops_of(node, self.nest) & set(self.space.reduce)
            for memory in self.machine.memories if is_value else ():
                if self.best(node, memory) is not None:
                    return Expr(Op.SOURCE, node.range, name=memory)
            return Expr(
                node.op, node.range, tuple(map(rename, node.args)), node.name, node.field, node.value, node.type,
                node.rounding,
            )  # fmt: skip

        return str(rename(expr))


def _idle_like(of: InstructionFormat, operand: Operand, match: Match) -> Idle | None:
    """Another operand of the same memory whose words an idle operand can read as well."""
    for other in of.sources:
        if other.memory == operand.memory and other.name in match.operands and other.name not in match.idle:
            return Idle(other.name)
    return None


def _flatten(best: _Best, steps: list[Step], placed: dict[int, int]) -> int:
    """Append a cover's steps, inputs first, those that several read once; returns the index of the last."""
    if id(best) in placed:
        return placed[id(best)]
    inputs: dict[str, Bound] = {}
    for operand, source in best.inputs.items():
        inputs[operand] = Intermediate(_flatten(source, steps, placed)) if isinstance(source, _Best) else source
    steps.append(_step(best, inputs))
    placed[id(best)] = len(steps) - 1
    return placed[id(best)]


def _with_shared_parameters(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, with constants of the same channels packed into the same words where fields allow it."""
    shared: dict[tuple[str, bool], list[Parameters]] = {}  # by memory, and whether a reduction runs over the channels
    for step, operand, own in _parameters(steps):
        groups = shared.setdefault((operand.memory, operand.name in step.across), [])
        for position, group in enumerate(groups):
            if (both := group.joined(own)) is not None:
                groups[position] = both
                break
        else:
            groups.append(own)
    inputs = {id(step): dict(step.inputs) for step in steps}
    for step, operand, own in _parameters(steps):
        groups = shared[operand.memory, operand.name in step.across]
        inputs[id(step)][operand.name] = next(group for group in groups if group.joined(own) == group)
    return tuple(replace(step, inputs=inputs[id(step)]) for step in steps)


def _parameters(steps: Sequence[Step]) -> Iterator[tuple[Step, Operand, Parameters]]:
    for step in steps:
        for operand in step.format.sources:
            bound = step.inputs[operand.name]
            if isinstance(bound, Parameters):
                yield step, operand, bound


def _step(best: _Best, inputs: Mapping[str, Bound]) -> Step:
    pattern, match = best.pattern, best.match
    corrections: tuple[Correction, ...] = ()
    if pattern.is_dot:
        products = products_of(best.expr.args[0])
        vector = inputs[systolic_activations(pattern.format).name]
        assert products is not None and isinstance(vector, TensorRead)
        corrections = products.corrections(vector.read)
    return Step(
        pattern.format, best.expr, inputs, match.immediates, bool(match.reduced), pattern.is_dot, best.words,
        pattern.across, best.is_uniform, corrections,
    )  # fmt: skip
