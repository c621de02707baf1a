"""Unification of a nest's expression with an instruction's statement.

The statement is the pattern. Its immediates bind constants, the fields of a structured operand bind constants of each
channel, and a plain operand binds any expression whose value fits the operand's element. Where the two trees differ
only by an operation that does nothing (adding 0, multiplying by 1, a clamp to the whole range), the pattern's operand
is bound to that neutral value, so `clamp(round_shift((a - z) * scale, shift) + zero, low, high)` also computes `a`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tilewright.compiler.nest.space import products_of
from tilewright.compiler.select.bindings import ANYTHING, UNBOUND, Match
from tilewright.isa.language.expressions import Expr, const, first_index, walk
from tilewright.isa.language.numeric import FloatType, Interval
from tilewright.isa.language.operations import OVER_WORDS, REDUCTIONS, Op, combining
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.program.small_floats import small_float_of

Args = tuple[Expr, ...]

Possible = dict[tuple[int, int], tuple[bool, Expr]]
"""Which parts of a statement may equal which expressions: by the part's `id`, and a number or an expression's `id`."""

MOST_NUMBERS = 10_000
"""So many answers about numbers are kept of an instruction at most; a network asks for some hundreds."""


class Unifier:
    """Finds the matches of one instruction's statement; `constant_range` and `constant_value` know the constants.

    `constant_range(e)` is the interval of a constant leaf's actual values, or None if `e` is not constant;
    `constant_value(e)` is its one value, or None if it has several. `numbers` has which parts of the statement equal
    which numbers, as far as that was asked: the same for all nests, so the unifiers of an instruction share it.
    """

    def __init__(
        self,
        format: InstructionFormat,
        constant_range: Callable[[Expr], Interval | None],
        constant_value: Callable[[Expr], int | None],
        numbers: Possible | None = None,
    ) -> None:
        self._format = format
        self.constant_range = constant_range
        self.constant_value = constant_value
        self._root: Expr | None = None
        self._immediates = format.held_immediates
        self._possible: Possible = {}
        self._numbers = {} if numbers is None else numbers
        self._same_memory = format.beside_destination

    def matches(self, expr: Expr) -> Iterator[Match]:
        """Every way in which the instruction's statement equals `expr`, the plainest first.

        A computed value is never merely moved within a memory.
        """
        self._root = expr
        statement = self._format.statement.expr
        if isinstance(self._format.destination.element.type, FloatType):
            yield from self._unify_code(statement, expr, UNBOUND, False)
        else:
            yield from self._unify(statement, expr, UNBOUND, False)

    def part_matches(self, pattern: Expr, expr: Expr) -> Iterator[Match]:
        """Every way in which a part of the statement equals an expression that is not the root."""
        self._root = None
        yield from self._unify(pattern, expr, UNBOUND, False)

    def held(self, leaf: Expr) -> Interval:
        """The values that a leaf of the statement can hold."""
        return self._immediates[leaf.name] if leaf.op is Op.IMMEDIATE else leaf.range

    def _unify(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """The matches that keep the bindings so far. There are none where there would be none without any bindings."""
        if self.is_possible(pattern, expr):
            yield from self._compare(pattern, expr, so_far, is_reduced)

    def is_possible(self, pattern: Expr, expr: Expr) -> bool:
        """Whether a part of the statement may equal an expression in some way, of whatever root it is a part.

        Leaves need not agree with each other. What is known goes by which objects they are: it keeps the expressions.
        """
        if expr.op is Op.CONST:
            known, key = self._numbers, (id(pattern), expr.value)
        else:
            known, key = self._possible, (id(pattern), id(expr))
        found = known.get(key)
        if found is None:
            root, self._root = self._root, None
            is_possible = next(self._compare(pattern, expr, ANYTHING, False), None) is not None
            self._root = root
            if len(self._numbers) >= MOST_NUMBERS:
                self._numbers.clear()
            found = known[key] = is_possible, expr
        return found[0]

    def _compare(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        return _COMPARE[pattern.op](self, pattern, expr, so_far, is_reduced)

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _unify_constant(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        if expr.op is Op.CONST and expr.value == pattern.value:
            yield so_far

    def _bind_source(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        if pattern.field:
            return self._bind_field(pattern, expr, so_far)
        return self._bind_operand(pattern, expr, so_far, is_reduced)

    def _bind_immediate(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        value = self.constant_value(expr)
        if value is None:
            return
        kind, allowed = self._format.immediates[pattern.name], self._immediates[pattern.name]
        if isinstance(kind, FloatType):
            floats = small_float_of(kind)
            if not floats.holds(np.array([value])):
                return
            value = int(floats.codes(np.array([value]))[0])
        if not allowed.low <= value <= allowed.high:
            return
        if so_far.immediates.get(pattern.name, value) == value:
            yield so_far.with_immediate(pattern.name, value)

    def _bind_field(self, pattern: Expr, expr: Expr, so_far: Match) -> Iterator[Match]:
        values = self.constant_range(expr)
        key = (pattern.name, pattern.field)
        if values is not None and pattern.range.contains(values) and so_far.fields.get(key, expr) == expr:
            yield so_far.with_field(key, expr)

    def _bind_operand(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        if expr is self._root and expr.args and pattern.name in self._same_memory:
            return
        values = self.constant_range(expr) or expr.range
        kind = self._format.operand(pattern.name).element.type
        held = kind.values if isinstance(kind, FloatType) else pattern.range
        if held.contains(values) and so_far.operands.get(pattern.name, expr) == expr:
            yield so_far.with_operand(pattern.name, expr, is_reduced)

    # -- floats of few bits --------------------------------------------------------------------------------------------

    def _unify_number(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """What a code stands for."""
        return self._unify_code(pattern.args[0], expr, so_far, is_reduced)

    def _unify_code(self, code: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """A code in a statement, and the number in the nest that it stands for.

        The code of a number that the type has is that number; of others, the nearest on both sides.
        """
        if code.op is not Op.NEAREST:
            yield from self._unify(code, expr, so_far, is_reduced)
            return
        if expr.op is Op.STEPS and expr.args[0].op is Op.NEAREST:
            yield from self._unify(code, expr.args[0], so_far, is_reduced)
        if code.args[1].op is Op.CONST and code.args[1].value == 0:
            yield from self._unify(code.args[0], expr, so_far, is_reduced)

    # -- operations ----------------------------------------------------------------------------------------------------

    def _unify_arguments(self, patterns: Args, args: Args, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """All arguments, from the left, under one set of bindings."""
        if all(map(self.is_possible, patterns, args)):
            yield from self._unify_rest(0, patterns, args, so_far, is_reduced)

    def _unify_rest(
        self, position: int, patterns: Args, args: Args, so_far: Match, is_reduced: bool
    ) -> Iterator[Match]:
        """The arguments from a position on."""
        if position == len(patterns):
            yield so_far
            return
        for bound in self._compare(patterns[position], args[position], so_far, is_reduced):
            yield from self._unify_rest(position + 1, patterns, args, bound, is_reduced)

    def _unify_product(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        products = products_of(expr)
        if products is not None:
            for args in (products.main.args, products.main.args[::-1]):
                yield from self._unify_arguments(pattern.args, args, so_far, is_reduced)

    def _unify_transposed(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """Which loop runs along a tile's rows is seen from the accesses."""
        return self._unify(pattern.args[0], expr, so_far, is_reduced)

    def _unify_over_words(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """Which loop runs over the words is seen from the accesses."""
        if expr.op in REDUCTIONS and combining(expr.op) is combining(pattern.op):
            yield from self._unify(pattern.args[0], expr.args[0], so_far, True)

    def _unify_wrap(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        if expr.op is Op.WRAP and expr.type == pattern.type:
            yield from self._unify(pattern.args[0], expr.args[0], so_far, is_reduced)
        elif pattern.type is not None and pattern.type.interval.contains(expr.range):
            yield from self._unify(pattern.args[0], expr, so_far, is_reduced)

    def _unify_lookup(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """A table of the same entries, from the same value on."""
        entries = self._format.operand(pattern.name).block
        if expr.op is not Op.LUT or pattern.args[0].range.low != first_index(expr.args[0], entries):
            return
        table = Expr(Op.SOURCE, expr.range, name=expr.name)
        values = self.constant_range(table)
        if values is not None and pattern.range.contains(values):
            bound = so_far.with_operand(pattern.name, table, False)
            yield from self._unify(pattern.args[0], expr.args[0], bound, is_reduced)

    def _unify_reduction(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        inner = pattern.args[0]
        if inner.op in OVER_WORDS:
            if expr.op is pattern.op and combining(inner.op) is combining(expr.op):
                yield from self._unify(inner.args[0], expr.args[0], so_far, True)
        elif expr.op is pattern.op:
            yield from self._unify(inner, expr.args[0], so_far, True)
        elif inner.op is not Op.DOT:  # over a single iteration, a reduction is its argument
            for match in self._unify(inner, expr, so_far, False):
                yield match.with_neutral()

    def _unify_operation(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """The same operation on both sides; only where that fails, a neutral operation of the pattern."""
        is_found = False
        for args in equal_arguments(pattern, expr):
            for match in self._unify_arguments(pattern.args, args, so_far, is_reduced):
                is_found = True
                yield match
        if is_found:
            return
        if pattern.op is Op.MUL and expr.op is Op.CONST and expr.value == 0:
            yield from self._unify_zero(pattern, expr, so_far)
        yield from self._unify_neutral(pattern, expr, so_far, is_reduced)

    def _unify_neutral(self, pattern: Expr, expr: Expr, so_far: Match, is_reduced: bool) -> Iterator[Match]:
        """`pattern` is `u ∘ v`: let v be the value that leaves `expr` as it is, if there is one, and u be `expr`."""
        if pattern.op.facts.neutral is None:
            return
        neutral = const(pattern.op.facts.neutral(expr.range))
        left, right = pattern.args
        for kept, dropped in ((left, right), (right, left)) if pattern.op.facts.is_commutative else ((left, right),):
            if dropped.op is Op.SOURCE and not dropped.field:
                continue  # a memory full of neutral values is never cheaper than another instruction
            if not (self.is_possible(dropped, neutral) and self.is_possible(kept, expr)):
                continue
            for match in self._compare(kept, expr, so_far, is_reduced):
                for both in self._compare(dropped, neutral, match, is_reduced):
                    yield both.with_neutral()

    def _unify_zero(self, pattern: Expr, zero: Expr, so_far: Match) -> Iterator[Match]:
        """`pattern` is `u * v` and must be 0: let one argument be 0 and the other be anything."""
        for chosen, other in ((pattern.args[1], pattern.args[0]), (pattern.args[0], pattern.args[1])):
            if chosen.op not in (Op.IMMEDIATE, Op.SOURCE) or (chosen.op is Op.SOURCE and not chosen.field):
                continue
            for bound in self._unify(chosen, zero, so_far, False):
                yield from self._let_idle(other, bound)

    def _let_idle(self, pattern: Expr, so_far: Match) -> Iterator[Match]:
        """Bind every leaf of a pattern whose value does not matter."""
        for leaf in walk(pattern):
            nothing = min(max(0, leaf.range.low), leaf.range.high)
            if leaf.op is Op.IMMEDIATE and leaf.name not in so_far.immediates:
                so_far = so_far.with_immediate(leaf.name, nothing)
            elif leaf.op is Op.SOURCE and leaf.field and (leaf.name, leaf.field) not in so_far.fields:
                so_far = so_far.with_field((leaf.name, leaf.field), const(nothing))
            elif leaf.op is Op.SOURCE and not leaf.field and leaf.name not in so_far.operands:
                so_far = so_far.with_idle(leaf.name)
        yield so_far


def equal_arguments(pattern: Expr, expr: Expr) -> Iterator[Args]:
    """The arguments with which the pattern's operation gives the value of `expr`, to be unified with its own."""
    facts = pattern.op.facts
    if expr.op is pattern.op and expr.setting == pattern.setting:
        yield expr.args
        if facts.is_commutative:
            yield expr.args[::-1]
    if facts.mirror and expr.op.facts.word == facts.mirror and expr.args[1].op is Op.CONST:
        yield expr.args[0], const(-expr.args[1].value)


_COMPARE: Mapping[Op, Callable[[Unifier, Expr, Expr, Match, bool], Iterator[Match]]] = {
    **dict.fromkeys(Op, Unifier._unify_operation),
    Op.CONST: Unifier._unify_constant,
    Op.IMMEDIATE: Unifier._bind_immediate,
    Op.SOURCE: Unifier._bind_source,
    Op.WRAP: Unifier._unify_wrap,
    Op.DOT: Unifier._unify_product,
    Op.TRANSPOSE: Unifier._unify_transposed,
    Op.LUT: Unifier._unify_lookup,
    Op.STEPS: Unifier._unify_number,
    **dict.fromkeys(REDUCTIONS, Unifier._unify_reduction),
    **dict.fromkeys(OVER_WORDS, Unifier._unify_over_words),
}
"""What a node of a statement is compared by."""
