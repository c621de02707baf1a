"""The search for the cheapest cover: where to cut an expression, and which instruction computes each piece.

The expression tree is cut where a value fits the words of a memory that one instruction writes and another reads.
Dynamic programming over (subexpression, memory) finds the cut whose instructions stream the fewest words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tilewright.compiler.graph.graph import CHANNEL
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.nest.space import NO_LOOP, LoopsOf, nest_space, products_of
from tilewright.compiler.select.bindings import Binder, Binding, ConstantMatrix, Idle, Match, TensorRead
from tilewright.compiler.select.cover import operands_across_lanes
from tilewright.compiler.select.transfer import Transfers
from tilewright.compiler.select.unify import Possible, Unifier
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.numeric import Interval
from tilewright.isa.language.operations import ACROSS_LANES, Op
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.products import adds_product
from tilewright.isa.templates.systolic import systolic_activations, systolic_weights
from tilewright.isa.timing import vec_beats

MATCHES_TRIED = 64
"""The most matches of one instruction with one expression that are examined; the simplest come first."""


@dataclass(frozen=True)
class Pattern:
    """An instruction, with the facts about its statement that the search needs often."""

    format: InstructionFormat
    dot: Expr | None  # the dot product in it
    size: int  # nodes of the statement
    across: frozenset[str]  # operands that a reduction across lanes takes in
    continuing: InstructionFormat | None  # what adds more products to its sums: itself, or another instruction
    numbers: Possible = field(default_factory=dict, compare=False)  # as `Unifier` says


def computing_patterns(machine: Machine) -> tuple[Pattern, ...]:
    """The machine's computing instructions: those that neither read nor write DRAM."""
    return tuple(
        Pattern(
            format,
            format.statement.dot,
            len(walk(format.statement.expr)),
            operands_across_lanes(format),
            machine.continuing.get(format.mnemonic),
        )
        for format in machine.distinct_formats
        if format.in_dram is None
    )


@dataclass(frozen=True)
class Best:
    """The cheapest known way to compute one expression into one memory."""

    cost: tuple[int, int, int]  # words streamed; then, to prefer the plainest, neutral values and size of statements
    pattern: Pattern
    expr: Expr
    match: Match
    inputs: Mapping[str, Binding | Best]
    words: int
    is_uniform: bool
    word_loop: str


