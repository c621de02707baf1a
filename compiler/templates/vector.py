"""Vector engines: an instruction is whatever its statement says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.templates.facet import Facet, Role
from tilewright.isa.machine.encoding import InstructionFormat
from tilewright.isa.machine.engine import Engine
from tilewright.isa.timing import vec_beats, vec_write


class VectorFacet(Facet):
    """They take a word in each cycle: what a nest costs is the words that its instructions stream."""

    role = Role.COMPUTES

    def role_of(self, format: InstructionFormat) -> Role:
        return self.role if format.statement.dot is None else Role.MULTIPLIES

    def product_cycles(self, format: InstructionFormat, vectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """A row of the tile a cycle, which all vectors need again."""
        return vectors * vec_beats(format)

    def pace(self, engine: Engine) -> int:
        """The lanes that work in each cycle."""
        return engine.vector.lanes

    def product_latency(self, format: InstructionFormat) -> int:
        return vec_write(format)
