"""What the selection of instructions compared: for each nest its forms, the covers of each, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.select.diagonals import cheapest, forms
from tilewright.compiler.select.selector import Selector
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Compared:
    """A cover that was compared with others of the same nest; of each nest one is chosen."""

    nest: str
    form: str  # how the nest was written
    instructions: tuple[str, ...]  # in order
    words: Mapping[str, int]  # that each engine streams; the largest is the cost
    is_chosen: bool

    @property
    def cost(self) -> int:
        return max(self.words.values())


def compared_covers(program: NestProgram, machine: Machine) -> Iterator[Compared]:
    """The covers of every nest, in the order in which they were compared; `program` is as pass `diagonals` takes it."""
    for nest in program.nests:
        of = forms(nest, program, machine)
        best = cheapest(of, machine)
        for form in of:
            for position, cover in enumerate(Selector(machine, form.program).covers(form.nest)):
                instructions = tuple(step.format.mnemonic for step in cover.steps)
                is_chosen = form is best and position == 0
                yield Compared(nest.name, form.name, instructions, cover.words, is_chosen)
