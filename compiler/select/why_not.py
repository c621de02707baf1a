"""Why a nest takes an instruction, or does not: it costs more, nothing binds an operand, or a part does not unify."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Nest
from tilewright.compiler.select.bindings import Match
from tilewright.compiler.select.cover import Cover
from tilewright.compiler.select.diagonals import NestForm
from tilewright.compiler.select.differences import difference, shown
from tilewright.compiler.select.search import MATCHES_TRIED, CoverSearch, Pattern, computing_patterns
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.select.unbound import why_unbound
from tilewright.compiler.select.unify import Unifier
from tilewright.compiler.session import Session
from tilewright.isa.language.expressions import Expr, walk
from tilewright.isa.language.operations import ACROSS_LANES, OVER_WORDS, REDUCTIONS, Op, combining
from tilewright.isa.machine.machine import Machine


class CoverOutcome(Enum):
    """What came of an instruction for a nest."""

    TAKEN = "taken"
    COSTS = "costs more"
    UNBOUND = "cannot be bound"
    DIFFERS = "differs"
    OTHER = "of another form"


@dataclass(frozen=True, slots=True)
class CoverVerdict:
    """What came of an instruction for a nest, and why in words; empty for one that is taken."""

    nest: str
    instruction: str
    kind: CoverOutcome
    text: str = ""


IDLE = 3
"""Nodes that an operation without effect counts for: itself, its argument, and what an operand stands for beside it."""

Rank = tuple[int, int]
"""How near a statement is to an expression: its nodes that unify, then the operands that can be bound, or -1."""


def verdicts(
    nest: Nest, of: Sequence[NestForm], chosen: Sequence[Cover], machine: Machine, session: Session
) -> Iterator[CoverVerdict]:
    """A verdict on each computing instruction of a machine; `of` are the ways in which the nest was written."""
    searches = list(_searches(of, machine, session))
    taken = {name for cover in chosen for name in _mnemonics(cover)}
    for pattern in computing_patterns(machine):
        name = pattern.format.mnemonic
        if name in taken:
            yield CoverVerdict(nest.name, name, CoverOutcome.TAKEN)
            continue
        costs = _costs(pattern, of, chosen, machine, session) or _costs_of_piece(pattern, searches)
        if costs:
            yield CoverVerdict(nest.name, name, CoverOutcome.COSTS, costs)
            continue
        _, found = max((_nearest(pattern, search) for search in searches), key=lambda each: each[0])
        is_of_form = any(_essence(pattern.format.statement.expr) & _essence(search.nest.expr) for search in searches)
        yield CoverVerdict(nest.name, name, found[0] if is_of_form else CoverOutcome.OTHER, found[1])


def _searches(of: Sequence[NestForm], machine: Machine, session: Session) -> Iterator[CoverSearch]:
    """The search of each form, done."""
    for form in of:
        selector = Selector(machine, form.program, session)
        try:
            search = selector.search(form.nest)
        except CompileError:
            continue
        search.best(form.nest.expr, selector.home(form.nest.result.tensor))
        yield search


def _mnemonics(cover: Cover) -> Iterator[str]:
    for step in cover.steps:
        yield step.format.mnemonic
        if step.adding is not None:
            yield step.adding.mnemonic


def _essence(expr: Expr) -> frozenset[Op]:
    """The operations that make the form: not sums, shifts and limits, which nearly all statements have."""
    found = set()
    for node in walk(expr):
        if node.op in REDUCTIONS | OVER_WORDS | ACROSS_LANES:
            found |= {node.op, combining(node.op)}
        elif node.op is Op.DOT:
            found.add(Op.MUL)
        elif node.op in (Op.MIN, Op.MAX):
            is_limit = any(arg.op in (Op.CONST, Op.IMMEDIATE) for arg in node.args)
            found |= set() if is_limit else {node.op}
        elif node.op not in (Op.ADD, Op.SUB, Op.ROUND_SHIFT, Op.WRAP) and node.args:
            found.add(node.op)
    return frozenset(found)


# -- what costs more ---------------------------------------------------------------------------------------------------


def _costs(
    pattern: Pattern, of: Sequence[NestForm], chosen: Sequence[Cover], machine: Machine, session: Session
) -> str:
    """By how much the nest's cheapest cover with an instruction costs more than the chosen ones; empty without one."""
    name, least = pattern.format.mnemonic, sum(cover.cycles for cover in chosen)
    covers = [cover for form in of for cover in Selector(machine, form.program, session).covers(form.nest)]
    own = [cover for cover in covers if name in _mnemonics(cover)]
    if not own:
        return ""
    best = min(own, key=lambda cover: (cover.cycles, _all_words(cover)))
    instructions = " + ".join(_mnemonics(best))
    if best.cycles > least:
        return f"{best.cycles - least:,} words more: {instructions}"
    if any(step.reduces for step in best.steps) and not best.fits_reduce_loops:
        return f"its reduce loops are too few or too short: {instructions}"
    more = _all_words(best) - sum(map(_all_words, chosen))
    if more > 0:
        return f"as many words of the busiest engine, {more:,} more of all engines: {instructions}"
    return f"as many words, and no plainer: {instructions}"


