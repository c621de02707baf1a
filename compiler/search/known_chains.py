"""What was found of chains of layers, kept where tunings are: the next compilation measures nothing again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.compiler.errors import FatalError
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.search.stand_in import stand_in
from tilewright.compiler.search.tuning import place_of, recall_chain, remember_chain
from tilewright.compiler.select.select import select
from tilewright.compiler.session import Session
from tilewright.compiler.stripes.chain import row_loop, trip_of
from tilewright.compiler.stripes.stripes import MeasuredStripes
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class KnownChains:
    """The chains that were measured for a machine, in the user's file or cache."""

    machine: Machine
    options: Options
    session: Session = field(default_factory=Session)

    def recall(self, chain: NestProgram, find: Callable[[], MeasuredStripes]) -> MeasuredStripes:
        """What is kept of a chain, or what `find` finds, which is kept from then on.

        Raises CompileError if it would have to be found and the options forbid it.
        """
        key, file = self._key(chain), self.options.tuning
        layers = [nest.name for nest in chain.nests]
        last = chain.nests[-1]
        known = recall_chain(key, self.machine, file, trip_of(last, row_loop(last)))
        if known is not None:
            return known
        if self.options.fails_on_miss and self.options.effort:
            raise FatalError(
                chain.name,
                f"{place_of(file)} does not say whether {', '.join(layers)} are better in stripes",
                remedy="compile once without --fail-on-miss",
            )
        found = find()
        remember_chain(key, found, self.machine, layers, file)
        return found

    def _key(self, chain: NestProgram) -> str:
        """A hash of all that the measured cycles follow from: of what its weights are, only what a search sees."""
        seen = stand_in(select(chain, self.machine, session=self.session), self.session).key
        return hashlib.sha256(f"chain {seen} {self.options.effort} {self.options.passes}".encode()).hexdigest()
