"""What was found of chains of layers, kept where tunings are: the next compilation measures nothing again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tilewright.compiler.errors import FatalError
from tilewright.compiler.nest.nest import NestProgram
from tilewright.compiler.options import Options
from tilewright.compiler.search.tuning import FORMAT, code_hash, recall_chain, remember_chain
from tilewright.compiler.stripes.decide import Measured
from tilewright.isa.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class KnownChains:
    """The chains that were measured for a machine, in the user's file or cache."""

    machine: Machine
    options: Options

    def recall(self, chain: NestProgram) -> Measured | None:
        """What was found of a chain; None if nothing was. Raises CompileError if it would have to be measured and the
        options forbid it."""
        found = recall_chain(self._key(chain), self.options.tuning)
        if found is None and self.options.fails_on_miss and self.options.effort:
            place = "the user's cache" if self.options.tuning is None else str(self.options.tuning)
            raise FatalError(
                chain.name,
                f"{place} does not say whether {', '.join(nest.name for nest in chain.nests)} are better in stripes",
                remedy="compile once without --fail-on-miss",
            )
        return found

    def remember(self, chain: NestProgram, found: Measured) -> None:
        """Keep what was found of a chain."""
        remember_chain(self._key(chain), found, self.options.tuning)

    def _key(self, chain: NestProgram) -> str:
        """A hash of all that the measured cycles follow from."""
        told = (
            FORMAT,
            "chain",
            code_hash(),
            self.machine.hash,
            self.options.effort,
            self.options.passes,
            chain.nests,
            chain.buffers,
        )
        digest = hashlib.sha256(repr(told).encode())
        digest.update(repr((chain.inputs, chain.outputs)).encode())
        for name, values in chain.constants.items():
            digest.update(f"{name} {values.shape} {values.dtype}".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()
