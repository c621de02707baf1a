"""Instruction selection: the cheapest cover of every nest of a program."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.errors import RAISING, Blame, CompileError
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.nest.products import Correction, products_of
from tilewright.compiler.select.bindings import Binding, Intermediate, TensorRead
from tilewright.compiler.select.cover import Cover, Selection, Step
from tilewright.compiler.select.explain import Reason, explain
from tilewright.compiler.select.form import Form, FormsOfNests
from tilewright.compiler.select.parameters import with_shared_parameters
from tilewright.compiler.select.search import Best, CoverSearch, computing_patterns
from tilewright.compiler.select.transfer import find_transfers, home_of
from tilewright.compiler.select.window_sums import with_window_sums
from tilewright.isa.language.expressions import Expr
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations

MOST_COVERS = 10_000
"""So many covers of one machine are kept at most."""


def select(program: NestProgram, machine: Machine, blame: Blame = RAISING) -> Selection:
    """Cover every nest; raises CompileError for the first that no instructions cover.

    If `blame` collects, what comes back is complete only when it found nothing.
    """
    selector = Selector(machine, program)
    covers = []
    for nest in program.nests:
        with blame.on(nest.nodes):
            covers.append(selector.cover(nest))
    return Selection(machine, program, tuple(covers))


class _Instructions:
    """What follows from a machine alone, and the covers that were found for it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.transfers = find_transfers(machine)
        self.patterns = computing_patterns(machine)
        self.covers: dict[Form, Cover | None] = {}
        """By what selection sees of their nests; None where there is none."""
        self.reasons: dict[Form, Reason] = {}
        """Why there is none, where that was asked."""


_KNOWN: deque[_Instructions] = deque(maxlen=8)


def _instructions_of(machine: Machine) -> _Instructions:
    for known in _KNOWN:
        if known.machine is machine:
            return known
    _KNOWN.append(_Instructions(machine))
    return _KNOWN[-1]


class Selector:
    """Covers the nests of one program with the instructions of one machine."""

    def __init__(self, machine: Machine, program: NestProgram) -> None:
        self.machine = machine
        self.program = program
        instructions = _instructions_of(machine)
        self.transfers, self._patterns = instructions.transfers, instructions.patterns
        self._forms = FormsOfNests(program)
        self._known, self._reasons = instructions.covers, instructions.reasons

    def cover(self, nest: Nest) -> Cover:
        """The cheapest cover; raises CompileError that names the nest's nodes and what no instruction computes."""
        cover = self.cover_if_possible(nest)
        if cover is None:
            raise self._reason(nest).of(nest)
        return cover

    def _reason(self, nest: Nest) -> Reason:
        """Why a nest has no cover; like its cover, found once for each form."""
        form = self._forms.of(nest)
        if form not in self._reasons:
            if len(self._reasons) >= MOST_COVERS:
                self._reasons.clear()
            self._reasons[form] = explain(self.search(nest))
        return self._reasons[form]

    def cover_if_possible(self, nest: Nest) -> Cover | None:
        """The cheapest cover, or None. For passes that leave it to `select` to say why there is none.

        It is searched once for each form: a network repeats its layers, and passes compare the covers of nests.
        """
        form = self._forms.of(nest)
        try:
            known = self._known[form]
        except KeyError:
            if len(self._known) >= MOST_COVERS:
                self._known.clear()
                for pattern in self._patterns:
                    pattern.numbers.clear()
            known = self._known[form] = self._searched(nest)
        return None if known is None else replace(known, nest=nest)

    def _searched(self, nest: Nest) -> Cover | None:
        try:
            search = self.search(nest)
        except CompileError:
            return None
        best = search.best(nest.expr, self.home(nest.result.tensor))
        return None if best is None else _cover(search, best)

    def covers(self, nest: Nest) -> list[Cover]:
        """The covers that were compared, the cheapest first; of those with the same instructions the cheapest."""
        try:
            search = self.search(nest)
        except CompileError:
            return []
        found: dict[tuple[str, ...], Cover] = {}
        for best in search.candidates(nest.expr, self.home(nest.result.tensor)):
            cover = _cover(search, best)
            found.setdefault(tuple(step.format.mnemonic for step in cover.steps), cover)
        return list(found.values())

    def cover_value(self, like: Nest, value: Expr, memory: str) -> Step | None:
        """The cheapest single instruction that writes one constant to words of a memory, reading nothing."""
        best = self.search(like).best(value, memory)
        if best is None or best.inputs:
            return None
        return step_of(best, {})

    def home(self, tensor: str) -> str:
        """The memory where a tensor lives on chip."""
        return home_of(self.transfers, self.program, tensor)

    def search(self, nest: Nest) -> CoverSearch:
        """The search for covers of a nest. Raises CompileError for one that has no order of channels and pixels."""
        return CoverSearch(self.machine, self.program, self.transfers, self._patterns, nest)


def _cover(search: CoverSearch, best: Best) -> Cover:
    steps: list[Step] = []
    _flatten(best, steps, {})
    cover = Cover(search.nest, search.space, with_shared_parameters(steps))
    return with_window_sums(cover, search.machine)


def _flatten(best: Best, steps: list[Step], placed: dict[int, int]) -> int:
    """Append the steps of a cover, inputs first and shared steps only once. Returns the index of the last step."""
    if id(best) in placed:
        return placed[id(best)]
    inputs: dict[str, Binding] = {}
    for operand, source in best.inputs.items():
        inputs[operand] = Intermediate(_flatten(source, steps, placed)) if isinstance(source, Best) else source
    steps.append(step_of(best, inputs))
    placed[id(best)] = len(steps) - 1
    return placed[id(best)]


def step_of(best: Best, inputs: Mapping[str, Binding]) -> Step:
    """The step of a match, with what its operands read."""
    match = best.match
    return Step(
        best.pattern.format, inputs, match.immediates, bool(match.reduced), best.words, best.is_uniform,
        _corrections(best, inputs), best.word_loop, continuing=best.pattern.continuing,
    )  # fmt: skip


def _corrections(best: Best, inputs: Mapping[str, Binding]) -> tuple[Correction, ...]:
    """The products with numbers that a dot product must add to its product of two reads."""
    if best.pattern.dot is None:
        return ()
    products = products_of(best.expr.args[0])
    vector = inputs[systolic_activations(best.pattern.format).name]
    assert products is not None and isinstance(vector, TensorRead)
    return products.corrections(vector.read)
