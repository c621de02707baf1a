"""Vector engines: an instruction is whatever its statement says."""

from __future__ import annotations

from tilewright.compiler.templates.facet import Facet, Role


class VectorFacet(Facet):
    """They take a word in each cycle: what a nest costs is the words that its instructions stream."""

    role = Role.COMPUTES