def _all_words(cover: Cover) -> int:
    return sum(cover.words.values())


def _costs_of_piece(pattern: Pattern, searches: Sequence[CoverSearch]) -> str:
    """The same for a piece of the expression, which the instruction could compute in another's place."""
    found: list[tuple[int, str]] = []
    for search in searches:
        for expr, memory in search.pieces():
            best = search.best(expr, memory)
            is_piece = expr.args or expr is search.nest.expr
            if memory != pattern.format.destination.memory or best is None or not is_piece:
                continue
            own = [each.cost[0] for each in search.candidates(expr, memory) if each.pattern.format is pattern.format]
            if own:
                more = min(own) - best.cost[0]
                words = f"{more:,} words more" if more else "as many words, and no plainer,"
                found.append((more, f"{words} where it computes {shown(expr)} in {memory}"))
    return min(found)[1] if found else ""


# -- what does not fit -------------------------------------------------------------------------------------------------


def _nearest(pattern: Pattern, search: CoverSearch) -> tuple[Rank, tuple[CoverOutcome, str]]:
    """The expression to which an instruction is nearest, and what is in the way there."""
    unifier = search.unifier(pattern)
    found = (_obstacle(pattern, unifier, expr, search) for expr in dict.fromkeys(walk(search.nest.expr)))
    return max(found, key=lambda each: each[0])


def _obstacle(
    pattern: Pattern, unifier: Unifier, expr: Expr, search: CoverSearch
) -> tuple[Rank, tuple[CoverOutcome, str]]:
    statement = pattern.format.statement.expr
    matches = list(islice(unifier.matches(expr), MATCHES_TRIED))
    found = difference(unifier, statement, expr)
    if matches and (found is None or found.alike < _alike(pattern, matches)):
        bound, text = why_unbound(search, pattern, expr, min(matches, key=lambda match: match.neutral))
        return (_alike(pattern, matches), bound), (CoverOutcome.UNBOUND, text)
    if found is not None:
        return (found.alike, -1), (CoverOutcome.DIFFERS, found.text)
    names = [node.name for node in walk(statement) if node.name]
    twice = [f"`{name}`" for name in dict.fromkeys(names) if names.count(name) > 1]
    if pattern.format.beside_destination and next(unifier.part_matches(statement, expr), None) is not None:
        return (1, -1), (
            CoverOutcome.DIFFERS,
            f"it would only move {shown(expr)} within {pattern.format.destination.memory}",
        )
    if twice:
        text = f"one of its {', '.join(twice)} would stand for two values in {shown(expr)}"
        return (pattern.size - 1, -1), (CoverOutcome.DIFFERS, text)
    return (0, -1), (CoverOutcome.DIFFERS, f"its {shown(statement)} stands where the layer has {shown(expr)}")


def _alike(pattern: Pattern, matches: Sequence[Match]) -> int:
    """The nodes of a statement that do something in the plainest match."""
    return pattern.size - IDLE * min(match.neutral for match in matches)