class CoverSearch:
    """The dynamic programme over one nest's expression."""

    def __init__(
        self, machine: Machine, program: NestProgram, transfers: Transfers, patterns: tuple[Pattern, ...], nest: Nest
    ) -> None:
        self.machine = machine
        self.program = program
        self.nest = nest
        self.patterns = patterns
        self.space = nest_space(nest, machine.lanes)
        self.loops_of = LoopsOf(nest)
        self.binder = Binder(machine, program, transfers, nest, self.space)
        self._memo: dict[tuple[Expr, str], Best | None] = {}
        self._left_out: set[tuple[Expr, str]] = set()
        self._unifiers = [
            (pattern, Unifier(pattern.format, self.binder.constant_range, self.binder.constant_value, pattern.numbers))
            for pattern in patterns
        ]

    def best(self, expr: Expr, memory: str, visiting: frozenset[tuple[Expr, str]] = frozenset()) -> Best | None:
        """The cheapest way to compute `expr` into `memory`, or None."""
        key = (expr, memory)
        if key in self._memo:
            return self._memo[key]
        found: Best | None = None
        before, self._left_out = self._left_out, set()
        for candidate in self._candidates(expr, memory, visiting | {key}):
            if found is None or candidate.cost < found.cost:
                found = candidate
        self._left_out.discard(key)  # a way through itself is never the cheapest
        if found is not None or not self._left_out:
            self._memo[key] = found
        self._left_out |= before
        return found

    def candidates(self, expr: Expr, memory: str) -> list[Best]:
        """Every way that was compared to compute `expr` into `memory`, the cheapest first; of equal ones one."""
        return sorted(self._candidates(expr, memory, frozenset({(expr, memory)})), key=lambda best: best.cost)

    def pieces(self) -> tuple[tuple[Expr, str], ...]:
        """The expressions that were asked for so far, each with its memory."""
        return tuple(self._memo)

    def unifier(self, pattern: Pattern) -> Unifier:
        """That of an instruction's statement."""
        return next(unifier for of, unifier in self._unifiers if of.format is pattern.format)

    def _candidates(self, expr: Expr, memory: str, visiting: frozenset[tuple[Expr, str]]) -> Iterator[Best]:
        for pattern, unifier in self._unifiers:
            if pattern.format.destination.memory != memory:
                continue
            if expr.op is Op.CONST and pattern.format.sources:
                continue  # a constant is written from nothing
            for match in islice(unifier.matches(expr), MATCHES_TRIED):
                candidate = self.bind(pattern, expr, match, visiting)
                if candidate is not None:
                    yield candidate

    # -- operands ------------------------------------------------------------------------------------------------------

    def bind(
        self, pattern: Pattern, expr: Expr, match: Match, visiting: frozenset[tuple[Expr, str]] = frozenset()
    ) -> Best | None:
        """A match with its cost and every operand bound to something in its memory; None if one cannot be bound."""
        bound: dict[str, Binding | Best] = {}
        if adds_product(pattern.format) is not None:
            return None  # the instruction that it continues is bound
        if pattern.dot is not None:
            product = self.binder.product(pattern.format, match)
            if product is None or not (pattern.continuing is not None or _is_one_product(expr)):
                return None
            if not _numbers_fit(expr, product, pattern.format):
                return None
            bound |= product
        for operand in () if pattern.dot is not None else pattern.format.sources:
            source = self.bind_operand(operand, pattern, match, visiting)
            if source is None:
                return None
            bound[operand.name] = source
        word_loop = self.binder.word_loop(pattern.format, bound)
        if word_loop is None:
            return None
        is_uniform = self.is_uniform(expr)
        words = self.words(pattern, bound, bool(match.reduced), is_uniform, word_loop)
        total, neutral, size = words, match.neutral, pattern.size
        for source in bound.values():
            if isinstance(source, Best):
                total, neutral, size = total + source.cost[0], neutral + source.cost[1], size + source.cost[2]
        return Best((total, neutral, size), pattern, expr, match, bound, words, is_uniform, word_loop)

    def bind_operand(
        self,
        operand: Operand,
        pattern: Pattern,
        match: Match,
        visiting: frozenset[tuple[Expr, str]] = frozenset(),
    ) -> Binding | Best | None:
        """What an operand reads under a match; None where there is nothing."""
        is_across = operand.name in pattern.across
        walked = self.space.across if is_across else self.space.lane
        if operand.element.fields:
            return self.binder.parameters(operand, match, walked)
        if operand.name in match.idle or operand.name not in match.operands:
            return _idle_like(pattern.format, operand, match)
        expr = match.operands[operand.name]
        if operand in pattern.format.tables:
            return self.binder.table(operand, expr.name, NO_LOOP if is_across else walked)
        if self.binder.is_tensor_in(expr, operand.memory):
            return self.binder.tensor(expr.name, walked)
        if not self.is_computable(operand, pattern, match):
            return None
        if (expr, operand.memory) in visiting:
            self._left_out.add((expr, operand.memory))
            return None
        return self.best(expr, operand.memory, visiting)

    def is_computable(self, operand: Operand, pattern: Pattern, match: Match) -> bool:
        """Whether a step may compute what an operand reads: what a reduction takes in is the same in all iterations."""
        stays = frozenset(self.space.reduce if operand.name in match.reduced else ())
        stays |= {self.space.lane} if operand.name in pattern.across else set()
        return not stays or not stays & self.loops_of(match.operands[operand.name])

    # -- cost ----------------------------------------------------------------------------------------------------------

    def is_uniform(self, expr: Expr) -> bool:
        """Whether an expression has one value for all channels of a pixel, made of reductions across lanes."""
        if self.space.across == NO_LOOP or self.space.lane in self.loops_of(expr):
            return False
        return any(node.op in ACROSS_LANES for node in walk(expr))

    def words(
        self, pattern: Pattern, bound: Mapping[str, Binding | Best], reduces: bool, is_uniform: bool, word_loop: str
    ) -> int:
        """Iterations of an instruction over the whole nest, or the beats of these."""
        trips, space, format = self.space.trips, self.space, pattern.format
        blocks = 1 if is_uniform else -(-trips[space.lane] // (format.destination.block * self.machine.lanes))
        words = space.pixels * blocks
        if not reduces:
            return words
        for loop in space.reduce:
            if loop == word_loop:
                continue
            words *= trips[loop] // self.machine.lanes if loop == space.across else trips[loop]
        if pattern.dot is not None:
            vector = bound[pattern.dot.args[0].name]
            assert isinstance(vector, TensorRead)
            channels = self.nest.reads[vector.read].index[CHANNEL].terms
            trip = trips[channels[0][0]] if channels else 1
            in_vector = format.operand(pattern.dot.args[0].name).block * self.machine.lanes
            words = words // trip * -(-self._reach(pattern, bound, trip) // in_vector) * vec_beats(format)
        return words

    def _reach(self, pattern: Pattern, bound: Mapping[str, Binding | Best], channels: int) -> int:
        """The summed channels that the channels of one weight tile need: all, or those of a band."""
        weights = bound[systolic_weights(pattern.format).name]
        if not isinstance(weights, ConstantMatrix):
            return channels
        access = self.nest.reads[weights.read]
        of_each = next((-index.terms[0][1] for index in access.index if len(index.terms) == 2), 0)
        return min(channels, of_each * pattern.format.destination.block * self.machine.lanes) or channels


def _idle_like(format: InstructionFormat, operand: Operand, match: Match) -> Idle | None:
    """Another operand of the same memory whose words an idle operand can read as well."""
    for other in format.sources:
        if other.memory == operand.memory and other.name in match.operands and other.name not in match.idle:
            return Idle(other.name)
    return None


def _is_one_product(expr: Expr) -> bool:
    """Whether a sum of products has one term, and so needs no instruction that adds to sums that are there."""
    products = products_of(expr.args[0])
    return products is None or not products.numbers


def _numbers_fit(expr: Expr, product: Mapping[str, Binding], format: InstructionFormat) -> bool:
    """Whether numbers that stand in a product's place of weights are ones of their type."""
    products, vector = products_of(expr.args[0]), product[systolic_activations(format).name]
    held = systolic_weights(format).element.type
    if products is None or held is None or not isinstance(vector, TensorRead):
        return True
    numbers = [each.number for each in products.corrections(vector.read) if not each.is_vector]
    return all(held.interval.contains(Interval(number, number)) for number in numbers)
