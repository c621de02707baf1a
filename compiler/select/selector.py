"""The cheapest cover of a nest with the instructions of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.errors import CompileError
from tilewright.compiler.nest.nest import Nest, NestProgram
from tilewright.compiler.nest.products import Correction, products_of
from tilewright.compiler.select.bindings import Binding, Intermediate, TensorRead
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.select.explain import Reason, explain
from tilewright.compiler.select.form import FormsOfNests
from tilewright.compiler.select.parameters import with_shared_parameters
from tilewright.compiler.select.search import Best, CoverSearch, Pattern, computing_patterns
from tilewright.compiler.select.transfer import Transfers, find_transfers, home_of
from tilewright.compiler.select.window_sums import with_window_sums
from tilewright.compiler.session import MemoScope, MemoStage, SameObject, Session
from tilewright.isa.language.expressions import Expr
from tilewright.isa.machine.machine import Machine
from tilewright.isa.templates.systolic import systolic_activations

MOST_COVERS = 10_000
"""So many covers, of all machines together, are kept at most."""


_MACHINES = MemoStage[tuple[Transfers, tuple[Pattern, ...]]](8, MemoScope.ALL)
"""By machine, what selection asks of it."""

_COVERS = MemoStage[Cover | None](MOST_COVERS, MemoScope.ALL)
"""By machine and what selection sees of a nest; None where there is no cover."""

_REASONS = MemoStage[Reason](MOST_COVERS, MemoScope.ALL)
"""Why there is none, where that was asked."""


class Selector:
    """Covers the nests of one program with the instructions of one machine."""

    def __init__(self, machine: Machine, program: NestProgram, session: Session | None = None) -> None:
        self.machine = machine
        self.program = program
        self._session, self._machine_key = session or Session(), SameObject(machine)
        self.transfers, self._patterns = self._session.memo(
            _MACHINES, self._machine_key, lambda: (find_transfers(machine), computing_patterns(machine))
        )
        self._forms = FormsOfNests(program)

    def cover(self, nest: Nest) -> Cover:
        """The cheapest cover; raises CompileError that names the nest's nodes and what no instruction computes."""
        cover = self.cover_if_possible(nest)
        if cover is None:
            raise self._reason(nest).of(nest)
        return cover

    def _reason(self, nest: Nest) -> Reason:
        """Why a nest has no cover; like its cover, found once for each form."""
        key = self._machine_key, self._forms.of(nest)
        return self._session.memo(_REASONS, key, lambda: explain(self.search(nest)))

    def cover_if_possible(self, nest: Nest) -> Cover | None:
        """The cheapest cover, or None. For passes that leave it to `select` to say why there is none.

        It is searched once for each form: a network repeats its layers, and passes compare the covers of nests.
        """
        key = self._machine_key, self._forms.of(nest)
        known = self._session.memo(_COVERS, key, lambda: self._searched(nest))
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
