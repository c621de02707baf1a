"""The cheapest cover of a nest with the instructions of a machine, searched once for each canonical form of nests.

To selection, the elements of constants and the pixels at which a nest begins are no part of its form. Constants of the
same channels are packed so that several steps of a cover read the same words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.compiler.canonical_form import CanonicalForm
from tilewright.compiler.errors import CompileError
from tilewright.compiler.graph.graph import CHANNEL, COLUMN
from tilewright.compiler.nest.canonical_nests import canonical_nests
from tilewright.compiler.nest.nest import Access, Affine, Nest, NestProgram
from tilewright.compiler.nest.space import Correction, products_of
from tilewright.compiler.select.bindings import Binding, Intermediate, Parameters, TensorRead
from tilewright.compiler.select.cover import Cover, Step
from tilewright.compiler.select.explain import Reason, explain
from tilewright.compiler.select.search import Best, CoverSearch, Pattern, computing_patterns
from tilewright.compiler.select.transfer import Transfers, find_transfers, home_of
from tilewright.compiler.select.window_sums import with_window_sums
from tilewright.compiler.session import MemoScope, MemoStage, SameObject, Session
from tilewright.isa.language.expressions import Expr
from tilewright.isa.language.numeric import IntegerType, Interval
from tilewright.isa.machine.encoding import Operand
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


RANK = COLUMN + 1


class TensorFacts(NamedTuple):
    """What is known of a tensor that is read or written; `values` and what follows it are of constants only."""

    type: IntegerType
    values: Interval | None = None
    rank: int = 0
    entries: int = 0  # of a table: its last dimension


def _told(nest: Nest) -> Hashable:
    return nest.expr, tuple([access.outside for access in nest.reads.values()])


class FormsOfNests:
    """The canonical forms of one program's nests; each constant is looked through once."""

    def __init__(self, program: NestProgram) -> None:
        self._program = program
        self._facts: dict[str, TensorFacts] = {}

    def of(self, nest: Nest) -> CanonicalForm:
        return canonical_nests([self._at_first_pixels(nest)], _told, self._facts_of)

    def _at_first_pixels(self, nest: Nest) -> Nest:
        """The nest with all accesses of buffers beginning at the first pixel."""
        reads = {name: self._without_begin(access) for name, access in nest.reads.items()}
        return replace(nest, reads=reads, result=self._without_begin(nest.result))

    def _without_begin(self, access: Access) -> Access:
        begins = [dimension for dimension, index in enumerate(access.index) if index.constant and dimension != CHANNEL]
        if not begins or len(access.index) != RANK or access.tensor not in self._program.buffers:
            return access
        index = [Affine(of.terms) if dimension in begins else of for dimension, of in enumerate(access.index)]
        return replace(access, index=tuple(index))

    def _facts_of(self, tensor: str) -> TensorFacts:
        if tensor not in self._facts:
            self._facts[tensor] = self._looked_up(tensor)
        return self._facts[tensor]

    def _looked_up(self, tensor: str) -> TensorFacts:
        buffer = self._program.buffers.get(tensor)
        if buffer is not None:
            return TensorFacts(buffer.type)
        values = self._program.constants[tensor]
        limits = Interval(int(values.min()), int(values.max())) if values.size else None
        return TensorFacts(
            self._program.constant_types[tensor], limits, values.ndim, values.shape[-1] if values.ndim else 0
        )


def with_shared_parameters(steps: Sequence[Step]) -> tuple[Step, ...]:
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
