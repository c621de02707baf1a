"""What the selection of instructions compared: for each nest its forms, the covers of each, and what they cost.

Two nests are compared together where one may leave its sums to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.compiler.arithmetic import arithmetic_of
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.channel_tables import as_tables, is_worth_it
from tilewright.compiler.select.diagonals import NestForm, cheapest, forms
from tilewright.compiler.select.read_sums import candidates, words_of
from tilewright.compiler.select.selector import Selector
from tilewright.compiler.select.why_not import CoverVerdict, verdicts
from tilewright.compiler.session import Session
from tilewright.isa.machine.engine import Engine
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Compared:
    """A cover that was compared with others of the same nest, or covers of two nests; of each one is chosen."""

    nest: str  # of two nests: the one whose sums the other may take
    form: str  # how the nest was written
    instructions: tuple[str, ...]  # in order
    words: Mapping[str, int]  # that each engine streams; the largest is the cost
    is_chosen: bool
    obstacle: str = ""  # why it is not chosen, if it streams fewer words

    @property
    def cost(self) -> int:
        return max(self.words.values())


def compared_covers(program: NestProgram, machine: Machine) -> Iterator[Compared]:
    """The covers of every nest, in the order in which they were compared; `program` is as pass `diagonals` takes it."""
    arithmetic, session = arithmetic_of(machine), Session()
    for nest in program.nests:
        of = forms(nest, program, machine)
        best = cheapest(of, machine, session)
        tables = as_tables(nest, program, machine, arithmetic)
        if tables is not None:
            of, best = [*of, tables], tables if is_worth_it(tables, best, machine, session) else best
        for form in of:
            for position, cover in enumerate(Selector(machine, form.program, session).covers(form.nest)):
                instructions = tuple(step.format.mnemonic for step in cover.steps)
                is_chosen = form is best and position == 0
                obstacle = "loading its tables takes longer" if form is tables and best is not tables else ""
                yield Compared(nest.name, form.name, instructions, _by_name(cover.words), is_chosen, obstacle)


def instruction_verdicts(program: NestProgram, final: NestProgram, machine: Machine) -> Iterator[CoverVerdict]:
    """What came of each instruction of the machine for every nest; `final` are the nests that were selected for."""
    session = Session()
    selector = Selector(machine, final, session)
    for nest in program.nests:
        last = [each for each in final.nests if set(each.nodes) & set(nest.nodes)]
        chosen = [cover for each in last if (cover := selector.cover_if_possible(each)) is not None]
        of = [*forms(nest, program, machine), *(NestForm("as it is selected for", each, final) for each in last)]
        yield from verdicts(nest, of, chosen, machine, session)


def compared_sums(program: NestProgram, machine: Machine) -> Iterator[Compared]:
    """Two nests apart, and with the sums of one left to the other; `program` is as pass `read-sums` takes it."""
    for candidate in candidates(program, machine, Session()):
        for form, covers, is_chosen, obstacle in (
            (f"before {candidate.reader.name}", candidate.apart, not candidate.is_taken, ""),
            (f"in the tiles of {candidate.reader.name}", candidate.joined, candidate.is_taken, candidate.obstacle),
        ):
            instructions = tuple(step.format.mnemonic for cover in covers for step in cover.steps)
            yield Compared(candidate.nest.name, form, instructions, _by_name(words_of(covers)), is_chosen, obstacle)


def _by_name(words: Mapping[Engine, int]) -> dict[str, int]:
    return {engine.name: count for engine, count in words.items()}
