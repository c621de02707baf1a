"""What `isa` asks about a template: keys of its engines, instructions that they can run, words of the manual."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from tilewright.isa.key_kinds import Key
from tilewright.isa.machine.encoding import InstructionFormat, Operand
from tilewright.isa.machine.engine import Direction, Settings, Systolic
from tilewright.isa.machine.machine import Machine
from tilewright.isa.machine.memory import Memory
from tilewright.isa.templates.work import Task, Work


class Facet(ABC):
    """The facts of a template; what is not abstract has an answer that suits most templates."""

    # -- the machine's file --------------------------------------------------------------------------------------------

    directions: tuple[Direction | None, ...] = (None,)
    """Between DRAM and the chip; None for engines that do not reach DRAM."""

    only_moves = False
    """Whether statements are `destination = source`, of words that may hold anything."""

    def keys(self, direction: Direction | None) -> Mapping[str, Key]:
        """Keys of an engine that others do not have. All are numbers, and all may be left out."""
        return {}

    @abstractmethod
    def settings(
        self, direction: Direction | None, said: Mapping[str, int], array: Systolic | None, lanes: int
    ) -> Settings | None:
        """What an engine's own keys say, and the sizes of the machine; None where neither says enough."""

    @abstractmethod
    def violations(self, format: InstructionFormat, memories: Mapping[str, Memory]) -> Iterator[str]:
        """Why an engine cannot run an instruction: nothing if it can."""

    def disagreements(self, formats: Sequence[InstructionFormat]) -> Iterator[tuple[str, str]]:
        """(mnemonic, what is wrong) of instructions that cannot be on one engine."""
        return iter(())

    # -- ports ---------------------------------------------------------------------------------------------------------

    adds_in_memory = False
    """Whether sums are added up where they are written: all iterations write their word, and may read it before."""

    def row_by_row(self, format: InstructionFormat) -> Operand | None:
        """An operand whose block is read a word at a time, and may lie in several banks."""
        return None

    # -- work ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def work(self, machine: Machine, task: Task) -> Work:
        """What an instruction takes at the least."""

    def elements_computed(self, machine: Machine) -> int:
        """Elements that a statement gives in an iteration, beside those that are moved."""
        return 0

    def sizes_of_values(self, machine: Machine) -> tuple[int, ...]:
        """Sizes of an engine that an instruction's result depends on, beside the widths of its memories."""
        return ()

    def stages(self, format: InstructionFormat) -> int | None:
        """Pipeline stages of an instruction's own, where they are not the same for all."""
        return None

    # -- words of the manual -------------------------------------------------------------------------------------------

    @abstractmethod
    def meaning(self, format: InstructionFormat, machine: Machine) -> Iterator[str]:
        """What an iteration does, a line for each level of indentation."""

    @abstractmethod
    def timing(self, format: InstructionFormat, machine: Machine) -> str:
        """How long an instruction takes, behind `Timing: `."""

    def each_word(self, operand: Operand, format: InstructionFormat) -> str:
        """What the words of an operand's block are for, behind a comma."""
        return ""

    def datapath(self, format: InstructionFormat, machine: Machine) -> Sequence[tuple[str, str, str]]:
        """(stages, what they compute, instructions that use the same unit) of an instruction, in order."""
        return ()
