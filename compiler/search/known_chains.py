"""What was found of chains of layers, kept where tunings are: the next compilation measures nothing again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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

    def recall(self, chain: NestProgram, find: Callable[[], Measured]) -> Measured:
        """What is kept of a chain, or what `find` finds, which is kept from then on.

        Raises CompileError if it would have to be found and the options forbid it.
        """
        key, file = self._key(chain), self.options.tuning
        known = recall_chain(key, file)
        if known is not None:
            return known
        if self.options.fails_on_miss and self.options.effort:
            place = "the user's cache" if file is None else str(file)
            raise FatalError(
                chain.name,
                f"{place} does not say whether {', '.join(nest.name for nest in chain.nests)} are better in stripes",
                remedy="compile once without --fail-on-miss",
            )
        found = find()
        remember_chain(key, found, file)
        return found

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
