"""What valid covers keep: the rules of nests, and steps whose statements, one into another, are the nest's expression.

A cover is derived again from its last step: the step's statement must equal the nest's expression under some match,
and what the match gives each operand must be what the operand reads, or be computed by the step that it refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from tilewright.compiler.nest.rules import RULES as NEST_RULES
from tilewright.compiler.rules import Rule, RuleViolation, of_part
from tilewright.compiler.select.bindings import Binding, Intermediate, Match, Parameters
from tilewright.compiler.select.cover import Cover, Selection, Step
from tilewright.compiler.select.search import MATCHES_TRIED, Best, CoverSearch, Pattern
from tilewright.compiler.select.selector import Selector, step_of
from tilewright.compiler.select.window_sums import with_window_sums
from tilewright.isa.language.expressions import Expr

COVER = "select.cover"
"""How texts name covers."""

Computed = Mapping[int, Expr]
"""What each step computes."""


def _cover_fault(number: int, cover: Cover, fact: str, expected: str = "") -> RuleViolation:
    return RuleViolation((COVER, number), f"cover of nest {cover.nest.name!r}", fact, expected)


def _nests(selection: Selection) -> Iterator[RuleViolation]:
    if len(selection.covers) != len(selection.program.nests):
        fact = f"{len(selection.program.nests)} nests have {len(selection.covers)} covers"
        yield RuleViolation(None, "the program", fact, "one for each")
    for number, (cover, nest) in enumerate(zip(selection.covers, selection.program.nests, strict=False)):
        if cover.nest is not nest and cover.nest != nest:
            yield _cover_fault(number, cover, "it is of another nest", f"that of {nest.name!r}")


def _memories(selection: Selection) -> Iterator[RuleViolation]:
    selector = Selector(selection.machine, selection.program)
    for number, cover in enumerate(selection.covers):
        home = selector.home(cover.nest.result.tensor)
        if cover.result_memory != home:
            yield _cover_fault(number, cover, f"its result is in {cover.result_memory}", f"{home}, where readers look")


def _steps(selection: Selection) -> Iterator[RuleViolation]:
    selector = Selector(selection.machine, selection.program)
    for number, cover in enumerate(selection.covers):
        derivation = _Derivation(selector.search(cover.nest), cover)
        last = len(cover.steps) - 1
        if not any(len(found) == len(cover.steps) for found in derivation.ways(last, cover.nest.expr, {})):
            steps = ", ".join(step.format.mnemonic for step in cover.steps)
            fact = f"its steps ({steps}) with what they read and their immediates do not compute `{cover.nest.expr}`"
            yield _cover_fault(number, cover, fact)


class _Derivation:
    """How the steps of a cover may compute a nest's expression."""

    def __init__(self, search: CoverSearch, cover: Cover) -> None:
        self._search = search
        self._cover = cover
        bare = replace(cover, steps=tuple(replace(step, adding=None) for step in cover.steps))
        self._adding = [step.adding for step in with_window_sums(bare, search.machine).steps]

    def ways(self, index: int, expr: Expr, computed: Computed) -> Iterator[Computed]:
        """What the steps up to one may compute if that one computes an expression."""
        if index in computed:
            if computed[index] == expr:
                yield computed
            return
        step = self._cover.steps[index]
        pattern = next((each for each in self._search.patterns if each.format is step.format), None)
        if pattern is None or step.adding not in (None, self._adding[index]):
            return
        for match in islice(self._search.unifier(pattern).matches(expr), MATCHES_TRIED):
            inputs = self._inputs(pattern, step, match)
            if inputs is not None and self._is_step(step, pattern, expr, match, inputs):
                yield from self._ways_of_inputs(list(inputs.items()), match, {**computed, index: expr})

    def _ways_of_inputs(
        self, inputs: Sequence[tuple[str, Binding]], match: Match, computed: Computed
    ) -> Iterator[Computed]:
        if not inputs:
            yield computed
            return
        (operand, bound), *others = inputs
        if not isinstance(bound, Intermediate):
            yield from self._ways_of_inputs(others, match, computed)
            return
        for found in self.ways(bound.step, match.operands[operand], computed):
            yield from self._ways_of_inputs(others, match, found)

    def _inputs(self, pattern: Pattern, step: Step, match: Match) -> Mapping[str, Binding] | None:
        """The inputs of a step, if they are what the operands may read under a match."""
        if pattern.dot is not None:
            product = self._search.binder.product(pattern.format, match)
            return step.inputs if product is not None and dict(product) == dict(step.inputs) else None
        for operand in pattern.format.sources:
            given = step.inputs[operand.name]
            if isinstance(given, Intermediate):
                source = self._cover.steps[given.step].format.destination
                is_computed = operand.name in match.operands and operand.name not in match.idle
                if not is_computed or operand.element.fields or source.memory != operand.memory:
                    return None
                if not self._search.is_computable(operand, pattern, match):
                    return None
            else:
                found = self._search.bind_operand(operand, pattern, match)
                if found is None or isinstance(found, Best) or not _serves(given, found):
                    return None
        return step.inputs

    def _is_step(self, step: Step, pattern: Pattern, expr: Expr, match: Match, inputs: Mapping[str, Binding]) -> bool:
        """Whether a step is that of a match."""
        search = self._search
        word_loop = search.binder.word_loop(pattern.format, inputs)
        if word_loop is None:
            return False
        is_uniform = search.is_uniform(expr)
        words = search.words(pattern, inputs, bool(match.reduced), is_uniform, word_loop)
        best = Best((0, 0, 0), pattern, expr, match, inputs, words, is_uniform, word_loop)
        return replace(step_of(best, inputs), adding=step.adding) == step


def _serves(given: Binding, found: Binding) -> bool:
    """Whether what an operand reads is what it may read; fields that are free may hold anything."""
    if isinstance(given, Parameters) and isinstance(found, Parameters):
        same = all(given.fields[name] == value for name, value in found.fields.items() if name not in found.free)
        return same and set(given.fields) == set(found.fields) and given.free <= found.free
    return given == found


RULES: Sequence[Rule[Selection]] = (
    *of_part(NEST_RULES, lambda selection: selection.program),
    Rule("covers", "Each nest has a cover.", _nests),
    Rule("memories", "A cover's last step writes to the memory in which readers look for the result.", _memories),
    Rule("steps", "The statements of a cover's steps, with what they read, give the nest's expression.", _steps),
)
"""All rules of covered nests, in order."""
